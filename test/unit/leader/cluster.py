# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One Lease in memory, replicas that contend for it, and everything that can happen to them."""

import asyncio
import contextvars
import copy
from collections.abc import Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import orjson

from ascendop.clock import simulated
from ascendop.errors import NotLeaderError
from ascendop.kube.errors import ConflictError, ExistsError, NotFoundError, TransportError
from ascendop.kube.resource import LEASES
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes

START = datetime(2026, 1, 1, tzinfo=UTC)
OWN_LEASE_S = 15
"""What a replica with a skewed clock writes: its own seconds."""


class Leases:
    """What an API server does for one Lease: versions, 404, 409, a watch."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.writes = []
        self.there = asyncio.Event()
        self._watchers = []

    def get(self):
        if self.lease is None:
            raise NotFoundError(404, "no such lease")
        return copy.deepcopy(self.lease)

    def create(self, obj):
        if self.lease is not None:
            raise ExistsError(409, "it is there", reason="AlreadyExists")
        return self._store("ADDED", obj)

    def replace(self, obj):
        if self.lease is None:
            raise NotFoundError(404, "no such lease")
        if obj["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError(409, "somebody wrote first", reason="Conflict")
        return self._store("MODIFIED", obj)

    def edit(self, **spec):
        """A person with an editor."""
        lease = self.get()
        lease["spec"] = {**lease["spec"], **spec}
        self._store("MODIFIED", lease)

    def label(self):
        """Somebody else's label: another version of the same record."""
        lease = self.get()
        lease["metadata"]["labels"] = {"seen": str(self.version)}
        self._store("MODIFIED", lease)

    def delete(self):
        if self.lease is not None:
            self._tell("DELETED", self.lease)
            self.lease = None
            self.there.clear()

    def is_held_by(self, holder):
        return self.lease is not None and self.lease["spec"].get("holderIdentity") == holder

    def _store(self, event, obj):
        self.version += 1
        self.there.set()
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self.writes.append((asyncio.get_running_loop().time(), self.lease["spec"]))
        self._tell(event, self.lease)
        return copy.deepcopy(self.lease)

    def _tell(self, event, obj):
        for queue in self._watchers:
            queue.put_nowait(orjson.dumps({"type": event, "object": obj}) + b"\n")

    def watch(self):
        queue = asyncio.Queue()
        self._watchers.append(queue)
        if self.lease is not None:
            queue.put_nowait(orjson.dumps({"type": "ADDED", "object": self.lease}) + b"\n")
        return queue


class Network:
    """Between one replica and the server: what is lost, what hangs, and whose seconds are whose."""

    def __init__(self, server, *, rng, rate=1.0):
        self.server = server
        self.rng = rng
        self.rate = rate
        """Own seconds per real second: durations are translated, as a skewed clock would."""
        self.requests_lost = False
        self.refusal = None
        """What the server answers to everything."""
        self.answers_lost = False
        self.hangs = False
        self.conflicts = 0.0
        self.watches = True
        self.latency_s = (0.001, 0.02)
        self.calls = []

    async def get(self, resource, namespace, name):
        return await self._call("GET", self.server.get)

    async def create(self, resource, obj):
        return await self._call("POST", lambda: self.server.create(self._out(obj)))

    async def replace(self, resource, obj):
        if self.rng.random() < self.conflicts:
            self.server.label()
        return await self._call("PUT", lambda: self.server.replace(self._out(obj)))

    @asynccontextmanager
    async def watch(self, resource, scope, *, version, initial, timeout_s):
        assert resource is LEASES and scope.fields.startswith("metadata.name=")
        if not self.watches:
            raise TransportError("refused", sent=False)
        queue = self.server.watch()
        try:
            yield _Stream(queue, self)
        finally:
            self.server._watchers.remove(queue)

    async def _call(self, verb, act):
        self.calls.append((asyncio.get_running_loop().time(), verb))
        await asyncio.sleep(self.rng.uniform(*self.latency_s))
        if self.requests_lost:
            await self._lose(sent=False)
        if self.refusal is not None:
            raise self.refusal
        answer = self._in(act())
        await asyncio.sleep(self.rng.uniform(*self.latency_s))
        if self.answers_lost:
            await self._lose(sent=True)
        return answer

    async def _lose(self, *, sent):
        await asyncio.sleep(30.0 if self.hangs else 0.01)
        raise TransportError("cut", sent=sent)

    def _in(self, lease):
        return self._with_duration(lease, lambda seconds: seconds / self.rate)

    def _out(self, lease):
        return self._with_duration(lease, lambda seconds: OWN_LEASE_S)

    def _with_duration(self, lease, translate):
        seconds = lease["spec"].get("leaseDurationSeconds")
        if seconds in {None, 1} or self.rate == 1.0:
            return lease
        return {**lease, "spec": {**lease["spec"], "leaseDurationSeconds": translate(seconds)}}


class _Stream:
    status = 200

    def __init__(self, queue, network):
        self.headers = {}
        self._queue = queue
        self._network = network

    async def chunks(self):
        while True:
            line = await self._queue.get()
            if self._network.requests_lost or self._network.answers_lost:
                raise TransportError("cut", sent=True)
            cut = len(line) // 2
            yield line[:cut]
            yield line[cut:]


_REPLICA = contextvars.ContextVar("replica", default=None)


class Replica:
    """A process that starts again, with a new identity, when it lost the lease."""

    def __init__(self, server, name, *, rng, times=LeaseTimes(), rate=1.0):  # noqa: B008  frozen
        self.name = name
        self.network = Network(server, rng=rng, rate=rate)
        self.times = times if rate == 1.0 else Real(times, rate)
        self.rng = rng
        self.starts = 0
        self.losses = []
        self.led_from = []
        self.paused_until = 0.0
        self.elector = None
        self.stop = asyncio.Event()

    def new_elector(self):
        self.starts += 1
        loop = asyncio.get_running_loop()
        skewed = simulated(START.replace(hour=self.rng.randrange(24)), loop.time)
        return Elector(
            self.network,
            namespace="ops",
            name="ascendop",
            identity=f"{self.name}_{self.starts}",
            times=self.times,
            wall=skewed,
            rng=self.rng,
        )

    async def lead(self):
        self.led_from.append(asyncio.get_running_loop().time())
        await self.stop.wait()

    def start(self, tasks):
        context = contextvars.copy_context()
        context.run(_REPLICA.set, self)
        return tasks.create_task(self._live(), context=context)

    async def _live(self):
        while not self.stop.is_set():
            self.elector = self.new_elector()
            try:
                await self.elector.run(self.lead)
            except NotLeaderError as error:
                self.losses.append((asyncio.get_running_loop().time(), str(error)))
                await asyncio.sleep(self.rng.uniform(0.1, 1.0))
                await self.network.server.there.wait()

    @property
    def gate_open(self):
        return self.elector is not None and self.elector.gate.is_open


class Real(LeaseTimes):
    """The times of a replica whose clock runs at `rate`, in real seconds."""

    def __init__(self, times, rate):
        object.__setattr__(self, "lease_s", times.lease_s / rate)
        object.__setattr__(self, "renew_s", times.renew_s / rate)
        object.__setattr__(self, "retry_s", times.retry_s / rate)


class Pausable(Coroutine):
    """A coroutine of a replica: when it is due while the replica is paused, it runs afterwards."""

    def __init__(self, coro, replica):
        self._coro = coro
        self._replica = replica
        self._sleep = None
        self._late = None
        """An exception that was thrown in during the pause."""

    def send(self, value):
        return self._step(lambda: self._coro.send(value))

    def throw(self, *error):
        return self._step(lambda: self._coro.throw(*error), error)

    def close(self):
        self._coro.close()

    def __await__(self):
        return self

    def __next__(self):
        return self.send(None)

    def _step(self, resume, error=None):
        self._late = error or self._late
        left_s = self._replica.paused_until - asyncio.get_running_loop().time()
        if left_s > 0:
            self._sleep = self._sleep or resume
            return self._wake_after(left_s)
        resume, self._sleep = self._sleep or resume, None
        late, self._late = self._late, None
        return self._coro.throw(*late) if late else resume()

    @staticmethod
    def _wake_after(seconds):
        loop = asyncio.get_running_loop()
        wake = loop.create_future()
        loop.call_later(seconds, lambda: wake.done() or wake.set_result(None))
        return next(wake.__await__())


def freeze_paused_replicas(loop):
    """From now on nothing of a paused replica runs until its pause is over, as after SIGSTOP."""

    def factory(loop, coro, **options):
        context = options.get("context")
        replica = context[_REPLICA] if context and _REPLICA in context else _REPLICA.get()
        return asyncio.Task(
            coro if replica is None else Pausable(coro, replica), loop=loop, **options
        )

    loop.set_task_factory(factory)


def rng(seed):
    return Random(seed)
