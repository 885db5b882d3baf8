# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which key next, when, and for whom: once, in order, never twice at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from enum import Enum
from math import inf
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Generic, TypeVar

from ascendop.backoff import Backoff
from ascendop.errors import AscendopError
from ascendop.queue.delayed import DelayHeap
from ascendop.queue.limiter import JOB_BACKOFF, FailureLimiter, TokenBucket
from ascendop.queue.observer import MAX_PRIORITIES, OTHER, NobodyCounts, QueueObserver
from ascendop.queue.ready import ReadyKeys

K = TypeVar("K", bound=Hashable)

RETRIES_PER_S = 50.0
RETRIES_BURST = 500
"""Retries of all keys together: 500 jobs may fail at once without waiting for each other, and a
cluster in which everything fails is asked 50 times a second, not as often as the loop can."""
LOOK_AGAIN_S = 10.0
"""The longest sleep of the timer while keys wait: insurance against a clock that was moved."""


class QueueShutDownError(AscendopError):
    """The queue hands out no more keys; the worker that asked is to end."""


class _State(Enum):
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DIRTY = "running, and owed another run"


class _Entry:
    """What is known of a key that is not absent."""

    __slots__ = ("next_due", "next_priority", "priority", "started_at", "state")

    def __init__(self, state: _State, priority: int) -> None:
        self.state = state
        self.priority = priority
        """The highest it was added with since it was last handed out; or that it was handed out
        with, while it runs. Ageing does not change it."""
        self.started_at = 0.0
        """RUNNING and DIRTY only."""
        self.next_priority = 0
        """DIRTY only: of the run that it is owed."""
        self.next_due = 0.0
        """DIRTY only: when that run is due."""


class _Mode(Enum):
    OPEN = "open"
    DRAINING = "draining"
    SHUT = "shut"


class WorkQueue(Generic[K]):
    """Keys that are due, for any number of workers on one loop.

    Fair:     the highest priority first; within it tenants (`fair_by`) take turns; within a tenant
              keys are handed out in the order they became due. Low priorities age: none starves.
    Stingy:   a key waits at most once and never runs twice at the same time.
    Honest:   a key added while it runs is handed out again when it is done.
    Patient:  a key is not handed out before its time; of two times the earlier counts.
    Awake:    a key that is ready and a worker that waits do not stay apart, whoever is cancelled.
    Not:      bounded, persistent, or safe from another thread.
    """

    def __init__(
        self,
        name: str,
        *,
        rng: Random,
        fair_by: Callable[[K], Hashable] | None = None,
        backoff: Backoff = JOB_BACKOFF,
        bucket: TokenBucket | None = None,
        observer: QueueObserver | None = None,
    ) -> None:
        """Must be called on the loop that will use it. `bucket` limits retries of all keys."""
        self.name = name
        self._loop = asyncio.get_running_loop()
        self._limiter: FailureLimiter[K] = FailureLimiter(rng, backoff)
        self._bucket = bucket or TokenBucket(RETRIES_PER_S, RETRIES_BURST)
        self._observer: QueueObserver = observer or NobodyCounts()
        self._entries: dict[K, _Entry] = {}
        """Every key that is not absent."""
        self._waiting: DelayHeap[K] = DelayHeap()
        """Exactly the keys in state WAITING."""
        self._ready: ReadyKeys[K] = ReadyKeys(fair_by)
        """Exactly the keys in state READY."""
        self._running: dict[K, _Entry] = {}
        """Exactly the keys in states RUNNING and DIRTY: no worker gets them."""
        self._getters: deque[asyncio.Future[None]] = deque()
        """Workers that found nothing. A resolved one is not in it: it is on its way back."""
        self._timer: asyncio.Handle | None = None
        """Armed for the first due time, or before it, as long as keys wait."""
        self._rings_at = 0.0
        """When the timer rings. Kept here: uvloop's handles of what is due now do not know it."""
        self._mode = _Mode.OPEN
        self._drained: list[asyncio.Future[None]] = []
        """Those who wait for the end of `drain`."""

    def add(self, key: K, after_s: float = 0.0, priority: int | None = 0) -> None:
        """The key is owed a run, `after_s` from now or earlier.

        priority: the highest of those it was added with counts. None means: what it has, or was
                  handed out with if it runs, or 0.
        Ignored once the queue is shut down or draining.
        """
        if self._mode is not _Mode.OPEN:
            return
        if after_s > 0:
            self._observer.count("retries_total")
        now = self._loop.time()
        entry = self._entries.get(key)
        if entry is None:
            self._observer.count("adds_total")
            self._start(key, priority or 0, now + after_s, now)
        elif entry.state is _State.READY:
            self._lift(key, entry, priority)
        elif entry.state is _State.WAITING:
            self._hasten(key, entry, priority, now + after_s, now)
        else:
            self._owe(entry, entry.priority if priority is None else priority, now + after_s)

    def retry(self, key: K, at_least_s: float = 0.0, at_most_s: float = inf) -> None:
        """The key's run failed: another one after its back-off, with the priority it had.

        Waits the longest of: its own back-off, if that is no more than `at_most_s`; the turn it
        gets among all retries; `at_least_s`.
        """
        if self._mode is _Mode.OPEN:
            own_s = min(self._limiter.failed(key), at_most_s)
            turn_s = self._bucket.take(self._loop.time())
            self.add(key, max(own_s, turn_s, at_least_s), priority=None)

    def forget(self, key: K) -> None:
        """The key succeeded, or needs no more retries: its next failure is its first."""
        self._limiter.forget(key)

    def failures(self, key: K) -> int:
        """How often the key failed since it was last forgotten."""
        return self._limiter.failures(key)

    async def get(self) -> K:
        """The next key; the caller owes a `done` for it. Raises QueueShutDownError."""
        while True:
            if self._ready:
                return self._hand_out()
            if self._mode is _Mode.SHUT or (self._mode is _Mode.DRAINING and not self._running):
                raise QueueShutDownError(self.name)
            await self._wait_for_a_key()

    def done(self, key: K) -> None:
        """The run of a key that `get` returned is over, however it ended."""
        entry = self._running.pop(key, None)
        if entry is None:
            raise AssertionError(f"done({key!r}) without get: two workers may hold it")
        now = self._loop.time()
        self._observer.took("work_duration_seconds", now - entry.started_at)
        del self._entries[key]
        if entry.state is _State.DIRTY and self._may_still_run(entry, now):
            self._start(key, entry.next_priority, entry.next_due, now)
        self._end_if_drained()

    def shutdown(self) -> None:
        """Hand out nothing more, from now on. Keys that run are finished by whoever has them."""
        if self._mode is _Mode.SHUT:
            return
        self._mode = _Mode.SHUT
        self._drop_waiting()
        for key in [key for key in self._entries if key not in self._running]:
            del self._entries[key]
        self._ready.clear()
        while self._getters:
            self._wake_one()
        for waiter in self._drained:
            if not waiter.done():
                waiter.set_result(None)
        self._drained.clear()

    async def drain(self, timeout_s: float) -> None:
        """Take no more keys, hand out those that are ready, and shut down when all are done.

        After `timeout_s` it shuts down with whatever is left. Waiting keys are dropped at once.
        """
        if self._mode is _Mode.SHUT:
            return
        self._mode = _Mode.DRAINING
        self._drop_waiting()
        over = self._loop.create_future()
        self._drained.append(over)
        self._end_if_drained()
        try:
            async with asyncio.timeout(timeout_s):
                await over
        except TimeoutError:
            pass  # the time is up: what is left is left
        finally:
            self.shutdown()

    def depths(self) -> dict[str, int]:
        """Ready keys per priority, as labels of a metric: at most MAX_PRIORITIES, then OTHER."""
        depths = self._ready.depths()
        shown = {str(p): depths[p] for p in sorted(depths, key=abs)[:MAX_PRIORITIES]}
        rest = sum(depths.values()) - sum(shown.values())
        return {**shown, OTHER: rest} if rest else shown

    @property
    def has_ready(self) -> bool:
        """Whether a key waits for a worker."""
        return bool(self._ready)

    def unfinished_s(self) -> float:
        """Seconds of work in progress, of all running keys together."""
        now = self._loop.time()
        return sum(now - entry.started_at for entry in self._running.values())

    def longest_running_s(self) -> float:
        """For how long the key that has run longest has run."""
        now = self._loop.time()
        return max((now - entry.started_at for entry in self._running.values()), default=0.0)

    def running(self) -> dict[K, float]:
        """The keys that run, with the seconds they have."""
        now = self._loop.time()
        return {key: now - entry.started_at for key, entry in self._running.items()}

    def limit(self, backoff: Backoff, bucket: TokenBucket) -> None:
        """From now on so; delays that have been given stay as they are."""
        self._limiter.backoff = backoff
        self._bucket = bucket

    def rebase(self) -> None:
        """The loop stood still until now; the retry budget did not grow meanwhile."""
        self._bucket.rebase(self._loop.time())

    def __len__(self) -> int:
        """Keys that are owed a run: waiting, ready, or running and dirty."""
        dirty = sum(1 for entry in self._running.values() if entry.state is _State.DIRTY)
        return len(self._waiting) + len(self._ready) + dirty

    def __repr__(self) -> str:
        return (
            f"<WorkQueue {self.name}: {self._mode.value}, {len(self._waiting)} waiting, "
            f"{len(self._ready)} ready, {len(self._running)} running>"
        )

    def _start(self, key: K, priority: int, due: float, now: float) -> None:
        """Absent → ready or waiting."""
        if due <= now:
            self._entries[key] = _Entry(_State.READY, priority)
            self._ready.push(key, priority, now)
            self._wake_one()
        else:
            self._entries[key] = _Entry(_State.WAITING, priority)
            self._waiting.set(key, due)
            self._arm(now)

    def _lift(self, key: K, entry: _Entry, priority: int | None) -> None:
        """Ready → ready, at the higher priority."""
        if priority is not None and priority > entry.priority:
            entry.priority = priority
            self._ready.lift(key, priority)

    def _hasten(self, key: K, entry: _Entry, priority: int | None, due: float, now: float) -> None:
        """Waiting → ready if due now, else the earlier time."""
        if priority is not None and priority > entry.priority:
            entry.priority = priority
        if due <= now:
            self._waiting.drop(key)
            self._become_ready(key, entry, now)
        else:
            self._waiting.set(key, due)
            self._arm(now)

    def _owe(self, entry: _Entry, priority: int, due: float) -> None:
        """Running → dirty; or dirty → dirty, with the earlier time and the higher priority."""
        if entry.state is _State.RUNNING:
            self._observer.count("adds_total")
            entry.state = _State.DIRTY
            entry.next_priority = priority
            entry.next_due = due
        else:
            entry.next_priority = max(entry.next_priority, priority)
            entry.next_due = min(entry.next_due, due)

    def _become_ready(self, key: K, entry: _Entry, now: float) -> None:
        entry.state = _State.READY
        self._ready.push(key, entry.priority, now)
        self._wake_one()

    def _hand_out(self) -> K:
        """Ready → running."""
        now = self._loop.time()
        key, ready_at = self._ready.pop(now)
        entry = self._running[key] = self._entries[key]
        entry.state = _State.RUNNING
        entry.started_at = now
        self._observer.took("queue_duration_seconds", now - ready_at)
        return key

    async def _wait_for_a_key(self) -> None:
        getter = self._loop.create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.cancelled():
                with suppress(ValueError):  # somebody may have passed over it meanwhile
                    self._getters.remove(getter)
            else:  # woken for a key, and cancelled before it could take it: somebody else must
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self, now: float) -> None:
        due = self._waiting.next_due()
        if due is None:
            return
        when = min(due, now + LOOK_AGAIN_S)
        if self._timer is not None:
            if self._rings_at <= when:
                return
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(when, self._ring), when

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        while (key := self._waiting.pop_due(now)) is not None:
            self._become_ready(key, self._entries[key], now)
        self._arm(now)

    def _may_still_run(self, entry: _Entry, now: float) -> bool:
        if self._mode is _Mode.DRAINING:
            return entry.next_due <= now
        return self._mode is _Mode.OPEN

    def _drop_waiting(self) -> None:
        for key in [k for k, entry in self._entries.items() if entry.state is _State.WAITING]:
            del self._entries[key]
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_if_drained(self) -> None:
        if self._mode is _Mode.DRAINING and not self._ready and not self._running:
            self.shutdown()
