# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How the job stands: conditions by their algebra, counters, times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Literal

from ascendop.api.job import Condition, Counts
from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.times import rfc3339

Conditions = tuple[Condition, ...]


def put_condition(
    before: Conditions,
    type_: str,
    reason: str,
    message: str,
    now: datetime,
    status: Literal["True", "False"] = "True",
) -> Conditions:
    """The list after one condition was put; the list itself when that changes nothing.

    Order is part of the contract: the last element is what kubectl prints as State.
    Source:  ascendjob.md 1.7, kubeflow-v1-jobs.md 2.2: both descend from kubeflow/common.
    """
    if any(c.type == "Failed" and c.status == "True" for c in before):
        return before
    old = next((c for c in before if c.type == type_), None)
    if old is not None and (old.status, old.reason) == (status, reason):
        return before
    moment = rfc3339(now)
    since = old.last_transition_time if old and old.status == status else moment
    new = Condition(type_, status, reason, message, moment, since)
    opposite = {"Restarting": "Running", "Running": "Restarting"}.get(type_)
    kept = (c for c in before if c.type not in {type_, opposite})
    if type_ in {"Succeeded", "Failed"}:
        kept = (_no_longer_running(c) for c in kept)
    return (*kept, new)


def with_state_last(conditions: Conditions, state: str) -> Conditions:
    """Created goes back to its place, once what it told of is over: the last one is the State."""
    if not conditions or conditions[-1].type != "Created":
        return conditions
    if not any(c.type == state and c.status == "True" for c in conditions):
        return conditions
    return (conditions[-1], *conditions[:-1])


def with_message(conditions: Conditions, type_: str, message: str, now: datetime) -> Conditions:
    """The list with this sentence in a condition that stands there for the same reason.

    The algebra keeps the first one, which is wrong by now: somebody reads it to know what to do.
    """
    return tuple(
        replace(c, message=message, last_update_time=rfc3339(now))
        if c.type == type_ and c.message != message
        else c
        for c in conditions
    )


def with_truth_last(conditions: Conditions) -> Conditions:
    """The newest condition that holds goes to the end, where one that is over stands: the State.

    Source:  kubeflow-v1-jobs.md W-14, field-reports.md FR-002.
    """
    true = [c for c in conditions if c.status == "True"]
    if not true or conditions[-1].status == "True":
        return conditions
    return (*(c for c in conditions if c is not true[-1]), true[-1])


def _no_longer_running(c: Condition) -> Condition:
    """The end leaves Running in its place, as a fact of the past; its times are not touched."""
    if c.type != "Running":
        return c
    return Condition(
        c.type, "False", c.reason, c.message, c.last_update_time, c.last_transition_time
    )


def count_pods(kind: JobKind[S], job: JobView[S], pods: Iterable[PodView]) -> Mapping[str, Counts]:
    """Pods of each role by what has become of them; one pod per slot, surplus ones not at all."""
    found = dict.fromkeys(job.replicas, Counts())
    by_lower = {role.lower(): role for role in job.replicas}
    for pod in pods:
        role = by_lower.get(pod.role)
        if role is None or not 0 <= pod.index < job.replicas[role].count:
            continue
        what = _counted_as(pod, terminating_runs=kind.counts_terminating)
        if what:
            old = found[role]
            found[role] = Counts(
                old.active + (what == "active"),
                old.succeeded + (what == "succeeded"),
                old.failed + (what == "failed"),
            )
    return found


def _counted_as(pod: PodView, *, terminating_runs: bool) -> str:
    if pod.phase == "Running":
        return "active" if terminating_runs or not pod.deleting else "failed"
    if pod.phase == "Failed":
        return "" if terminating_runs and pod.deleting else "failed"
    return "succeeded" if pod.phase == "Succeeded" else ""


def is_final(status: Object) -> bool:
    """Ended stays ended."""
    return _says(status, "Succeeded", "Failed")


def is_suspended(status: Object) -> bool:
    """Its owner, or a queue, has put the job to sleep, and we have said so."""
    return _says(status, "Suspended")


def is_restarting(status: Object) -> bool:
    """Pods have failed and are being replaced, and we have said so."""
    return _says(status, "Restarting")


def _says(status: Object, *types: str) -> bool:
    return any(
        c.get("type") in types and c.get("status") == "True"
        for c in status.get("conditions") or ()
        if isinstance(c, dict)
    )


def with_conditions(status: Object, conditions: Conditions) -> Object:
    """The status with these conditions; replicaStatuses is there as soon as conditions are."""
    return {
        "replicaStatuses": {},
        **status,
        "conditions": [condition.as_object() for condition in conditions],
    }


def with_times(status: Object, now: datetime, *, started: bool, ended: bool) -> Object:
    """Start and completion, each set once."""
    found = dict(status)
    if started and not found.get("startTime"):
        found["startTime"] = rfc3339(now)
    if ended and not found.get("completionTime"):
        found["completionTime"] = rfc3339(now)
    return found


def merge_patch(before: Object, after: Object) -> Object:
    """The RFC 7386 patch that makes one object of the other; empty when there is no difference."""
    patch: Object = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = merge_patch(old, value)
            if inner:
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
