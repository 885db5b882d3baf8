# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is particular to an AscendJob: frameworks, chips, sizes, ranks.

Source: ascendjob.md sections 0.3, 1.3, 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ascendop.api.job import ReplicaSpec
from ascendop.api.kind import JobView, PodSlot, S
from ascendop.builder import labels as keys
from ascendop.builder.names import pod_name
from ascendop.builder.npus import npu_request
from ascendop.builder.superpod import super_pod_block

CONTAINER: Final = "ascend"
PORT_NAME: Final = "ascendjob-port"
PORT: Final = 2222
LEADERS: Final = {"pytorch": "Master", "mindspore": "Scheduler", "tensorflow": "Chief"}
"""Leader role by the label `framework`."""
WORKER: Final = "Worker"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many processes there are, on a node and in all."""

    local: int
    world: int

    @property
    def local_ranks(self) -> str:
        return ",".join(str(rank) for rank in range(self.local))


def chips(replica: ReplicaSpec | None) -> tuple[str, int]:
    """Resource name and number of NPUs that the main container of one pod asks for."""
    container = replica.container(CONTAINER) if replica else None
    found = npu_request(container) if container else None
    return (found.name, found.count) if found else ("", 0)


def leader_role(replicas: Mapping[str, ReplicaSpec]) -> str:
    """The role that is not Worker; empty for a MindSpore job of Workers alone."""
    return next((role for role in replicas if role != WORKER), "")


def leader_has_chips(replicas: Mapping[str, ReplicaSpec]) -> bool:
    return chips(replicas.get(leader_role(replicas)))[1] > 0


def chips_per_pod(replicas: Mapping[str, ReplicaSpec], role: str) -> tuple[str, int]:
    """Resource and number behind the sizes: the pod's own if the leader trains, else a Worker's."""
    if leader_has_chips(replicas):
        return chips(replicas.get(role))
    return chips(replicas.get(WORKER))


def npu_pods(replicas: Mapping[str, ReplicaSpec]) -> int:
    """Pods that take part in the collective."""
    if leader_has_chips(replicas):
        return sum(replica.count for replica in replicas.values())
    worker = replicas.get(WORKER)
    return worker.count if worker else 0


def rank(job: JobView[S], role: str, index: int) -> int:
    """Rank of a pod in the rank table: Workers follow a leader that has chips."""
    if role != WORKER:
        return index
    return index + job.once(rank, lambda: int(leader_has_chips(job.replicas)))


def node_rank(job: JobView[S], slot: PodSlot) -> int:
    """Rank of a node for frameworks whose leader is a node of its own, with chips or without.

    The original gives a CPU-only Master and the first Worker the same rank (W-24).
    """
    return slot.index + 1 if slot.role == WORKER and leader_role(job.replicas) else slot.index


def is_soft_share(labels: Mapping[str, str]) -> bool:
    return all(key in labels for key in keys.SOFT_SHARE)


def is_inference(labels: Mapping[str, str]) -> bool:
    return keys.INFERENCE_JOB in labels and keys.INFERENCE_APP in labels


def sizes(job: JobView[S], role: str) -> Sizes | None:
    """Local and world size; None where the device plugin writes them itself (dynamic cutting)."""
    return job.once((sizes, role), lambda: _sizes(job, role))


def _sizes(job: JobView[S], role: str) -> Sizes | None:
    resource, count = chips_per_pod(job.replicas, role)
    if is_soft_share(job.labels):
        return Sizes(1, npu_pods(job.replicas))
    if resource == keys.NPU_CORE:
        return None
    return Sizes(count, _chips_in_all(job.replicas))


def _chips_in_all(replicas: Mapping[str, ReplicaSpec]) -> int:
    """Those of every pod that takes part: what every pod is told, whatever its own share.

    The original multiplies one role's chips by the number of pods (W-23), so that pods of
    unequal roles would wait for ranks that are not there.
    """
    # A leader without chips adds none.
    return sum(replica.count * chips(replica)[1] for replica in replicas.values())


def block(job: JobView[S]) -> int:
    """Chips per logical super-pod; 0 when the job has none."""
    templates = (replica.template for replica in job.replicas.values())
    return job.once(block, lambda: super_pod_block(job.annotations, list(templates)))


def leader_service(job: JobView[S]) -> str:
    """Name of the one Service of the job; empty for a job of Workers alone."""
    role = leader_role(job.replicas)
    return pod_name(job.name, role, 0) if role else ""


def leader_port(job: JobView[S]) -> str:
    """Number of the leader's port of the contract's name."""
    replica = job.replicas.get(leader_role(job.replicas))
    container = replica.container(CONTAINER) if replica else None
    for port in (container or {}).get("ports") or ():
        if port.get("name") == PORT_NAME:
            return str(port.get("containerPort"))
    return str(PORT)
