# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The objects of one reflector: the cache, its indexes, and our own writes on top."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Generic

from ascendop.informer.change import Change, IndexFn, ObjectKey, T
from ascendop.informer.indexes import Indexes
from ascendop.informer.observer import InformerObserver
from ascendop.informer.overlay import Overlay, Written
from ascendop.informer.versions import at_least, number_of

BREATH = 256
"""Objects of a comparison between two chances for others to run."""


class Staging(Generic[T]):
    """A list that is not complete yet. Nobody reads it; it costs the store nothing to drop it.

    It indexes as it grows, so that the swap has nothing left to do that grows with it.
    """

    def __init__(self, indexes: Mapping[str, IndexFn[T]], known: Mapping[ObjectKey, T]) -> None:
        self._known = known
        self.objects: dict[ObjectKey, T] = {}
        self.indexes: Indexes[T] = Indexes(indexes)

    def put(self, row: T) -> None:
        key = (row.namespace, row.name)
        known = self._known.get(key)
        if known is not None and known.uid == row.uid and known.version == row.version:
            row = known  # one copy in memory, and the one that the collector does not visit
        self.indexes.change(key, self.objects.get(key), row)
        self.objects[key] = row

    def drop(self, row: T) -> None:
        key = (row.namespace, row.name)
        self.indexes.change(key, self.objects.pop(key, None), None)


class Shard(Generic[T]):
    """What one list-and-watch has told, and what we wrote ourselves since.

    At once:  every method moves objects, indexes and position in one step without an await, and
              returns what handlers are to be told; the caller tells them before it awaits.
    Newest:   a read shows the newer of cache and own write; it never falls behind an own write.
    Monotone: the version of an object never decreases, replays and late deletions are ignored.
    Unbound:  no object is ever dropped for room.
    """

    def __init__(self, indexes: Mapping[str, IndexFn[T]], observer: InformerObserver) -> None:
        self._functions = indexes
        self._observer = observer
        self._objects: dict[ObjectKey, T] = {}
        """The server's words only."""
        self._indexes: Indexes[T] = Indexes(indexes)
        """Over what reads show: own writes included."""
        self._overlay: Overlay[T] = Overlay()
        self._position = ""
        self._number: int | None = None
        self._passing: list[tuple[int, int, Callable[[], None]]] = []
        """Who wants to know when the position reaches a number; a heap."""
        self._seq = 0
        self._withdrawn: list[Change[T]] = []
        """Own writes that turned out to be gone, not yet told to handlers."""

    @property
    def position(self) -> str:
        """Everything up to this version has been applied; empty before the first list."""
        return self._position

    @property
    def number(self) -> int | None:
        """The position as a number; None when it is none."""
        return self._number

    def get(self, key: ObjectKey) -> T | None:
        cached = self._objects.get(key)
        if self._overlay:
            entry = self._overlay.get(key)
            if entry is not None:
                return entry.shows(cached)
        return cached

    def by_index(self, name: str, value: Hashable) -> list[T]:
        keys = self._indexes.keys(name, value)
        if not self._overlay:
            objects = self._objects
            return [objects[key] for key in keys]
        return [row for key in keys if (row := self.get(key)) is not None]

    def index_values(self, name: str) -> list[Hashable]:
        return self._indexes.values(name)

    def indexes(self) -> dict[str, dict[Hashable, list[ObjectKey]]]:
        """All indexes, to be looked at."""
        return self._indexes.as_dict()

    def rows(self) -> list[T]:
        """Every object that reads show."""
        if not self._overlay:
            return list(self._objects.values())
        keys = dict.fromkeys((*self._objects, *self._overlay.written()))
        return [row for key in keys if (row := self.get(key)) is not None]

    def cached(self) -> dict[ObjectKey, T]:
        """A copy of what the server said, without our own writes."""
        return dict(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def written(self) -> int:
        """Own writes that the cache has not caught up with."""
        return len(self._overlay)

    # The server's words

    def upsert(self, row: T) -> list[Change[T]]:
        """ADDED or MODIFIED."""
        key = (row.namespace, row.name)
        old = self._objects.get(key)
        if old is not None and old.uid == row.uid and _is_replay(row, old):
            self._observer.count("replays_dropped_total")
            return self._moved_to(row.version)
        ours = self._is_ours(key, row)
        self._set(key, old, row)
        if old is None or old.uid == row.uid:
            changes = [Change(old, row, ours=ours)]
        else:
            changes = [Change(old, None, inferred=True), Change(None, row)]
        return changes + self._moved_to(row.version)

    def remove(self, row: T) -> list[Change[T]]:
        """DELETED, with the object's last state."""
        key = (row.namespace, row.name)
        old = self._objects.get(key)
        if old is None:
            self._observer.count("replays_dropped_total")
            self._hear(key, row)
            return self._moved_to(row.version)
        if old.uid != row.uid and at_least(row.version, old.version) is False:
            self._observer.count("replays_dropped_total")  # its predecessor's, late
            return self._moved_to(row.version)
        self._set(key, old, None, row)
        told = [Change(old, None, inferred=True)] if old.uid != row.uid else [Change(old, None)]
        return told + self._moved_to(row.version)

    def move(self, version: str) -> list[Change[T]]:
        """BOOKMARK: nothing else happened up to this version."""
        return self._moved_to(version)

    def stage(self) -> Staging[T]:
        """Where a list is collected until it is complete."""
        return Staging(self._functions, self._objects)

    def swap(self, staged: Staging[T], version: str) -> Iterator[Change[T] | None]:
        """The list is complete and becomes the store, now.

        Returns what to tell handlers, as an iterator: the inferred deletes, the updates, the adds.
        It compares as it goes; a None in it is a chance to let others run. Nothing may be applied
        before it is exhausted.
        """
        first = not self._position
        old, self._objects = self._objects, staged.objects
        self._indexes = staged.indexes
        for key, entry in self._overlay.items():
            cached = self._objects.get(key)
            self._indexes.change(key, cached, entry.shows(cached))
        self._position, self._number = version, number_of(version)
        for key in self._overlay.written():
            self._settle(key, told=True)
        self._tell_passed()
        return _differences(old, staged.objects, self._take_withdrawn(), first=first)

    def clear(self) -> Iterator[Change[T] | None]:
        """The kind is not served any more: everything is gone, own writes included."""
        old, self._objects = self._objects, {}
        self._indexes = Indexes(self._functions)
        self._overlay = Overlay()
        self._position, self._number = "", None
        return _differences(old, self._objects, [], first=True)

    # Our own words

    def note(self, row: T, now: float) -> None:
        """A write of ours was answered with this object; reads show it from here on."""
        key = (row.namespace, row.name)
        entry = Written(row, row.uid, number_of(row.version), now)
        known = self._overlay.get(key)
        if known is not None and _is_older(entry, known):
            return
        self._put(key, entry)

    def note_gone(self, key: ObjectKey, uid: str, now: float, version: str = "") -> None:
        """The object is known to be gone: a DELETE was done at once, or a live read gave 404.

        version: of the object as it was last seen, if the caller knows.
        """
        known = [number_of(version)] if version else []
        cached, entry = self._objects.get(key), self._overlay.get(key)
        if cached is not None and cached.uid == uid:
            known.append(number_of(cached.version))
        if entry is not None and entry.uid == uid:
            known.append(entry.number)
        if not known:
            return  # neither has it: they have heard of its end before we have
        numbers = [number for number in known if number is not None]
        ghost: Written[T] = Written(None, uid, max(numbers, default=None), now)
        if entry is not None and entry.uid != uid and _is_older(ghost, entry):
            return
        self._put(key, ghost)

    def expire(self, now: float) -> list[Change[T]]:
        """Give up the own writes that the watch has not confirmed for KEPT_S."""
        for key in self._overlay.expired(now):
            self._observer.count("overlay_expired_total")
            self._withdraw(key)
        return self._take_withdrawn()

    def next_expiry(self) -> float | None:
        return self._overlay.next_expiry()

    def when_passed(self, number: int, call: Callable[[], None]) -> None:
        """Call once, synchronously, when everything up to `number` has been applied."""
        if self._number is not None and self._number >= number:
            call()
            return
        self._seq += 1
        heapq.heappush(self._passing, (number, self._seq, call))

    def _is_ours(self, key: ObjectKey, row: T) -> bool:
        """Whether this is word for word what a write of our own was answered with."""
        entry = self._overlay.get(key) if self._overlay else None
        known = None if entry is None else entry.row
        return known is not None and (known.uid, known.version) == (row.uid, row.version)

    def _put(self, key: ObjectKey, entry: Written[T]) -> None:
        before = self.get(key)
        self._overlay.put(key, entry)
        if entry.settled(self._objects.get(key), self._number, told=False):
            self._overlay.drop(key)
        self._indexes.change(key, before, self.get(key))
        if entry.number is not None and self._overlay.get(key) is entry:
            self.when_passed(entry.number, lambda: self._settle(key, told=False))

    def _set(self, key: ObjectKey, old: T | None, new: T | None, last: T | None = None) -> None:
        """The server's word on one key: `new`, or gone with `last` as its last state."""
        if not self._overlay or (entry := self._overlay.get(key)) is None:
            self._indexes.change(key, old, new)
            if new is None:
                del self._objects[key]
            else:
                self._objects[key] = new
            return
        before = entry.shows(old)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        self._indexes.change(key, before, entry.shows(new))
        self._hear(key, new if new is not None else last)

    def _hear(self, key: ObjectKey, said: T | None) -> None:
        """The stream spoke of this key: see whether that settles an own write.

        What it said counts as seen although the position has not moved yet.
        """
        number = self._number if said is None else number_of(said.version)
        if self._number is not None and number is not None:
            number = max(number, self._number)
        self._settle(key, told=True, number=number)

    def _settle(self, key: ObjectKey, *, told: bool, number: int | None = None) -> None:
        entry = self._overlay.get(key) if self._overlay else None
        if entry is None:
            return
        position = self._number if number is None else number
        if entry.settled(self._objects.get(key), position, told=told):
            self._withdraw(key)

    def _withdraw(self, key: ObjectKey) -> None:
        """Drop an own write; if that takes an object from reads that no event will, say so."""
        entry = self._overlay.get(key)
        cached = self._objects.get(key)
        before = self.get(key)
        self._overlay.drop(key)
        self._indexes.change(key, before, cached)
        if entry is None or entry.row is None:
            if cached is not None and before is None:  # a ghost that expired: it is back
                self._withdrawn.append(Change(None, cached, synthetic=True))
        elif cached is None or cached.uid != entry.uid:
            self._withdrawn.append(Change(entry.row, None, inferred=True, synthetic=True))
        elif at_least(cached.version, entry.row.version) is not True:
            self._withdrawn.append(Change(entry.row, cached, synthetic=True))

    def _moved_to(self, version: str) -> list[Change[T]]:
        number = number_of(version)
        if number is None or self._number is None or number > self._number:
            self._position, self._number = version, number
            if self._passing:
                self._tell_passed()
        return self._take_withdrawn() if self._withdrawn else []

    def _tell_passed(self) -> None:
        if self._number is None:
            return
        while self._passing and self._passing[0][0] <= self._number:
            heapq.heappop(self._passing)[2]()

    def _take_withdrawn(self) -> list[Change[T]]:
        withdrawn, self._withdrawn = self._withdrawn, []
        return withdrawn


def _is_replay(row: T, old: T) -> bool:
    return at_least(old.version, row.version) is True


def _is_older(entry: Written[T], known: Written[T]) -> bool:
    """Whether an entry says less than the known one. Where that cannot be told: the last counts."""
    if entry.number is None or known.number is None:
        return False
    if known.row is None and known.uid == entry.uid:
        return entry.number <= known.number  # late news of an object that is known to be gone
    return entry.number < known.number


def _differences(
    old: Mapping[ObjectKey, T],
    new: Mapping[ObjectKey, T],
    withdrawn: list[Change[T]],
    *,
    first: bool,
) -> Iterator[Change[T] | None]:
    yield from withdrawn
    if old:
        yield from _gone(old, new)
        yield from _updated(old, new)
    for n, (key, row) in enumerate(new.items()):
        known = old.get(key)
        if known is None or known.uid != row.uid:
            yield Change(None, row, initial=first)
        elif n % BREATH == 0:
            yield None


def _gone(old: Mapping[ObjectKey, T], new: Mapping[ObjectKey, T]) -> Iterator[Change[T] | None]:
    for n, (key, was) in enumerate(old.items()):
        row = new.get(key)
        if row is None or row.uid != was.uid:
            yield Change(was, None, inferred=True)
        elif n % BREATH == 0:
            yield None


def _updated(old: Mapping[ObjectKey, T], new: Mapping[ObjectKey, T]) -> Iterator[Change[T]]:
    for key, row in new.items():
        was = old.get(key)
        if was is not None and was.uid == row.uid:
            yield Change(was, row, unchanged=was.version == row.version)
