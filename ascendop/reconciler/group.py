# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The PodGroup that a job should have, and what is odd about it."""

from __future__ import annotations

from collections.abc import Iterator

from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.model import Object
from ascendop.apply.plan import EventNote
from ascendop.builder.pod import GANG_SCHEDULER, pod_group_of, scheduler_of
from ascendop.errors import Problem
from ascendop.gang.advice import gang_advice, mixed_npus
from ascendop.gang.podgroup import GangRole, GangSpec, build_pod_group
from ascendop.reconciler.snapshot import Snapshot
from ascendop.times import parse_time


def wanted_group(s: Snapshot[S], job: JobView[S]) -> Object:
    """Our fields of the PodGroup, for server-side apply. Not to be changed: passes share it."""
    priorities = s.world.priorities
    what = "group", tuple(sorted(priorities.items()))
    return job.once(what, lambda: build_pod_group(_gang(s.kind, job), priorities))


def unfit(s: Snapshot[S], job: JobView[S]) -> Problem | None:
    """Why the job can be no gang. Never held against one that was taken up already."""
    taken_up = s.group is not None or s.pods
    return None if taken_up or not s.world.gang else mixed_npus(_gang(s.kind, job))


def group_notes(s: Snapshot[S], job: JobView[S]) -> Iterator[EventNote]:
    """Warnings for whoever wonders later why the gang does not start, or not first."""
    known = s.world.priorities if s.world.priorities_known else None
    for problem in gang_advice(_gang(s.kind, job), known):
        yield EventNote("Warning", problem.reason, str(problem), "Validate")


def unheeded_s(s: Snapshot[S], job: JobView[S]) -> float | None:
    """How long the PodGroup has been there, if no pod is Volcano's to place; else None."""
    if s.group is None or not s.group.created:
        return None
    asked = (scheduler_of(s.kind, job, replica) for replica in job.replicas.values())
    if any(name == GANG_SCHEDULER for name in asked):
        return None
    return (s.now - parse_time(s.group.created)).total_seconds()


def unheeded_notes(s: Snapshot[S], job: JobView[S]) -> Iterator[EventNote]:
    """A warning for whoever believes that the pods that are made now start as a gang."""
    if s.group is None or s.group.phase or unheeded_s(s, job) is None:
        return
    names = {scheduler_of(s.kind, job, replica) for replica in job.replicas.values()}
    text = (
        f"PodGroup {s.group.namespace}/{s.group.name} got no phase: its pods are left to scheduler "
        f"{', '.join(sorted(names))}, which may start them one by one; name {GANG_SCHEDULER}, or "
        "turn gang scheduling off"
    )
    yield EventNote("Warning", "PodGroupUnheeded", text, "Create")


def _gang(kind: JobKind[S], job: JobView[S]) -> GangSpec:
    style = kind.gang
    leaders = {role.name for role in kind.roles(job.labels) if role.leader}
    return GangSpec(
        namespace=job.namespace,
        name=pod_group_of(kind, job),
        labels=job.labels if style.copies_labels else {},
        annotations=job.annotations,
        owner=job.owner,
        roles=tuple(
            GangRole(role, replica.count, replica.template, leader=role in leaders)
            for role, replica in job.replicas.items()
        ),
        policy=job.run_policy.scheduling_policy,
        task_members=style.task_members,
        extra_labels=style.extra_labels(job.annotations),
    )
