# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One replica of the operator as a process: a real ServiceAccount's token, the generated rights."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

import yaml

from hack.admin import wait_for
from hack.controlplane import ROOT, ControlPlane
from hack.process import Process, free_ports

RBAC = ROOT / "manifests" / "rbac"


def install_rights(plane: ControlPlane) -> tuple[str, str]:
    """Apply the generated RBAC; namespace and name of the ServiceAccount that it is for."""
    documents = [
        document
        for file in sorted(RBAC.glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text())
        if document and document["kind"] != "Kustomization"
    ]
    subjects = [s for d in documents for s in d.get("subjects") or ()]
    account = next(s for s in subjects if s["kind"] == "ServiceAccount")
    namespace, name = account["namespace"], account["name"]
    with plane.admin() as admin:
        admin.token_of(namespace, name)  # makes the namespace and the account
        for document in documents:
            admin.apply(document)
    return namespace, name


class Operator:
    """`python -m ascendop run` against a control plane.

    folder:     gets its log and its rank tables.
    arguments:  further flags of `run`.
    rights:     "generated" for the ServiceAccount of manifests/rbac, "admin" for every right.
    """

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *arguments: str,
        name: str = "operator",
        rights: str = "generated",
    ) -> None:
        self.name = name
        self.rank_tables = folder / "ranktable"
        self.rank_tables.mkdir(parents=True, exist_ok=True)
        namespace, account = install_rights(plane)
        kubeconfig = plane.kubeconfig
        if rights == "generated":
            kubeconfig = plane.service_account(namespace, account)
        self.metrics_port, self.health_port = free_ports(2)
        command = [
            *(sys.executable, "-m", "ascendop", "run"),
            f"--kubeconfig={kubeconfig}",
            f"--metrics-listen=127.0.0.1:{self.metrics_port}",
            f"--health-listen=127.0.0.1:{self.health_port}",
            f"--rank-table-dir={self.rank_tables}",
            f"--lease-namespace={namespace}",
            f"--pod-name={name}",
            *arguments,
        ]
        self.process = Process(name, command, folder / f"{name}.log", {"PYTHONPATH": str(ROOT)})

    def start(self, *, wait: bool = True) -> Self:
        """Start it; on return it is ready, unless nobody should wait for that."""
        self.process.start()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Until it says that it is ready. Raises ProcessError when it ends instead."""

        def is_ready() -> bool:
            self.process.check()
            return self.get("/readyz")[0] == 200  # noqa: PLR2004

        wait_for(f"{self.name} is ready", is_ready, timeout_s)

    def stop(self) -> int:
        """End it as a Deployment does; its exit code."""
        self.process.signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()

    def restart(self) -> None:
        """A crash, and a new start with nothing but what the cluster remembers."""
        self.kill()
        self.start()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of its own servers: /metrics, /healthz, /readyz. Raises OSError."""
        port = self.metrics_port if path == "/metrics" else self.health_port
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """The sum of all samples of this name; 0 when there are none."""
        lines = self.get("/metrics")[1].splitlines()
        named = (line.rsplit(" ", 1) for line in lines if line.split("{")[0].split(" ")[0] == name)
        return sum(float(value) for _, value in named)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.running:
            self.process.stop()
