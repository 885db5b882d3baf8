# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What tells Deployments, StatefulSets and Volcano Jobs apart: templates, and how pods are found.

Source: ascendjob.md 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ascendop.api.job import ReplicaSpec
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.builder.labels import DEPLOY_NAME, VOLCANO_JOB_NAME
from ascendop.kube.resource import DEPLOYMENTS, STATEFUL_SETS, VOLCANO_JOBS, Resource


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One kind of workload."""

    resource: Resource
    pod_label: str
    """On each of its pods, with its name: what the pods are found by."""
    roles: Callable[[Object], tuple[ReplicaSpec, ...]]
    """Templates and how many pods of each, from a spec."""
    template_annotations: bool
    """Whether annotations of the template win over those of the object."""
    owner_is_set: bool = False
    """Its pods belong to a ReplicaSet of its own, not to itself."""
    ended_pods_stay: bool = False
    """A pod that has ended still is one of it: nobody makes another one in its place."""

    @property
    def name(self) -> str:
        """As keys, messages and metrics name the kind: a Job alone could be Kubernetes' own."""
        return "VolcanoJob" if self.resource == VOLCANO_JOBS else self.resource.kind

    def has(self, pod: PodView, name: str, uid: str) -> bool:
        """Whether a pod with the right label is one of this workload.

        A label may be put on any pod. So a pod that has a controller counts only if that is the
        workload, or a ReplicaSet with its name and a hash; of one without, the label is all that
        there is to say whose it is.
        """
        if not pod.owner_uid:
            return True
        if self.owner_is_set:
            return pod.owner_kind == "ReplicaSet" and pod.owner_name.rpartition("-")[0] == name
        return pod.owner_uid == uid


def _one_template(spec: Object) -> tuple[ReplicaSpec, ...]:
    return (ReplicaSpec(replicas=spec.get("replicas"), template=spec.get("template") or {}),)


def _tasks(spec: Object) -> tuple[ReplicaSpec, ...]:
    return tuple(
        ReplicaSpec(replicas=task.get("replicas") or 0, template=task.get("template") or {})
        for task in spec.get("tasks") or ()
    )


DEPLOYMENT: Final = WorkloadKind(
    DEPLOYMENTS, DEPLOY_NAME, _one_template, template_annotations=True, owner_is_set=True
)
STATEFUL_SET: Final = WorkloadKind(
    STATEFUL_SETS, DEPLOY_NAME, _one_template, template_annotations=True
)
VOLCANO_JOB: Final = WorkloadKind(
    VOLCANO_JOBS, VOLCANO_JOB_NAME, _tasks, template_annotations=False, ended_pods_stay=True
)
WORKLOADS: Final[Mapping[str, WorkloadKind]] = {
    kind.name: kind for kind in (DEPLOYMENT, STATEFUL_SET, VOLCANO_JOB)
}
"""By name. Of several workloads of one name the first has the rank table of that name."""
