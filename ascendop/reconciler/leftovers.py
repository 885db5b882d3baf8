# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""When to tell that children of an earlier job of the same name are still in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ascendop.apply.plan import Done
from ascendop.apply.refusals import CHILD_CONFLICT
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.times import parse_time

PATIENCE_S: Final = 120.0
"""The garbage collector takes seconds; what is still there then, somebody has to look at."""


def told_in_time(done: Done, s: AnySnapshot) -> Done:
    """The same, but what the collector should have taken long ago counts as a conflict.

    The job's age stands for the wait: it needs no memory, and a job is not made again and again.
    """
    if not any(failure.leftover for failure in done.failures) or _age_s(s) < PATIENCE_S:
        return done
    told = (
        replace(failure, waits=False, reason=CHILD_CONFLICT) if failure.leftover else failure
        for failure in done.failures
    )
    return replace(done, failures=tuple(told))


def _age_s(s: AnySnapshot) -> float:
    return (s.now - parse_time(s.row.created)).total_seconds() if s.row.created else 0.0
