# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job that cannot run as written: one condition and its Events say why, and nothing is made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ascendop.api.kind import JobView, S
from ascendop.apply.plan import Conclusion, Done, EventNote, Plan
from ascendop.errors import InvalidJobError, Problem
from ascendop.reconciler.lives import created_words
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import put_condition, with_conditions

_SILENT = {"InvalidScaleOutConfig"}  # the contract has no Event for it
_OURS = {"InvalidSpec", "InvalidSpecs"}  # the contract has no words, so the path comes first


def refuse(s: Snapshot[S], error: InvalidJobError) -> Plan:
    """Failed, with every mistake named. A job whose pods run is told, not killed, by an edit."""

    def conclude(_done: Done) -> Conclusion:
        first = error.problems[0]
        told = first.reason not in _SILENT or len(error.problems) > 1
        text = _text(error.problems)
        note = EventNote("Warning", first.reason, text, "Validate", outcome=True)
        events = (note,) if told else ()
        if s.pods:
            return Conclusion(s.status, events)
        before = s.conditions or put_condition((), "Created", *created_words(s), s.now)
        message = text if len(error.problems) > 1 else f"{first.reason}: {text}"
        after = put_condition(before, "Failed", s.kind.words.invalid, message, s.now)
        return Conclusion(with_conditions(s.status, after), events)

    return Plan(conclude)


class _RunPolicy(msgspec.Struct, rename="camel"):
    managed_by: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    run_policy: _RunPolicy | None = None


def managed_by(s: Snapshot[S]) -> str | None:
    """Whose the job is by its own word, which counts even where the rest of it cannot be read."""
    if isinstance(s.job, JobView):
        return s.job.run_policy.managed_by
    try:
        spec = msgspec.json.decode(s.row.spec or b"{}", type=_Spec)
    except msgspec.ValidationError:
        return None
    return spec.run_policy.managed_by if spec.run_policy else None


def unknown_queue(s: Snapshot[S], job: JobView[S]) -> Problem | None:
    """The queue that the policy names does not exist.

    Not:  held against a job that was taken up already, and has a PodGroup or pods: a queue that
          goes later is a reason to wait.
    Source:  ascendjob.md 2, W-4.
    """
    policy = job.run_policy.scheduling_policy
    named = (policy.queue if policy else None) or ""
    mistake = s.kind.words.unknown_queue
    missing = named and s.world.queues_known and s.world.queue is None
    if mistake is None or not missing or not s.world.gang or s.pods or s.group:
        return None
    return mistake(named)


def _text(problems: Sequence[Problem]) -> str:
    """One mistake in the words of the contract, if it has any; several with reasons and paths."""
    if len(problems) == 1:
        (only,) = problems
        return str(only) if only.reason in _OURS else f"{only.what}{_fix(only)}"
    found = (f"{p.reason}: {p.path}: {p.what}{_fix(p)}" for p in problems)
    return f"{len(problems)} mistakes: " + "; ".join(found)


def _fix(problem: Problem) -> str:
    return f"; {problem.fix}" if problem.fix else ""
