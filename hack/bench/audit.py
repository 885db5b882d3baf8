# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the API server itself says was written, by whom and when: its audit log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

POLICY: Final = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  resources: [{group: coordination.k8s.io}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
"""
"""Every write but leases, once, when it was answered. No bodies: the log must cost little."""


class _User(msgspec.Struct):
    username: str = ""


class _Ref(msgspec.Struct):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class Write(msgspec.Struct, rename="camel"):
    """One write and its answer."""

    verb: str
    request_received_timestamp: datetime
    stage_timestamp: datetime
    user: _User = msgspec.field(default_factory=_User)
    user_agent: str = ""
    object_ref: _Ref = msgspec.field(default_factory=_Ref)
    response_status: _Status = msgspec.field(default_factory=_Status)

    @property
    def what(self) -> str:
        """The resource, with its subresource."""
        ref = self.object_ref
        return f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource

    @property
    def worked(self) -> bool:
        return self.response_status.code < 300  # noqa: PLR2004

    @property
    def makes_pod(self) -> bool:
        return (self.verb, self.what) == ("create", "pods") and self.worked


class AuditLog:
    """The log's writes in one namespace, as they come. Starts at the end of what is there."""

    def __init__(self, file: Path, namespace: str) -> None:
        self._file = file
        self._namespace = namespace
        self._offset = file.stat().st_size if file.exists() else 0
        self._decode = msgspec.json.Decoder(Write).decode
        self.writes: list[Write] = []
        self.pods: list[str] = []
        """Names, in the order in which they were made."""

    def read(self) -> None:
        """Take in what was written since the last time."""
        with self._file.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            write = self._decode(line)
            if write.object_ref.namespace == self._namespace:
                self.writes.append(write)
                if write.makes_pod:
                    self.pods.append(write.object_ref.name)

    def span_s(self) -> float:
        """From the first write, which is a job, until the last pod exists."""
        first = min(write.request_received_timestamp for write in self.writes)
        return (self.last_pod() - first).total_seconds()

    def last_pod(self) -> datetime:
        """When the last pod existed."""
        return max(write.stage_timestamp for write in self.writes if write.makes_pod)


def counted(writes: Iterable[Write], of: Callable[[Write], bool]) -> Counter[tuple[str, str]]:
    """How often each verb was used on each resource, refused ones included."""
    return Counter((write.verb, write.what) for write in writes if of(write))
