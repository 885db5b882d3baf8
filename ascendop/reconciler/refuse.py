# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job that cannot run as written: one condition and its Events say why, and nothing is made."""

from __future__ import annotations

from collections.abc import Sequence

from ascendop.api.kind import JobView, S
from ascendop.apply.plan import Conclusion, Done, EventNote, Plan
from ascendop.errors import InvalidJobError, Problem
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import put_condition, with_conditions

_SILENT = {"InvalidScaleOutConfig"}  # the contract has no Event for it


def refuse(s: Snapshot[S], error: InvalidJobError) -> Plan:
    """Failed, with every mistake named. A job whose pods run is told, not killed, by an edit."""

    def conclude(_done: Done) -> Conclusion:
        events = tuple(
            EventNote(
                "Warning", problem.reason, _text(problem, error.problems), "Validate", outcome=True
            )
            for problem in error.problems
            if problem.reason not in _SILENT
        )
        if s.pods:
            return Conclusion(s.status, events)
        words = s.kind.words
        reason, text = words.created
        text = text.format(kind=s.kind.kind, namespace=s.row.namespace, job=s.row.name)
        before = s.conditions or put_condition((), "Created", reason, text, s.now)
        after = put_condition(before, "Failed", words.invalid, _message(error.problems), s.now)
        return Conclusion(with_conditions(s.status, after), events)

    return Plan(conclude)


def unknown_queue(s: Snapshot[S], job: JobView[S]) -> Problem | None:
    """The queue that the policy names does not exist. Never held against a job that has pods."""
    policy = job.run_policy.scheduling_policy
    named = (policy.queue if policy else None) or ""
    mistake = s.kind.words.unknown_queue
    missing = named and s.world.queues_known and s.world.queue is None
    if mistake is None or not missing or not s.world.gang or s.pods:
        return None
    return mistake(named)


def _message(problems: Sequence[Problem]) -> str:
    """One mistake in the words of the contract; several with their paths."""
    if len(problems) == 1:
        return f"{problems[0].reason}: {problems[0].what}{_fix(problems[0])}"
    found = (f"{p.reason}: {p.path}: {p.what}{_fix(p)}" for p in problems)
    return f"{len(problems)} mistakes: " + "; ".join(found)


def _text(problem: Problem, problems: Sequence[Problem]) -> str:
    path = f"{problem.path}: " if len(problems) > 1 else ""
    return f"{path}{problem.what}{_fix(problem)}"


def _fix(problem: Problem) -> str:
    return f"; {problem.fix}" if problem.fix else ""
