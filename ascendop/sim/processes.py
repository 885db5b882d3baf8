# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose pods are real local processes."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from ascendop.backoff import Backoff
from ascendop.clock import WallClock
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    ConflictError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from ascendop.kube.resource import CONFIGMAPS, NODES, PODS, SECRETS, SERVICES, Object
from ascendop.sim.devices import DevicePlugin, ended
from ascendop.sim.events import Teller
from ascendop.sim.hosts import forward_table, hosts_file, service_addresses, shared_lines
from ascendop.sim.logfolder import LogFolder
from ascendop.sim.nodes import internal_ip
from ascendop.sim.remote_shell import RemoteShell, has_sshd
from ascendop.sim.runner import Node, PodRunner
from ascendop.sim.sandbox import Place
from ascendop.sim.watching import Mirror

SETTLE_S: Final = 0.02  # names that come together are written together
RETRY: Final = Backoff(0.2, 5.0)
RESTART: Final = Backoff(10.0, 300.0)  # as a kubelet
NAMES_S: Final = 5.0  # how long a container waits for the addresses of names it is given
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOST: Final = "the driver that ran this pod has ended, and its processes with it"
_LIVE_S: Final = 0.05


class ProcessNodes:
    """Every node of the cluster: each container of its pods is a process of this machine.

    Same:    environment, files, names, probes, restarts, signals and status as under a kubelet.
    Not:     images, resource limits, security contexts, kubectl exec.
    Leaves:  logs, and what was written to hostPath, claims and nfs, below `root`; nothing else.
    """

    def __init__(
        self,
        client: Client,
        *,
        wall: WallClock,
        root: Path,
        place: Place,
        token: str,
        path: str = SYSTEM_PATH,
        host_paths: bool = False,
        restart: Backoff = RESTART,
    ) -> None:
        """What all pods share.

        token:       of this driver alone: see RemoteShell.
        path:        where pods find their commands, after what belongs to this interpreter.
        host_paths:  mount the machine's own paths, instead of ones below `root`/host.
        """
        self._client = client
        self._root = root.absolute()
        self._place = place
        self._teller = Teller(client, "kubelet", wall)
        self.logs = LogFolder(self._root / "logs")
        self.logs.ask(running=self._is_running, first=self._first_container)
        self._nodes, self._pods = Mirror(client, NODES), Mirror(client, PODS)
        self._services = Mirror(client, SERVICES)
        self._sources = {"ConfigMap": Mirror(client, CONFIGMAPS), "Secret": Mirror(client, SECRETS)}
        self._devices = DevicePlugin(client, pods=self._pods, nodes=self._nodes)
        self._runners: dict[str, PodRunner] = {}  # by pod UID: every pod that is not over
        self._addresses: dict[str, str] = {}  # by pod UID: until its runner is over
        self._free = itertools.cycle(place.addresses())
        self._tasks: asyncio.TaskGroup | None = None
        self._names_changed = asyncio.Event()
        self._shared = Node(
            place=place,
            logs=self.logs,
            root=self._root,
            host_root=Path("/") if host_paths else self._root / "host",
            wall=wall,
            lookup=self._lookup,
            tell=self._tell,
            write_status=self._write_status,
            rename=self._rename,
            shell=RemoteShell(self._root / "remote-shell", token, sshd=place.root and has_sshd()),
            base_env={
                "PATH": f"{Path(sys.executable).parent}:{path}",
                "LANG": "C.UTF-8",
            },
            restart=restart,
        )
        self._pods.on_change(self._on_pod)
        self._nodes.on_change(self._on_node)
        self._services.on_change(lambda _old, _new: self._names_changed.set())
        for mirror in self._sources.values():
            mirror.on_change(self._on_source)

    @property
    def host_root(self) -> Path:
        """Where a hostPath of a pod lies on this machine."""
        return self._shared.host_root

    async def run(self) -> NoReturn:
        """Run pods until cancelled; then all of them are killed."""
        self._lay_out()
        async with asyncio.TaskGroup() as group:
            self._tasks = group
            # Pods last: what they name is known by then.
            mirrors = (self._nodes, self._services, *self._sources.values(), self._pods)
            for mirror in mirrors:
                group.create_task(mirror.run())
                await mirror.synced.wait()
            group.create_task(self._devices.run())
            group.create_task(self._keep_names())
        raise AssertionError

    def _lay_out(self) -> None:
        etc = self._root / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        # A look-up outside of /etc/hosts has to fail at once: reverse look-ups against a name
        # server that is out of reach take seconds each.
        (etc / "resolv.conf").write_text("# no name server: names are in /etc/hosts\n")
        (etc / "nsswitch.conf").write_text(
            "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
        )

    # Changes.

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        self._names_changed.set()
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._gone(old)
        if new is not None:
            self._look(new)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            for pod in list(self._pods.objects.values()):
                if pod["spec"].get("nodeName") == new["metadata"]["name"]:
                    self._look(pod)

    def _on_source(self, _old: Object | None, _new: Object | None) -> None:
        for runner in list(self._runners.values()):
            runner.refresh_volumes()

    def _gone(self, pod: Object) -> None:
        """Deleted by force: its processes go at once."""
        self._teller.forget(pod["metadata"]["uid"])
        runner = self._runners.get(pod["metadata"]["uid"])
        if runner is not None:
            runner.update({**pod, "metadata": {**pod["metadata"], **_NOW_GONE}})

    def _look(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if ("", pod["spec"].get("nodeName") or "") not in self._nodes.objects:
            return
        if uid in self._runners:
            runner = self._runners[uid]
            runner.update(pod)
            runner.refresh_volumes()  # downward API files
        elif pod["metadata"].get("deletionTimestamp"):
            self._spawn(self._finish_deletion(pod))
        elif not ended(pod):
            self._spawn(self._run_pod(pod, self._runner(pod)))

    def _runner(self, pod: Object) -> PodRunner:
        uid = pod["metadata"]["uid"]
        taken = set(self._addresses.values())
        address = next(address for address in self._free if address not in taken)
        node = self._nodes.objects.get(("", pod["spec"]["nodeName"]))
        runner = PodRunner(self._shared, pod, address, internal_ip(node))
        runner.folder.mkdir(parents=True, exist_ok=True)  # before anybody writes names into it
        self._addresses[uid] = address
        self._runners[uid] = runner
        self._write_hosts(runner)
        return runner

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._tasks is not None:
            self._tasks.create_task(work)

    async def _run_pod(self, pod: Object, runner: PodRunner) -> None:
        try:
            if (pod.get("status") or {}).get("phase") == "Running":
                await runner.abandon(LOST)
            else:
                await runner.run()
        finally:
            self._runners.pop(runner.uid, None)
            self._addresses.pop(runner.uid, None)
            self._names_changed.set()
            shutil.rmtree(runner.folder, ignore_errors=True)
        if runner.pod["metadata"].get("deletionTimestamp"):
            await self._finish_deletion(runner.pod)

    # Names.

    async def _keep_names(self) -> NoReturn:
        while True:
            await self._names_changed.wait()
            await asyncio.sleep(SETTLE_S)
            self._names_changed.clear()
            services, pods = self._all(self._services), self._all(self._pods)
            await self._place.forward(forward_table(services, pods, self._addresses))
            for runner in list(self._runners.values()):
                self._write_hosts(runner)

    def _write_hosts(self, runner: PodRunner) -> None:
        services, pods = self._all(self._services), self._all(self._pods)
        text = hosts_file(runner.pod, pods, services, self._addresses)
        write_in_place(runner.hosts_path, text)

    def _all(self, mirror: Mirror) -> list[Object]:
        """In the order of their creation: lines are added at the end, mostly."""
        return sorted(
            mirror.objects.values(),
            key=lambda o: (o["metadata"].get("creationTimestamp") or "", o["metadata"]["name"]),
        )

    async def _rename(self, pod: Object, text: str) -> str:
        """Where names do not resolve: addresses instead of them, once they are known."""
        if self._place.separate:
            return text
        for _ in range(int(NAMES_S / _LIVE_S)):
            if not self._unresolved(pod, text):
                break
            await asyncio.sleep(_LIVE_S)
        services, pods = self._all(self._services), self._all(self._pods)
        pairs: dict[str, str] = {}
        for line in shared_lines(pod["metadata"]["namespace"], pods, services, self._addresses):
            address, *names = line.split()
            pairs.update((name, address) for name in names if name not in pairs)
        for service in services:
            behind = service_addresses(
                {**service, "spec": {**service["spec"], "clusterIP": "None"}}, pods, self._addresses
            )
            cluster_ip = service["spec"].get("clusterIP") or "None"
            if behind and cluster_ip != "None":
                pairs = {name: behind[0] if a == cluster_ip else a for name, a in pairs.items()}
                pairs[cluster_ip] = behind[0]
        return substitute(text, pairs)

    def _unresolved(self, pod: Object, text: str) -> bool:
        """Whether the text names a Service of the namespace that has no pod behind it yet."""
        for service in self._all(self._services):
            meta, spec = service["metadata"], service["spec"]
            if meta["namespace"] != pod["metadata"]["namespace"] or not spec.get("selector"):
                continue
            named = {meta["name"], spec.get("clusterIP") or meta["name"]} - {"None"}
            headless = {**service, "spec": {**spec, "clusterIP": "None"}}
            if any(mentions(text, name) for name in named) and not service_addresses(
                headless, self._all(self._pods), self._addresses
            ):
                return True
        return False

    # What runners ask for.

    def _lookup(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._sources[kind].objects.get((namespace, name))

    def _is_running(self, namespace: str, pod: str, container: str) -> bool:
        found = self._pods.objects.get((namespace, pod))
        runner = self._runners.get(found["metadata"]["uid"]) if found else None
        return runner is not None and runner.is_running(container)

    def _first_container(self, namespace: str, pod: str) -> str:
        found = self._pods.objects.get((namespace, pod))
        return str(found["spec"]["containers"][0]["name"]) if found else ""

    async def _tell(
        self, pod: Object, reason: str, message: str, kind: Literal["Normal", "Warning"]
    ) -> None:
        await self._teller.tell(pod, reason, message, kind=kind)

    async def _write_status(self, pod: Object, status: Object) -> None:
        """Until it is written, or the pod is gone: nobody else will say how it ended."""
        meta = pod["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        for failures in itertools.count():
            try:
                await self._client.patch(
                    PODS, meta["namespace"], meta["name"], body, subresource="status"
                )
            except (NotFoundError, ConflictError, RejectedError):
                return
            except (ApiError, TransportError):
                await asyncio.sleep(RETRY.after(failures))
            else:
                return

    async def _finish_deletion(self, pod: Object) -> None:
        meta = pod["metadata"]
        for failures in itertools.count():
            try:
                await self._client.delete(
                    PODS, meta["namespace"], meta["name"], uid=meta["uid"], grace_s=0
                )
            except (NotFoundError, ConflictError):
                return
            except (ApiError, TransportError):
                await asyncio.sleep(RETRY.after(failures))
            else:
                return


_NOW_GONE: Final = {"deletionTimestamp": "1970-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


def write_in_place(path: Path, text: str) -> None:
    """The file keeps its identity, since it is mounted somewhere; one write, shortened after."""
    content = text.encode()
    if path.exists() and path.read_bytes() == content:
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(fd, content, 0)
        os.ftruncate(fd, len(content))
    finally:
        os.close(fd)


def mentions(text: str, name: str) -> bool:
    return re.search(_standing_alone(name), text) is not None


def substitute(text: str, pairs: dict[str, str]) -> str:
    """Each name that stands alone becomes its address, long names first."""
    for name in sorted(pairs, key=lambda name: (-len(name), name)):
        text = re.sub(_standing_alone(name), pairs[name], text)
    return text


def _standing_alone(name: str) -> str:
    # After one slash it is a part of a path; after two, an address.
    return rf"(?<![\w.-])(?<![^/]/){re.escape(name)}(?![\w-]|\.\w)"
