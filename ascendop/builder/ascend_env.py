# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The environment of an AscendJob's main container.

Source: ascendjob.md section 5; the order of the variables is part of the contract. What
frameworks.md 11 found missing comes after it, and never over a variable of the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ascendop.api.kind import JobView, PodSlot, S, Site
from ascendop.api.model import Object
from ascendop.builder import labels as keys
from ascendop.builder.ascend import (
    CONTAINER,
    WORKER,
    Sizes,
    block,
    chips,
    chips_per_pod,
    is_inference,
    is_soft_share,
    leader_port,
    leader_service,
    node_rank,
    rank,
    sizes,
)
from ascendop.builder.env import annotation, field, names_of, torchrun, value, without
from ascendop.builder.recovery import recovery_env
from ascendop.builder.superpod import logic_super_pod

LEADER_ADDRESS: Final = ("MASTER_ADDR", "MS_SCHED_HOST", "CM_CHIEF_IP")
"""The variables, one for each framework, that tell pods where their leader is."""
CLUSTERD_DOMAIN: Final = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
TOPOLOGY_TIMEOUT_S: Final = 1200  # MindSpore's own 30 minutes of silence outlast most patience


def ascend_env(job: JobView[S], slot: PodSlot, site: Site) -> Sequence[Object]:
    """Variables for the container `ascend` of one pod, in the order of the contract."""
    framework = job.labels.get(keys.FRAMEWORK, "")
    if is_inference(job.labels):
        return _inference(job, site)
    if framework == "mindspore" and set(job.replicas) == {WORKER}:
        return ()
    general = _general(job, slot, site)
    trained_with = job.once(
        (chips_per_pod, slot.role), lambda: chips_per_pod(job.replicas, slot.role)
    )
    if trained_with[1] == 0:
        return general
    user = (slot.replica.container(CONTAINER) or {}).get("env") or ()
    special, extra = _FRAMEWORKS[framework](job, slot, site)
    recovery = (
        []
        if framework == "tensorflow"
        else recovery_env(framework, job.labels, job.annotations, user)
    )
    return [*general, *special, *recovery, *without(extra, names_of(user))]


def _inference(job: JobView[S], site: Site) -> list[Object]:
    return [
        value("MINDX_TASK_ID", job.labels[keys.INFERENCE_JOB]),
        value("APP_TYPE", job.labels[keys.INFERENCE_APP]),
        value("MINDX_SERVER_IP", site.clusterd),
        value("MINDX_SERVER_DOMAIN", CLUSTERD_DOMAIN),
    ]


def _general(job: JobView[S], slot: PodSlot, site: Site) -> list[Object]:
    resource, count = chips(slot.replica)
    user = names_of((slot.replica.container(CONTAINER) or {}).get("env") or ())
    env = []
    visible = count > 0 and resource in keys.WHOLE_CARDS and not is_soft_share(job.labels)
    if visible and "ASCEND_VISIBLE_DEVICES" not in user:
        env.append(annotation("ASCEND_VISIBLE_DEVICES", resource))
    env += [
        value("MINDX_TASK_ID", job.uid),
        value("MINDX_SERVER_IP", site.clusterd),
        value("MINDX_SERVER_DOMAIN", CLUSTERD_DOMAIN),
        value("HostNetwork", "true" if slot.replica.pod_spec.get("hostNetwork") else "false"),
    ]
    if count > 0:
        env.append(_super_pod(job, slot, resource, count))
    env.append(value("REPLICA_TYPE", slot.role))
    return env


def _super_pod(job: JobView[S], slot: PodSlot, resource: str, count: int) -> Object:
    name = "HCCL_LOGIC_SUPERPOD_ID"
    if job.labels.get(keys.SUPER_POD_AFFINITY) == "soft" and resource != keys.NPU_A5:
        return annotation(name, keys.SUPER_POD_RANK)
    return value(name, logic_super_pod(rank(job, slot.role, slot.index), block(job), count))


def _sizes_env(found: Sizes | None, local: str, world: str) -> list[Object]:
    return [] if found is None else [value(local, found.local), value(world, found.world)]


def _leader_address(job: JobView[S], site: Site) -> str:
    return site.addresses.get(leader_service(job), "")


def _pytorch(job: JobView[S], slot: PodSlot, site: Site) -> tuple[list[Object], list[Object]]:
    found = sizes(job, slot.role)
    address, port, node = _leader_address(job, site), leader_port(job), node_rank(job, slot)
    env = _sizes_env(found, "LOCAL_WORLD_SIZE", "WORLD_SIZE")
    if found is not None:
        env.append(value("LOCAL_RANK", found.local_ranks))
    env += [value("MASTER_ADDR", address), value("MASTER_PORT", port), value("RANK", node)]
    extra = torchrun(address, port, job.total, node, found.local) if found else []
    return env, extra


def _mindspore(job: JobView[S], slot: PodSlot, site: Site) -> tuple[list[Object], list[Object]]:
    found = sizes(job, slot.role)
    node = rank(job, slot.role, slot.index)
    env = [
        field("MS_SCHED_HOST", "status.podIP")
        if slot.leader
        else value("MS_SCHED_HOST", _leader_address(job, site)),
        *_sizes_env(found, "MS_LOCAL_WORKER", "MS_WORKER_NUM"),
        value("MS_NODE_RANK", node),
        value("MS_SCHED_PORT", leader_port(job)),
        value("MS_SERVER_NUM", 0),
        value("MS_ROLE", "MS_SCHED" if slot.leader else "MS_WORKER"),
        value("NPU_POD", "true" if chips(slot.replica)[1] > 0 else "false"),
    ]
    extra = [value("MS_TOPO_TIMEOUT", TOPOLOGY_TIMEOUT_S)]
    if found is not None and found.local == 1 and not slot.leader:
        # MindSpore sorts its workers by IP unless told; only one process a node can be told here.
        extra.append(value("MS_NODE_ID", slot.index))
    return env, extra


def _tensorflow(job: JobView[S], slot: PodSlot, site: Site) -> tuple[list[Object], list[Object]]:
    chief = (
        field("CM_CHIEF_IP", "status.podIP")
        if slot.leader
        else value("CM_CHIEF_IP", _leader_address(job, site))
    )
    env = [
        chief,
        *_sizes_env(sizes(job, slot.role), "CM_LOCAL_WORKER", "CM_WORKER_SIZE"),
        value("CM_CHIEF_PORT", leader_port(job)),
        value("CM_RANK", node_rank(job, slot)),
        value("CM_CHIEF_DEVICE", 0),
        field("CM_WORKER_IP", "status.podIP"),
    ]
    return env, []


_FRAMEWORKS: Final = {"pytorch": _pytorch, "mindspore": _mindspore, "tensorflow": _tensorflow}
