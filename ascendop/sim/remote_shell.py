# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What an image of an MPI job brings and this machine may lack: how a launcher reaches workers.

Launchers of every MPI start their helpers by `ssh host command`. A pod of an MPIJob finds one of
    sshd    the machine's, with the settings that images have (mpijob.md 8.3), where it can run
    ours    a launch agent under sshd's name, and a client under ssh's
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ascendop.kube.resource import Object
from ascendop.sim.hosts import names_of_pod
from ascendop.sim.sandbox import Bind

SSHD: Final = "/usr/sbin/sshd"
SSH: Final = "/usr/bin/ssh"
MPI: Final = ("training.kubeflow.org/operator-name", "mpi-operator")
SSH_PORT: Final = 2222
_HERE: Final = Path(__file__).parent
_CLIENT: Final = """Host *
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
Port 2222
"""
# PAM lets root in whose password is locked, as it is on many laptops.
_SERVER: Final = """Port 2222
{declared}HostKey /etc/ssh/host_key
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
PidFile none
UsePAM {pam}
"""


@dataclass(frozen=True, slots=True)
class RemoteShell:
    """For all pods of a driver.

    folder:  of this driver's own, which nobody else may read.
    token:   what agents ask their callers for.
    sshd:    the machine's own is used; where it cannot, see `has_sshd`.
    """

    folder: Path
    token: str
    sshd: bool

    def equip(self, pod: Object, address: str, home: Path) -> tuple[list[Bind], str]:
        """Binds for the pod's containers, and a folder for the head of their PATH ("": none).

        home: a folder of the pod's own.
        """
        label, value = MPI
        if (pod["metadata"].get("labels") or {}).get(label) != value:
            return [], ""
        if self.sshd:
            return self._settings(home, _port_of(pod)), ""
        return self._agent(pod, address, home, _port_of(pod))

    def _settings(self, home: Path, port: int) -> list[Bind]:
        etc, run = home / "etc-ssh", home / "run-sshd"
        run.mkdir(mode=0o755, exist_ok=True)
        if not etc.exists():
            etc.mkdir(mode=0o755)
            (etc / "host_key").touch(0o600)
            (etc / "host_key").write_bytes(_new_host_key())
            pam = "yes" if Path("/etc/pam.d/sshd").exists() else "no"
            declared = "" if port == SSH_PORT else f"Port {port}\n"
            (etc / "sshd_config").write_text(_SERVER.format(declared=declared, pam=pam))
            (etc / "ssh_config").write_text(_CLIENT)
        return [Bind(etc, "/etc/ssh"), Bind(run, "/run/sshd")]

    def _agent(self, pod: Object, address: str, home: Path, port: int) -> tuple[list[Bind], str]:
        namespace = pod["metadata"]["namespace"]
        agents = self.folder / namespace
        settings = {
            "address": address,
            "port": port,
            "folder": str(agents),
            "names": [address, *names_of_pod(pod, namespace)],
            "token": self.token,
        }
        tools = home / "remote-shell"
        tools.mkdir(mode=0o700, exist_ok=True)
        (tools / "settings.json").write_text(json.dumps(settings))
        for name, script in (("sshd", "launch_agent.py"), ("ssh", "launch_client.py")):
            words = [sys.executable, "-I", "-S", str(_HERE / script), str(tools / "settings.json")]
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            (tools / name).chmod(0o700)
        return [Bind(tools / "sshd", SSHD), Bind(tools / "ssh", SSH)], str(tools)


def _new_host_key() -> bytes:
    # Megabytes that nobody else who imports this needs.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def has_sshd() -> bool:
    """Whether this machine has one where images have it, and the client too."""
    return shutil.which(SSHD) is not None and shutil.which(SSH) is not None


def _port_of(pod: Object) -> int:
    """What the containers declare, for an image's own settings are not here."""
    declared: Sequence[Object] = [
        port
        for container in pod["spec"].get("containers") or ()
        for port in container.get("ports") or ()
    ]
    return int(declared[0]["containerPort"]) if declared else SSH_PORT
