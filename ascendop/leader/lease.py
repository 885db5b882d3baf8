# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Hold the Lease or leave the process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from random import Random  # noqa: TID251  the type of an argument
from typing import Protocol

import msgspec

from ascendop.clock import WallClock
from ascendop.errors import NotLeaderError
from ascendop.kube.errors import ApiError, ConflictError, ExistsError, NotFoundError, TransportError
from ascendop.kube.resource import LEASES, Object, Resource, Scope
from ascendop.kube.transport import Stream
from ascendop.leader.gate import LeaseGate
from ascendop.leader.record import LeaseTimes, Sight, spec_of
from ascendop.telemetry.log import get_log

log = get_log(__name__)

RELEASE_S = 5.0
"""To give the lease back at the end; a longer wait would cost more than the successor saves."""
WATCH_S = 300
"""One watch of the Lease; polling goes on beside it, so it may also be silent."""
TICK_S = 0.01
"""Less than this is no time: a sum of floats may never quite arrive where it should."""
CONTACT_S = 60.0
"""A follower that reached no API server for this long is better restarted."""
OVERDUE_S = 20.0
"""A leader that still runs this long after its lease ended is stuck."""


class LeaseApi(Protocol):
    """What the elector needs of a client: one without a write gate, on the `lease` connections."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object: ...

    async def create(self, resource: Resource, obj: Object) -> Object: ...

    async def replace(self, resource: Resource, obj: Object) -> Object: ...

    def watch(
        self, resource: Resource, scope: Scope, *, version: str, initial: bool, timeout_s: int
    ) -> AbstractAsyncContextManager[Stream]: ...


class LeaderObserver(Protocol):
    """Who counts: leader_election_master_status and leader_election_slowpath_total."""

    def leading(self, *, name: str, leads: bool) -> None: ...

    def slow_path(self, *, name: str) -> None: ...


class _WantedError(NotLeaderError):
    """Coordinated election asks us to finish: the lease is still ours to give back."""


class Elector:
    """At most one replica at a time leads.

    Safe:    only this process's monotonic clock decides; times in the Lease are for people.
    Prompt:  a lease given back is taken in well under a second, one left behind by a crash within
             lease_s + 1.2 · retry_s.
    Final:   a replica that lost does not contend again; `run` raises and the process ends.
    Not:     fencing. See LeaseGate. A clock that stands still while the machine sleeps cannot
             know that the lease ended: the gate of a machine that wakes up may be open too long.
    """

    def __init__(
        self,
        api: LeaseApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes,
        wall: WallClock,
        rng: Random,
        observer: LeaderObserver | None = None,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._times = times
        self._wall = wall
        self._rng = rng
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._sight = Sight(identity, times.lease_s)
        self._nudge = asyncio.Event()
        self._last_ok = 0.0
        """Loop time just before the last claim that the server accepted was sent."""
        self.contact_at = self._loop.time()
        """Loop time of the last answer about the Lease, whatever it said."""
        self.identity = identity
        self.gate = LeaseGate(self._loop.time)
        """Goes into every client that writes for jobs."""

    @property
    def leads(self) -> bool:
        return self.gate.valid_until is not None

    @property
    def holder(self) -> str:
        """Who leads, as last seen; empty for nobody."""
        return self._sight.holder

    @property
    def epoch(self) -> int:
        """Grows with every change of leader; hand it to systems that can refuse lower ones."""
        return self._sight.transitions

    def unhealthy(self) -> str:
        """Why a restart of this process would help; empty when it would not."""
        now = self._loop.time()
        until = self.gate.valid_until
        if until is not None and now > until + OVERDUE_S:
            return f"the lease ended {now - until:.0f} s ago and this replica still runs as leader"
        if until is None and now > self.contact_at + CONTACT_S:
            return f"no API server answered about the lease for {now - self.contact_at:.0f} s"
        return ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until the lease is ours, run `lead` as long as it is, then give it back.

        Returns:  when `lead` has returned and the lease is given back.
        Raises:   NotLeaderError when the lease was lost; `lead` was cancelled and has ended.
                  Whatever `lead` raises. CancelledError gives the lease back after `lead` ended.
        """
        await self._acquire()
        log.info("leading", lease=f"{self._namespace}/{self._name}", epoch=self.epoch)
        self._tell(leads=True)
        lost = False
        try:
            await self._while_holding(lead)
        except NotLeaderError as error:
            lost = not isinstance(error, _WantedError)
            log.warning("lease lost", reason=str(error), holder=self.holder)
            raise
        finally:
            self.gate.close()
            self._tell(leads=False)
            if not lost:
                await self._release()

    async def _while_holding(self, lead: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.TaskGroup() as scope:
                holding = scope.create_task(self._hold(), name="lease")
                await lead()
                holding.cancel()
        except BaseExceptionGroup as group:
            # Who lost has nothing else to report: what `lead` says while it is cancelled follows.
            lost, others = group.split(NotLeaderError)
            raise _first(lost or others or group) from group

    # ── follower ──

    async def _acquire(self) -> None:
        async with asyncio.TaskGroup() as contest:
            watching = contest.create_task(self._watch(), name="lease-watch")
            while not await self._bounded_try():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._nudge.wait()
            watching.cancel()

    def _pause_s(self) -> float:
        """Until the next look; the moment at which the record runs out is not slept through."""
        pause_s = self._times.pause_s(self._rng)
        left_s = self._sight.held_until - self._loop.time()
        return left_s + TICK_S if 0 < left_s < pause_s else pause_s

    async def _bounded_try(self) -> bool:
        try:
            self._nudge.clear()
            async with asyncio.timeout(self._times.renew_s / 2):
                return await self._try()
        except ApiError as error:  # nobody else may be able to take it either
            log.warning("lease not taken", error=str(error))
        except (TransportError, TimeoutError) as error:
            log.debug("lease not read", error=str(error) or "no answer in time")
        return False

    async def _try(self) -> bool:
        """One attempt to take the lease: True when it is ours now."""
        await self._look()
        if not self._sight.may_take(self._loop.time()):
            return False
        try:
            await self._claim()
        except (ConflictError, ExistsError):
            return False
        return True

    async def _watch(self) -> None:
        """Wake the follower when the lease is given back; it polls anyway, so this may fail."""
        scope = Scope(namespace=self._namespace, fields=f"metadata.name={self._name}")
        while True:
            with suppress(ApiError, TransportError, TimeoutError, msgspec.DecodeError):
                async with self._api.watch(
                    LEASES, scope, version="", initial=False, timeout_s=WATCH_S
                ) as stream:
                    await self._follow(stream)
            await asyncio.sleep(self._times.pause_s(self._rng))

    async def _follow(self, stream: Stream) -> None:
        rest = b""
        async for chunk in stream.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in filter(None, lines):
                self._see(msgspec.json.decode(line))

    def _see(self, event: Object) -> None:
        lease = event.get("object") or {}
        if event.get("type") not in {"ADDED", "MODIFIED"}:
            return
        if lease.get("metadata", {}).get("name") != self._name:
            return
        now = self._loop.time()
        self.contact_at = now
        self._sight.observe(lease, now)
        if self._sight.may_take(now):
            self._nudge.set()

    # ── leader ──

    async def _hold(self) -> None:
        """Renew for ever. Raises NotLeaderError when that failed for `renew_s`, or is refused."""
        try:
            while True:
                await asyncio.sleep(max(0.0, min(self._times.retry_s, self._left_s())))
                await self._bounded_renew()
        except NotLeaderError:
            self.gate.close()  # now, and not when the leader scope has ended: it may want to write
            raise

    async def _bounded_renew(self) -> None:
        left_s = self._left_s()
        if left_s <= TICK_S:
            raise NotLeaderError(f"the lease was not renewed for {self._times.renew_s:g} s")
        try:
            # Half of the whole: one dead connection must not use up all the time there is.
            async with asyncio.timeout(min(left_s, self._times.renew_s / 2)):
                await self._renew()
        except (ApiError, TransportError, TimeoutError) as error:
            log.warning("lease not renewed", error=str(error) or "no answer in time")

    def _left_s(self) -> float:
        """Until renewing is given up."""
        return self._last_ok + self._times.renew_s - self._loop.time()

    async def _renew(self) -> None:
        try:
            await self._claim()
        except (ConflictError, NotFoundError, ExistsError):
            # Somebody wrote or deleted it. If it still names us, that was an edit of something
            # else, or an earlier renewal of ours whose answer was lost.
            self._count_slow_path()
            await self._look()
            if self._sight.found is not None and self.holder != self.identity:
                raise NotLeaderError(f"the lease is held by {self.holder or 'nobody'}") from None
            await self._claim()
        wanted = spec_of(self._sight.found).get("preferredHolder")
        if wanted and wanted != self.identity:
            raise _WantedError(f"the lease is wanted for {wanted}")

    # ── both ──

    async def _look(self) -> None:
        """Read the Lease as it is now."""
        lease: Object | None
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
        except NotFoundError:
            lease = None
        self.contact_at = self._loop.time()
        self._sight.observe(lease, self.contact_at)

    async def _claim(self) -> None:
        """Write the Lease as ours; the server refuses if it changed since we saw it."""
        sent_at = self._loop.time()
        wanted = self._sight.claim(self._namespace, self._name, self._wall())
        if self._sight.found is None:
            lease = await self._api.create(LEASES, wanted)
        else:
            lease = await self._api.replace(LEASES, wanted)
        self.contact_at = self._loop.time()
        self._sight.observe(lease, self.contact_at)
        self._last_ok = sent_at
        # Writes stop where renewing is given up, not where the lease ends: the rest is for clocks
        # that run faster than ours, and for the writes that are on their way.
        self.gate.renewed(
            open_until=sent_at + self._times.renew_s, valid_until=sent_at + self._times.lease_s
        )

    async def _release(self) -> None:
        """Give the lease back, after the last write of ours ended; best effort."""
        self.gate.close()
        with suppress(ApiError, TransportError, TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                while self.holder == self.identity:
                    wanted = self._sight.release(self._namespace, self._name, self._wall())
                    try:
                        await self._api.replace(LEASES, wanted)
                    except ConflictError:
                        await self._look()
                        continue
                    log.info("lease released", lease=f"{self._namespace}/{self._name}")
                    return

    def _tell(self, *, leads: bool) -> None:
        if self._observer is not None:
            self._observer.leading(name=self._name, leads=leads)

    def _count_slow_path(self) -> None:
        if self._observer is not None:
            self._observer.slow_path(name=self._name)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deep: one cause is what a person reads."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
