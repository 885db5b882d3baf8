# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Keys that are due: by priority, by turns between tenants, by age."""

from __future__ import annotations

import heapq
from bisect import insort
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from ascendop.queue.delayed import SLACK

K = TypeVar("K", bound=Hashable)

AGED_S = 60.0
"""What a key of negative priority waits at most behind others: a sweep is late then, not lost."""
_KEPT_LEVELS = 16  # empty levels are kept: a queue that holds one key would build one per key


class _Place(NamedTuple):
    """Where a key stands."""

    level: int
    """The priority it is served at; above the one it was added with when it has aged."""
    seq: int
    """Its turn within the level; the entry of a heap with another number is outdated."""
    ready_at: float


class _Level(Generic[K]):
    """One priority: a ring of sub-queues, one per tenant, each in order of `seq`."""

    __slots__ = ("counts", "groups", "held", "live", "turns")

    def __init__(self, counts: Callable[[int, K], bool]) -> None:
        self.counts = counts
        """Whether an entry (seq, key) is the one that stands for its key."""
        self.turns: deque[Hashable] = deque()
        """Every group of `groups` once; the first is served next."""
        self.groups: dict[Hashable, list[tuple[int, K]]] = {}
        """No group is empty, but what is in it may be outdated."""
        self.live = 0
        """Keys whose place is here."""
        self.held = 0
        """Entries in all groups, outdated ones included."""

    def push(self, group: Hashable, seq: int, key: K) -> None:
        heap = self.groups.get(group)
        if heap is None:
            self.groups[group] = [(seq, key)]
            self.turns.append(group)
        else:
            heapq.heappush(heap, (seq, key))
        self.live += 1
        self.held += 1

    def pop(self) -> K:
        """The key whose turn it is; there must be one."""
        while True:
            group = self.turns.popleft()
            heap = self.groups[group]
            found = None
            while heap and found is None:
                entry = heapq.heappop(heap)
                self.held -= 1
                if self.counts(*entry):
                    found = entry
            if heap:
                self.turns.append(group)
            else:
                del self.groups[group]
            if found is not None:
                self.live -= 1
                return found[1]

    def leave(self) -> None:
        """A key has moved to another level; its entry here is outdated now."""
        self.live -= 1
        if self.held > 2 * self.live + SLACK:
            self._tidy()

    def _tidy(self) -> None:
        kept = {
            group: heap
            for group, all_of_it in self.groups.items()
            if (heap := [entry for entry in all_of_it if self.counts(*entry)])
        }
        for heap in kept.values():
            heapq.heapify(heap)
        self.groups = kept
        self.turns = deque(group for group in self.turns if group in kept)
        self.held = self.live


class ReadyKeys(Generic[K]):
    """Keys that wait for a worker only.

    Ordered: the highest priority first; within it the tenants (`fair_by`) take turns; within a
             tenant first come, first out. A raised key starts at the end of its new priority.
    Ageing:  a key below priority 0 that has waited AGED_S is served as if it had been added with 0
             at the time it was.
    Stingy:  memory for 2 * ready + SLACK entries per priority.
    """

    def __init__(self, fair_by: Callable[[K], Hashable] | None = None) -> None:
        self._fair_by = fair_by
        self._places: dict[K, _Place] = {}
        """Every ready key."""
        self._levels: dict[int, _Level[K]] = {}
        self._order: list[int] = []
        """The keys of `_levels`, negated and sorted: the highest priority first."""
        self._ageing: deque[tuple[float, K]] = deque()
        """Keys pushed below priority 0 with the time, oldest first; some are gone by now."""
        self._seq = 0

    def __len__(self) -> int:
        return len(self._places)

    def push(self, key: K, priority: int, now: float) -> None:
        """A key that was not ready is, since `now` (loop time, which never goes back)."""
        self._seq += 1
        self._places[key] = _Place(priority, self._seq, now)
        self._enter(key, priority, self._seq)
        if priority < 0:
            self._ageing.append((now, key))

    def lift(self, key: K, priority: int) -> None:
        """A ready key is to be served at this priority, if that is higher than what it has."""
        place = self._places[key]
        if priority > place.level:
            self._seq += 1
            self._move(key, place, _Place(priority, self._seq, place.ready_at))

    def pop(self, now: float) -> tuple[K, float]:
        """The next key, and since when it has been ready. There must be one."""
        if self._ageing:
            self._age(now)
        for negated in self._order:
            level = self._levels[-negated]
            if level.live:
                break
        else:
            raise AssertionError("no key is ready")
        key = level.pop()
        place = self._places.pop(key)
        if not self._places:
            self._ageing.clear()
        return key, place.ready_at

    def clear(self) -> None:
        self._places.clear()
        self._levels.clear()
        self._order.clear()
        self._ageing.clear()

    def depths(self) -> dict[int, int]:
        """How many keys are ready per priority, the highest first."""
        return {-p: live for p in self._order if (live := self._levels[-p].live)}

    def _age(self, now: float) -> None:
        while self._ageing and self._ageing[0][0] + AGED_S <= now:
            ready_at, key = self._ageing.popleft()
            place = self._places.get(key)
            if place is not None and place.ready_at == ready_at and place.level < 0:
                self._move(key, place, place._replace(level=0))

    def _move(self, key: K, old: _Place, new: _Place) -> None:
        self._places[key] = new
        self._levels[old.level].leave()
        self._enter(key, new.level, new.seq)

    def _enter(self, key: K, priority: int, seq: int) -> None:
        level = self._levels.get(priority)
        if level is None:
            level = self._add_level(priority)
        level.push(None if self._fair_by is None else self._fair_by(key), seq, key)

    def _add_level(self, priority: int) -> _Level[K]:
        if len(self._order) >= _KEPT_LEVELS:
            self._levels = {p: level for p, level in self._levels.items() if level.live}
            self._order = sorted(-p for p in self._levels)
        level = self._levels[priority] = _Level(self._counts_at(priority))
        insort(self._order, -priority)
        return level

    def _counts_at(self, level: int) -> Callable[[int, K], bool]:
        places = self._places

        def counts(seq: int, key: K) -> bool:
            place = places.get(key)
            return place is not None and place.level == level and place.seq == seq

        return counts
