# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods as processes without an API server: what the runner is told and what it writes."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ascendop.backoff import Backoff
from ascendop.sim.hosts import hosts_file
from ascendop.sim.logfolder import LogFolder
from ascendop.sim.loopback import Loopback
from ascendop.sim.netns import Machine
from ascendop.sim.processes import write_in_place
from ascendop.sim.remote_shell import RemoteShell
from ascendop.sim.runner import Node, PodRunner

PATH = "/usr/local/bin:/usr/bin:/bin"


def namespaces(*, user: bool) -> bool:
    """Whether they are to be had here."""
    as_user = ("--user", "--map-root-user") if user else ()
    argv = ["unshare", *as_user, "--net", "--mount", "--pid", "--fork", "ip", "link"]
    try:
        return subprocess.run(argv, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


HAS = {"root": os.geteuid() == 0 and namespaces(user=False), "user": namespaces(user=True)}


def places(*names: str) -> Any:
    """Run the test in each of these places."""
    return pytest.mark.parametrize(
        "kind",
        [
            pytest.param(
                name,
                marks=[
                    pytest.mark.root,
                    pytest.mark.skipif(not HAS.get(name, True), reason=f"no namespaces as {name}"),
                ]
                if name != "loopback"
                else [],
            )
            for name in names
        ],
    )


def best_place() -> str:
    return next((name for name in ("root", "user") if HAS[name]), "loopback")


def make_place(kind: str) -> Machine | Loopback:
    return Loopback() if kind == "loopback" else Machine(user=kind == "user")


def pod(name: str = "p", *command: str, **spec: Any) -> dict[str, Any]:
    """A pod of one container, with what of it matters."""
    container = {"name": "main", "command": list(command), **spec.pop("container", {})}
    if not command:
        container.pop("command")
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "labels": {"app": name},
            "annotations": spec.pop("annotations", {}),
        },
        "spec": {"restartPolicy": "Never", "containers": [container], "nodeName": "node-1", **spec},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    }


def shell(script: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    # A dollar is doubled in a manifest, or $$ would arrive as $.
    return pod(name, "sh", "-c", script.replace("$$", "$$$$"), **spec)


@dataclass
class Driver:
    """Runs pods in one place and keeps what they wrote."""

    place: Machine | Loopback
    root: Path
    objects: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    services: list[dict[str, Any]] = field(default_factory=list)
    statuses: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    events: list[tuple[str, str, str]] = field(default_factory=list)
    runners: list[PodRunner] = field(default_factory=list)
    restart: Backoff = field(default_factory=lambda: Backoff(0.1, 0.2))
    host_root: Path | None = None
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def runner(self, obj: dict[str, Any]) -> PodRunner:
        addresses = self.place.addresses()
        for _ in self.runners:
            next(addresses)
        runner = PodRunner(self.node(), obj, next(addresses), "10.10.0.1")
        runner.folder.mkdir(parents=True)
        self.runners.append(runner)
        self.write_hosts()
        return runner

    def node(self) -> Node:
        etc = self.root / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        (etc / "resolv.conf").write_text("")
        (etc / "nsswitch.conf").write_text("hosts: files\n")
        return Node(
            place=self.place,
            logs=LogFolder(self.root / "logs"),
            root=self.root,
            host_root=self.host_root or self.root / "host",
            wall=self.tick,
            lookup=lambda *key: self.objects.get(key),
            tell=self._tell,
            write_status=self._write,
            rename=self._rename,
            base_env={"PATH": PATH},
            shell=RemoteShell(self.root / "remote-shell", "a token", sshd=False),
            restart=self.restart,
        )

    def tick(self) -> datetime:
        """Every look at the clock is a second later: equal times are no accident."""
        self.now += timedelta(seconds=1)
        return self.now

    def write_hosts(self) -> None:
        pods = [runner.pod for runner in self.runners]
        addresses = {runner.uid: runner.address for runner in self.runners}
        for runner in self.runners:
            text = hosts_file(runner.pod, pods, self.services, addresses)
            write_in_place(runner.hosts_path, text)

    async def run(self, *pods: dict[str, Any]) -> list[dict[str, Any]]:
        """Their last status, in order."""
        runners = [self.runner(obj) for obj in pods]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for runner in runners:
                group.create_task(runner.run())
        return [self.statuses[obj["metadata"]["name"]][-1] for obj in pods]

    def log(self, name: str = "p", container: str = "main", *, previous: bool = False) -> str:
        path = LogFolder(self.root / "logs").path("ml", name, container, previous=previous)
        return path.read_text() if path.exists() else ""

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110  it looks at files, too
                await asyncio.sleep(0.02)

    async def _tell(self, obj: Any, reason: str, message: str, kind: str) -> None:
        self.events.append((kind, reason, message))

    async def _write(self, obj: dict[str, Any], status: dict[str, Any]) -> None:
        self.statuses.setdefault(obj["metadata"]["name"], []).append(status)

    async def _rename(self, _obj: Any, text: str) -> str:
        return text


@asynccontextmanager
async def driver(kind: str, root: Path):
    place = make_place(kind)
    await place.open()
    try:
        yield Driver(place, root)
    finally:
        await place.close()


def ended(status: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return status["containerStatuses"][index]["state"]["terminated"]


def exists(path: str) -> bool:
    return os.path.lexists(path)


def left_behind(marker: str) -> list[str]:
    """Command lines of living processes that contain the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if marker in line and int(entry.name) != os.getpid():
                found.append(line)
    return found
