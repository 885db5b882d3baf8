# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""An MPI job of plain pods: a launcher, workers with sshd, and what makes them find each other."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

Object = dict[str, Any]
HOSTFILE = "/etc/mpi/hostfile"
PATIENT = "-o ConnectionAttempts=10"
SSH_PORT = 2222
DEADLINE_S = 60
PROGRAM = """
import os
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(10**world.rank)
line = f"rank {world.rank} of {world.size} on {os.uname().nodename}: sum {total}, uid {os.getuid()}"
os.write(1, f"{line}\\n".encode())
"""
"""Each rank prints one line, whole: `ranks` reads them."""
LINE = re.compile(r"rank (\d+) of (\d+) on (\S+): sum (\d+), uid (\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Rank:
    """What one rank of PROGRAM has said."""

    number: int
    count: int
    host: str
    total: int
    uid: int


def ranks(log: str) -> list[Rank]:
    """In their order, from what a launcher has printed."""
    found = LINE.findall(log)
    return sorted(
        Rank(int(n), int(of), on, int(total), int(uid)) for n, of, on, total, uid in found
    )


@dataclass(frozen=True, slots=True)
class Implementation:
    """One MPI.

    image:     with it.
    kind:      what an MPIJob calls it.
    slots:     how a host's number of slots is written in the host file.
    settings:  what its launcher is told; `{slots}` stands for their number.
    """

    image: str
    kind: str
    slots: str
    settings: tuple[tuple[str, str], ...]


_ORTE = (
    ("OMPI_MCA_orte_keep_fqdn_hostnames", "true"),
    ("OMPI_MCA_orte_default_hostfile", HOSTFILE),
    ("OMPI_MCA_plm_rsh_args", PATIENT),
    ("OMPI_MCA_orte_set_default_slots", "{slots}"),
)
_PRTE = (
    ("PRTE_MCA_prte_default_hostfile", HOSTFILE),
    ("PRTE_MCA_plm_ssh_args", PATIENT),
    ("PRTE_MCA_prte_set_default_slots", "{slots}"),
    ("PRTE_MCA_prte_keep_fqdn_hostnames", "false"),
)
_HYDRA = (("HYDRA_HOST_FILE", HOSTFILE), ("HYDRA_LAUNCH_EXTRA_ARGS", PATIENT))
_INTEL = (
    ("I_MPI_HYDRA_HOST_FILE", HOSTFILE),
    ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", PATIENT),
    ("I_MPI_PERHOST", "{slots}"),
)
IMPLEMENTATIONS = {
    "Open MPI 4": Implementation("mpi", "OpenMPI", " slots={slots}", _ORTE),
    "Open MPI 5": Implementation("openmpi5", "OpenMPI", " slots={slots}", (*_ORTE, *_PRTE)),
    "MPICH": Implementation("mpich", "MPICH", ":{slots}", _HYDRA),
    "Intel MPI": Implementation("intelmpi", "Intel", ":{slots}", _INTEL),
}


@dataclass(frozen=True, slots=True)
class User:
    """Who runs everything in the pods.

    home:      its folder, with what ssh needs.
    key_mode:  of the files there: ssh refuses a key of its own user that others may read.
    sshd:      what a worker runs.
    security:  of every container.
    """

    uid: int
    home: str
    key_mode: int | None
    sshd: tuple[str, ...]
    security: Object


ROOT = User(0, "/root", 0o600, ("/usr/sbin/sshd", "-De"), {})
MPIUSER = User(
    1000,
    "/home/mpiuser",
    None,
    ("/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"),
    {
        "runAsUser": 1000,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    },
)
"""As the restricted standard for pods wants it."""


@dataclass(frozen=True, slots=True)
class ByHand:
    """A job `name` in a namespace.

    nodes:  for each worker the node where it shall run; any, where nothing is said.
    """

    name: str
    namespace: str
    mpi: Implementation
    user: User = ROOT
    workers: int = 2
    slots: int = 2
    nodes: Sequence[str] = ()

    @property
    def worker_names(self) -> list[str]:
        """By index."""
        return [f"{self.name}-worker-{index}" for index in range(self.workers)]

    @property
    def launcher_name(self) -> str:
        return f"{self.name}-launcher"

    # ------------------------------------------------------------ what pods mount and ask
    def beside(self) -> list[Object]:
        """Service, ConfigMap and Secret."""
        service = {"clusterIP": "None", "selector": {"job": self.name}}
        hosts = [f"{worker}.{self.name}.{self.namespace}.svc" for worker in self.worker_names]
        lines = [host + self.mpi.slots.format(slots=self.slots) + "\n" for host in hosts]
        return [
            {**self._head("Service", self.name), "spec": service},
            {
                **self._head("ConfigMap", f"{self.name}-config"),
                "data": {"hostfile": "".join(lines)},
            },
            {
                **self._head("Secret", f"{self.name}-ssh"),
                "type": "kubernetes.io/ssh-auth",
                "data": {key: base64.b64encode(pem).decode() for key, pem in _new_pair().items()},
            },
        ]

    def _head(self, kind: str, name: str) -> Object:
        meta = {"name": name, "namespace": self.namespace, "labels": {"job": self.name}}
        return {"apiVersion": "v1", "kind": kind, "metadata": meta}

    # ------------------------------------------------------------ pods
    def worker_pods(self) -> list[Object]:
        """Ready when sshd listens, and known by name from then on."""
        probe = {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 1}
        pods = []
        for index, name in enumerate(self.worker_names):
            container = {"command": list(self.user.sshd), "readinessProbe": probe}
            pod = self._pod(name, container)
            # Hydra calls the launcher back by its short name.
            search = f"{self.name}.{self.namespace}.svc.cluster.local"
            pod["spec"]["dnsConfig"] = {"searches": [search]}
            if self.nodes:
                pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.nodes[index]}
            pods.append(pod)
        return pods

    def launcher_pod(self, program: str = PROGRAM) -> Object:
        """It runs the program once in every slot."""
        count = str(self.workers * self.slots)
        settings = {"K_MPI_JOB_ROLE": "launcher", **dict(self.mpi.settings)}
        env = [{"name": k, "value": v.format(slots=self.slots)} for k, v in settings.items()]
        args = ["when-names-resolve", "mpirun", "-n", count, "python3", "-c", program]
        pod = self._pod(self.launcher_name, {"args": args, "env": env})
        spec = pod["spec"]
        spec["activeDeadlineSeconds"] = DEADLINE_S  # some hang instead of failing
        spec["volumes"].append({"name": "config", "configMap": {"name": f"{self.name}-config"}})
        mount = {"name": "config", "mountPath": "/etc/mpi"}
        spec["containers"][0]["volumeMounts"].append(mount)
        return pod

    def _pod(self, name: str, container: Object) -> Object:
        keys = {"id_rsa": "privatekey", "id_rsa.pub": "publickey", "authorized_keys": "publickey"}
        secret: Object = {
            "secretName": f"{self.name}-ssh",
            "items": [{"key": f"ssh-{key}", "path": path} for path, key in keys.items()],
        }
        if self.user.key_mode is not None:
            secret["defaultMode"] = self.user.key_mode
        main = {
            "name": "main",
            "image": f"localhost/{self.mpi.image}:1",
            "securityContext": self.user.security,
            "volumeMounts": [{"name": "ssh", "mountPath": f"{self.user.home}/.ssh"}],
            **container,
        }
        spec = {
            "hostname": name,
            "subdomain": self.name,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [main],
            "volumes": [{"name": "ssh", "secret": secret}],
        }
        return {**self._head("Pod", name), "spec": spec}


def _new_pair() -> dict[str, bytes]:
    """By the keys of a Secret of this type."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
