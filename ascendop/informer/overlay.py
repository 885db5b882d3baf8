# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What we wrote ourselves and the watch has not told us yet."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic

from ascendop.informer.change import ObjectKey, T
from ascendop.informer.versions import at_least, number_of

KEPT_S = 120.0
"""A silent watch is dropped after 90 s; what is not settled by then is no matter of time."""


@dataclass(frozen=True, slots=True)
class Written(Generic[T]):
    """An answer of the server to a write of ours."""

    row: T | None
    """The object as it was answered; None for a ghost: the object is known to be gone."""
    uid: str
    number: int | None
    """Its version; of a ghost, the last one known of it. None when it is no number."""
    noted_at: float
    """Loop time."""

    def shows(self, cached: T | None) -> T | None:
        """What a reader sees where the cache has `cached`."""
        if cached is None or self._outdates(cached):
            return self.row
        return cached

    def settled(self, cached: T | None, position: int | None, *, told: bool) -> bool:
        """Whether the cache knows by now what this entry knows.

        position: up to where the cache has seen the stream; None when that is no number.
        told:     the stream has just said something about this key. It decides where versions
                  cannot be compared: what the stream says last is then believed.
        """
        passed = self.number is not None and position is not None and position >= self.number
        if cached is None:
            return passed or (told and self.number is None)
        if cached.uid == self.uid:
            if self.row is None:
                return False  # a ghost waits for the news of the death
            caught_up = at_least(cached.version, self.row.version)
            return told if caught_up is None else caught_up
        number = number_of(cached.version)
        if number is None or self.number is None:
            return told
        return number > self.number or (self.row is None and passed)

    def _outdates(self, cached: T) -> bool:
        if cached.uid == self.uid:
            return self.row is None or at_least(cached.version, self.row.version) is not True
        number = number_of(cached.version)
        if number is None or self.number is None:
            return self.row is not None
        return number <= self.number


class Overlay(Generic[T]):
    """The writes that the cache has not caught up with, by key.

    Lossy: losing it costs knowledge and no correctness. Creates are safe by their names, and
           whatever else matters asks the staleness gate.
    """

    __slots__ = ("_entries", "_noted")

    def __init__(self) -> None:
        self._entries: dict[ObjectKey, Written[T]] = {}
        self._noted: deque[tuple[ObjectKey, Written[T]]] = deque()
        """In the order they were noted; some are settled by now."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: ObjectKey) -> Written[T] | None:
        return self._entries.get(key)

    def items(self) -> list[tuple[ObjectKey, Written[T]]]:
        return list(self._entries.items())

    def written(self) -> list[ObjectKey]:
        return list(self._entries)

    def put(self, key: ObjectKey, entry: Written[T]) -> None:
        self._entries[key] = entry
        self._noted.append((key, entry))

    def drop(self, key: ObjectKey) -> None:
        self._entries.pop(key, None)
        if not self._entries:
            self._noted.clear()

    def expired(self, now: float) -> list[ObjectKey]:
        """The keys whose entries have stood for KEPT_S."""
        keys = []
        while self._noted:
            key, entry = self._noted[0]
            current = self._entries.get(key) is entry
            if current and entry.noted_at + KEPT_S > now:
                break
            self._noted.popleft()
            if current:
                keys.append(key)
        return keys

    def next_expiry(self) -> float | None:
        """When the oldest entry will have stood for KEPT_S; None when there is none."""
        for key, entry in self._noted:
            if self._entries.get(key) is entry:
                return entry.noted_at + KEPT_S
        return None
