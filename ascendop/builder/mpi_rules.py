# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is wrong with an MPIJob, in the order and in the words of the original.

Source: mpi-operator 0.8.2; mpijob.md section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from ascendop.api.job import ReplicaSpec, RunPolicy
from ascendop.api.mpi import (
    AT_STARTUP,
    INTEL,
    LAUNCHER,
    MPICH,
    OPEN_MPI,
    WHEN_READY,
    WORKER,
    MPIJobSpec,
)
from ascendop.api.observed import JobRow
from ascendop.builder.mpi_pods import CONFIG_PATH, CONFIG_VOLUME, KEYS_VOLUME
from ascendop.builder.names import HOST_NAME, MAX_NAME
from ascendop.errors import Problem

REPLICAS: Final = "spec.mpiReplicaSpecs"
REASON: Final = "ValidationError"
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{HOST_NAME.pattern}')"
)


def mpi_problems(
    row: JobRow, spec: MPIJobSpec, replicas: Mapping[str, ReplicaSpec]
) -> Sequence[Problem]:
    """Every mistake, in the order of the original's rules; ours come last."""
    found = [*_name(row.name, replicas)]
    if spec.mpi_replica_specs is None:
        found.append(_required(REPLICAS, "must have replica specs"))
    else:
        found += _roles(replicas)
    found += _policies(spec.slots, spec.run_policy)
    found += _supported("spec.mpiImplementation", spec.implementation, (INTEL, MPICH, OPEN_MPI))
    found += _supported("spec.launcherCreationPolicy", spec.creation, (AT_STARTUP, WHEN_READY))
    for role, replica in replicas.items():
        found += _collisions(f"{REPLICAS}[{role}].template.spec", role, replica, spec.key_path)
    return tuple(dict.fromkeys(found))


def _name(job: str, replicas: Mapping[str, ReplicaSpec]) -> Iterator[Problem]:
    """The longest name that a pod would have has to be a host name."""
    count = replicas[WORKER].count if WORKER in replicas else 1
    label = f"{job}-worker-{max(count, 1) - 1}"
    why = []
    if len(label) > MAX_NAME:
        why.append(f"must be no more than {MAX_NAME} characters")
    if not HOST_NAME.fullmatch(label):
        why.append(_LABEL_RULE)
    if why:
        text = f'will not able to create pod and service with invalid DNS label "{label}": '
        yield _invalid("metadata.name", f'"{job}"', text + ", ".join(why))


def _roles(replicas: Mapping[str, ReplicaSpec]) -> Iterator[Problem]:
    if LAUNCHER not in replicas:
        yield _required(f"{REPLICAS}[{LAUNCHER}]", f"must have {LAUNCHER} replica spec")
    for role, replica in replicas.items():
        path, count = f"{REPLICAS}[{role}]", replica.count
        policies = ("Never", "OnFailure")
        yield from _supported(f"{path}.restartPolicy", replica.restart_policy or "", policies)
        if not replica.containers:
            text = "must define at least one container"
            yield _required(f"{path}.template.spec.containers", text)
        if role == LAUNCHER and count != 1:
            yield _invalid(f"{path}.replicas", count, "must be 1")
        if role == WORKER and count < 1:
            yield _invalid(f"{path}.replicas", count, "must be greater than or equal to 1")


def _policies(slots: int, policy: RunPolicy) -> Iterator[Problem]:
    if slots < 0:
        yield _invalid("spec.slotsPerWorker", slots, _NOT_NEGATIVE)
    clean = policy.clean_pod_policy or "None"
    yield from _supported("spec.runPolicy.cleanPodPolicy", clean, ("All", "None", "Running"))
    for name, number in (
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit),
    ):
        if number is not None and number < 0:
            yield _invalid(f"spec.runPolicy.{name}", number, _NOT_NEGATIVE)


def _collisions(path: str, role: str, replica: ReplicaSpec, keys: str) -> Iterator[Problem]:
    """A template that has what is put beside it: the API server would refuse every pod of it."""
    ours = {KEYS_VOLUME} | ({CONFIG_VOLUME} if role == LAUNCHER else set())
    paths = {keys.rstrip("/")} | ({CONFIG_PATH} if role == LAUNCHER else set())
    for volume in replica.pod_spec.get("volumes") or ():
        name = volume.get("name")
        if name in ours:
            text = "this volume is put there by the operator; give yours another name"
            yield _invalid(f"{path}.volumes[{name}]", f'"{name}"', text)
    for mount in replica.containers[0].get("volumeMounts") or () if replica.containers else ():
        where = str(mount.get("mountPath", ""))
        if where.rstrip("/") in paths:
            text = "the operator mounts a volume there; mount yours elsewhere"
            yield _invalid(f"{path}.containers[0].volumeMounts", f'"{where}"', text)


def _required(path: str, detail: str) -> Problem:
    return Problem(path, f"Required value: {detail}", reason=REASON)


def _invalid(path: str, value: object, detail: str) -> Problem:
    return Problem(path, f"Invalid value: {value}: {detail}", reason=REASON)


def _supported(path: str, value: str, known: Collection[str]) -> Iterator[Problem]:
    if value not in known:
        names = ", ".join(f'"{name}"' for name in sorted(known))
        text = f'Unsupported value: "{value}": supported values: {names}'
        yield Problem(path, text, reason=REASON)
