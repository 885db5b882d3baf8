# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One run of one shape: by the operator, or raw."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson

from hack.admin import wait_for
from hack.bench.audit import AuditLog, Write, counted
from hack.bench.operator import BenchedOperator
from hack.bench.peers import BenchedPeer
from hack.bench.raw import Extras, Loader
from hack.bench.shape import Rendered, Shape
from hack.bench.usage import Usage
from hack.bench.wire import MERGE, BenchError, Wire, all_of
from hack.controlplane import ControlPlane

LOADER: Final = "ascendop-bench"
"""User agent of the loader, so that the audit log tells it from the operator."""
OPERATOR: Final = "ascendop/"
"""How the operator's user agents begin."""
STILL_S: Final = 60.0
"""Without a new pod for so long, a run has failed."""
EVENTS_S: Final = 65.0
"""Events come at 20 a second, long after what they tell of."""
LAUNCHERS: Final = "training.kubeflow.org/job-role=launcher"
QUIET_S: Final = 30.0
STARTS_S: Final = 1.0
"""From a pod's creation until it runs, where its image is there already."""
_POLL_S: Final = 0.05
_SLOW_POLL_S: Final = 0.5
Peer = Callable[[ControlPlane, Path, str], BenchedPeer]
"""Makes one, with a folder and a name for its log."""
RUNNING: Final = orjson.dumps({
    "status": {
        "phase": "Running",
        "startTime": "2030-01-01T00:00:00Z",
        "podIP": "10.0.0.7",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
        ],
        "containerStatuses": [
            {
                "name": "ascend",
                "image": "registry.example.com/vision/train:1.0",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2030-01-01T00:00:00Z"}},
            }
        ],
    }
})  # fmt: skip
"""What a kubelet says of a pod that runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run showed."""

    pods_per_s: float
    extras: Extras = field(default_factory=lambda: Extras(0, 0))
    """Status and event writes until the last pod existed."""
    cpu_ms_per_pod: float = 0.0
    """Of the operator, from before the first job until the last pod was seen running."""
    resident_mb: float = 0.0
    peak_mb: float = 0.0
    writes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By the operator until everything was running, refused ones included."""
    refused: int = 0
    events: int = 0
    """In all, those included that came after everything was running."""
    still: int | None = None
    """Writes but of the lease in QUIET_S, when everything ran and nothing happened any more."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs happen. Each gets a namespace of its own, which is gone when it ends."""

    plane: ControlPlane
    folder: Path
    log: Path
    token: str
    said: Callable[[str], None]

    def wire(self) -> Wire:
        return Wire(self.plane.server, self.token, self.plane.ca, LOADER)

    @contextmanager
    def namespace(self, name: str) -> Iterator[AuditLog]:
        path = f"/api/v1/namespaces/{name}"
        with self.plane.admin() as admin:
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            try:
                yield AuditLog(self.log, name)
            finally:
                admin.close()  # the server has closed it meanwhile
                admin.ask("DELETE", path)
                wait_for(f"{name} is gone", lambda: admin.ask("GET", path)[0] == 404, 180)  # noqa: PLR2004


async def raw_run(
    place: Place, namespace: str, shape: Shape, rendered: Rendered, extras: Extras
) -> Run:
    """The loader alone, with as many status and event writes as the operator made."""
    with place.namespace(namespace) as audit:
        async with place.wire() as wire, place.wire() as nodes:
            loader = Loader(wire, shape, rendered, namespace)
            async with asyncio.TaskGroup() as group:
                group.create_task(loader.everything(extras))
                group.create_task(pods_run(audit, shape, nodes, namespace))
        return Run(shape.pods / audit.span_s(), extras)


async def operator_run(
    place: Place,
    namespace: str,
    shape: Shape,
    rendered: Rendered,
    *,
    wait_for_events: bool = False,
    profile: Path | None = None,
    peer: Peer | None = None,
) -> Run:
    """The loader makes the jobs and lets the pods run, the operator does the rest.

    peer:  whose place ours takes, and which takes ours here.
    """
    operator = (
        BenchedOperator(place.plane, place.folder, namespace, profile=profile)
        if peer is None
        else peer(place.plane, place.folder, namespace)
    )
    with place.namespace(namespace) as audit, operator:
        async with place.wire() as wire, place.wire() as nodes:
            before = operator.usage()
            loader = Loader(wire, shape, rendered, namespace)
            async with asyncio.TaskGroup() as group:
                group.create_task(loader.jobs_alone())
                group.create_task(pods_run(audit, shape, nodes, namespace))
            await jobs_run(wire, namespace, shape)
            after = operator.usage()
        audit.read()
        running, still = list(audit.writes), None
        if wait_for_events:
            await _events_end(audit)
            seen = len(audit.writes)
            await asyncio.sleep(QUIET_S)
            audit.read()
            still = sum(_by_operator(write) for write in audit.writes[seen:])
        return replace(_run(shape, audit, running, before, after), still=still)


def _run(
    shape: Shape,
    audit: AuditLog,
    running: list[Write],
    before: Usage,
    after: Usage,
) -> Run:
    until = [write for write in running if write.stage_timestamp <= audit.last_pod()]
    early = counted(until, _by_operator)
    events = counted(audit.writes, _by_operator)
    return Run(
        pods_per_s=shape.pods / audit.span_s(),
        extras=Extras(
            sum(n for (_, what), n in early.items() if what.endswith("/status")),
            sum(n for (_, what), n in early.items() if what == "events"),
        ),
        cpu_ms_per_pod=(after.cpu_s - before.cpu_s) * 1000 / shape.pods,
        resident_mb=after.resident_mb,
        peak_mb=after.peak_mb,
        writes=counted(running, _by_operator),
        refused=sum(_by_operator(write) and not write.worked for write in running),
        events=sum(n for (_, what), n in events.items() if what == "events"),
    )


def _by_operator(write: Write) -> bool:
    return write.user_agent.startswith(OPERATOR)


async def pods_exist(audit: AuditLog, wanted: int) -> None:
    """Returns when so many have been made."""
    async for _ in _pods(audit, wanted):
        pass


async def pods_run(audit: AuditLog, shape: Shape, wire: Wire, namespace: str) -> None:
    """The same, and each runs a moment after it was made, while others are still being made."""

    async def start(name: str) -> None:
        await asyncio.sleep(STARTS_S)
        await _let_run(wire, namespace, name)

    async with asyncio.TaskGroup() as group:
        if shape.launchers:
            group.create_task(_launchers_run(wire, namespace, shape.launchers))
        async for name in _pods(audit, shape.pods):
            if name:
                group.create_task(start(name))


async def _launchers_run(wire: Wire, namespace: str, launchers: int) -> None:
    """The audit log does not know what the server has called a pod that a Job made."""
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={LAUNCHERS}"
    running: set[str] = set()
    while len(running) < launchers:
        await asyncio.sleep(STARTS_S)
        listed = orjson.loads(await wire.send("GET", path))["items"]
        names = {str(pod["metadata"]["name"]) for pod in listed} - running
        await all_of(lambda name: _let_run(wire, namespace, name), names)
        running |= names


async def _pods(audit: AuditLog, wanted: int) -> AsyncIterator[str]:
    """Names as they come. Asks the audit log and not the server, which has enough to do."""
    loop = asyncio.get_running_loop()
    seen, seen_at = 0, loop.time()
    while seen < wanted:
        await asyncio.sleep(_POLL_S)
        audit.read()
        for name in audit.pods[seen:]:
            seen, seen_at = seen + 1, loop.time()
            yield name
        if loop.time() - seen_at > STILL_S:
            raise BenchError(f"{seen} of {wanted} pods exist, and no more are made")


async def let_run(wire: Wire, namespace: str, shape: Shape, rendered: Rendered) -> None:
    """Every pod runs from now on."""

    async def one(name: str) -> None:
        await _let_run(wire, namespace, name)

    await all_of(one, (pod.named(job, b"") for job in shape.names() for pod in rendered.pods))


async def _let_run(wire: Wire, namespace: str, name: str) -> None:
    """What a kubelet would write."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    await wire.send("PATCH", path, RUNNING, MERGE)


async def jobs_run(wire: Wire, namespace: str, shape: Shape) -> None:
    """Until every job says that all its pods are active."""
    path = shape.kind.jobs(namespace)
    loop = asyncio.get_running_loop()
    seen, seen_at = 0, loop.time()
    while True:
        listed = orjson.loads(await wire.send("GET", path))["items"]
        active = sum(
            int(counts.get("active") or 0)
            for job in listed
            for counts in ((job.get("status") or {}).get("replicaStatuses") or {}).values()
        )
        if active == shape.pods:
            return
        if active > seen:
            seen, seen_at = active, loop.time()
        elif loop.time() - seen_at > STILL_S:
            raise BenchError(f"jobs say that {active} of {shape.pods} pods are active")
        await asyncio.sleep(_SLOW_POLL_S)


async def _events_end(audit: AuditLog) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + EVENTS_S
    seen, seen_at = len(audit.writes), loop.time()
    while loop.time() < until and loop.time() - seen_at < 3:  # noqa: PLR2004  a pause in a steady drip
        await asyncio.sleep(_SLOW_POLL_S)
        audit.read()
        if len(audit.writes) > seen:
            seen, seen_at = len(audit.writes), loop.time()
