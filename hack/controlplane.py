# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A real control plane on loopback: etcd, kube-apiserver, controllers; Volcano and kwok when asked.

    python -m hack.controlplane            run one until Ctrl-C, and print how to reach it
    python -m hack.controlplane --full     the same with Volcano and two kwok nodes of eight NPUs

Used by the end-to-end tests, the benchmark and people. No root, no containers; every process dies
with the one that started it, and ends by its pid.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from hack import tools
from hack.admin import Admin, RefusedError, wait_for
from hack.process import Process, ProcessError, free_ports

ROOT = Path(__file__).resolve().parent.parent
CRDS = ROOT / "manifests" / "crd"
STAGES = ROOT / "ascendop" / "sim" / "stages"
ADMIN_TOKEN = "admin"
ATTEMPTS = 3  # a port may be taken between our look and the process's bind
CONTROLLERS = "garbage-collector,namespace,job,resourcequota,pod-garbage-collector"
OF_WORKLOADS = "deployment,replicaset,statefulset"
"""Where nodes run pods; the recordings were made without them."""
SHARP = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.0}
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""Volcano admits a gang only when it fits."""
OPEN = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
"""
"""Volcano admits every gang within a period: for throughput without nodes."""


class ControlPlane:
    """One control plane in one folder.

    folder:     gets data, keys, kubeconfigs and one log for each process.
    volcano:    the scheduler configuration (SHARP, OPEN or other); empty for no Volcano processes.
    groups:     whether Volcano's CRDs are there from the start.
    kwok:       whether fake nodes run pods, by the simulator's stages; `stages` are added.
    apiserver:  further flags of kube-apiserver.
    Always:     our CRDs, so that every kind can be stored.
    Not:        kube-scheduler; pods that name no other scheduler stay unbound.
    """

    def __init__(
        self,
        folder: Path,
        *,
        volcano: str = "",
        groups: bool = True,
        kwok: bool = False,
        stages: Sequence[Path] = (),
        crds: Sequence[Path] | None = None,
        apiserver: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.volcano = volcano
        self.groups = groups
        self.kwok = kwok
        self.stages = stages
        self.crds = sorted(CRDS.glob("*.yaml")) if crds is None else crds
        self.apiserver = apiserver
        self.processes: list[Process] = []
        self.server = ""
        self._nodes = 0

    # ------------------------------------------------------------ life
    def start(self) -> Self:
        """Start everything that was asked for; on return it serves. Raises ProcessError."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start()
            except (ProcessError, TimeoutError):
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                break
        return self

    def stop(self) -> None:
        """End all processes, the last started first."""
        while self.processes:
            self.processes.pop().stop()
        for data in self.folder.glob("etcd-*"):  # only logs and keys are worth keeping
            shutil.rmtree(data, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def check(self) -> None:
        """Raise ProcessError when any process has ended."""
        for process in self.processes:
            process.check()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = self._start_server()
        self._install_crds([*(tools.files("volcano-crds") if self.groups else ()), *self.crds])
        # Its garbage collector asks which kinds there are when it starts, and then every half
        # minute: children of a kind that came after it would stay so long.
        self._start_controllers(key)
        if self.volcano:
            self._start_volcano()
        if self.kwok:
            self._start_kwok()

    def _run(self, name: str, *arguments: str, **env: str) -> Process:
        process = Process(name, [tools.path(name), *arguments], self.folder / f"{name}.log", env)
        process.start()
        self.processes.append(process)
        return process

    # ------------------------------------------------------------ parts
    def _start_server(self) -> Path:
        """On return it serves; the key of its ServiceAccounts."""
        etcd, peer, port = free_ports(3)
        self.server = f"https://127.0.0.1:{port}"
        data = tempfile.mkdtemp(prefix="etcd-", dir=self.folder)  # a new one for each attempt
        self._run(
            "etcd",
            f"--data-dir={data}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        key = self._service_account_key()
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')
        self._run(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'apiserver'}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            # Pods need no account here, and nobody would take a new node's taint away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *self.apiserver,
        )
        self._wait("kube-apiserver is ready", self._ready)
        return key

    def _start_controllers(self, key: Path) -> None:
        controllers = f"{CONTROLLERS},{OF_WORKLOADS}" if self.kwok else CONTROLLERS
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={key}",
            "--controllers=" + ",".join(f"{name}-controller" for name in controllers.split(",")),
            # Its default client limits make deletion the slow part of every test.
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            "--concurrent-gc-syncs=20",
            # It learns late of kinds that come after it; their quotas would wait for minutes.
            "--resource-quota-sync-period=5s",
        )

    def _service_account_key(self) -> Path:
        file = self.folder / "sa.key"
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return file

    def _ready(self) -> bool:
        if not self.ca.exists():
            return False
        with self.admin() as admin:
            return admin.ask("GET", "/readyz")[0] == 200  # noqa: PLR2004

    def install_volcano(self, configuration: str) -> None:
        """Volcano on a server that was started without: its CRDs, then its processes."""
        self.volcano = configuration
        self._install_crds(tools.files("volcano-crds"))
        self._start_volcano()

    def configure_volcano(self, configuration: str) -> None:
        """Another configuration for the scheduler that runs, which reads it within a moment."""
        self.volcano = configuration
        self._scheduler_conf.write_text(configuration)

    def process(self, name: str) -> Process:
        """The process of this name that was started last, e.g. vc-scheduler."""
        return next(each for each in reversed(self.processes) if each.name == name)

    def _install_crds(self, files: Sequence[Path]) -> None:
        with self.admin() as admin:
            made = [crd for file in files for crd in admin.apply_file(file)]
            for crd in made:
                name = crd["metadata"]["name"]
                self._wait(f"CRD {name} is served", partial(_established, admin, name))

    def _start_volcano(self) -> None:
        health, scheduler_health, metrics = free_ports(3)
        conf = self._scheduler_conf
        sockets = self.folder / "volcano-sockets"
        for folder in (conf.parent, sockets):
            folder.mkdir(exist_ok=True)
        conf.write_text(self.volcano)
        shared = (
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--scheduler-name=volcano",
            "--enable-healthz=true",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        self._run(
            "vc-controller-manager",
            *shared,
            "--controllers=queue-controller,pg-controller,job-controller,gc-controller",
            f"--healthz-address=127.0.0.1:{health}",
            DEBUG_SOCKET_DIR=str(sockets),
        )
        self._run(
            "vc-scheduler",
            *shared,
            "--default-queue=default",
            f"--scheduler-conf={conf}",
            "--schedule-period=500ms",
            "--csi-storage=false",
            "--cache-dumper=false",
            f"--healthz-address=127.0.0.1:{scheduler_health}",
            f"--listen-address=127.0.0.1:{metrics}",
            DEBUG_SOCKET_DIR=str(sockets),
        )
        with self.admin() as admin:
            self._wait("Volcano's queue default is open", lambda: _queue_open(admin))

    @property
    def _scheduler_conf(self) -> Path:
        # The scheduler watches the folder: a log in it means endless reloads.
        return self.folder / "volcano" / "scheduler.conf"

    def _start_kwok(self) -> None:
        stages = self.folder / "stages.yaml"
        files = (*tools.files("kwok-stages"), *sorted(STAGES.glob("*.yaml")), *self.stages)
        texts = [file.read_text() for file in files]
        stages.write_text("\n---\n".join(texts))
        (port,) = free_ports(1)
        self._run(
            "kwok",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=true",
            "--cidr=10.0.0.0/24",
            "--node-ip=10.0.0.1",
            "--node-lease-duration-seconds=40",
            f"--server-address=127.0.0.1:{port}",
            f"--config={stages}",
        )

    def _wait(self, what: str, true: Callable[[], bool]) -> None:
        def alive_and_true() -> bool:
            self.check()
            return true()

        wait_for(what, alive_and_true, timeout_s=60)

    # ------------------------------------------------------------ ways in
    @property
    def ca(self) -> Path:
        """What the server's certificate is checked against."""
        return self.folder / "apiserver" / "apiserver.crt"

    def admin(self) -> Admin:
        """Every right."""
        return Admin(self.server, ADMIN_TOKEN, self.ca)

    @property
    def kubeconfig(self) -> Path:
        """Every right, as a file."""
        return self.kubeconfig_of("admin", ADMIN_TOKEN)

    def kubeconfig_of(self, user: str, token: str) -> Path:
        """A kubeconfig with this token; the same file for the same user."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": self._cluster()}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
            "current-context": "local",
        }
        file = self.folder / f"{user}.kubeconfig"
        text = yaml.safe_dump(config, sort_keys=False)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            file.chmod(0o600)
        return file

    def _cluster(self) -> dict[str, str]:
        return {"server": self.server, "certificate-authority": str(self.ca)}

    def service_account(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a real token of this ServiceAccount, made when it is missing."""
        with self.admin() as admin:
            token = admin.token_of(namespace, name)
        return self.kubeconfig_of(f"{namespace}-{name}", token)

    def add_node(
        self,
        name: str,
        npus: int = 8,
        resource: str = "huawei.com/Ascend910",
        labels: Mapping[str, str] = {},
    ) -> None:
        """A fake node; with kwok it is Ready within 3 s, and this waits for it."""
        self._nodes += 1
        address = f"10.10.0.{self._nodes}"
        room = {"cpu": "192", "memory": "2Ti", "pods": "110", resource: str(npus)}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64", **labels}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "capacity": room,
                "allocatable": room,
                "addresses": [{"type": "InternalIP", "address": address}],
            },
        }
        with self.admin() as admin:
            admin.ensure(node)
            if self.kwok:
                self._wait(f"node {name} is ready", lambda: _node_ready(admin, name))


def _true_condition(obj: dict[str, Any], wanted: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or []
    return any(c["type"] == wanted and c["status"] == "True" for c in conditions)


def _established(admin: Admin, crd: str) -> bool:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"
    return _true_condition(admin.request("GET", path), "Established")


def _queue_open(admin: Admin) -> bool:
    queue = admin.request("GET", "/apis/scheduling.volcano.sh/v1beta1/queues/default")
    return bool(queue.get("status", {}).get("state") == "Open")


def _node_ready(admin: Admin, name: str) -> bool:
    return _true_condition(admin.request("GET", f"/api/v1/nodes/{name}"), "Ready")


def main() -> int:
    """Run one until a signal; the folder goes with it unless --dir was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="with Volcano and two kwok nodes")
    parser.add_argument("--dir", type=Path, help="keep data and logs there")
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="ascendop-") as scratch:
        folder = arguments.dir or Path(scratch)
        volcano = SHARP if arguments.full else ""
        try:
            with ControlPlane(folder, volcano=volcano, kwok=arguments.full) as control_plane:
                for i in (1, 2) if arguments.full else ():
                    control_plane.add_node(f"node-{i}")
                print(f"export KUBECONFIG={control_plane.kubeconfig}", flush=True)
                print(f"alias kubectl={tools.path('kubectl')}", flush=True)
                ended.wait()
        except (tools.ToolError, ProcessError, RefusedError, TimeoutError) as error:
            print(f"controlplane: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
