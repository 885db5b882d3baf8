# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A gang that waits says why: in the words of the contract at once, with numbers if it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ascendop.api.observed import PodView
from ascendop.apply.plan import EventNote
from ascendop.gang.admission import PENDING, PENDING_TEXT, Waiting
from ascendop.gang.room import explain
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.status import Conditions, put_condition, with_message
from ascendop.times import parse_time, rfc3339

PATIENCE_S: Final = 10.0
"""Every PodGroup is Pending for a moment: only what lasts is worth more words."""
AGAIN_S: Final = 60.0
"""How often the numbers are looked at; they are told again only when they have changed."""


@dataclass(frozen=True, slots=True)
class Words:
    """What to say about a job that waits."""

    message: str = ""
    """Of the Created condition; empty to leave it as it is."""
    again_after_s: float | None = None
    """When to look again."""


def words(s: AnySnapshot, waiting: Waiting) -> Words:
    """The contract's text with numbers behind it, once the job has waited for a while.

    Calm:  the same numbers are the same text, which is no change.
    """
    if s.kind.words.created_first:
        return Words()  # its users know one Created, and it says that the job was created
    said = next((c for c in s.conditions if c.type == "Created"), None)
    if said is None or said.reason != waiting.reason:
        return Words(again_after_s=PATIENCE_S)
    # A queue is closed or opened once; numbers change with every job that comes or goes.
    numbers = said.message != waiting.message and not waiting.detail
    pause_s = AGAIN_S if numbers else PATIENCE_S
    left_s = _left_s(said.last_update_time, s.now, pause_s)
    if left_s > 0:
        return Words(again_after_s=left_s)
    why = waiting.detail
    if waiting.reason == PENDING and s.group is not None and not why:
        # What a job that ran before has given up may still be counted as held: no guesses then.
        guess = not s.status.get("startTime")
        why = explain(s.group, s.world.room, s.world.queue, guess=guess)
    message = f"{waiting.message}: {why}" if why else waiting.message
    return Words(message if message != said.message else "", AGAIN_S)


def unplaced(s: AnySnapshot, pods: Sequence[PodView]) -> tuple[Waiting | None, Words]:
    """Let in and not placed: all pods are there, none has a node, and the scheduler said why."""
    if s.group is None or not s.group.trouble or not pods or any(pod.node for pod in pods):
        return None, Words()
    left_s = _left_s(str(s.status.get("startTime") or rfc3339(s.now)), s.now, PATIENCE_S)
    if left_s > 0:
        return None, Words(again_after_s=left_s)
    waiting = Waiting(PENDING, PENDING_TEXT)
    return waiting, words(s, waiting)


def say(
    before: Conditions, s: AnySnapshot, waiting: Waiting, found: Words
) -> tuple[Conditions, tuple[EventNote, ...]]:
    """Conditions, and the same as an Event where there are numbers to tell."""
    after = put_condition(before, "Created", waiting.reason, waiting.message, s.now)
    if not found.message:
        return after, ()
    after = with_message(after, "Created", found.message, s.now)
    note = EventNote("Warning", "Unschedulable", found.message, "Schedule")
    return after, (note,) if found.message != waiting.message else ()


def _left_s(since: str, now: datetime, pause_s: float) -> float:
    """Seconds until `pause_s` have passed; none when the clock was set back."""
    try:
        passed_s = (now - parse_time(since)).total_seconds()
    except ValueError:
        return 0.0  # written by hand
    return max(1.0, pause_s - passed_s) if 0 <= passed_s < pause_s else 0.0
