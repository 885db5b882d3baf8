# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is told of the things that were done: Events, on change only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from ascendop.api.job import Counts
from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import Apply, Create, Delete, Done, EventNote, Failure, Patch, Write
from ascendop.builder.npus import pod_npus
from ascendop.builder.pod import GANG_SCHEDULER
from ascendop.kube.resource import POD_GROUPS, PODS, SERVICES


def write_notes(kind: JobKind[S], job: str, done: Done) -> Iterator[EventNote]:
    """Events for what was made, deleted, and refused."""
    for written in done.written:
        yield from _written(kind, job, written.write, written.uid)
    for failure in done.failures:
        yield from _failed(failure)


def _written(kind: JobKind[S], job: str, write: Write, uid: str) -> Iterator[EventNote]:
    match write:
        case Create(resource=resource) if resource == PODS:
            note = f"Created pod: {write.name}"
            yield EventNote("Normal", "SuccessfulCreatePod", note, "Create", write.name, uid)
        case Create(resource=resource) if resource == SERVICES and kind.words.service_events:
            note = f"Created service: {write.name}"
            yield EventNote("Normal", "SuccessfulCreateService", note, "Create", pod=write.name)
        case Delete(told=False):
            return
        case Delete(resource=resource, name=name) if resource == PODS:
            note = f"Deleted pod: {name}"
            yield EventNote("Normal", "SuccessfulDeletePod", note, "Delete", name, write.uid)
        case Delete(resource=resource, name=name) if resource == SERVICES:
            note = f"Deleted service: {name}"
            yield EventNote("Normal", "SuccessfulDeleteService", note, "Delete", name)
        case Delete(resource=resource) if resource == POD_GROUPS:
            ended = "Job has been terminated. Deleting PodGroup"
            yield EventNote("Normal", "JobTerminated", ended, "Delete")
            note = f"Deleted PodGroup: {job}"
            yield EventNote("Normal", "SuccessfulDeletePodGroup", note, "Delete")
        case Delete(resource=resource) if resource.kind == kind.kind:
            note = f"Deleted job: {job}"
            yield EventNote("Normal", "SuccessfulDeleteJob", note, "Delete", outcome=True)
        case _:
            return


def _failed(failure: Failure) -> Iterator[EventNote]:
    if failure.waits:
        return
    match failure.write:
        case Create(resource=resource) | Apply(resource=resource):
            reason = failure.reason or f"FailedCreate{resource.kind}"
            name = failure.write.name
            note = f"Error creating: {failure.message}"
            yield EventNote("Warning", reason, note, "Create", pod=name)
        case Delete(resource=resource, name=name):
            note = f"Error deleting: {failure.message}"
            yield EventNote("Warning", f"FailedDelete{resource.kind}", note, "Delete", pod=name)
        case Patch(resource=resource, name=name) if resource == PODS:
            note = f"Error updating pod {name}: {failure.message}"
            yield EventNote("Warning", "FailedUpdatePod", note, "Update", pod=name)
        case Patch():
            note = f"Error writing down the attempt, so no pod is made: {failure.message}"
            yield EventNote("Warning", "FailedUpdateJob", note, "Update")


def exit_notes(
    kind: JobKind[S],
    job: JobView[S],
    pods: Sequence[PodView],
    before: Object,
    counts: Mapping[str, Counts],
) -> Iterator[EventNote]:
    """ExitedWithCode for the pods of a role of which more have ended than the status says."""
    stored = before.get("replicaStatuses") or {}
    by_lower = {role.lower(): role for role in job.replicas}
    for pod in pods:
        main = pod.container(kind.container)
        role = by_lower.get(pod.role, "")
        if main is None or main.state != "terminated" or role not in counts:
            continue
        old = stored.get(role) or {}
        ended = counts[role].succeeded + counts[role].failed
        if ended > int(old.get("succeeded") or 0) + int(old.get("failed") or 0):
            note = f"Pod: {job.namespace}.{pod.name} exited with code {main.exit_code}"
            yield EventNote("Normal", "ExitedWithCode", note, "Observe", pod.name, pod.uid)


def template_notes(kind: JobKind[S], job: JobView[S], *, gang: bool) -> Iterator[EventNote]:
    """Warnings about what the user set in a template and the contract overrides or honours."""
    specs = [replica.pod_spec for replica in job.replicas.values()]
    if any(spec.get("restartPolicy") for spec in specs):
        note = (
            "Restart policy in pod template will be overwritten by restart policy in replica spec"
        )
        yield EventNote("Warning", kind.words.restart_policy_event, note, "Validate")
    if not gang:
        return
    if _may_lock(job):
        note = (
            "two roles that ask for NPUs have different nodeSelector or nodeAffinity, and some "
            "nodes fit both: after a fault one may take the only node of the other, and the gang "
            "never starts again; give all roles the same, or selectors that no node fits both of"
        )
        yield EventNote("Warning", "NodeSelectorsDiffer", note, "Validate")
    kept = "is specified when gang-scheduling is enabled and it will not be overwritten"
    named = kind.scheduler(job)
    if named and named != GANG_SCHEDULER:
        reason = kind.words.job_scheduler_event
        yield EventNote("Warning", reason, f"Another job scheduler {kept}", "Validate")
    if any(spec.get("schedulerName") not in {None, "", GANG_SCHEDULER} for spec in specs):
        reason = kind.words.pod_scheduler_event
        yield EventNote("Warning", reason, f"Another scheduler {kept}", "Validate")


def _may_lock(job: JobView[S]) -> bool:
    """Whether two roles compete for some nodes, and one of them cannot do with the others."""
    specs = [r.pod_spec for r in job.replicas.values() if r.count and pod_npus(r.pod_spec)]
    return any(_overlap(one, other) for one, other in combinations(specs, 2))


def _overlap(one: Object, other: Object) -> bool:
    """Whether two templates choose different nodes, and some node could be chosen by both."""
    found = [_object(spec, "nodeSelector") for spec in (one, other)]
    rules = [_object(_object(spec, "affinity"), "nodeAffinity") for spec in (one, other)]
    apart = any(found[1].get(key, value) != value for key, value in found[0].items())
    return not apart and (found[0] != found[1] or rules[0] != rules[1])


def _object(found: Object, key: str) -> Object:
    """An object inside; empty where a template holds something else, which the server refuses."""
    inner = found.get(key)
    return inner if isinstance(inner, dict) else {}
