# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""MPIJob (kubeflow.org/v2beta1): mpirun in a launcher, over ssh, on any number of workers.

Ranks:   mpirun gives them by the host file: the launcher, if it works, too, then workers in order.
Source:  mpi-operator 0.8.2; mpijob.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from ascendop.api.kind import GangStyle, JobKind, JobView, Launch, PodSlot, Role, Site, Words
from ascendop.api.mpi import LAUNCHER, WHEN_READY, WORKER, MPIJobSpec
from ascendop.builder import labels as keys
from ascendop.builder.env import value
from ascendop.builder.mpi import launcher_name, pod_selector, shared_objects
from ascendop.builder.mpi_pods import launcher_job, overridden, worker_pod
from ascendop.builder.mpi_rules import REASON, mpi_problems

Job = JobView[MPIJobSpec]


def rank(job: Job, role: str, index: int) -> int:
    """Place in the host file; the launcher has none if it does not work."""
    return index + 1 if role == WORKER and job.spec.launches_as_worker else index


def pod_labels(job: Job, slot: PodSlot, _site: Site) -> Mapping[str, str]:
    return {**pod_selector(job), keys.JOB_ROLE: "worker", keys.REPLICA_INDEX: str(slot.rank)}


KIND = JobKind(
    kind="MPIJob",
    group="kubeflow.org",
    version="v2beta1",
    plural="mpijobs",
    singular="mpijob",
    controller="mpi-job-controller",
    spec=MPIJobSpec,
    bare_spec=True,
    replica_field="mpiReplicaSpecs",
    replicas=lambda spec: spec.replicas(),
    run_policy=lambda spec: spec.run_policy,
    roles=lambda _labels: (Role(LAUNCHER, most=1, least=1), Role(WORKER, least=1)),
    container="",
    port_name="",
    port=0,
    port_on_leaders_only=True,
    restart_policy="Never",
    env=lambda _job, slot, _site: (value("K_MPI_JOB_ROLE", slot.role.lower()),),
    rank=rank,
    pod_labels=pod_labels,
    services=lambda _job: (),
    gang=GangStyle(uid_in_name=False, copies_labels=False, task_members=False),
    gang_by_default=False,
    words=Words(
        created=("MPIJobCreated", "MPIJob {namespace}/{job} is created."),
        invalid=REASON,
        step_failed={},
        pod_scheduler_event="SetPodTemplateSchedulerName",
        restart_policy_event="SetPodTemplateRestartPolicy",
        created_first=True,
    ),
    rules=(),
    validate=mpi_problems,
    launch=Launch(
        role=LAUNCHER,
        manager="kubeflow.org/mpi-operator",
        job_name=launcher_name,
        job=launcher_job,
        pod=worker_pod,
        shared=shared_objects,
        metrics=("mpi_operator", "MPI"),
        overridden=overridden,
        waits=lambda job: job.spec.creation == WHEN_READY and WORKER in job.replicas,
    ),
)
