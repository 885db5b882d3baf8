# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What we believe of Kubernetes, held against the simulator, or against a server that is named.

    ASCENDOP_CONTRACT=path/of/kubeconfig pytest test/unit/contract

Against the simulator a test runs in virtual time; against a real server in real time. A test that
waits does so with `eventually`, because a real collector takes seconds.
"""

import asyncio
import itertools
import os
import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.config import load
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CRDS, NAMESPACES, Resource, Scope
from ascendop.kube.transport import HttpTransport, Request
from ascendop.sim.loop import JumpingLoop
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

KUBECONFIG = os.environ.get("ASCENDOP_CONTRACT", "")
WIDGETS = Resource("contract.example.com", "v1", "widgets", "Widget")
RUN = uuid.uuid4().hex[:6] if KUBECONFIG else "sim"
COUNTER = itertools.count(1)
PATIENCE_S = 30.0


def pytest_asyncio_loop_factories(config, item):
    return {"real": asyncio.new_event_loop} if KUBECONFIG else {"jumping": JumpingLoop}


@pytest.fixture
async def api():
    """A client of the server under test."""
    if KUBECONFIG:
        transport = HttpTransport(await load(environ={}, kubeconfig=KUBECONFIG), rng=Random(2))
        server = None
    else:
        wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
        server = ApiServer(wall=wall, rng=Random(1))
        transport = SimTransport(server)
    client = Client(transport, rng=Random(3), user_agent="contract/1")
    yield client
    await client.aclose()
    if server is not None:
        server.close()


@pytest.fixture
async def space(api):
    """A namespace of the test's own."""
    name = f"contract-{RUN}-{next(COUNTER)}"
    await api.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    if KUBECONFIG:
        await api.delete(NAMESPACES, None, name)


@pytest.fixture
async def widgets(api):
    """A custom kind with every feature that the beliefs are about."""
    await ensure_served(api, crd(WIDGETS))
    return WIDGETS


@pytest.fixture
def eventually():
    return wait_until


async def wait_until(check, *, within_s=PATIENCE_S):
    """The first true answer of `await check()`; its last error or a failure when time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        try:
            if answer := await check():
                return answer
        except (AssertionError, NotFoundError):
            if loop.time() > deadline:
                raise
        assert loop.time() < deadline, f"{check} was never true"
        await asyncio.sleep(0.1)


@pytest.fixture
def is_gone(api):
    """A check for `eventually`: an object is not there any more."""

    def make(resource, namespace, name):
        async def check():
            try:
                await api.get(resource, namespace, name)
            except NotFoundError:
                return True
            return False

        return check

    return make


@pytest.fixture
def watching(api):
    """Open a watch and read its events one by one."""

    @asynccontextmanager
    async def opened(resource, scope, *, version="", initial=False, timeout_s=60):
        stream = api.watch(resource, scope, version=version, initial=initial, timeout_s=timeout_s)
        async with stream as answer:
            yield Events(answer.chunks())

    return opened


class Events:
    """The lines of a watch."""

    def __init__(self, chunks):
        self._chunks = chunks
        self._rest = b""
        self._ready = []

    async def next(self, *, bookmarks=False):
        """Type and object of the next event; bookmarks are skipped unless wanted."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while not self._ready:
                    self._cut(await anext(self._chunks))
                event = self._ready.pop(0)
                if event["type"] != "BOOKMARK" or bookmarks:
                    return event["type"], event["object"]

    async def named(self, count):
        """Type and name of the next few events."""
        seen = [await self.next() for _ in range(count)]
        return [(kind, obj["metadata"]["name"]) for kind, obj in seen]

    async def ended(self):
        """Whether the stream ends without another event that is no bookmark."""
        async with asyncio.timeout(PATIENCE_S):
            async for chunk in self._chunks:
                self._cut(chunk)
        return [e for e in self._ready if e["type"] != "BOOKMARK"] == []

    def _cut(self, chunk):
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._ready += [orjson.loads(line) for line in lines if line]


@pytest.fixture
def ask(api):
    """A request as kubectl makes them; the decoded answer."""

    async def send(path, *, method="GET", body=None, query=None, accept="application/json", **more):
        headers = {"Accept": accept, "Content-Type": "application/json"}
        headers |= {name.replace("_", "-"): value for name, value in more.items()}
        data = None if body is None else orjson.dumps(body)
        answer = await api.raw(Request(method, path, query or {}, headers, data))
        return orjson.loads(answer.body)

    return send


async def ensure_served(api, definition):
    """Make a custom kind, unless it is there, and wait until it can be used."""
    name = definition["metadata"]["name"]
    try:
        await api.get(CRDS, None, name)
    except NotFoundError:
        await api.create(CRDS, definition)
    spec = definition["spec"]
    version = next(v["name"] for v in spec["versions"] if v["served"])
    names = spec["names"]
    resource = Resource(
        spec["group"], version, names["plural"], names["kind"], spec["scope"] == "Namespaced"
    )

    async def listed():
        await api.list(resource, Scope())
        return True

    await wait_until(listed)


def crd(resource, **changes):
    """A definition with a schema, a status, a scale, and columns."""
    text = {"type": "string"}
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "string", "enum": ["S", "M", "L"]},
            "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "port": {"x-kubernetes-int-or-string": True},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "labels": {"type": "object", "additionalProperties": text},
            "words": {"type": "array", "items": text},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": text, "count": {"type": "integer"}},
                },
            },
        },
    }
    status = {
        "type": "object",
        "properties": {"phase": text, "replicas": {"type": "integer"}, "selector": text},
    }
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A widget of the contract.",
                "properties": {"spec": spec, "status": status},
            }
        },
        **changes,
    }
    kind = resource.kind
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "plural": resource.plural,
                "singular": kind.lower(),
                "kind": kind,
                "shortNames": [f"x{resource.plural}"],
                "categories": ["all"],
            },
            "versions": [version],
        },
    }
