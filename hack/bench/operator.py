# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator as it runs in a pod: its own process, a token in a folder, default settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from hack.admin import wait_for
from hack.bench.usage import Usage, usage_of
from hack.controlplane import ROOT, ControlPlane
from hack.operate import install_rights
from hack.process import Process

LEASE = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/ascendop"


class BenchedOperator:
    """One replica for a `with` block, entered when it leads.

    Its credentials are those of a pod, because a kubeconfig costs 40 MB of its own.
    profile:  a file that gets the process's cProfile data when it ends.
    """

    def __init__(
        self, plane: ControlPlane, folder: Path, name: str, *, profile: Path | None = None
    ) -> None:
        self._plane = plane
        self._name = name
        self._namespace, account = install_rights(plane)
        credentials = folder / "serviceaccount"
        credentials.mkdir(exist_ok=True)
        with plane.admin() as admin:
            token = admin.token_of(self._namespace, account, lasts_s=7200)
        (credentials / "token").write_text(token)
        (credentials / "ca.crt").write_bytes(plane.ca.read_bytes())
        (credentials / "namespace").write_text(self._namespace)
        profiled = ("-m", "cProfile", "-o", str(profile)) if profile else ()
        command = [
            *(sys.executable, *profiled, "-m", "ascendop", "run"),
            f"--service-account-dir={credentials}",
            f"--pod-name={name}",
            f"--pod-uid={name}",
            "--rank-table-dir=",
            "--metrics-listen=127.0.0.1:0",
            "--health-listen=127.0.0.1:0",
        ]
        parts = urlsplit(plane.server)
        env = {
            "KUBECONFIG": "",
            "KUBERNETES_SERVICE_HOST": parts.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(parts.port),
            "PYTHONPATH": str(ROOT),
        }
        self.process = Process(name, command, folder / f"{name}.log", env)

    def __enter__(self) -> Self:
        self.process.start()
        try:
            wait_for("the operator leads", self._leads, timeout_s=60)
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop(grace_s=30)

    def usage(self) -> Usage:
        """What it has used so far. Raises ProcessError when it has ended."""
        self.process.check()
        return usage_of(self.process.pid)

    def _leads(self) -> bool:
        self.process.check()
        with self._plane.admin() as admin:
            lease = admin.request("GET", LEASE.format(self._namespace))
        return str(lease["spec"].get("holderIdentity") or "").startswith(f"{self._name}_")
