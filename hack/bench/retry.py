# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A pod fails under unconditional retry: how long until its replacement exists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hack.bench.measure import RUNNING, Place, jobs_run, let_run, pods_exist
from hack.bench.operator import BenchedOperator
from hack.bench.raw import Loader
from hack.bench.shape import Rendered, Shape, render
from hack.bench.wire import MERGE, BenchError, Wire

PODS_PER_JOB: Final = 2
RETRIES: Final = 3
WITHIN_S: Final = 60.0
_PODS: Final = "/api/v1/namespaces/{namespace}/pods"
_GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
_PLUGIN: Final = "volcano-system"
_FAILED: Final = orjson.dumps({
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "ascend",
                "image": "registry.example.com/vision/train:1.0",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
            }
        ],
    }
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Delays:
    """Milliseconds until a pod was there again, one for each time."""

    operator: list[float] = field(default_factory=list)
    raw: list[float] = field(default_factory=list)


class Sightings:
    """The pods of a namespace as a watch shows them."""

    def __init__(self, wire: Wire, namespace: str) -> None:
        self._wire = wire
        self._path = _PODS.format(namespace=namespace)
        self.uids: dict[str, str] = {}
        self._news = asyncio.Event()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._watch())
            try:
                yield
            finally:
                task.cancel()

    async def another(self, name: str, than: str = "") -> str:
        """The UID of the pod of this name, as soon as it is not `than`."""
        try:
            async with asyncio.timeout(WITHIN_S):
                while self.uids.get(name, than) == than:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise BenchError(f"pod {name} was not replaced within {WITHIN_S:g} s") from None
        return self.uids[name]

    async def _watch(self) -> None:
        asked = f"{self._wire.server}{self._path}?watch=1&resourceVersion=0"
        async with self._wire.session.get(asked) as answer:
            async for line in answer.content:
                event = orjson.loads(line)
                meta = event["object"]["metadata"]
                if event["type"] == "ADDED":
                    self.uids[meta["name"]] = meta["uid"]
                    self._news.set()


async def retry_run(place: Place, namespace: str, jobs: int) -> Delays:
    """One pod of each job fails, job after job; after each, raw does the same to a pod of its own.

    The loader plays the NPU scheduler plug-in, which counts retries and takes the failed pod away;
    the clock runs from there.
    """
    shape = Shape(jobs, PODS_PER_JOB)
    labels = {"fault-retry-times": str(RETRIES), "fault-scheduling": "force"}
    rendered = await asyncio.to_thread(render, shape, labels)
    operator = BenchedOperator(place.plane, place.folder, namespace)
    with place.namespace(namespace) as audit, operator:
        async with place.wire() as wire:
            await Loader(wire, shape, rendered, namespace).jobs_alone()
            await pods_exist(audit, shape.pods)
            await let_run(wire, namespace, shape, rendered)
            await jobs_run(wire, namespace, shape)
            await _grant_retries(place, wire, namespace)
            return await _fail_each(wire, namespace, shape, rendered)


async def _grant_retries(place: Place, wire: Wire, namespace: str) -> None:
    """As the plug-in writes it: so many retries left for each PodGroup."""
    groups = orjson.loads(await wire.send("GET", _GROUPS.format(namespace=namespace)))["items"]
    left = {f"{namespace}/{group['metadata']['name']}": {"Times": RETRIES} for group in groups}
    with place.plane.admin() as admin:
        meta = {"name": _PLUGIN}
        admin.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        admin.apply({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "vcjob-fault-npu-cm", "namespace": _PLUGIN},
            "data": {"remain-retry-times": orjson.dumps(left).decode()},
        })  # fmt: skip


async def _fail_each(wire: Wire, namespace: str, shape: Shape, rendered: Rendered) -> Delays:
    path, delays = _PODS.format(namespace=namespace), Delays()
    sightings, clock = Sightings(wire, namespace), asyncio.get_running_loop().time
    bare = _bare_pod(rendered, namespace)
    async with sightings.watching():
        await wire.send("POST", path, bare)
        for job in shape.names():
            name = rendered.pods[-1].named(job, b"")
            uid = await sightings.another(name)
            await wire.send("PATCH", f"{path}/{name}/status", _FAILED, MERGE)
            began_at = clock()
            await wire.send("DELETE", f"{path}/{name}")
            await sightings.another(name, uid)
            delays.operator.append((clock() - began_at) * 1000)
            await wire.send("PATCH", f"{path}/{name}/status", RUNNING, MERGE)
            uid = await sightings.another("raw")
            began_at = clock()
            await wire.send("DELETE", f"{path}/raw")
            await wire.send("POST", path, bare)
            await sightings.another("raw", uid)
            delays.raw.append((clock() - began_at) * 1000)
    return delays


def _bare_pod(rendered: Rendered, namespace: str) -> bytes:
    """The same pod, but nobody's."""
    pod: Mapping[str, Any] = orjson.loads(rendered.pods[-1].body)
    meta = {"name": "raw", "namespace": namespace}
    return orjson.dumps({**pod, "metadata": meta})
