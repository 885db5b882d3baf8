# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A cluster of one or two real nodes, brought up in seconds and gone without a trace.

A node lives in namespaces of its own: its ports clash with nobody's, and killing its PID 1 ends
everything in it, containers too. Its addresses can be reached from the machine, and from nowhere
else.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Self

from hack import tools
from hack.node import images, parts, pki
from hack.node.layout import Layout, as_json
from hack.node.machine import make_cgroups, remove_cgroups, why_not

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180.0
POLL_S = 0.1
OK = 200


class NodeError(Exception):
    """A node cannot be had; the message is the one sentence a person needs."""


class Node:
    """One node.

    toleration_s:  how long pods tolerate that it is not ready, unless they say otherwise.
    """

    def __init__(self, layout: Layout, *, toleration_s: int = 300) -> None:
        self.layout = layout
        self.toleration_s = toleration_s
        self._outer: subprocess.Popen[bytes] | None = None
        """The child that holds its namespaces; None when another process started it."""

    @property
    def is_up(self) -> bool:
        return (self.layout.run / "outer.pid").exists()

    def _lives(self) -> bool:
        """Whether what holds its namespaces is still that process."""
        try:
            pid = int((self.layout.run / "outer.pid").read_text())
            return b"hack.node.init" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return False

    def up(self) -> Self:
        """Start it; on return it is Ready. Raises NodeError."""
        if reason := why_not():
            raise NodeError(reason)
        if self.is_up:
            if self._lives():
                raise NodeError(f"{self.layout.name} is up already: make node-down")
            self.down()  # its starter was killed, and it with that
        try:
            self._up()
        except BaseException:
            self.down()
            raise
        return self

    def _up(self) -> None:
        node = self.layout
        _make(images.WANTED)
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
                     "kubelet", "kube-proxy", "coredns", "kubectl"):  # fmt: skip
            tools.path(name)
        node.run.mkdir(parents=True, exist_ok=True)
        parts.configure(node)
        pki.make(node)
        self._isolate()
        self._link()
        (node.run / "link").touch()
        self._wait("containerd answers", self._containerd_answers)
        self._import(images.WANTED)
        for name, tag in images.ALSO.items():
            _run(*self._ctr, "images", "tag", "--force", tag, name)
        self._wait("its API server is reached", lambda: self._says("get", "--raw", "/readyz"))
        self._wait("the node is Ready", self._ready)
        if node.control is None:
            self._wait("accounts are made", self._accounts)
            self._wait("DNS answers", lambda: _answers(f"http://{node.ip}:8181/ready"))

    def _isolate(self) -> None:
        """Namespaces, and a part of the machine's cgroups."""
        node = self.layout
        make_cgroups(node.name)
        said = json.dumps({"node": as_json(node), "toleration_s": self.toleration_s})
        namespaces = ("--net", "--mount", "--pid", "--mount-proc", "--propagation", "private")
        with node.log("init").open("ab") as log:
            self._outer = subprocess.Popen(
                [
                    "unshare",
                    *namespaces,
                    "--fork",
                    "--kill-child",
                    sys.executable,
                    "-m",
                    "hack.node.init",
                    said,
                ],
                cwd=ROOT,
                env=direct(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (node.run / "outer.pid").write_text(str(self._outer.pid))
        self._wait("its namespaces are there", (node.run / "namespaces").exists)
        (inner,) = _children(self._outer.pid)
        (node.run / "inner.pid").write_text(str(inner))

    @property
    def pid(self) -> int:
        """Of the node's PID 1, as the machine counts."""
        return int((self.layout.run / "inner.pid").read_text())

    def _link(self) -> None:
        """A cable: from the machine to the first node, from that to the second."""
        node = self.layout
        first = node.control
        outside: list[str] = []
        if first is not None:
            outside = ["nsenter", "-t", str(Node(first).pid), "-n"]
        inner = str(self.pid)
        peer = ["type", "veth", "peer", "name", "eth0", "netns", inner]
        _run(*outside, "ip", "link", "add", node.name, *peer)
        _run(*outside, "ip", "address", "add", f"{node.gateway}/30", "dev", node.name)
        _run(*outside, "ip", "link", "set", node.name, "up")
        (node.run / "link").touch()
        way = ("ip", "route", "replace", node.pods, "via", node.ip, "dev", node.name)
        self._wait("its pods can be reached", lambda: _works(*outside, *way))
        if first is not None:
            for network in (node.pods, f"{node.ip}/32"):
                _run("ip", "route", "replace", network, "via", first.ip, "dev", first.name)

    def have(self, *names: str) -> None:
        """Images beside those of every node, from now on; made when they are missing.

        Raises NodeError.
        """
        _make(names)
        self._import(names)

    def load(self, archive: Path) -> None:
        """An image from a file, whether one of its name is there or not."""
        _run(*self._ctr, "images", "import", str(archive))

    def _import(self, names: Iterable[str]) -> None:
        """Those that its store does not have yet."""
        listed = subprocess.run(
            [*self._ctr, "images", "ls", "-q"], capture_output=True, text=True, check=True
        ).stdout.split()
        for name in names:
            image = images.IMAGES[name]
            mark = self.layout.store / f"{image.name}-{image.digest}"
            if image.tag not in listed or not mark.exists():
                _run(*self._ctr, "images", "import", str(image.archive))
                mark.touch()

    @property
    def _ctr(self) -> tuple[str, ...]:
        return ("ctr", "-a", str(self.layout.containerd), "-n", "k8s.io")

    def down(self) -> None:
        """End it, and everything in it."""
        node = self.layout
        pids = ("inner.pid", "outer.pid") if self._lives() else ()
        for name in pids:
            file = node.run / name
            if file.exists():
                with suppress(ProcessLookupError):
                    # unshare blocks what is milder, and PID 1 hears nothing else.
                    os.kill(int(file.read_text()), signal.SIGKILL)
        if self._outer is not None:
            self._outer.wait()
            self._outer = None
        if node.control is None:
            subprocess.run(["ip", "link", "delete", node.name], capture_output=True, check=False)
        remove_cgroups(node.name)
        shutil.rmtree(node.run, ignore_errors=True)

    # ------------------------------------------------------------ faults
    def stop(self, part: str) -> None:
        """Kill a part of it; its containers live on without kubelet or containerd."""
        self.kill(Path(parts.command(self.layout, part)[0]).name)

    def start(self, part: str) -> None:
        """Start a part again."""
        code = (
            "import json, sys; from hack.node.init import start; "
            "from hack.node.layout import from_json; "
            f"start(from_json(json.loads(sys.argv[1])), {part!r}, {self.toleration_s})"
        )
        enter = ("nsenter", "-t", str(self.pid), "-n", "-m", "-p", "--")
        _run(
            *enter,
            "env",
            f"PYTHONPATH={ROOT}",
            sys.executable,
            "-c",
            code,
            json.dumps(as_json(self.layout)),
        )

    def processes(self, pod_uid: str = "") -> list[tuple[int, str]]:
        """PIDs, as the machine counts, and names of all that runs in it, or in one pod of it."""
        wanted = f"pod{pod_uid}" if pod_uid else self.layout.name
        mine = Path(f"/proc/{self.pid}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                in_it = wanted in (folder / "cgroup").read_text()
                if in_it or (not pod_uid and (folder / "ns/pid").readlink() == mine):
                    found.append((int(folder.name), (folder / "comm").read_text().strip()))
        return found

    def kill(self, name: str, pod_uid: str = "") -> None:
        """Kill what is called so, in the whole node or in one pod, as a fault would."""
        for pid, called in self.processes(pod_uid):
            if called == name[:15]:  # as much as the kernel remembers
                with suppress(ProcessLookupError):  # it went with the one before
                    os.kill(pid, signal.SIGKILL)

    # ------------------------------------------------------------ waiting
    def kubectl(self, *arguments: str) -> str:
        """Its output. Raises subprocess.CalledProcessError."""
        kubeconfig = f"--kubeconfig={self.layout.kubeconfig()}"
        command = [str(tools.path("kubectl")), kubeconfig, *arguments]
        return subprocess.run(
            command, env=direct(), capture_output=True, text=True, check=True
        ).stdout

    def _says(self, *arguments: str) -> str:
        try:
            return self.kubectl("--request-timeout=5s", *arguments)
        except subprocess.CalledProcessError:
            return ""

    def _ready(self) -> bool:
        path = '{.status.conditions[?(@.type=="Ready")].status}'
        where = ("get", "node", self.layout.name, "-o")
        taints = self._says(*where, "jsonpath={.spec.taints}")
        return self._says(*where, f"jsonpath={path}") == "True" and "not-ready" not in taints

    def _accounts(self) -> bool:
        return bool(self._says("get", "serviceaccount", "default", "-o", "name"))

    def _containerd_answers(self) -> bool:
        return _works(*self._ctr, "version")

    def _wait(self, what: str, true: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not true():
            ended = sorted((self.layout.run / "ended").iterdir())
            if ended:
                gone = ", ".join(
                    f"{file.name} ended with status {file.read_text()}" for file in ended
                )
                raise NodeError(f"{what}: {gone}\n{self._logs()}")
            if time.monotonic() > until:
                raise NodeError(f"{what}: not within {PATIENCE_S:.0f} s\n{self._logs()}")
            time.sleep(POLL_S)

    def _logs(self) -> str:
        """The last lines of each."""
        said = []
        for file in sorted((self.layout.run / "logs").glob("*.log")):
            lines = file.read_text(errors="replace").splitlines()[-5:]
            said += [f"-- {file.stem}", *(line[:300] for line in lines)]
        return "\n".join(said)

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, *_: object) -> None:
        self.down()


def _make(names: Iterable[str]) -> None:
    try:
        images.make(*names)
    except (subprocess.CalledProcessError, OSError) as error:
        raise NodeError(f"images {', '.join(names)} cannot be made: {error}") from error


def direct() -> dict[str, str]:
    """The environment without a proxy: nobody but this machine can reach a node."""
    return {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=1) as answer:
            return bool(answer.status == OK)
    except (OSError, urllib.error.URLError):
        return False


def _run(*command: str) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NodeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
