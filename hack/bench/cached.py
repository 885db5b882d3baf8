# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator over a cluster of many pods: what they cost, and whether one job notices them.

    python -m hack.bench.cached COUNT < PODS > {"resident_mb": ..., "decide_us": ...}

A process of its own, because memory is measured. The server is the simulator, but for the list of
pods: that has COUNT more, five of each job, which nobody keeps as they are sent.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Any, Final

import msgspec
import orjson
import uvloop

from ascendop.app.mirror import resource_of
from ascendop.app.operator import Identity, Operator, kinds_of
from ascendop.apply.plan import Done
from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.resource import CRDS, Key
from ascendop.kube.transport import Request, Response, Stream, Transport
from ascendop.reconciler.decide import decide
from ascendop.reconciler.observe import Observer
from ascendop.schema.crd import crd
from ascendop.settings import Settings
from ascendop.sim.server import ApiServer
from ascendop.sim.streams import WholeStream
from ascendop.sim.transport import SimTransport
from ascendop.telemetry.collector import Collector
from hack.bench.shape import PODS_PER_JOB, Rendered
from hack.bench.usage import usage_of
from hack.controlplane import ROOT

NAMESPACE: Final = "default"
NAME: Final = "looked-at"
_LIST: Final = "/api/v1/pods"
_OLD: Final = Response(
    422, {}, orjson.dumps({"kind": "Status", "code": 422, "message": "no initial events here"})
)
"""How a server without WatchList refuses it, so that the pods come by pages."""
_LOOKS: Final = 400
_BATCHES: Final = 9
_MANAGED: Final = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:x": "x" * 1400}}]
_SETTLE_S: Final = 2.0


class Cost(msgspec.Struct):
    """What one process showed."""

    resident_mb: float
    decide_us: float
    """CPU of one look at a job of five pods: snapshot, decision, status."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """So many pods of other people's jobs."""

    count: int
    bodies: tuple[bytes, ...]
    """Of one job, with placeholders."""

    def items(self, start: int, end: int) -> Iterator[bytes]:
        for number in range(start, min(end, self.count)):
            job, index = divmod(number, PODS_PER_JOB)
            body = self.bodies[index]
            yield body.replace(b"JOB_UID", b"%036d" % job).replace(b"POD_NUMBER", b"%08d" % number)


class Crowded(Transport):
    """The simulator, with a crowd in its list of pods."""

    def __init__(self, server: ApiServer, crowd: Crowd) -> None:
        self._sim = SimTransport(server)
        self._crowd = crowd

    async def send(self, request: Request) -> Response:
        if request.method != "GET" or request.path != _LIST:
            return await self._sim.send(request)
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query["limit"])
        query = {k: v for k, v in request.query.items() if k not in {"continue", "limit"}}
        asked = Request("GET", _LIST, query, request.headers)
        version = orjson.loads((await self._sim.send(asked)).body)["metadata"]["resourceVersion"]
        meta = {"resourceVersion": version, "continue": str(end) if end < self._crowd.count else ""}
        head = orjson.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": meta})
        items = b",".join(self._crowd.items(start, end))
        return Response(200, {}, b'%b,"items":[%b]}' % (head[:-1], items))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        if request.path == _LIST and "sendInitialEvents" in request.query:
            yield WholeStream(_OLD)
            return
        async with self._sim.stream(request) as stream:
            yield stream

    async def close(self) -> None:
        await self._sim.close()


def crowd_of(rendered: Rendered) -> list[dict[str, Any]]:
    """The pods of one job as a server lists them, with placeholders."""
    found = []
    for written in rendered.pods:
        text = re.sub(rb'"name-of-job-(\w+-\d)"', rb'"crowd-JOB_UID-\1"', written.body)
        pod = orjson.loads(text.replace(b"name-of-namespace", NAMESPACE.encode()))
        pod["metadata"] |= {
            "uid": "pod-POD_NUMBER",
            "resourceVersion": "1",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "managedFields": _MANAGED,
        }
        pod["status"] = {"phase": "Running", "podIP": "10.0.0.7", "hostIP": "10.0.0.8"}
        found.append(pod)
    return found


def measure(rendered: Rendered, count: int) -> Cost:
    """In a process of its own, with so many pods cached."""
    given = orjson.dumps({"job": rendered.job.decode(), "pods": crowd_of(rendered)})
    command = [sys.executable, "-m", "hack.bench.cached", str(count)]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    return msgspec.json.decode(done.stdout, type=Cost)


async def _main(count: int) -> Cost:
    given = orjson.loads(sys.stdin.buffer.read())
    crowd = Crowd(count, tuple(orjson.dumps(pod) for pod in given["pods"]))
    settings = Settings(
        kinds=("AscendJob",),
        enable_gang_scheduling=False,
        leader_elect=False,
        rank_table_dir="",
    )
    kinds = kinds_of(settings)
    server = ApiServer(wall=wall, rng=Random(1))
    hands = Client(SimTransport(server), rng=Random(2))
    await hands.create(CRDS, crd(kinds["AscendJob"]))
    operator = Operator(
        Client(Crowded(server, crowd), rng=Random(3)),
        settings,
        identity=Identity("bench", NAMESPACE),
        wall=wall,
        rng=Random(4),
    )
    collector, stop = Collector(operator.metrics.loop), asyncio.Event()
    collector.before_sync()
    async with asyncio.TaskGroup() as group:
        group.create_task(operator.run(stop))
        await operator.synced.wait()
        collector.synced()
        job = given["job"].replace("name-of-job", NAME).replace("name-of-namespace", NAMESPACE)
        await hands.create(resource_of(kinds["AscendJob"]), orjson.loads(job))
        while len(operator.mirror.pods.store) < count + PODS_PER_JOB:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(_SETTLE_S)
        cost = Cost(usage_of(os.getpid()).resident_mb, _decide_us(operator))
        stop.set()
    return cost


def _decide_us(operator: Operator) -> float:
    """The median of several batches, because others use the machine as well."""
    observer = Observer(
        operator.kinds,
        operator.mirror.stores(operator.capabilities.has),
        wall,
        gangs={"AscendJob": False},
    )
    key = Key("AscendJob", NAMESPACE, NAME)
    took_us = []
    gc.collect()
    for _ in range(_BATCHES):
        began_s = time.process_time()
        for _ in range(_LOOKS):
            snapshot = observer.snapshot(key)
            if snapshot is None or len(snapshot.pods) != PODS_PER_JOB:
                raise RuntimeError("the job that is looked at is not there")
            decide(snapshot).conclude(Done())
        took_us.append((time.process_time() - began_s) * 1e6 / _LOOKS)
    return median(took_us)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        sys.stdout.buffer.write(msgspec.json.encode(runner.run(_main(int(sys.argv[1])))))
