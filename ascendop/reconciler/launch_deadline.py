# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a job with a launcher may take to start, which its Job cannot count before it runs.

Source: mpijob.md W-16.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ascendop.api.kind import JobView, PodSlot
from ascendop.reconciler.launch_conditions import ready
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import stalled_words
from ascendop.times import parse_time


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a job that has not started has failed."""

    in_s: float
    """Seconds from now on; none are left at 0 and below."""
    text: str
    """What is to be said then."""


def start_deadline(
    s: AnySnapshot, job: JobView[Any], slots: Collection[PodSlot]
) -> Deadline | None:
    """None when nothing limits the start of the job, or something else counts by now.

    Job's own:   activeDeadlineSeconds, while there is no launcher whose Job could count it.
    Operator's:  the time that --mpi-start-timeout gives every job until it has run once.
    """
    started, launcher = str(s.status.get("startTime") or ""), s.launched.job
    asleep = job.run_policy.suspend or any(
        c.type == "Suspended" and c.status == "True" for c in s.conditions
    )
    if asleep or not started:
        return None
    limits: list[tuple[float, str]] = []
    own = job.run_policy.active_deadline_seconds
    withheld = launcher is None or (launcher.suspended and not launcher.end)
    if own is not None and withheld and not s.world.place.strict:
        limits.append((own, "activeDeadlineSeconds"))
    given = s.world.place.start_timeout_s
    if given and not any(c.type == "Running" and c.status == "True" for c in s.conditions):
        limits.append((given, "--mpi-start-timeout-s"))
    if not limits:
        return None
    limit_s, name = min(limits)
    left_s = (parse_time(started) + timedelta(seconds=limit_s) - s.now).total_seconds()
    return Deadline(left_s, f"not started within {limit_s:g} s ({name}): {_why(s, slots)}")


def _why(s: AnySnapshot, slots: Collection[PodSlot]) -> str:
    named = stalled_words(s, (*s.pods, *s.launched.pods))
    if named:
        return named
    there = sum(ready([slot], s.pods) for slot in slots)
    return f"{there} of {len(slots)} workers are ready"
