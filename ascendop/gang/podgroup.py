# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The PodGroup of a job, for Volcano: how many pods at least, and what must be free for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ascendop.api.job import SchedulingPolicy
from ascendop.api.model import Object
from ascendop.builder.labels import NEVER_COPIED, PREFIX, TASK_SPEC
from ascendop.gang.resources import amounts, countable, pod_request, total
from ascendop.kube.resource import POD_GROUPS

ROLE_ORDER: Final = (
    "Launcher", "Master", "Chief", "Scheduler", "PS", "Worker", "Evaluator",
)  # fmt: skip
"""Who is counted first among templates of one priority."""


@dataclass(frozen=True, slots=True)
class GangRole:
    """The pods of one role."""

    name: str
    replicas: int
    template: Object
    leader: bool = False
    delayed: bool = False
    """Made only when others are ready, so the gang cannot wait for them."""

    @property
    def pod_spec(self) -> Object:
        spec = self.template.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def priority_class(self) -> str:
        return str(self.pod_spec.get("priorityClassName") or "")

    @property
    def task(self) -> str:
        """What Volcano calls the role: the user's own name for it, else ours."""
        metadata = self.template.get("metadata") or {}
        for keys in (metadata.get("annotations"), metadata.get("labels")):
            if isinstance(keys, dict) and keys.get(TASK_SPEC):
                return str(keys[TASK_SPEC])
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class GangSpec:
    """What a PodGroup is made of."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    """Of the job; empty for kinds that do not copy them."""
    annotations: Mapping[str, str]
    """Of the job."""
    owner: Object
    """The one owner reference. Its `controller` is not optional: the Ascend plug-in of Volcano
    dereferences it for every reference, and without it the scheduler crashes."""
    roles: Sequence[GangRole]
    policy: SchedulingPolicy | None = None
    task_members: bool = False
    """Write minTaskMember, as AscendJob's operator does."""
    extra_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Pods that must be placed together.

        Never 0: the scheduler would call the PodGroup completed in its first cycle, and pods of a
        completed group are not scheduled.
        Source:  scheduling.md SCH-65.
        """
        asked = self.policy.min_available if self.policy else None
        return max(1, sum(role.replicas for role in self.first_roles) if asked is None else asked)

    @property
    def first_roles(self) -> tuple[GangRole, ...]:
        """Roles that the gang counts: not those that wait for it, unless the user counted."""
        counted = self.policy is not None and self.policy.min_available is not None
        return tuple(role for role in self.roles if counted or not role.delayed)


def build_pod_group(gang: GangSpec, priorities: Mapping[str, int]) -> Object:
    """The fields of the PodGroup that are ours, for server-side apply; never a status.

    priorities:  value by name of PriorityClass.
    Raises:      QuantityError, when a template asks for an amount that cannot be read.
    Source:      ascendjob.md 4.4, scheduling.md 6.6.
    """
    metadata = {
        "name": gang.name,
        "namespace": gang.namespace,
        "labels": _labels(gang.labels) | dict(gang.extra_labels),
        "annotations": copied(gang.annotations),
        "ownerReferences": [gang.owner],
    }
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": _spec(gang, priorities),
    }


def copied(keys: Mapping[str, str]) -> dict[str, str]:
    """Annotations of the job that concern its gang, sorted."""
    return {key: keys[key] for key in sorted(keys) if not key.startswith(NEVER_COPIED)}


def _labels(keys: Mapping[str, str]) -> dict[str, str]:
    """All labels but ours, Kueue's too: so it was recorded (ascendjob/32), against SCH-72."""
    return {key: keys[key] for key in sorted(keys) if not key.startswith(PREFIX)}


def _spec(gang: GangSpec, priorities: Mapping[str, int]) -> Object:
    policy = gang.policy or SchedulingPolicy()
    spec: Object = {"minMember": gang.size}
    if gang.task_members:
        spec["minTaskMember"] = _task_members(gang.roles)
    if policy.queue:
        spec["queue"] = policy.queue
    if policy.priority_class:
        spec["priorityClassName"] = policy.priority_class
    resources = min_resources(gang, priorities)
    if resources is not None:
        spec["minResources"] = resources
    return spec


def min_resources(gang: GangSpec, priorities: Mapping[str, int]) -> dict[str, str] | None:
    """What must be free before the gang is admitted; None to be admitted without a check.

    None and an empty map differ: with the map the queue has at least to be open. So what the
    user wrote stands, even an empty map, and what we compute is never empty.
    Source:  scheduling.md SCH-67 to SCH-69.
    """
    if gang.policy is not None and gang.policy.min_resources is not None:
        return countable(amounts(gang.policy.min_resources))
    parts = []
    left = gang.size
    for role in in_order(gang.first_roles, priorities):
        count = min(left, role.replicas)
        parts.append({name: each * count for name, each in pod_request(role.pod_spec).items()})
        left -= count
    return countable({name: each for name, each in total(parts).items() if each}) or None


def in_order(roles: Sequence[GangRole], priorities: Mapping[str, int]) -> list[GangRole]:
    """The most important first; total, so that no order of a map shows through."""

    def rank(role: GangRole) -> tuple[int, int, str]:
        known = ROLE_ORDER.index(role.name) if role.name in ROLE_ORDER else len(ROLE_ORDER)
        return -priorities.get(role.priority_class, 0), known, role.name

    return sorted(roles, key=rank)


def _task_members(roles: Sequence[GangRole]) -> dict[str, int]:
    found: dict[str, int] = {}
    for role in roles:
        found[role.task] = found.get(role.task, 0) + role.replicas
    return dict(sorted(found.items()))
