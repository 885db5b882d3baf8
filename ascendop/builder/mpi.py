# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What launcher and workers of an MPIJob share: names, hosts, the objects beside the pods.

Source: mpi-operator 0.8.2; mpijob.md 3.1 to 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ascendop.api.kind import JobView
from ascendop.api.launch import SSH_KEYS, Place, Seen, Shared
from ascendop.api.model import Object
from ascendop.api.mpi import OPEN_MPI, WORKER, MPIJobSpec
from ascendop.builder import labels as keys
from ascendop.builder.names import pod_name

Job = JobView[MPIJobSpec]

OPERATOR: Final = "mpi-operator"
"""Value of the operator-name label, which Kueue and users select by."""
PRIVATE_KEY: Final = "ssh-privatekey"
PUBLIC_KEY: Final = "ssh-publickey"
HOST_FILE: Final = "hostfile"
DISCOVERY: Final = "discover_hosts.sh"


def launcher_name(job: str) -> str:
    """The launcher's Job, its host name, and the first entry of the host file if it works, too."""
    return f"{job}-launcher"


def config_name(job: str) -> str:
    return f"{job}-config"


def secret_name(job: str) -> str:
    return f"{job}-ssh"


def workers(job: Job) -> list[str]:
    """Names of all worker pods, in numeric order."""
    count = job.replicas[WORKER].count if WORKER in job.replicas else 0
    return [pod_name(job.name, WORKER, index) for index in range(count)]


def host(job: Job, pod: str, place: Place) -> str:
    """The name by which a pod is reached."""
    name = f"{pod}.{job.name}.{job.namespace}.svc"
    return f"{name}.{place.domain}" if place.domain else name


def shared_objects(job: Job, place: Place, seen: Seen) -> Sequence[Shared]:
    """Service, ConfigMap and Secret, in the order in which they are made."""
    return (
        Shared(_service(job, place)),
        Shared(_config(job, place, seen)),
        Shared(_secret(job), filled=SSH_KEYS, keys=(PRIVATE_KEY, PUBLIC_KEY)),
    )


def pod_selector(job: Job) -> dict[str, str]:
    return {keys.OPERATOR_NAME: OPERATOR, keys.JOB_NAME: job.name}


def _metadata(job: Job, name: str) -> Object:
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {"app": job.name},
        "ownerReferences": [job.owner],
    }


def _service(job: Job, place: Place) -> Object:
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": job.spec.launches_as_worker or place.names_early,
        "selector": pod_selector(job),
    }
    metadata = _metadata(job, job.name)
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _config(job: Job, place: Place, seen: Seen) -> Object:
    first = [launcher_name(job.name)] if job.spec.launches_as_worker else []
    between = " slots=" if job.spec.implementation == OPEN_MPI else ":"
    hosts = job.once(
        ("hostfile", place),
        lambda: "".join(
            f"{host(job, name, place)}{between}{job.spec.slots}\n" for name in first + workers(job)
        ),
    )
    running, slots = seen.running, ""
    if place.discovers_slots:
        # By their numbers: of names that differ in these alone, the shorter ones come first.
        running = tuple(sorted(running, key=lambda name: (len(name), name)))
        slots = f":{job.spec.slots}"
    found = "".join(f"echo {host(job, name, place)}{slots}\n" for name in (*first, *running))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, config_name(job.name)),
        "data": {HOST_FILE: hosts, DISCOVERY: f"#!/bin/sh\n{found}"},
    }


def _secret(job: Job) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(job, secret_name(job.name)),
        "type": "kubernetes.io/ssh-auth",
    }
