# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""AscendJob (mindxdl.gitee.com/v1): PyTorch, MindSpore or TensorFlow on Ascend NPUs.

Ranks:   Workers follow the leader (Master, Scheduler, Chief) when it has chips of its own.
Source:  ascend-operator 26.1.0; ascendjob.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from ascendop.api.job import ReplicaSpec, RunPolicy
from ascendop.api.kind import GangStyle, JobKind, JobView, PodSlot, Role, Site, Words
from ascendop.api.model import Model, Object
from ascendop.builder import ascend
from ascendop.builder import labels as keys
from ascendop.builder.ascend_env import LEADER_ADDRESS, ascend_env
from ascendop.builder.ascend_life import ASCEND_LIFE
from ascendop.builder.ascend_rules import ascend_problems, queue_problem
from ascendop.builder.names import pod_name
from ascendop.builder.pod import build_service, named_ports

CONTROLLER = "ascendjob-controller"


class AscendJobSpec(Model):
    """Desired state of an AscendJob."""

    run_policy: RunPolicy = Field(default_factory=RunPolicy)
    """What the job as a whole may do."""
    scheduler_name: str | None = None
    """Scheduler of all pods; volcano when unset and gang scheduling is on."""
    success_policy: str | None = None
    """Empty or AllWorkers: all pods must succeed."""
    replica_specs: dict[str, ReplicaSpec | None] | None = None
    """Pods by role: Master, Chief or Scheduler, and Worker."""


Job = JobView[AscendJobSpec]


def replicas(spec: AscendJobSpec) -> Mapping[str, ReplicaSpec] | None:
    found = spec.replica_specs
    return None if found is None else {role: r or ReplicaSpec() for role, r in found.items()}


def roles(labels: Mapping[str, str]) -> Sequence[Role]:
    leader = ascend.LEADERS.get(labels.get(keys.FRAMEWORK, ""))
    first = () if leader is None else (Role(leader, leader=True, most=1, least=1),)
    return (*first, Role(ascend.WORKER))


def slot_labels(job: Job, role: str, index: int) -> dict[str, str]:
    """The eight labels that find one pod; the short ones are read by clusterd and by users."""
    return {
        keys.OPERATOR_NAME: CONTROLLER,
        keys.GROUP_NAME: "mindxdl.gitee.com",
        keys.JOB_NAME: job.name,
        keys.SHORT_JOB_NAME: job.name,
        keys.REPLICA_TYPE: role.lower(),
        keys.SHORT_REPLICA_TYPE: role.lower(),
        keys.REPLICA_INDEX: str(index),
        keys.SHORT_REPLICA_INDEX: str(index),
    }


def pod_labels(job: Job, slot: PodSlot, site: Site) -> Mapping[str, str]:
    found = slot_labels(job, slot.role, slot.index)
    if slot.leader:
        found[keys.JOB_ROLE] = "master"
    found[keys.ATTEMPT] = str(site.attempt)
    return found


def services(job: Job) -> Sequence[Object]:
    role = ascend.leader_role(job.replicas)
    if not role:
        return ()
    ports = named_ports(job.replicas[role].container(ascend.CONTAINER), ascend.PORT_NAME)
    name, labels = pod_name(job.name, role, 0), slot_labels(job, role, 0)
    return (build_service(job, name, labels, ports, headless=False),)


def attempt_limit(job: Job) -> int:
    """Source: ascendjob.md 7.2; 0 and less mean unlimited."""
    if job.run_policy.backoff_limit is not None:
        return job.run_policy.backoff_limit
    return int(job.labels.get(keys.FAULT_RETRY_TIMES) or 0)


KIND = JobKind(
    kind="AscendJob",
    group="mindxdl.gitee.com",
    version="v1",
    plural="ascendjobs",
    singular="ascendjob",
    short_names=("acjob",),
    controller=CONTROLLER,
    spec=AscendJobSpec,
    replica_field="replicaSpecs",
    replicas=replicas,
    run_policy=lambda spec: spec.run_policy,
    roles=roles,
    container=ascend.CONTAINER,
    port_name=ascend.PORT_NAME,
    port=ascend.PORT,
    port_on_leaders_only=True,
    restart_policy="Never",
    env=ascend_env,
    rank=ascend.rank,
    pod_labels=pod_labels,
    pod_annotations=lambda _job, slot: {keys.RANK_INDEX: str(slot.rank)},
    services=services,
    waits_for_addresses=True,
    address_variables=LEADER_ADDRESS,
    gang=GangStyle(
        uid_in_name=True,
        copies_labels=True,
        task_members=True,
        extra_labels=lambda found: (
            {keys.PROCESS_RECOVER: "on"} if keys.RECOVER_STRATEGY in found else {}
        ),
    ),
    words=Words(
        created=("JobCreated", "Job {job} is create."),
        invalid="JobValidFailed",
        step_failed={
            "group": "SyncPodGroupFailed",
            "services": "SyncServiceFailed",
            "attempt": "PodCreateFailed",
            "pods": "PodCreateFailed",
        },
        pods_refused="failed to create pods of type<{role}>: {error}",
        pod_scheduler_event="SettedPodTemplateSchedulerName",
        job_scheduler_event="SettedJobSchedulerName",
        unknown_queue=queue_problem,
        restart_policy_event="SettedPodTemplateRestartPolicy",
    ),
    rules=ASCEND_LIFE,
    validate=lambda row, spec, found: ascend_problems(row, spec.success_policy or "", found),
    scheduler=lambda job: job.spec.scheduler_name or "",
    cleans_pending=True,
    attempts=True,
    attempt_limit=attempt_limit,
    hot_switch=True,
    scales_by_rule=True,
    has_rank_table=lambda job: ascend.npu_pods(job.replicas) > 0,
)
