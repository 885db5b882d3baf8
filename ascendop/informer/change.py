# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One object as it was and as it is: what handlers are told."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

ObjectKey = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


class Row(Protocol):
    """What a store must know of an object; rows are immutable."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def version(self) -> str:
        """The resourceVersion."""
        ...


T = TypeVar("T", bound=Row)
IndexFn = Callable[[T], Iterable[Hashable]]
"""Under which values an object is found. Pure; must not raise for any row."""


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One object, before and after. Never both None, and never two uids.

    An object that was deleted and made again under its name is two changes.
    """

    old: T | None
    """The last state that handlers were told; None when the object is new to them."""
    new: T | None
    """None when it is gone."""
    initial: bool = False
    """It was there when we began to look; nothing may have happened to it."""
    unchanged: bool = False
    """It was listed again and is what it was."""
    inferred: bool = False
    """Gone, but nobody saw it go: `old` is the last known state, and need not be its final one."""
    synthetic: bool = False
    """Not from the server's stream: what reads showed of our own writes is withdrawn."""
    ours: bool = False
    """`new` is what the server answered to a write of our own: reads have shown it since then."""

    @property
    def row(self) -> T:
        """The newest state known."""
        row = self.new if self.new is not None else self.old
        assert row is not None  # noqa: S101  see the class
        return row
