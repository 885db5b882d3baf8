# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One operator's wire: its bad luck, what went over it, and the write at which its process dies."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from ascendop.kube.errors import TransportError
from ascendop.kube.resource import NODES
from ascendop.kube.transport import Request
from ascendop.sim.answers import forbidden
from ascendop.sim.faults import Faults, Plan
from ascendop.sim.transport import SimTransport

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
CALM = Plan()
LATE_S = 40.0
"""A request may wait in a server's queue long after its client has given up."""


@dataclass(frozen=True)
class Death:
    """The process ends at its nth write: before the server has read it, or after it worked."""

    nth: int
    after: bool


def is_write(request):
    return request.method in WRITES


def is_lease(request):
    return "/leases" in request.path


def is_event(request):
    return request.path.rpartition("/namespaces/")[2].partition("/")[2].startswith("events")


class Wire:
    """A Transport as SimTransport is one; `death` and `late` are what only a simulation can do."""

    def __init__(self, world, who, rng, plan=CALM, *, late=0.0, death=None, die=None):
        self.world, self.who, self.rng, self.late = world, who, rng, late
        self.death, self.die = death, die
        self.dead = False
        self.writes = 0
        """That are neither of the lease nor Events."""
        self.calls = Counter()
        """Method and path without names, of what the server has read."""
        self.faults = Faults(plan, rng)
        self._apart_until_s = 0.0
        self._led_until = {}
        self._inner = SimTransport(world.server, user=who, faults=self)

    async def send(self, request):
        if self.dead:
            raise TransportError("the process has ended", sent=False)
        self._led_until[id(request)] = self.world.oracles.led_until(self)
        try:
            return await self._inner.send(request)
        finally:
            self.world.writer = None
            del self._led_until[id(request)]

    def stream(self, request):
        return self._inner.stream(request)

    async def close(self):
        return

    def led_until(self, request):
        """How long the lease was sure to be held, as of the moment at which this was sent."""
        return self._led_until[id(request)]

    # What SimTransport asks of faults.

    async def before(self, request: Request):
        await self._cross(request)
        if self.faults.enabled and self.world.forbids(request):
            return forbidden(NODES, request.path, "the right was withdrawn").response()
        early = await self.faults.before(request)
        if early is not None:
            return early
        if is_write(request) and self.faults.enabled and self.rng.random() < self.late:
            self.world.send_late(request, self.rng.uniform(0.1, LATE_S))
            raise TransportError(f"{request}: no answer", sent=True)
        if self._counts(request):
            self.writes += 1
            if self.death == Death(self.writes, after=False):
                await self._die()
        self.world.heard(self, request)
        return None

    async def after(self, request: Request):
        self.world.writer = None
        if self._counts(request) and self.death == Death(self.writes, after=True):
            await self._die()
        await self.faults.after(request)

    def through(self, request, stream):
        return self.faults.through(request, _Held(stream, self))

    def apart(self, seconds):
        """For so long nothing of this replica reaches the server, and nothing comes back."""
        self._apart_until_s = asyncio.get_running_loop().time() + seconds

    async def crossed(self):
        """When the network is whole again; at once when it is. Whether it had to be waited for."""
        waited = False
        loop = asyncio.get_running_loop()
        while self.faults.enabled and loop.time() < self._apart_until_s:
            waited = True
            await asyncio.sleep(min(1.0, self._apart_until_s - loop.time()))
        return waited

    async def _cross(self, request):
        if await self.crossed():
            raise TransportError(f"{request}: no route to host", sent=False)

    def _counts(self, request):
        return is_write(request) and not is_lease(request) and not is_event(request)

    async def _die(self):
        self.die()
        await asyncio.get_running_loop().create_future()  # no line after this one runs


class _Held:
    """A stream on which nothing comes while its replica is apart, and that is broken after that."""

    def __init__(self, inner, wire):
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._wire = inner, wire

    async def chunks(self):
        async for chunk in self._inner.chunks():
            if await self._wire.crossed():
                raise TransportError("connection reset: the network was parted", sent=True)
            yield chunk

    async def read(self):
        return await self._inner.read()
