# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a failure waits for the scheduler plug-in to say whether the job is tried again.

Its entry for the job may come after the failure, or have been spent a moment before the failed
pods are deleted. Since when we wait stands in the job, by our own clock: a restart of ours does
not begin anew, and a node whose clock is wrong makes nothing shorter or longer.
Source:  ascendjob.md 7.3, W-14 and W-19; fault-tolerance.md D-15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.life import Facts
from ascendop.apply.plan import EventNote
from ascendop.builder import labels as keys
from ascendop.builder.names import RETRIES_CONFIG_MAP, VOLCANO_NAMESPACE
from ascendop.builder.pod import pod_group_of
from ascendop.reconciler.attempts import Attempts
from ascendop.times import parse_time, rfc3339

LATEST: Final = timedelta(seconds=5)
"""A start of waiting that lies further ahead than this was written by a clock that went wrong."""


@dataclass(frozen=True, slots=True)
class Patience:
    """What is known of the wait after one look."""

    attempts: Attempts
    """With the moment at which the wait began, or without one when nothing is waited for."""
    left_s: float = 0.0
    """How much longer; 0 when there is nothing to wait for, or no more time."""
    began: bool = False
    """It begins with this look."""


def unanswered(f: Facts) -> bool:
    """A pod has failed that may be tried again, and nobody has said yet whether it is.

    Retries that are used up are an answer, but for a job that was promised one: then the last one
    has been spent on it, and its pods are about to go.
    """
    if not (f.gang and f.retry_wanted and f.sum("failed")):
        return False
    return f.retries_left is None or (f.retries_left <= 0 and "Restarting" in f.conditions)


def patience(f: Facts, attempts: Attempts, now: datetime, grace_s: float) -> Patience:
    """The wait as it stands now, `grace_s` long in all."""
    if not unanswered(f) or grace_s <= 0:
        asked = bool(attempts.unanswered_since)
        return Patience(replace(attempts, unanswered_since="") if asked else attempts)
    since = _since(attempts, now)
    if since is None:
        return Patience(replace(attempts, unanswered_since=rfc3339(now)), grace_s, began=True)
    left_s = (since + timedelta(seconds=grace_s) - now).total_seconds()
    return Patience(attempts, max(left_s, 0.0))


def waiting_note(kind: JobKind[S], job: JobView[S], wait: Patience) -> EventNote:
    """What a user is told when the wait begins."""
    said = f"{VOLCANO_NAMESPACE}/{RETRIES_CONFIG_MAP}"
    group = f"{job.namespace}/{pod_group_of(kind, job)}"
    text = (
        f"A pod has failed and label {keys.FAULT_RETRY_TIMES} asks for retries, but ConfigMap "
        f"{said} has none for {group}; the job fails in {wait.left_s:g} s unless Volcano's NPU "
        "plug-in restarts it"
    )
    return EventNote("Warning", "RetriesUnknown", text, "Reconcile")


def _since(attempts: Attempts, now: datetime) -> datetime | None:
    """When the wait began; None when it has not, or begins anew because a clock was wrong."""
    try:
        since = parse_time(attempts.unanswered_since)
    except ValueError:
        return None  # empty, or edited by hand
    return None if since.tzinfo is None or since > now + LATEST else since
