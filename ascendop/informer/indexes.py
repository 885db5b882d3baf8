# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where to find objects by what they say of themselves."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic

from ascendop.informer.change import IndexFn, ObjectKey, T

_NOTHING: dict[ObjectKey, None] = {}


class Indexes(Generic[T]):
    """Value → keys, for each index by name.

    Exact:   no key under a value its object does not have; no empty buckets.
    Ordered: the keys of a bucket come in the order they entered it, whatever the hash seed.
    """

    __slots__ = ("_buckets", "_functions")

    def __init__(self, functions: Mapping[str, IndexFn[T]]) -> None:
        self._functions = tuple(functions.items())
        self._buckets: dict[str, dict[Hashable, dict[ObjectKey, None]]] = {
            name: {} for name in functions
        }

    def change(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        """The object under this key was `old` and is `new`."""
        for name, function in self._functions:
            before = () if old is None else tuple(function(old))
            after = () if new is None else tuple(function(new))
            if before == after:
                continue
            buckets = self._buckets[name]
            for value in before:
                if value not in after:
                    _leave(buckets, value, key)
            for value in after:
                bucket = buckets.get(value)
                if bucket is None:
                    buckets[value] = {key: None}
                else:
                    bucket[key] = None

    def keys(self, name: str, value: Hashable) -> Iterable[ObjectKey]:
        """The keys under a value. Raises KeyError when there is no index of that name."""
        return self._buckets[name].get(value, _NOTHING)

    def values(self, name: str) -> list[Hashable]:
        """Every value that some object has. Raises KeyError as `keys` does."""
        return list(self._buckets[name])

    def as_dict(self) -> dict[str, dict[Hashable, list[ObjectKey]]]:
        """Everything, to be looked at."""
        return {
            name: {value: list(keys) for value, keys in buckets.items()}
            for name, buckets in self._buckets.items()
        }


def _leave(buckets: dict[Hashable, dict[ObjectKey, None]], value: Hashable, key: ObjectKey) -> None:
    bucket = buckets.get(value)
    if bucket is not None:
        bucket.pop(key, None)
        if not bucket:
            del buckets[value]
