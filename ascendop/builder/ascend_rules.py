# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Mistakes of an AscendJob, in the words of the contract.

Source: ascendjob.md section 2, with its recorded texts. The original reports one of several
defects by chance; here all of them, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ascendop.api.job import MAX_REPLICAS, ReplicaSpec
from ascendop.api.observed import JobRow
from ascendop.builder import labels as keys
from ascendop.builder.ascend import CONTAINER, LEADERS, WORKER, chips
from ascendop.builder.integers import integer
from ascendop.builder.names import HOST_NAME, MAX_NAME
from ascendop.errors import Problem

MAX_CHIPS: Final = 4096
"""Of one pod: its environment names the rank of each, and a slip of the pen must not fill our
memory with them."""


def ascend_problems(
    row: JobRow, success_policy: str, replicas: Mapping[str, ReplicaSpec]
) -> Sequence[Problem]:
    """Everything that keeps this job from running as written."""
    labels = dict(row.labels)
    return (
        *_success(success_policy),
        *_scaling(row.name, labels),
        *_scaleout(labels),
        *_retries(labels),
        *_framework(row, labels, replicas),
    )


def _success(policy: str) -> Iterator[Problem]:
    if policy not in {"", "AllWorkers"}:
        text = 'job success policy is invalid, it must be one of <"", AllWorkers>'
        yield Problem("spec.successPolicy", text, reason="InvalidSuccessPolicy")


def _scaling(job: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    if keys.SCALING_RULE not in labels:
        return
    path = f"metadata.labels[{keys.SCALING_RULE}]"
    if keys.SCALING_GROUP not in labels:
        key = keys.SCALING_GROUP
        text = f"job {job} has no group name, please set label of {key}=<the group of job>"
        yield Problem(path, text, reason="InvalidScalingConfig")
    if keys.INFERENCE_JOB not in labels:
        key = keys.INFERENCE_JOB
        text = f"job {job} has no job id, please set label of {key}=<the id of job>"
        yield Problem(path, text, reason="InvalidScalingConfig")


def _scaleout(labels: Mapping[str, str]) -> Iterator[Problem]:
    found = labels.get(keys.SCALEOUT_TYPE, "")
    if found.strip() and found.upper() not in {"ROCE", "UBOE"}:
        key = keys.SCALEOUT_TYPE
        text = f"the value of label {key} is invalid, which should be ROCE or UBOE"
        yield Problem(f"metadata.labels.{key}", text, reason="InvalidScaleOutConfig")


def _retries(labels: Mapping[str, str]) -> Iterator[Problem]:
    found = labels.get(keys.FAULT_RETRY_TIMES, "")
    if found and integer(found) is None:
        text = (
            f"the value of label {keys.FAULT_RETRY_TIMES} is {found!r}, which should be an integer"
        )
        path = f"metadata.labels.{keys.FAULT_RETRY_TIMES}"
        yield Problem(path, text, reason="InvalidFaultRetryTimes")


def _framework(
    row: JobRow, labels: Mapping[str, str], replicas: Mapping[str, ReplicaSpec]
) -> Iterator[Problem]:
    legal = ",".join(LEADERS)
    framework = labels.get(keys.FRAMEWORK)
    path = f"metadata.labels.{keys.FRAMEWORK}"
    if framework is None:
        text = "framework label is not set, please set label framework as one of "
        yield Problem(path, f"{text}<{legal}>", reason="InvalidFramework")
    elif framework not in LEADERS:
        text = f"framework label is {framework}, please set label framework as one of <{legal}>"
        yield Problem(path, text, reason="InvalidFramework")
    else:
        for role in sorted(replicas):
            yield from _role(role, replicas[role], (LEADERS[framework], WORKER))
        yield from _leader(framework, replicas)
        yield from _names(row.name, replicas)


def _role(role: str, replica: ReplicaSpec, allowed: tuple[str, str]) -> Iterator[Problem]:
    path = f"spec.replicaSpecs.{role}"
    if role not in allowed:
        text = f"replicaType is {role} but must be one of [{' '.join(allowed)}]"
        yield Problem(path, text, reason="InvalidReplicaType")
        return
    yield from _count(role, path, replica)
    if not replica.containers:
        text = f"{role} replicaSpec is not valid: containers definition expected"
        where = f"{path}.template.spec.containers"
        yield Problem(where, text, reason="InvalidReplicaSpec")
        return
    yield from _main_container(role, path, replica)


def _count(role: str, path: str, replica: ReplicaSpec) -> Iterator[Problem]:
    where, found = f"{path}.replicas", replica.count
    head = f"{role} replicaSpec is not valid"
    text = ""
    if found < 0:
        text = f"{head}: replicas can not be negative num, but got {found}"
    elif found > MAX_REPLICAS:
        text = f"{head}: replicas can not be larger than {MAX_REPLICAS}, but got {found}"
    elif role != WORKER and found != 1:
        text = f"{head}, the replicas must be only 1"
    if text:
        yield Problem(where, text, reason="InvalidReplicaSpec")


def _main_container(role: str, path: str, replica: ReplicaSpec) -> Iterator[Problem]:
    where = f"{path}.template.spec.containers"
    main = replica.container(CONTAINER)
    if main is None:
        text = f"{role} replicaSpec is not valid: There is no container named {CONTAINER}"
        yield Problem(where, text, reason="InvalidContainer")
    elif not main.get("image"):
        text = (
            f"{role} replicaSpec is not valid: Image is undefined in the container of {CONTAINER}"
        )
        yield Problem(f"{where}[{CONTAINER}].image", text, reason="InvalidContainer")
    name, count = chips(replica)
    if count > MAX_CHIPS:
        text = f"{role} replicaSpec is not valid: {CONTAINER} asks for {count} {name}"
        fix = f"no node has more than {MAX_CHIPS}; ask for those of one pod"
        yield Problem(f"{where}[{CONTAINER}].resources", text, fix, reason="InvalidReplicaSpec")


def _leader(framework: str, replicas: Mapping[str, ReplicaSpec]) -> Iterator[Problem]:
    if any(role != WORKER for role in replicas):
        return
    worker = replicas.get(WORKER)
    if framework != "mindspore":
        text = "replicaType is not valid: there need 1 leader replicaType, "
        text += "Master for pytorch, Chief of tensorflow"
        yield Problem("spec.replicaSpecs", text, reason="InvalidReplicaType")
    elif worker is not None and chips(worker)[1] * worker.count > 1:
        text = "replicaSpec is not valid: when scheduler not found, the req num must be 1"
        yield Problem("spec.replicaSpecs", text, reason="InvalidReplicaSpec")


def _names(job: str, replicas: Mapping[str, ReplicaSpec]) -> Iterator[Problem]:
    """A job name that no Service, host or label could carry is refused before anything is made."""
    longest = max((f"{job}-{role.lower()}-0" for role in replicas), key=len, default=job)
    if len(longest) > MAX_NAME:
        text = f"{longest} has {len(longest)} characters; a Service's name has {MAX_NAME} at most"
        fix = f"shorten the name by {len(longest) - MAX_NAME}"
        yield Problem("metadata.name", text, fix, reason="InvalidName")
    if not HOST_NAME.fullmatch(job):
        text = f"{job!r} cannot be a Service's name"
        fix = "use a-z 0-9 and - only, and begin with a letter"
        yield Problem("metadata.name", text, fix, reason="InvalidName")


def queue_problem(queue: str) -> Problem:
    """The queue does not exist; whether it does is not in the job."""
    text = (
        f'check queue<{queue}> failed, err: queues.scheduling.volcano.sh "{queue}" not found, '
        "maybe it is not create"
    )
    path = "spec.runPolicy.schedulingPolicy.queue"
    return Problem(path, text, reason="InvalidQueue")
