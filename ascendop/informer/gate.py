# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the caches have seen our own writes for a job, before something is decided for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ascendop.errors import StaleCacheError
from ascendop.informer.informer import Informer
from ascendop.informer.observer import InformerObserver, NobodyCounts
from ascendop.informer.shard import Shard
from ascendop.informer.versions import number_of
from ascendop.kube.resource import Key

L = TypeVar("L")

PATIENCE_S: Final = 5.0
"""A watch lags by milliseconds; one that lags by seconds is stalled, and must not stop us."""
LIVE_READS_PER_S: Final = 50.0
"""In a new term every job needs one; 10,000 at once would be a storm, at this rate 200 s."""


@dataclass(slots=True)
class _Job:
    """What is noted of one job."""

    needs: dict[int, int] = field(default_factory=dict)
    """By shard (its id): the version that the cache has to reach. Reached ones are taken out."""
    blind: set[str] = field(default_factory=set)
    """Kinds written with versions that cannot be compared: only a live read tells."""
    waits_since: float | None = None
    """Loop time of the first refusal since the caches were last fresh."""


class FreshnessGate(Generic[L]):
    """A job's destructive and counting decisions wait until the caches have seen its last writes.

    Per job:   one job's stale cache never holds up another.
    Woken:     who was refused is called again, through `wake`, when the last cache has caught up.
    Bounded:   after PATIENCE_S a live read stands in for the cache.
    Suspicious: in a new term nothing is known of what the predecessor wrote; the first decision
               about each job takes a live read.
    Fail safe: versions that cannot be compared count as not seen.
    """

    def __init__(
        self,
        live: Callable[[Key], Awaitable[L]],
        wake: Callable[[Key], None],
        *,
        observer: InformerObserver | None = None,
    ) -> None:
        """Must be called on the loop that will use it. It begins as in a new term.

        live: reads the children of a job from the server, as they are now.
        wake: adds the key to the queue.
        """
        self._live = live
        self._wake = wake
        self._observer: InformerObserver = observer or NobodyCounts()
        self._loop = asyncio.get_running_loop()
        self._jobs: dict[Key, _Job] = {}
        """Jobs with writes that some cache has not seen."""
        self._trusted: set[Key] = set()
        """Jobs of which this term has read everything live, or may know everything otherwise."""
        self._next_live_at = 0.0

    def new_term(self) -> None:
        """Another replica may have written until now: trust no cache about any job."""
        self._trusted.clear()

    def trust(self, key: Key) -> None:
        """The job is new in this term: no predecessor can have written for it."""
        self._trusted.add(key)

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._jobs.pop(key, None)
        self._trusted.discard(key)

    def note(self, key: Key, informer: Informer[Any], version: str) -> None:
        """A write for this job was answered with this version of an object of that kind."""
        shard = informer.store.shard_of(key.namespace)
        if shard is None:
            return
        number = number_of(version)
        if number is None or (shard.position and shard.number is None):
            self._jobs.setdefault(key, _Job()).blind.add(informer.resource.name)
        elif shard.number is None or shard.number < number:
            job = self._jobs.setdefault(key, _Job())
            job.needs[id(shard)] = max(number, job.needs.get(id(shard), 0))
            shard.when_passed(number, partial(self._passed, key, shard, number))

    async def fresh(self, key: Key) -> L | None:
        """Return when a decision may be made: on the caches (None), or on a live read.

        Raises: StaleCacheError when the caches are behind; `wake` is called when they are not.
                What the live read raises.
        """
        job = self._jobs.get(key)
        if key in self._trusted and job is None:
            return None
        if key in self._trusted and job is not None and not job.blind:
            now = self._loop.time()
            if job.waits_since is None:
                job.waits_since = now
                self._loop.call_later(PATIENCE_S, self._wake_if_waiting, key, job)
            if now - job.waits_since < PATIENCE_S:
                raise StaleCacheError(f"{key}: the cache has not seen our last write")
        return await self._read_live(key)

    def __len__(self) -> int:
        """Jobs with writes that some cache has not seen."""
        return len(self._jobs)

    async def _read_live(self, key: Key) -> L:
        now = self._loop.time()
        turn_at = max(now, self._next_live_at)
        self._next_live_at = turn_at + 1.0 / LIVE_READS_PER_S
        if turn_at > now:
            await asyncio.sleep(turn_at - now)
        self._observer.count("gate_live_reads_total")
        job = self._jobs.get(key)
        blind = set(job.blind) if job is not None else set()
        read = await self._live(key)
        self._trusted.add(key)
        if job is not None:
            job.blind -= blind
            self._tidy(key, job)
        return read

    def _passed(self, key: Key, shard: Shard[Any], number: int) -> None:
        job = self._jobs.get(key)
        if job is not None and job.needs.get(id(shard), 0) <= number:
            job.needs.pop(id(shard), None)
            self._tidy(key, job)

    def _tidy(self, key: Key, job: _Job) -> None:
        if job.needs or job.blind or self._jobs.get(key) is not job:
            return
        del self._jobs[key]
        if job.waits_since is not None:
            self._wake(key)

    def _wake_if_waiting(self, key: Key, job: _Job) -> None:
        """The patience of a refused job has ended: let it come for its live read."""
        if self._jobs.get(key) is job and job.waits_since is not None:
            self._wake(key)
