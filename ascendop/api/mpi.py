# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a user writes of an MPIJob (kubeflow.org/v2beta1).

Source: mpi-operator 0.8.2; mpijob.md section 1.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from ascendop.api.job import ReplicaSpec, RunPolicy
from ascendop.api.model import Int32, Model

LAUNCHER: Final = "Launcher"
WORKER: Final = "Worker"
ROOT_KEYS: Final = "/root/.ssh"
"""Where the keys of root are; the one place where the original makes them private."""
OPEN_MPI: Final = "OpenMPI"
INTEL: Final = "Intel"
MPICH: Final = "MPICH"
AT_STARTUP: Final = "AtStartup"
WHEN_READY: Final = "WaitForWorkersReady"

Implementation = Annotated[
    str, WithJsonSchema({"type": "string", "enum": [OPEN_MPI, INTEL, MPICH]})
]


class MPIRunPolicy(RunPolicy):
    """What the job as a whole may do."""

    backoff_limit: Int32 | None = None
    """Retries of the launcher before the job fails; 6 when unset."""
    ttl_seconds_after_finished: Int32 | None = None
    """The launcher's batch/v1 Job is deleted so many seconds after its end; never when unset."""
    suspend: bool | None = False
    """While true the job has no pods."""


class MPIJobSpec(Model):
    """Desired state of an MPIJob."""

    slots_per_worker: Int32 | None = 1
    """Processes per worker, as the host file says."""
    run_launcher_as_worker: bool | None = False
    """The launcher's own host is the first in the host file."""
    run_policy: MPIRunPolicy = Field(default_factory=MPIRunPolicy)
    """What the job as a whole may do."""
    mpi_replica_specs: dict[str, ReplicaSpec | None] | None = None
    """Pods by role: Launcher and Worker."""
    ssh_auth_mount_path: str | None = ROOT_KEYS
    """Where the containers have the keys of the job."""
    launcher_creation_policy: str | None = AT_STARTUP
    """AtStartup, or WaitForWorkersReady: the launcher comes when all workers are ready."""
    mpi_implementation: Implementation | None = OPEN_MPI
    """OpenMPI, Intel or MPICH: the form of the host file and of the launcher's environment."""

    @property
    def slots(self) -> int:
        return 1 if self.slots_per_worker is None else self.slots_per_worker

    @property
    def key_path(self) -> str:
        return self.ssh_auth_mount_path or ROOT_KEYS

    @property
    def implementation(self) -> str:
        return self.mpi_implementation or OPEN_MPI

    @property
    def creation(self) -> str:
        return self.launcher_creation_policy or AT_STARTUP

    @property
    def launches_as_worker(self) -> bool:
        return bool(self.run_launcher_as_worker)

    def replicas(self) -> dict[str, ReplicaSpec]:
        """The two roles that there are, with the defaults of this kind; other keys mean nothing."""
        found = {}
        for role, count, policy in ((LAUNCHER, 1, "OnFailure"), (WORKER, 0, "Never")):
            replica = (self.mpi_replica_specs or {}).get(role)
            if replica is not None:
                found[role] = replica.model_copy(
                    update={
                        "replicas": count if replica.replicas is None else replica.replicas,
                        "restart_policy": replica.restart_policy or policy,
                    }
                )
        return found
