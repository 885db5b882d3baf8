# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Keys that are not due yet: none before its time, and one timer for all of them."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SLACK = 1024
"""Outdated entries a heap may hold beyond its live ones: tidying fewer costs more than it saves."""


class DelayHeap(Generic[K]):
    """When each waiting key is due.

    Shortened: a key that is set again keeps the earlier of the two times.
    Bounded:   holds at most 2 * waiting + SLACK entries, however often delays are shortened.
    """

    def __init__(self) -> None:
        self._due: dict[K, tuple[float, int]] = {}
        """Every waiting key, with the one entry of the heap that counts for it."""
        self._heap: list[tuple[float, int, K]] = []
        self._seq = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def set(self, key: K, due: float) -> None:
        """Let the key wait until `due`, or less if it already waits for less."""
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            return
        self._seq += 1
        self._due[key] = (due, self._seq)
        heapq.heappush(self._heap, (due, self._seq, key))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._tidy()

    def drop(self, key: K) -> None:
        """The key does not wait any more; unknown keys are ignored."""
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next_due(self) -> float | None:
        """When the next key is due; None when none waits."""
        while self._heap:
            due, seq, key = self._heap[0]
            if self._due.get(key) == (due, seq):
                return due
            heapq.heappop(self._heap)
        return None

    def pop_due(self, now: float) -> K | None:
        """Take the key that has been due the longest, if one is due by `now`."""
        due = self.next_due()
        if due is None or due > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        return key

    def due_of(self, key: K) -> float | None:
        known = self._due.get(key)
        return None if known is None else known[0]

    def _tidy(self) -> None:
        self._heap = [(due, seq, key) for key, (due, seq) in self._due.items()]
        heapq.heapify(self._heap)
