# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The API server: a kubeconfig, requests, and the world in which every case finds itself."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, E731, FBT001, PLR2004

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
import ssl
import tempfile
from typing import Any, Self

import aiohttp
import yaml

MERGE_PATCH = "application/merge-patch+json"
LISTED = {  # what the harness looks at: (API path, plural, kind)
    "pods": ("api/v1", "pods", "Pod"),
    "services": ("api/v1", "services", "Service"),
    "configmaps": ("api/v1", "configmaps", "ConfigMap"),
    "secrets": ("api/v1", "secrets", "Secret"),
    "events": ("api/v1", "events", "Event"),
    "jobs": ("apis/batch/v1", "jobs", "Job"),
    "autoscalers": ("apis/autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    "volcano podgroups": ("apis/scheduling.volcano.sh/v1beta1", "podgroups", "PodGroup"),
    "scheduler-plugins podgroups": ("apis/scheduling.x-k8s.io/v1alpha1", "podgroups", "PodGroup"),
}
CLUSTER_WIDE = {"Queue", "PriorityClass", "Node", "Namespace"}
NODES = 8  # world.yaml shows the first of them


class Api:
    def __init__(self, server: str, headers: dict[str, str], tls: ssl.SSLContext | bool) -> None:
        self.server, self.headers, self.tls = server.rstrip("/"), headers, tls
        self.lock = asyncio.Lock()  # around read-modify-write of objects that cases share

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(
            headers=self.headers,
            connector=aiohttp.TCPConnector(ssl=self.tls, limit=64),
            timeout=aiohttp.ClientTimeout(total=30),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def request(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> tuple[int, dict, list[str]]:
        data = None if body is None else json.dumps(body)
        async with self.session.request(
            method, f"{self.server}/{path}", data=data, headers={"Content-Type": content}
        ) as answer:
            text = await answer.text()
            try:
                decoded = json.loads(text)
            except ValueError:
                decoded = {"message": text}
            return answer.status, decoded, answer.headers.getall("Warning", [])

    async def list(self, namespace: str, key: str) -> list[dict]:
        api, plural, kind = LISTED[key]
        code, answer, _ = await self.request("GET", f"{api}/namespaces/{namespace}/{plural}")
        if code != 200:
            return []
        return [
            {"apiVersion": api.split("/", 1)[1], "kind": kind, **item} for item in answer["items"]
        ]


def path_of(ref: dict, namespace: str, name: str = "", sub: str = "") -> str:
    """Path of the collection of `ref` (it has apiVersion and kind), or of one object in it."""
    version, kind = ref["apiVersion"], ref["kind"]
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    parts = ["apis" if "/" in version else "api", version]
    if kind not in CLUSTER_WIDE:
        parts += ["namespaces", namespace]
    return "/".join([*parts, plural, *filter(None, (name, sub))])


def connect(kubeconfig: str) -> Api:
    config = yaml.safe_load(pathlib.Path(kubeconfig).read_text())
    named = lambda group, name: next(x for x in config[group] if x["name"] == name)
    current = config.get("current-context") or config["contexts"][0]["name"]
    context = named("contexts", current)["context"]
    cluster = named("clusters", context["cluster"])["cluster"]
    user = named("users", context["user"])["user"]
    if "exec" in user or "auth-provider" in user:
        raise SystemExit(
            "kubeconfig: exec and auth-provider are not supported; use a token or a certificate"
        )

    def material(source: dict, key: str) -> str | None:
        if f"{key}-data" in source:
            return base64.b64decode(source[f"{key}-data"]).decode()
        return (
            (pathlib.Path(kubeconfig).parent / source[key]).read_text() if key in source else None
        )

    tls = ssl.create_default_context(cadata=material(cluster, "certificate-authority"))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = material(user, "client-certificate"), material(user, "client-key")
    if certificate and key:
        with tempfile.NamedTemporaryFile("w") as pem:  # created with mode 0600
            pem.write(certificate + "\n" + key)
            pem.flush()
            tls.load_cert_chain(pem.name)
    token = user.get("token") or (
        pathlib.Path(user["tokenFile"]).read_text().strip() if "tokenFile" in user else ""
    )
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return Api(cluster["server"], headers, tls if cluster["server"].startswith("https") else False)


async def make_world(api: Api, world: pathlib.Path | None) -> list[str]:
    """Creates what is missing of the world; says what could not be made."""
    if world is None:
        return ["no world.yaml found: the cluster is used as it is"]
    troubles = []
    for obj in filter(None, yaml.safe_load_all(world.read_text())):  # noqa: ASYNC240  a small file
        copies = [obj]
        if obj["kind"] == "Node":
            copies = [
                {**obj, "metadata": {**obj["metadata"], "name": f"node-{i + 1}"}}
                for i in range(NODES)
            ]
        for each in copies:
            code, answer, _ = await api.request(
                "POST", path_of(each, each["metadata"].get("namespace", "")), each
            )
            if code >= 300 and code != 409:
                name, said = each["metadata"]["name"], answer.get("message", "")
                troubles.append(f"world: {each['kind']}/{name}: {code} {said}".strip())
    return troubles


async def world_addresses(api: Api) -> dict[str, str]:
    code, service, _ = await api.request(
        "GET", "api/v1/namespaces/mindx-dl/services/clusterd-grpc-svc"
    )
    return (
        {service["spec"]["clusterIP"]: "CLUSTER_IP(mindx-dl/clusterd-grpc-svc)"}
        if code == 200
        else {}
    )
