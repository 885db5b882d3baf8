# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One copy of each string that many rows share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

import msgspec

from ascendop.informer.change import Row
from ascendop.informer.slices import in_slices

OUTGROWN = 4
"""Strings per row above which most of the pool belongs to rows that are gone."""
_FLOOR = 4096  # below it, tidying saves less than it costs


class Pool:
    """Equal strings in, the same string out.

    Bounded: `tidy` keeps only what live rows use, once the pool has outgrown them.
    Not:     `sys.intern`: values such as uids come and go, and that pool cannot be looked at.
    """

    __slots__ = ("_strings", "_tidy_above")

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._tidy_above = _FLOOR

    def __call__(self, text: str) -> str:
        return self._strings.setdefault(text, text)

    def pairs(
        self, mapping: Mapping[str, str] | None, keys: Collection[str] | None = None
    ) -> tuple[tuple[str, str], ...]:
        """A string map as pairs of shared strings; with `keys`, only those, in their order."""
        if not mapping:
            return ()
        one = self._strings.setdefault
        if keys is None:
            return tuple([(one(k, k), one(v, v)) for k, v in mapping.items()])
        return tuple([(k, one(mapping[k], mapping[k])) for k in keys if k in mapping])

    def __len__(self) -> int:
        return len(self._strings)

    def outgrown(self, rows: int) -> bool:
        """Whether most of the pool belongs to rows that are gone, `rows` being there."""
        return len(self._strings) > max(OUTGROWN * rows, self._tidy_above)

    async def tidy(self, rows: Sequence[Row]) -> None:
        """Rebuild the pool from the live rows. What is added meanwhile may be stored twice."""
        kept: dict[str, str] = {}
        async for row in in_slices(rows):
            for value in msgspec.structs.astuple(cast(msgspec.Struct, row)):
                _keep(value, self._strings, kept)
        self._strings = kept
        self._tidy_above = max(_FLOOR, 2 * len(kept))


def _keep(value: object, pooled: Mapping[str, str], kept: dict[str, str]) -> None:
    if isinstance(value, str):
        if value in pooled:
            kept.setdefault(value, value)
    elif isinstance(value, tuple):
        for part in value:
            _keep(part, pooled, kept)
