# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How much room the cluster has, counted as it changes and not when a job waits."""

from __future__ import annotations

from collections import Counter

from ascendop.api.observed import NodeView, Pairs, QueueView
from ascendop.gang.room import Room
from ascendop.informer.change import Change
from ascendop.kube.quantity import Quantity, QuantityError

_ROOT = "root"


class RoomCount:
    """A handler of nodes and one of queues.

    Cheap:  a change costs what one node names, and nothing when it has what it had; a job that
            waits in a cluster of 5,000 nodes costs what it would in one of five.
    """

    def __init__(self) -> None:
        self._total = _Sums()
        self._held = _Sums()
        self._room: Room | None = None
        """As it was counted last; None since something has changed."""

    def node(self, change: Change[NodeView]) -> None:
        new = change.new
        if self._total.put(change.row.name, new.allocatable if new and new.usable else ()):
            self._room = None

    def queue(self, change: Change[QueueView]) -> None:
        """A queue holds what those below it hold, too: so only the uppermost are counted."""
        new = change.new
        top = new is not None and new.name != _ROOT and new.parent in {"", _ROOT}
        if self._held.put(change.row.name, new.allocated if new and top else ()):
            self._room = None

    def room(self) -> Room:
        """As it is now; not to be changed, and not changed afterwards."""
        if self._room is None:
            total, held = self._total, self._held
            self._room = Room(total.counts(), total.amounts(), held.amounts())
        return self._room


class _Sums:
    """Amounts of many sources, added up by name."""

    def __init__(self) -> None:
        self._parts: dict[str, Pairs] = {}
        """By source; a replay tells of one again."""
        self._nanos: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._like: dict[str, Quantity] = {}
        """An amount of each name: how its sum is to be written."""

    def put(self, source: str, new: Pairs) -> bool:
        """What the source has from now on. Whether that is something else."""
        old = self._parts.pop(source, ())
        if new:
            self._parts[source] = new
        if new == old:
            return False
        for name, each in _parsed(old):
            self._nanos[name] -= each.nanos
            self._counts[name] -= each.nanos > 0
        for name, each in _parsed(new):
            self._nanos[name] += each.nanos
            self._counts[name] += each.nanos > 0
            self._like[name] = each
        return True

    def counts(self) -> dict[str, int]:
        """How many sources have some of it, by name."""
        return {name: count for name, count in self._counts.items() if count}

    def amounts(self) -> dict[str, Quantity]:
        """How much all have, by name."""
        return {
            name: Quantity(nanos, self._like[name].form)
            for name, nanos in self._nanos.items()
            if nanos
        }


def _parsed(found: Pairs) -> list[tuple[str, Quantity]]:
    amounts = []
    for name, text in found:
        try:
            amounts.append((name, Quantity.parse(text)))
        except QuantityError:
            continue  # no server stores such an amount; a count must not end over it
    return amounts
