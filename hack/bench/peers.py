# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operators whose jobs we take over, as processes to measure ours against.

Each runs with every right and with client and queue limits so high that none is ever reached; as
shipped they are held back by these, to 5 and 20 requests a second.
"""

from __future__ import annotations

import base64
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from hack import tools
from hack.admin import wait_for
from hack.bench.usage import Usage, usage_of
from hack.controlplane import ControlPlane
from hack.process import Process, free_ports

UNLIMITED: Final = 10_000
"""Requests a second."""
THREADS: Final = 8
STARTS_S: Final = 90.0
LOCKS: Final = "peer-locks"
CERTIFICATES: Final = "training-operator-webhook-cert"
FOUND: Final = 200


class BenchedPeer:
    """One replica for a `with` block, entered when it works: `works` is asked until it says so."""

    def __init__(
        self, process: Process, works: Callable[[], bool], leaves: Path | None = None
    ) -> None:
        self.process = process
        self._works = works
        self._leaves = leaves

    def __enter__(self) -> Self:
        self.process.start()
        try:
            wait_for(f"{self.process.name} works", self._alive_and_working, STARTS_S)
        except BaseException:
            self.process.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        if self._leaves is not None:
            shutil.rmtree(self._leaves, ignore_errors=True)

    def usage(self) -> Usage:
        """What it has used so far. Raises ProcessError when it has ended."""
        self.process.check()
        return usage_of(self.process.pid)

    def _alive_and_working(self) -> bool:
        self.process.check()
        return self._works()


def mpi_operator(plane: ControlPlane, folder: Path, name: str) -> BenchedPeer:
    """It serves health at port 8080, which has to be free."""
    _ensure_namespace(plane, LOCKS)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{LOCKS}/leases/mpi-operator"

    def holder() -> str:
        with plane.admin() as admin:
            code, found = admin.ask("GET", lease)
        return str(found["spec"].get("holderIdentity") or "") if code == FOUND else ""

    command: list[str | Path] = [
        tools.path("mpi-operator"),
        f"-kubeConfig={plane.kubeconfig}",
        f"-lock-namespace={LOCKS}",
        f"-kube-api-qps={UNLIMITED}",
        f"-kube-api-burst={UNLIMITED}",
        f"-controller-queue-rate-limit={UNLIMITED}",
        f"-controller-queue-burst={UNLIMITED}",
        f"-threadiness={THREADS}",
    ]
    before = holder()
    process = Process(name, command, folder / f"{name}.log", {})
    return BenchedPeer(process, lambda: holder() not in {"", before})


def training_operator(plane: ControlPlane, folder: Path, name: str) -> BenchedPeer:
    """For PyTorchJobs alone.

    It makes certificates for webhooks that nobody calls here, writes them into a Secret, and works
    when it finds them as files.
    """
    _ensure_namespace(plane, "kubeflow")
    with plane.admin() as admin:
        admin.ensure({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validator.training-operator.kubeflow.org"},
            "webhooks": [],
        })  # fmt: skip
        meta = {"name": CERTIFICATES, "namespace": "kubeflow"}
        admin.ensure({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    metrics, health, webhooks = free_ports(3)
    command: list[str | Path] = [
        tools.path("training-operator"),
        f"--kubeconfig={plane.kubeconfig}",
        "--enable-scheme=pytorchjob",
        f"--kube-api-qps={UNLIMITED}",
        f"--kube-api-burst={UNLIMITED}",
        f"--controller-threads={THREADS}",
        f"--metrics-bind-address=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={webhooks}",
    ]
    served = Path(tempfile.gettempdir()) / "k8s-webhook-server"  # it cannot be told another one

    def works() -> bool:
        _hand_over_certificates(plane, served / "serving-certs")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5) as answer:
                return bool(answer.status == FOUND)
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    process = Process(name, command, folder / f"{name}.log", {})
    return BenchedPeer(process, works, leaves=served)


def _hand_over_certificates(plane: ControlPlane, served: Path) -> None:
    """As a kubelet would mount the Secret."""
    with plane.admin() as admin:
        secret = admin.request("GET", f"/api/v1/namespaces/kubeflow/secrets/{CERTIFICATES}")
    served.mkdir(parents=True, exist_ok=True)
    for file, content in (secret.get("data") or {}).items():
        (served / file).write_bytes(base64.b64decode(content))


def _ensure_namespace(plane: ControlPlane, name: str) -> None:
    with plane.admin() as admin:
        admin.ensure({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
