# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The life of a job as an ordered table of named rules: first match wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ascendop.api.job import Counts


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules may look at."""

    kind: str
    namespace: str
    job: str
    counts: Mapping[str, Counts]
    """Pods by role, in rank order."""
    wanted: Mapping[str, int]
    """Replicas by role."""
    policies: Mapping[str, str]
    """Restart policy by role."""
    conditions: tuple[str, ...]
    """Types of the conditions that are true."""
    restarting: tuple[str, ...]
    """Roles of which failed pods are being replaced in this very pass."""
    beyond_repair: tuple[str, ...]
    """Roles under ExitCode of which a pod has failed with a code that forbids another try."""
    attempt: int
    attempt_limit: int
    gang: bool
    retries_left: int | None
    """What the NPU scheduler plug-in has left of fault-retry-times; None when it says nothing."""
    retry_wanted: bool
    """The job asks for unconditional retries."""
    overdue: bool
    """activeDeadlineSeconds have passed."""
    unanswered: bool = False
    """A failed pod may yet be tried again: the plug-in still has time to say so."""
    elastic: bool = False
    """One worker's success is the job's."""

    def sum(self, what: Literal["active", "succeeded", "failed"]) -> int:
        return sum(getattr(counts, what) for counts in self.counts.values())

    @property
    def total(self) -> int:
        return sum(self.wanted.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the job is now, and the sentence that says why."""

    type: Literal["Running", "Restarting", "Succeeded", "Failed"]
    reason: str
    message: str
    events: tuple[tuple[Literal["Normal", "Warning"], str], ...] = field(default=(("Normal", ""),))
    """Type and reason of the Events that tell it; an empty reason is the verdict's own."""

    @property
    def final(self) -> bool:
        return self.type in {"Succeeded", "Failed"}


Rule = Callable[[Facts], Verdict | None]


def decide_life(rules: tuple[Rule, ...], facts: Facts) -> Verdict | None:
    """The first rule that has something to say; None while the job only waits."""
    return next((verdict for rule in rules if (verdict := rule(facts)) is not None), None)
