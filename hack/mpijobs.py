# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""MPIJobs for real nodes, and what is seen of one there: pods, ranks, what the launcher said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hack.admin import MERGE, Admin, path_of, wait_for
from hack.jobs import Job, Object
from hack.mpirun import PROGRAM, ROOT, SSH_PORT, Implementation, Rank, User, ranks
from hack.node.plane import RealPlane

WHEN_NAMES_RESOLVE = "when-names-resolve"
"""A command of the images; what follows it starts no earlier."""
FAILS_ON_ONE = """
import os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 4:
    sys.stderr.write("rank 4: no space left for the mesh\\n")
    sys.stderr.flush()
    os._exit(7)
world.Barrier()
"""
"""A program of which one rank fails, while the others wait for it."""


def mpirun(count: int, program: str = PROGRAM, *, waits: bool = True) -> list[str]:
    """A launcher's arguments: this program, so many times."""
    before = [WHEN_NAMES_RESOLVE] if waits else []
    return [*before, "mpirun", "-n", str(count), "python3", "-c", program]


def mpi_job(
    mpi: Implementation,
    user: User = ROOT,
    *,
    workers: int = 3,
    slots: int = 2,
    run: Sequence[str] = (),
    **spec: object,
) -> Object:
    """An MPIJob whose ranks say where they are, unless `run` is something else.

    spec:  more of the job's own.
    """
    launches = bool(spec.get("runLauncherAsWorker"))
    count = (workers + launches) * slots
    launcher = {"args": list(run) or mpirun(count)}
    probe = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 1}
    worker = {"command": list(user.sshd), "readinessProbe": probe}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {
            "slotsPerWorker": slots,
            "mpiImplementation": mpi.kind,
            "sshAuthMountPath": f"{user.home}/.ssh",
            "mpiReplicaSpecs": {
                "Launcher": {"template": _template(mpi, user, launcher)},
                "Worker": {"replicas": workers, "template": _template(mpi, user, worker)},
            },
            **spec,
        },
    }


def _template(mpi: Implementation, user: User, main: Object) -> Object:
    container = {
        "name": "main",
        "image": f"localhost/{mpi.image}:1",
        "securityContext": user.security,
        **main,
    }
    return {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}


def template_of(asked: Object, role: str) -> Object:
    """Of the pods of a role, to be changed."""
    found: Object = asked["spec"]["mpiReplicaSpecs"][role]["template"]
    return found


def never_together(asked: Object) -> None:
    """No two workers on one node."""
    labels = {"training.kubeflow.org/job-role": "worker"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template_of(asked, "Worker")["spec"]["affinity"] = affinity


def one_launcher(asked: Object) -> None:
    """A pod for each try; its last lines are what kubelet says of its end."""
    asked["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    (main,) = template_of(asked, "Launcher")["spec"]["containers"]
    main["terminationMessagePolicy"] = "FallbackToLogsOnError"


class RealMPIJob(Job):
    """An MPIJob on a real node."""

    def __init__(self, real: RealPlane, admin: Admin, namespace: str, asked: Object) -> None:
        super().__init__(admin, namespace, asked)
        self._real = real

    def change(self, spec: Object) -> None:
        """What a user does with it: a merge patch of its spec."""
        self.admin.request("PATCH", path_of(self.asked), {"spec": spec}, MERGE)

    # ------------------------------------------------------------ the launcher
    @property
    def launchers(self) -> list[Object]:
        """Its pods, the oldest first."""
        which = "labelSelector=training.kubeflow.org/job-role%3Dlauncher"
        pods = self.admin.request("GET", f"/api/v1/namespaces/{self.namespace}/pods?{which}")
        items: list[Object] = pods["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    @property
    def launcher(self) -> Object:
        """The newest."""
        return self.launchers[-1]

    @property
    def launcher_state(self) -> Object:
        """Of its container: how often it was restarted, its state, the one before."""
        found: Object = self.launcher["status"]["containerStatuses"][0]
        return found

    @property
    def log(self) -> str:
        """What the newest has printed."""
        return self._real.logs(self.namespace, self.launcher["metadata"]["name"])

    @property
    def ranks(self) -> list[Rank]:
        return ranks(self.log)

    def in_launcher(self, *command: str) -> str:
        """What a command in its container prints."""
        return self.in_pod(self.launcher, *command)

    def in_pod(self, pod: Object, *command: str) -> str:
        """The same in any of the job's pods."""
        where = ("exec", "-n", self.namespace, pod["metadata"]["name"], "--")
        return self._real.node.kubectl(*where, *command)

    def expected(self) -> list[Rank]:
        """Slots are filled host by host, and everybody has heard everybody."""
        spec: Any = self.asked["spec"]
        slots, roles = spec["slotsPerWorker"], spec["mpiReplicaSpecs"]
        hosts = [f"{self.name}-worker-{index}" for index in range(roles["Worker"]["replicas"])]
        if spec.get("runLauncherAsWorker"):
            hosts.insert(0, f"{self.name}-launcher")
        main = roles["Launcher"]["template"]["spec"]["containers"][0]
        uid = main["securityContext"].get("runAsUser", 0)
        count = len(hosts) * slots
        total = sum(10**number for number in range(count))
        return [Rank(n, count, hosts[n // slots], total, uid) for n in range(count)]

    # ------------------------------------------------------------ waiting
    def wait(self, condition: str, timeout_s: float = 90.0) -> Object:
        """Until the condition is true; what the launcher has said is told when it is not."""
        try:
            what = f"{self.name} is {condition}"
            return wait_for(what, lambda: self._found(condition), timeout_s) or {}
        except (TimeoutError, AssertionError) as error:
            said = self.log if self.launchers else "no launcher"
            state = json.dumps({"status": self.status, "pods": self.phases}, indent=1)
            raise AssertionError(f"{error}\n{state}\n{said}") from error

    def _found(self, condition: str) -> Object | None:
        found = self.conditions
        other = {"Succeeded": "Failed", "Failed": "Succeeded"}.get(condition)
        assert other not in found, f"{self.name} is {other}"
        return found.get(condition)
