# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How much a gang asks for and how much is free: what people want to know of a job that waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ascendop.api.observed import GroupView, QueueView
from ascendop.builder.labels import NPU_PREFIX
from ascendop.gang.resources import Amounts, amounts
from ascendop.kube.quantity import Quantity, QuantityError

SAID_CHARS: Final = 300
"""Of what the scheduler says: its list of nodes may be as long as the cluster is large."""
_NOTHING: Final = Quantity()


@dataclass(frozen=True, slots=True)
class Room:
    """What all nodes that can take pods have, and what of it Volcano's queues hold.

    Not:  what pods of other schedulers hold; a node's pieces, which may be too small for a pod.
    """

    nodes: Mapping[str, int] = field(default_factory=dict)
    """How many have any of it, by resource."""
    total: Mapping[str, Quantity] = field(default_factory=dict)
    held: Mapping[str, Quantity] = field(default_factory=dict)

    def free(self, name: str) -> Quantity:
        return _less(self.total.get(name, _NOTHING), self.held.get(name, _NOTHING))


def explain(
    group: GroupView, room: Room | None, queue: QueueView | None, *, guess: bool = True
) -> str:
    """Why the gang waits, with numbers; what the scheduler says, if it does, comes last.

    guess:   say what else it may be, when there is enough of everything.
    Empty:   when nothing is known.
    Source:  scheduling.md SCH-4, SCH-12, SCH-31.
    """
    said = f"Volcano says: {group.trouble[:SAID_CHARS]}" if group.trouble else ""
    numbers = _numbers(group, room, queue, guess=guess) if room is not None else ""
    return "; ".join(part for part in (numbers, said) if part)


def _numbers(group: GroupView, room: Room, queue: QueueView | None, *, guess: bool) -> str:
    try:
        asked = amounts(group.resources)
    except QuantityError:
        return ""  # somebody wrote that; ours is about to be applied over it
    gang = f"the gang of {group.size} pods" if group.size > 1 else "the one pod"
    short = list(_short(asked, room, queue))
    if short:
        return f"{gang} asks for {'; '.join(short)}"
    free = [f"{each} {name}, and {_of(name, room)}" for name, each in _devices(asked)]
    if not free or not guess:
        return ""
    pieces = "but in pieces too small for a pod, or promised to gangs that were let in before"
    return f"{gang} asks for {'; '.join(free)}, {pieces}"


def _short(asked: Amounts, room: Room, queue: QueueView | None) -> Iterator[str]:
    may, has = _limits(queue)
    # NPUs first: they are what most gangs wait for.
    for name, each in sorted(asked.items(), key=lambda item: (NPU_PREFIX not in item[0], item)):
        total = room.total.get(name, _NOTHING)
        if not total:
            yield f"{each} {name}, and no node has any"
        elif each > total:
            yield f"{each} {name}, and {_have(name, room)} {total} in all"
        elif each > room.free(name):
            yield f"{each} {name}, and {_of(name, room)}"
        elif queue is not None and name in may:
            left = _less(may[name], has.get(name, _NOTHING))
            if each > left:
                yield f"{each} {name}, and queue {queue.name} has {left} of its {may[name]} left"


def _limits(queue: QueueView | None) -> tuple[Amounts, Amounts]:
    if queue is None:
        return {}, {}
    try:
        return amounts(dict(queue.capability)), amounts(dict(queue.allocated))
    except QuantityError:
        return {}, {}


def _of(name: str, room: Room) -> str:
    total = room.total.get(name, _NOTHING)
    return f"{room.free(name)} of {total} on {_on(name, room)} are free"


def _on(name: str, room: Room) -> str:
    count = room.nodes.get(name, 0)
    return "1 node" if count == 1 else f"{count} nodes"


def _have(name: str, room: Room) -> str:
    return f"{_on(name, room)} {'has' if room.nodes.get(name) == 1 else 'have'}"


def _devices(asked: Amounts) -> Iterator[tuple[str, Quantity]]:
    return ((name, each) for name, each in sorted(asked.items()) if NPU_PREFIX in name)


def _less(one: Quantity, other: Quantity) -> Quantity:
    return Quantity(max(0, one.nanos - other.nanos), one.form)
