# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which generation a job's pods belong to, as the job itself says, and the write that says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ascendop.api.kind import JobView, S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import Patch, Step
from ascendop.builder import labels as keys
from ascendop.kube.resource import Resource
from ascendop.reconciler.attempts import (
    Attempts,
    after_switches,
    next_attempts,
    read_attempts,
)
from ascendop.reconciler.hotswitch import HotSwitch
from ascendop.reconciler.pods import slots
from ascendop.reconciler.snapshot import Snapshot


def stored_attempts(s: Snapshot[S], pods: Iterable[PodView]) -> Attempts:
    """What the job says; without that, what its pods do."""
    return read_attempts(_annotation(s), pods)


def attempt_step(s: Snapshot[S], job: Resource, attempts: Attempts) -> Step:
    """The write of the generation, if it says something new. It comes before what it tells of.

    `job` is the resource that the job is of.
    """
    text, stored = attempts.text(), _annotation(s)
    if not s.kind.attempts or text == stored or (not stored and attempts == Attempts()):
        return Step("attempt", ())
    body: Object = {"metadata": {"annotations": {keys.ATTEMPT_ANNOTATION: text}}}
    return Step("attempt", (Patch(job, s.row.name, s.row.uid, s.row.version, body),))


def generation(s: Snapshot[S], job: JobView[S], switch: HotSwitch) -> tuple[Attempts, bool]:
    """The generation that stands after these pods, and whether pods of a scale-down still end.

    A pod that a scale-down took away is not lost: it ends before its slot counts again.
    """
    stored = stored_attempts(s, switch.pods)
    had, fresh = _by_age(s, job, stored)
    leaving = any(pod.deleting and switch.slot(pod) in fresh for pod in switch.pods)
    if leaving or not s.kind.attempts:
        return stored, leaving
    started = bool(s.status.get("startTime"))
    if started and switch.going_on:
        took_over = switch.took_over  # a backup stays a member under its own name until it is none
        stored = after_switches(
            stored,
            gone=took_over | switch.failed,
            made=[wanted.name for wanted in switch.wanted],
            renamed={name: slot for name, slot in switch.renamed.items() if slot not in took_over},
        )
    found = next_attempts(
        stored,
        had,
        (switch.slot(pod) for pod in switch.pods),
        started=started,
        fresh=fresh,
        ending=(switch.slot(pod) for pod in switch.pods if pod.deleting),
    )
    if s.world.gang or not (started and found.made):
        return found, False
    counts = {role.lower(): replica.count for role, replica in job.replicas.items()}
    return replace(found, known=counts), False


def _by_age(
    s: Snapshot[S], job: JobView[S], stored: Attempts
) -> tuple[Sequence[str], Sequence[str]]:
    """Names of the pods that the job has had before, and of those that are new in it."""
    known = _known(s, stored) if s.kind.attempts else {}
    had: list[str] = []
    fresh: list[str] = []
    for slot in slots(s.kind, job):
        is_known = slot.index < known.get(slot.role.lower(), slot.index + 1)
        (had if is_known else fresh).append(slot.name)
    return had, fresh


def _known(s: Snapshot[S], stored: Attempts) -> Mapping[str, int]:
    """How many pods of each role the job has had, where that is written down."""
    if s.group is not None:
        return s.group.members
    return stored.known or {}


def _annotation(s: Snapshot[S]) -> str:
    return next((v for key, v in s.row.annotations if key == keys.ATTEMPT_ANNOTATION), "")
