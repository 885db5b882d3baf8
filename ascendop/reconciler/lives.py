# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The lives of a job: it is created, put to sleep and woken, and each life has pods of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ascendop.api.kind import S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import EventNote
from ascendop.apply.refusals import CHILD_CONFLICT
from ascendop.reconciler.giveback import GIVEN_BACK
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import Conditions, put_condition, with_truth_last
from ascendop.times import rfc3339

NOT_STARTED: Final = "PodsNotStarted"
"""Reason of Created while pods that have been made do not start."""


def with_created(s: Snapshot[S]) -> Conditions:
    """The conditions as stored; a job that has no Created yet was created just now."""
    if any(c.type == "Created" for c in s.conditions):
        return s.conditions
    return (*put_condition((), "Created", *created_words(s), s.now), *s.conditions)


def created_words(s: Snapshot[S]) -> tuple[str, str]:
    """Reason and message of the first condition."""
    reason, text = s.kind.words.created
    return reason, text.format(kind=s.kind.kind, namespace=s.row.namespace, job=s.row.name)


def is_waking(s: Snapshot[S]) -> bool:
    """It sleeps by its conditions; whoever asks knows that it should not."""
    return any(c.type == "Suspended" and c.status == "True" for c in s.conditions)


def awake(s: Snapshot[S]) -> Conditions:
    """Conditions to go on from: none of them says that a job sleeps which should not."""
    found = with_created(s)
    if not is_waking(s):
        return found
    reason, text = f"{s.kind.kind}Resumed", _resumed(s)
    return with_truth_last(put_condition(found, "Suspended", reason, text, s.now, "False"))


def without_trouble(s: Snapshot[S]) -> Conditions:
    """Conditions to go on from when all has been made: Created says what it said at first.

    What the scheduler said stays there, by the contract of those kinds that have it.
    """
    found, words = awake(s), s.kind.words
    troubles = {*words.step_failed.values(), CHILD_CONFLICT, GIVEN_BACK}
    if not any(c.type == "Created" and c.reason in troubles for c in found):
        return found
    return created_anew(s, found)


def created_anew(s: Snapshot[S], before: Conditions) -> Conditions:
    """The list with Created as it was at first, and where it was: a trouble is over."""
    others = tuple(c for c in before if c.type != "Created")
    created = tuple(c for c in before if c.type == "Created")
    return (*put_condition(created, "Created", *created_words(s), s.now), *others)


def waking_notes(s: Snapshot[S]) -> tuple[EventNote, ...]:
    """The Event of a job that wakes; none of one that was awake."""
    if not is_waking(s):
        return ()
    reason = f"{s.kind.kind}Resumed"
    return (EventNote("Normal", reason, _resumed(s), "Resume", outcome=True),)


def awake_status(s: Snapshot[S]) -> Object:
    """The status to go on from: the time that a job was asleep is not held against it."""
    if not is_waking(s) or not (s.status.get("startTime") or not s.kind.attempts):
        return s.status
    return {**s.status, "startTime": rfc3339(s.now)}


def of_this_life(s: Snapshot[S], pods: Iterable[PodView]) -> tuple[PodView, ...]:
    """Pods that say how the job fares: not those that end because it was put to sleep.

    They still take their slots, whose names they have.
    Source:  kubeflow-v1-jobs.md W-11, field-reports.md FR-034.
    """
    woken_at = rfc3339(s.now) if is_waking(s) else _woken_at(s)
    if not woken_at:
        return tuple(pods)
    return tuple(pod for pod in pods if not (pod.deleting and pod.created <= woken_at))


def _woken_at(s: Snapshot[S]) -> str:
    """When the job was woken last; empty when it never was."""
    woken = (c for c in s.conditions if c.type == "Suspended" and c.status == "False")
    return next((c.last_transition_time for c in woken), "")


def _resumed(s: Snapshot[S]) -> str:
    return f"{s.kind.kind} {s.row.name} is resumed."
