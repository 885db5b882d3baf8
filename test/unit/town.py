# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster in virtual time, operators on it, and hands that play the rest of the world."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import orjson

from ascendop.app.mirror import resource_of
from ascendop.app.operator import Identity, Operator
from ascendop.clock import simulated
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CORE_EVENTS, CRDS, POD_GROUPS, PODS, Scope
from ascendop.schema.crd import crd
from ascendop.settings import Settings
from ascendop.sim.faults import NO_FAULTS
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport
from ascendop.sim.volcano import build_definitions

from . import make  # noqa: TID252  the standard library has a package called test
from .wire import Wire  # noqa: TID252  likewise

KINDS = load_kinds()
JOBS = resource_of(KINDS["AscendJob"])
NS = "default"
QUIET = {
    "kinds": ("AscendJob",),
    "enable_gang_scheduling": False,
    "leader_elect": False,
    "rank_table_dir": "",
    "workers": 4,
}


class Town:
    """One server; `hands` are somebody else's."""

    def __init__(self):
        loop = asyncio.get_running_loop()
        self.wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), loop.time)
        self.server = ApiServer(wall=self.wall, rng=Random(1))
        self.hands = Client(SimTransport(self.server), rng=Random(2))
        self.wires = {}
        self._seeds = iter(range(100, 10_000))

    async def install(self, *, volcano=False):
        for definition in [crd(KINDS["AscendJob"]), *(build_definitions() if volcano else ())]:
            await self.hands.create(CRDS, definition)

    def operator(self, name="a", *, faults=NO_FAULTS, **settings):
        """A replica with a wire of its own, not yet running."""
        self.wires[name] = wire = Wire(self.server, faults=faults)
        rng = Random(next(self._seeds))
        return Operator(
            Client(wire, rng=rng),
            Settings(**QUIET | settings),
            identity=Identity(name, "kube-system"),
            wall=self.wall,
            rng=rng,
        )

    @property
    def wire(self):
        """Of the replica that was made last."""
        return list(self.wires.values())[-1]

    @asynccontextmanager
    async def running(self, operator):
        """The operator runs, with filled caches, until the end of the block, and ends well."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(operator.run(stop))
            await operator.synced.wait()
            yield stop
            stop.set()

    async def create(self, name="j", **job):
        found = make.job(name=name, **job)
        found["metadata"]["namespace"] = NS
        return await self.hands.create(JOBS, found)

    async def job(self, name="j"):
        return await self.hands.get(JOBS, NS, name)

    async def conditions(self, name="j"):
        status = (await self.job(name)).get("status") or {}
        return [(c["type"], c["status"]) for c in status.get("conditions") or ()]

    async def pods(self):
        return {pod["metadata"]["name"]: pod for pod in await self.hands.list(PODS, Scope(NS))}

    async def turn(self, phase, *names, code=0):
        """What a kubelet says of these pods, or of all."""
        for name in names or await self.pods():
            state = {"running": {}}
            if phase in {"Succeeded", "Failed"}:
                state = {"terminated": {"exitCode": code}}
            status = {"phase": phase, "containerStatuses": [_container(state)]}
            await self.hands.patch(PODS, NS, name, {"status": status}, subresource="status")

    async def let_in(self, phase="Inqueue", *, gangs=1):
        """What Volcano says of the gangs, when so many are there."""

        async def there():
            return len(await self.hands.list(POD_GROUPS, Scope(NS))) >= gangs

        await self.until(there)
        for group in await self.hands.list(POD_GROUPS, Scope(NS)):
            name, status = group["metadata"]["name"], {"status": {"phase": phase}}
            await self.hands.patch(POD_GROUPS, NS, name, status)

    async def lose(self, *names):
        """These pods are deleted, and gone at once."""
        for name in names:
            await self.hands.delete(PODS, NS, name, grace_s=0)

    async def reasons(self):
        """Reasons of the Events there are, sorted."""
        return sorted(event["reason"] for event in await self.hands.list(CORE_EVENTS, Scope(NS)))

    async def until(self, true, within_s=60.0):
        """Wait in virtual time for an awaitable condition."""
        async with asyncio.timeout(within_s):
            while not await true():  # noqa: ASYNC110  of a server, who has no event for it
                await asyncio.sleep(0.05)

    async def until_pods(self, count, within_s=60.0):
        async def there():
            return len(await self.pods()) == count

        await self.until(there, within_s)

    async def until_job(self, type_, name="j", within_s=60.0):
        async def there():
            try:
                return (type_, "True") in await self.conditions(name)
            except NotFoundError:
                return False

        await self.until(there, within_s)


def status_patches(wire):
    """Bodies of the status patches that were sent, as they went out."""
    return [
        orjson.loads(request.body)
        for request in wire.sent
        if request.method == "PATCH" and request.path.endswith("/status")
    ]


def is_status_patch(request):
    return request.method == "PATCH" and request.path.endswith("/status")


def _container(state):
    return {
        "name": "ascend",
        "image": "train:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
