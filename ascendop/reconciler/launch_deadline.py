# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a job with a launcher takes to start, which its Job cannot count before it runs.

Source: mpijob.md W-16, field-reports.md FR-007, FR-037.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ascendop.api.kind import JobView, PodSlot
from ascendop.reconciler.launch_conditions import ready
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import NAMED, PATIENCE_S, stalled_words
from ascendop.times import parse_time


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a job that has not started has failed."""

    in_s: float
    """Seconds from now on; none are left at 0 and below."""
    text: str
    """What is to be said then."""


def start_deadline(s: AnySnapshot, job: JobView[Any], slots: Sequence[PodSlot]) -> Deadline | None:
    """None when nothing limits the start of the job, or something else counts by now.

    Job's own:   activeDeadlineSeconds, while there is no launcher whose Job could count it.
    Operator's:  the time that --mpi-start-timeout gives every job until it has run once.
    """
    begun_s = _begun_s(s, job)
    if begun_s is None:
        return None
    limits: list[tuple[float, str]] = []
    own = job.run_policy.active_deadline_seconds
    if own is not None and _withheld(s) and not s.world.place.strict:
        limits.append((own, "activeDeadlineSeconds"))
    given = s.world.place.start_timeout_s
    if given and not any(c.type == "Running" and c.status == "True" for c in s.conditions):
        limits.append((given, "--mpi-start-timeout-s"))
    if not limits:
        return None
    limit_s, name = min(limits)
    return Deadline(
        limit_s - begun_s, f"not started within {limit_s:g} s ({name}): {_why(s, slots)}"
    )


def launcher_waits(s: AnySnapshot, job: JobView[Any], slots: Sequence[PodSlot]) -> Deadline | None:
    """What is to be said of a launcher that waits, and when; None of one that does not."""
    begun_s = _begun_s(s, job)
    if begun_s is None or not _withheld(s) or ready(slots, s.pods):
        return None
    return Deadline(PATIENCE_S - begun_s, f"the launcher waits: {_ready(s, slots)}")


def _begun_s(s: AnySnapshot, job: JobView[Any]) -> float | None:
    """Seconds since the start of a job that does not sleep; None before it."""
    started = str(s.status.get("startTime") or "")
    asleep = job.run_policy.suspend or any(
        c.type == "Suspended" and c.status == "True" for c in s.conditions
    )
    return None if asleep or not started else (s.now - parse_time(started)).total_seconds()


def _withheld(s: AnySnapshot) -> bool:
    launcher = s.launched.job
    return launcher is None or (launcher.suspended and not launcher.end)


def _why(s: AnySnapshot, slots: Sequence[PodSlot]) -> str:
    return stalled_words(s, (*s.pods, *s.launched.pods)) or _ready(s, slots)


def _ready(s: AnySnapshot, slots: Sequence[PodSlot]) -> str:
    late = [slot.name for slot in slots if not ready([slot], s.pods)]
    named = ", ".join(late[:NAMED]) + (f" and {len(late) - NAMED} more" if late[NAMED:] else "")
    text = f"{len(slots) - len(late)} of {len(slots)} workers are ready"
    return f"{text}, not {named}" if late else text
