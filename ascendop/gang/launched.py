# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The PodGroup of a job with a launcher: one launcher, and as many workers as have to fit with it.

Source: mpi-operator 0.8.2; mpijob.md 3.6.
"""

from __future__ import annotations

from typing import Final

from ascendop.api.job import ReplicaSpec, SchedulingPolicy
from ascendop.api.kind import JobView, S
from ascendop.api.model import Object
from ascendop.builder.npus import containers, effective_requests
from ascendop.builder.pod import GANG_SCHEDULER
from ascendop.gang.resources import Amounts, amounts, countable, pod_request, total
from ascendop.kube.resource import COSCHEDULING_GROUPS, POD_GROUPS, Resource

QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
"""On a job that names no queue in its scheduling policy."""


def groups_of(scheduler: str) -> Resource:
    """The PodGroups that a scheduler reads: Volcano's, or for any other those of the plug-in."""
    return POD_GROUPS if scheduler in {"", GANG_SCHEDULER} else COSCHEDULING_GROUPS


def launched_group(
    job: JobView[S],
    launcher: str,
    resource: Resource = POD_GROUPS,
    *,
    withheld: bool,
    whole: bool = False,
) -> Object:
    """Our fields of the PodGroup, for server-side apply.

    withheld:  the launcher is not there before its workers are ready, so the gang is not to wait
               for it; what it needs is counted all the same.
    whole:     pods are counted as the scheduler will, and not by their containers alone.
    Raises:    QuantityError, when a template asks for an amount that cannot be read.
    """
    policy = job.run_policy.scheduling_policy or SchedulingPolicy()
    members = job.total if policy.min_available is None else policy.min_available
    served = sum(replica.count for role, replica in job.replicas.items() if role != launcher)
    spec: Object = {"minMember": min(members, served) if withheld and served else members}
    resources = _resources(job, launcher, members, policy, whole=whole)
    if resource == POD_GROUPS:
        queue = policy.queue or job.annotations.get(QUEUE_ANNOTATION)
        priority = policy.priority_class or _priority(job, launcher)
        for key, found in (("queue", queue), ("priorityClassName", priority)):
            if found:
                spec[key] = found
    else:
        spec["scheduleTimeoutSeconds"] = policy.schedule_timeout_seconds or 0
        resources = resources or None  # the plug-in's own CRD does without an empty map
    if resources is not None:
        spec["minResources"] = resources
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "ownerReferences": [job.owner],
        },
        "spec": spec,
    }


def _priority(job: JobView[S], launcher: str) -> str:
    named = {
        role: str(replica.pod_spec.get("priorityClassName") or "")
        for role, replica in job.replicas.items()
    }
    others = (name for role, name in named.items() if role != launcher and name)
    return named.get(launcher) or next(others, "")


def _resources(
    job: JobView[S], launcher: str, members: int, policy: SchedulingPolicy, *, whole: bool
) -> dict[str, str] | None:
    """What the members need: the launcher always once, and so many of the others as are left.

    The original counts the launcher as often as there are members where workers outrank it.
    Source:  mpijob.md W-28.
    """
    if policy.min_resources is not None:
        return countable(amounts(policy.min_resources))
    if members == 0:
        return None
    parts, left = [], members
    for role in sorted(job.replicas, key=lambda role: role != launcher):
        replica = job.replicas[role]
        count = min(left, replica.count)
        left -= count
        parts.append({name: each * count for name, each in _pod(replica, whole).items()})
    return countable(total(parts))


def _pod(replica: ReplicaSpec, whole: bool) -> Amounts:  # noqa: FBT001  said by its caller
    """What its containers ask for: request, or else limit.

    Source:  mpijob.md W-30 of what the original leaves out: the start, side-cars, the overhead.
    """
    if whole:
        return pod_request(replica.pod_spec)
    found = [amounts(effective_requests(c)) for c in containers(replica.pod_spec)]
    return total(found)
