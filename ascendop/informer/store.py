# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the cluster looks like, by key and by index; read-only from outside, but for own writes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic

from ascendop.informer.change import ObjectKey, T
from ascendop.informer.shard import Shard


class Store(Generic[T]):
    """Reads over the shards of one informer: one for all namespaces, or one per namespace.

    Snapshots: every read returns a new list of immutable rows; it costs what it returns.
    Newest:    own writes that were noted are in every read and every index at once.
    """

    def __init__(
        self, shards: Mapping[str, Shard[T]], clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._shards = shards
        """By namespace; the one for all namespaces under the empty string, alone."""
        self._clock = clock
        self._wake = wake
        """Called when an own write was noted: somebody has to expire it."""

    def get(self, namespace: str, name: str) -> T | None:
        """The object as it is known now."""
        shard = self.shard_of(namespace)
        return None if shard is None else shard.get((namespace, name))

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """The objects that an index has under a value.

        Raises: KeyError when there is no index of that name; never a scan instead.
        """
        if len(self._shards) == 1:
            return next(iter(self._shards.values())).by_index(name, value)
        return [row for shard in self._shards.values() for row in shard.by_index(name, value)]

    def index_values(self, name: str) -> list[Hashable]:
        """Every value an index has objects under. Raises KeyError as `by_index` does."""
        found = (value for shard in self._shards.values() for value in shard.index_values(name))
        return list(dict.fromkeys(found))

    def rows(self) -> list[T]:
        """Every object. Costs as much as there are; for sweeps and people."""
        return [row for shard in self._shards.values() for row in shard.rows()]

    def shard_of(self, namespace: str) -> Shard[T] | None:
        """Whose position tells how fresh reads of this namespace are."""
        whole = self._shards.get("")
        return whole if whole is not None else self._shards.get(namespace)

    def note(self, row: T) -> None:
        """A write of ours was answered with this object."""
        if (shard := self.shard_of(row.namespace)) is not None:
            shard.note(row, self._clock())
            self._wake()

    def note_gone(self, namespace: str, name: str, uid: str, version: str = "") -> None:
        """The object of this uid is known to be gone, from the answer to a DELETE or a live 404."""
        if (shard := self.shard_of(namespace)) is not None:
            key: ObjectKey = (namespace, name)
            shard.note_gone(key, uid, self._clock(), version)
            self._wake()

    def __len__(self) -> int:
        """Objects the server told us of."""
        return sum(len(shard) for shard in self._shards.values())
