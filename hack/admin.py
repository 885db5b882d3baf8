# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Requests with every right, one at a time: how tests and scripts arrange a cluster.

Standard library and blocking on purpose: what is tested must not arrange its own test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import yaml

Answer = dict[str, Any]
"""A decoded object, or a Status."""
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
POLL_S = 0.1
BUSY_S = 10.0
"""For so long a server that is busy is asked again."""
T = TypeVar("T")
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "PriorityClass",
    "Queue",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


class RefusedError(Exception):
    """The server said no.

    status: HTTP code.
    answer: the decoded Status.
    """

    def __init__(self, asked: str, status: int, answer: Answer) -> None:
        super().__init__(f"{asked}: {status} {answer.get('message', '')}")
        self.status = status
        self.answer = answer


def path_of(obj: Answer, *, collection: bool = False) -> str:
    """The path of an object, or of the collection it belongs to."""
    version, kind, meta = obj["apiVersion"], obj["kind"], obj["metadata"]
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")  # enough for every kind used here
    if kind.endswith("cy"):
        plural = kind.lower().removesuffix("y") + "ies"
    parts = ["apis" if "/" in version else "api", version]
    if kind not in CLUSTER_WIDE:
        parts += ["namespaces", meta.get("namespace", "default")]
    return "/" + "/".join([*parts, plural, *([] if collection else [meta["name"]])])


class Admin:
    """One server and one token, usually of system:masters. Not safe from two threads."""

    def __init__(self, server: str, token: str, ca: Path) -> None:
        self.server = server
        self.token = token
        self.ca = ca
        self._open: http.client.HTTPSConnection | None = None

    def request(
        self, method: str, path: str, body: object = None, content: str = "application/json"
    ) -> Answer:
        """The decoded answer. Raises RefusedError; OSError when nobody answers."""
        status, answer = self.ask(method, path, body, content)
        until = time.monotonic() + BUSY_S
        while status == http.client.TOO_MANY_REQUESTS and time.monotonic() < until:
            time.sleep(POLL_S)  # as for a moment after a CRD was changed
            status, answer = self.ask(method, path, body, content)
        if status >= http.client.BAD_REQUEST:
            raise RefusedError(f"{method} {path}", status, answer)
        return answer

    def ask(
        self, method: str, path: str, body: object = None, content: str = "application/json"
    ) -> tuple[int, Answer]:
        """Status and decoded answer, whatever it is. Raises OSError when nobody answers."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content}
        data = None if body is None else json.dumps(body)
        connection = self._connection()
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, {"message": text}

    def _connection(self) -> http.client.HTTPSConnection:
        if self._open is None:
            parts = urlsplit(self.server)
            context = ssl.create_default_context(cafile=self.ca)
            self._open = http.client.HTTPSConnection(
                parts.hostname or "", parts.port, timeout=30, context=context
            )
        return self._open

    def close(self) -> None:
        """Forget the connection; the next request opens another."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ objects
    def create(self, obj: Answer) -> Answer:
        """Create it. Raises RefusedError, also when it is there."""
        return self.request("POST", path_of(obj, collection=True), obj)

    def ensure(self, obj: Answer) -> Answer:
        """Create it unless it is there."""
        status, answer = self.ask("POST", path_of(obj, collection=True), obj)
        if status >= http.client.BAD_REQUEST and status != http.client.CONFLICT:
            raise RefusedError(f"POST {path_of(obj)}", status, answer)
        return answer

    def apply(self, obj: Answer) -> Answer:
        """Server-side apply, by force: the object has what is said here."""
        query = "?fieldManager=admin&force=true"
        return self.request("PATCH", path_of(obj) + query, obj, APPLY)

    def apply_file(self, file: Path) -> list[Answer]:
        """Apply every document of a YAML file."""
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        documents = yaml.load_all(file.read_text(), loader)
        return [self.apply(obj) for obj in documents if obj]

    def token_of(self, namespace: str, service_account: str, *, lasts_s: int = 3600) -> str:
        """A real token of a ServiceAccount, which is created when it is missing."""
        meta = {"name": service_account, "namespace": namespace}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
        self.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        self.ensure(account)
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": lasts_s},
        }
        answer = self.request("POST", f"{path_of(account)}/token", asked)
        return str(answer["status"]["token"])


def wait_for(what: str, true: Callable[[], T], timeout_s: float = 30.0) -> T:
    """The first true answer. Raises TimeoutError, naming `what`, when there is none in time.

    A server that does not answer, or not well yet, is a false answer.
    """
    until = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < until:
        try:
            if found := true():
                return found
            last = found
        except (OSError, RefusedError) as error:
            last = error
        time.sleep(POLL_S)
    raise TimeoutError(f"{what}: not within {timeout_s:.0f} s; last: {last}")
