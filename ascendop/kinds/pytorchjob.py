# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""PyTorchJob (kubeflow.org/v1): one Master at most, any number of Workers, torch.distributed env.

Ranks:   the Master is 0 and Workers follow.
Source:  training-operator 1.9.4; kubeflow-v1-jobs.md sections 1 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ascendop.api.job import Counts, ReplicaSpec
from ascendop.api.kind import GangStyle, JobKind, JobView, PodSlot, Role, Site
from ascendop.api.kubeflow import ElasticPolicy, KubeflowRunPolicy
from ascendop.api.model import IntOrString, Model, Object
from ascendop.api.observed import JobRow
from ascendop.builder import labels as keys
from ascendop.builder.env import value
from ascendop.builder.integers import integer
from ascendop.builder.kubeflow import (
    dns_init_container,
    kubeflow_rules,
    kubeflow_words,
    leader_or_workers,
    named_port,
    pod_services,
    replica_selector,
    slot_labels,
)
from ascendop.builder.names import pod_name
from ascendop.builder.rules import name_problems, role_problems
from ascendop.errors import Problem

CONTROLLER = "pytorchjob-controller"
ROLES = (Role("Master", leader=True, most=1, least=1), Role("Worker", least=1))
PORT_NAME = "pytorchjob-port"
PORT = 23456


class PyTorchJobSpec(Model):
    """Desired state of a PyTorchJob."""

    run_policy: KubeflowRunPolicy = Field(default_factory=KubeflowRunPolicy)
    """What the job as a whole may do."""
    pytorch_replica_specs: dict[str, ReplicaSpec] | None = None
    """Pods by role: Master and Worker."""
    nproc_per_node: IntOrString | None = None
    """Processes per pod for torchrun: a number, or auto, cpu, gpu."""
    elastic_policy: ElasticPolicy | None = None
    """How the number of Workers may change while the job runs."""


Job = JobView[PyTorchJobSpec]


def env(job: Job, slot: PodSlot, _site: Site) -> Sequence[Object]:
    processes = "auto" if job.spec.nproc_per_node is None else str(job.spec.nproc_per_node)
    found = [value("PYTHONUNBUFFERED", 1)]
    if "Master" in job.replicas:
        port = named_port(job.replicas["Master"].container("pytorch"), PORT_NAME, PORT)
        address = pod_name(job.name, "Master", 0)
        each = integer(processes)
        world = job.total * (1 if each is None else each)
        found += [
            value("MASTER_PORT", port),
            value("PET_MASTER_PORT", port),
            value("MASTER_ADDR", address),
            value("PET_MASTER_ADDR", address),
            value("WORLD_SIZE", world),
            value("RANK", slot.rank),
            value("PET_NODE_RANK", slot.rank),
        ]
    return [*found, value("PET_NPROC_PER_NODE", processes), value("PET_NNODES", job.total)]


def rank(job: Job, role: str, index: int) -> int:
    return index + 1 if role == "Worker" and "Master" in job.replicas else index


def pod_labels(job: Job, slot: PodSlot, _site: Site) -> Mapping[str, str]:
    found = slot_labels(job, CONTROLLER, slot.role, slot.index)
    if slot.rank == 0:
        found[keys.JOB_ROLE] = "master"
    return found


def counts(job: Job, role: str, found: Counts) -> Object:
    return {**found.as_object(), "selector": replica_selector(job, CONTROLLER, role)}


def init_containers(job: Job, slot: PodSlot) -> Sequence[Object]:
    """Workers wait until the Master's name resolves, that is until it is ready."""
    if slot.role != "Worker" or "Master" not in job.replicas:
        return ()
    return (dns_init_container("init-pytorch", pod_name(job.name, "Master", 0)),)


def problems(
    row: JobRow, _spec: PyTorchJobSpec, replicas: Mapping[str, ReplicaSpec]
) -> Sequence[Problem]:
    return (
        *name_problems(row.name),
        *role_problems("spec.pytorchReplicaSpecs", replicas, ROLES, "pytorch"),
    )


KIND = JobKind(
    kind="PyTorchJob",
    group="kubeflow.org",
    version="v1",
    plural="pytorchjobs",
    singular="pytorchjob",
    controller=CONTROLLER,
    spec=PyTorchJobSpec,
    replica_field="pytorchReplicaSpecs",
    scale_role="Worker",
    replicas=lambda spec: spec.pytorch_replica_specs,
    run_policy=lambda spec: spec.run_policy,
    roles=lambda _labels: ROLES,
    container="pytorch",
    port_name=PORT_NAME,
    port=PORT,
    restart_policy="OnFailure",
    env=env,
    env_everywhere=True,
    init_containers=init_containers,
    rank=rank,
    pod_labels=pod_labels,
    services=lambda job: pod_services(job, CONTROLLER, "pytorch"),
    gang=GangStyle(uid_in_name=False, copies_labels=False, task_members=False),
    gang_by_default=False,
    words=kubeflow_words("PyTorchJob"),
    rules=kubeflow_rules(leader_or_workers("Master", "Worker")),
    validate=problems,
    counts=counts,
    counts_terminating=False,
    replaces_failed=True,
)
