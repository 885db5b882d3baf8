# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One pod, as real processes: from its binding to its end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ascendop.backoff import Backoff
from ascendop.clock import WallClock, rfc3339
from ascendop.kube.resource import Object
from ascendop.sim.devices import has_devices
from ascendop.sim.environment import build_argv, build_env, expand
from ascendop.sim.hosts import hostname_of
from ascendop.sim.logfolder import LogFolder, last_words
from ascendop.sim.podstatus import OURS, ContainerState, PodFacts, build_status, terminated
from ascendop.sim.probes import Prober
from ascendop.sim.remote_shell import RemoteShell
from ascendop.sim.sandbox import Bind, Command, Place, Running, Sandbox, SandboxError
from ascendop.sim.volumes import Lookup, MissingError, UnsupportedError, Volumes, below

GRACE_S: Final = 30.0
LOOK_AGAIN_S: Final = 1.0  # something that was missing may have come without our being told
STABLE_S: Final = 600.0  # a container that ran so long has earned a quick restart
CANNOT_START: Final = 128
KILLED: Final = 137

Tell = Callable[[Object, str, str, Literal["Normal", "Warning"]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Node:
    """What all pods of the driver share."""

    place: Place
    logs: LogFolder
    root: Path
    host_root: Path
    wall: WallClock
    lookup: Lookup
    tell: Tell
    write_status: Callable[[Object, Object], Awaitable[None]]
    rename: Callable[[Object, str], Awaitable[str]]
    """Where names do not resolve: a text with addresses in place of names; else the text."""
    base_env: dict[str, str]
    shell: RemoteShell
    restart: Backoff


@dataclass(slots=True)
class PodRunner:
    """A pod's life.

    Status:  written after every change, and once more when the pod is over.
    Ends:    when the containers have ended and none is to be restarted; when the pod is deleted
             (SIGTERM, the grace period, SIGKILL); at its deadline; never earlier.
    """

    node: Node
    pod: Object
    address: str
    host_address: str
    containers: list[ContainerState] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """The pod or something it may wait for: pulsed, see `_wait_for_change`."""

    _sandbox: Sandbox | None = None
    _volumes: dict[str, Path] = field(default_factory=dict)
    _keeper: Volumes | None = None
    _running: dict[str, Running] = field(default_factory=dict)
    _started_at: str = ""
    _initialized: bool = False
    _ending: bool = False
    """Sidecars are not restarted any more."""
    _over: bool = False
    _probed: asyncio.Event = field(default_factory=asyncio.Event)
    _reason: str = ""
    _message: str = ""
    _last_status: Object = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = self.pod["spec"]
        self.containers = [
            *(ContainerState(c, is_init=True) for c in spec.get("initContainers") or ()),
            *(ContainerState(c) for c in spec.get("containers") or ()),
        ]
        waiting = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
        for container in self.containers:
            container.state = {"waiting": {"reason": waiting}}
        self._keeper = Volumes(
            self.folder / "volumes", host=self.node.host_root, shared=self.node.root
        )

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def folder(self) -> Path:
        return self.node.root / "pods" / self.uid

    @property
    def hosts_path(self) -> Path:
        return self.folder / "etc-hosts"

    # From outside.

    def update(self, pod: Object) -> None:
        """The pod as it is now."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self.stopping.set()
        self.changed.set()

    def refresh_volumes(self) -> None:
        """ConfigMaps, Secrets or the pod's own fields may have changed."""
        if self._volumes and self._keeper is not None:
            self._keeper.refresh(self.pod, self.node.lookup)
        self.changed.set()

    def is_running(self, container: str) -> bool:
        return any(c.name == container and c.running for c in self.containers)

    # Its life.

    async def run(self) -> None:
        """Until the pod is over and its status says so; nothing of it runs afterwards."""
        self._started_at = self._now()
        try:
            async with asyncio.TaskGroup() as group:
                life = group.create_task(self._live())
                stop = group.create_task(self.stopping.wait())
                await self._wait_for_end(life, stop)
                stop.cancel()
        finally:
            if self._sandbox is not None:
                await self._sandbox.close()
        self._over = True
        await self.write_status()

    async def abandon(self, why: str) -> None:
        """The pod ran under another driver: its processes are gone."""
        self._started_at = (self.pod.get("status") or {}).get("startTime") or self._now()
        for container in self.containers:
            container.state = terminated(
                KILLED,
                started_at=self._started_at,
                now=self._now(),
                reason="ContainerStatusUnknown",
            )
        self._reason, self._message, self._over = "NodeLost", why, True
        await self.write_status()

    async def _wait_for_end(self, life: asyncio.Task[None], stop: asyncio.Task[bool]) -> None:
        deadline_s = self.pod["spec"].get("activeDeadlineSeconds")
        await asyncio.wait({life, stop}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            return
        if not self.stopping.is_set():
            self._reason = "DeadlineExceeded"
            self._message = "Pod was active on the node longer than the specified deadline"
            await self.node.tell(self.pod, "DeadlineExceeded", self._message, "Normal")
        self.stopping.set()
        self.changed.set()
        await self._stop(life)

    async def _stop(self, life: asyncio.Task[None]) -> None:
        meta, spec = self.pod["metadata"], self.pod["spec"]
        grace_s = meta.get("deletionGracePeriodSeconds")
        if grace_s is None:
            grace_s = spec.get("terminationGracePeriodSeconds", GRACE_S)
        self._signal(signal.SIGTERM)
        if self._running:
            await self.node.tell(self.pod, "Killing", "Stopping the containers", "Normal")
        await asyncio.wait({life}, timeout=float(grace_s))
        while not life.done():
            self._signal(signal.SIGKILL)
            await asyncio.wait({life}, timeout=LOOK_AGAIN_S)

    def _signal(self, number: signal.Signals) -> None:
        for running in list(self._running.values()):
            running.signal(number)

    async def _live(self) -> None:
        if not await self._prepare():
            return
        async with asyncio.TaskGroup() as sidecars:
            self._initialized = await self._run_inits(sidecars)
            if self._initialized:
                async with asyncio.TaskGroup() as mains:
                    for container in [c for c in self.containers if not c.is_init]:
                        mains.create_task(self._run_main(container))
            self._stop_sidecars()

    async def _run_inits(self, sidecars: asyncio.TaskGroup) -> bool:
        """In order; a sidecar is started and not waited for."""
        for container in [c for c in self.containers if c.is_init]:
            if container.spec.get("restartPolicy") == "Always":
                sidecars.create_task(self._run(container, again=lambda _code: not self._ending))
            elif not await self._initialize(container):
                return False
        return True

    async def _prepare(self) -> bool:
        """Devices, volumes, network; False when the pod ended or cannot run before that."""
        while not has_devices(self.pod):
            if not await self._wait_for_change():
                return False
        for container in self.containers:
            if not container.spec.get("command"):
                await self._refuse(container)
                return False
        if not await self._build_volumes():
            return False
        try:
            self._sandbox = await self.node.place.add_pod(self.address, hostname_of(self.pod))
        except SandboxError as error:
            return await self._give_up("FailedCreatePodSandBox", str(error))
        await self.write_status()
        return True

    async def _build_volumes(self) -> bool:
        while self._keeper is not None:
            try:
                self._volumes = self._keeper.build(self.pod, self.node.lookup)
            except MissingError as error:
                message = f"MountVolume.SetUp failed: {error}"
                await self.node.tell(self.pod, "FailedMount", message, "Warning")
                if not await self._wait_for_change():
                    return False
            except UnsupportedError as error:
                return await self._give_up("FailedMount", str(error))
            else:
                return True
        return False

    async def _refuse(self, container: ContainerState) -> None:
        """There is no image, so there is nothing to run."""
        message = (
            f"container {container.name!r} has no command; here every container is a process of "
            f"this machine and image {container.spec.get('image') or ''!r} is not used: "
            "write what to run as command"
        )
        container.state = {"waiting": {"reason": "ErrImageNeverPull", "message": message}}
        await self._give_up("NoCommand", message)

    async def _give_up(self, reason: str, message: str) -> Literal[False]:
        self._reason, self._message = reason, message
        await self.node.tell(self.pod, reason, message, "Warning")
        return False

    async def _wait_for_change(self) -> bool:
        """False when the pod is to stop."""
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await self.changed.wait()
        return not self.stopping.is_set()

    # Containers.

    async def _initialize(self, container: ContainerState) -> bool:
        """Whether the init container succeeded in the end."""
        policy = self.pod["spec"].get("restartPolicy", "Always")
        await self._run(container, again=lambda code: code != 0 and policy != "Never")
        container.ready = container.exit_code == 0
        return container.exit_code == 0 and not self.stopping.is_set()

    async def _run_main(self, container: ContainerState) -> None:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        await self._run(
            container,
            again=lambda code: policy == "Always" or (policy == "OnFailure" and code != 0),
        )

    def _stop_sidecars(self) -> None:
        self._ending = True
        loop = asyncio.get_running_loop()
        for running in self._running.values():
            running.signal(signal.SIGTERM)
            loop.call_later(GRACE_S, running.signal, signal.SIGKILL)

    async def _run(self, container: ContainerState, *, again: Callable[[int], bool]) -> None:
        """Run it, and again as long as it should; the state is that of the last run."""
        loop = asyncio.get_running_loop()
        crashes = 0
        while not self.stopping.is_set():
            began = loop.time()
            code = await self._run_once(container)
            if self.stopping.is_set() or not again(code):
                break
            crashes = 0 if loop.time() - began > STABLE_S else crashes
            await self._pause(container, crashes)
            crashes += 1
        await self.write_status()

    async def _pause(self, container: ContainerState, crashes: int) -> None:
        """The first restart is immediate, the others wait longer and longer."""
        container.last_state, container.restarts = container.state, container.restarts + 1
        if not crashes:
            return
        pause_s = self.node.restart.after(crashes - 1)
        meta = self.pod["metadata"]
        message = (
            f"back-off {pause_s:.0f}s restarting failed container={container.name} "
            f"pod={meta['name']}_{meta['namespace']}({self.uid})"
        )
        ended = container.state
        container.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        await self.write_status()
        await self.node.tell(self.pod, "BackOff", message, "Warning")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self.stopping.wait()
                container.state = ended  # it will not run again

    async def _run_once(self, container: ContainerState) -> int:
        started_at = self._now()
        log = self.node.logs.begin(*self._log_name(container))
        code, reason = CANNOT_START, "StartError"
        try:
            command = await self._command(container, log)
            if command is None:
                return CANNOT_START
            code = await self._supervise(container, command)
            reason = "StartError" if code == CANNOT_START else ""
        except SandboxError as error:
            log.write_text(f"{error}\n")
        finally:
            container.ready = container.started = False
            self._running.pop(container.name, None)
        container.state = terminated(code, started_at=started_at, now=self._now(), reason=reason)
        if code and container.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            container.state["terminated"]["message"] = last_words(log)
        await self.write_status()
        return code

    async def _supervise(self, container: ContainerState, command: Command) -> int:
        if self._sandbox is None:
            raise SandboxError("the pod has no sandbox")
        running = await self._sandbox.start(command)
        self._running[container.name] = running
        container.state = {"running": {"startedAt": self._now()}}
        await self.node.tell(self.pod, "Started", f"Started container {container.name}", "Normal")
        prober = Prober(
            container.spec,
            command.env,
            self._sandbox,
            running,
            ready=lambda answer: self._set_ready(container, ready=answer),
            started=lambda: self._set_started(container),
            dead=lambda _why: running.signal(signal.SIGKILL),
        )
        async with asyncio.TaskGroup() as group:
            probes = group.create_task(prober.run())
            writer = group.create_task(self._write_when_probed())
            if self.stopping.is_set():  # it was stopped while it started
                running.signal(signal.SIGTERM)
            code = await running.wait()
            probes.cancel()
            writer.cancel()
        return code

    def _set_ready(self, container: ContainerState, *, ready: bool) -> None:
        container.ready = ready
        self._probed.set()

    def _set_started(self, container: ContainerState) -> None:
        container.started = True
        self._probed.set()

    async def _write_when_probed(self) -> None:
        while True:
            await self._probed.wait()
            self._probed.clear()
            await self.write_status()

    # What a process is given.

    async def _command(self, container: ContainerState, log: Path) -> Command | None:
        """None when the pod is to stop before everything that the container needs is there."""
        while True:
            try:
                return await self._build_command(container, log)
            except MissingError as error:
                reason = {"reason": "CreateContainerConfigError", "message": str(error)}
                if container.state != {"waiting": reason}:
                    container.state = {"waiting": reason}
                    await self.write_status()
                    await self.node.tell(self.pod, "Failed", f"Error: {error}", "Warning")
                if not await self._wait_for_change():
                    return None

    async def _build_command(self, container: ContainerState, log: Path) -> Command:
        spec, home = container.spec, self.folder / container.name
        scratch = home / f"start-{container.restarts}"
        scratch.mkdir(parents=True, exist_ok=True)
        work = home / "work"
        work.mkdir(exist_ok=True)
        live = {
            "status.podIP": self.address,
            "status.podIPs": self.address,
            "status.hostIP": self.host_address,
            "status.hostIPs": self.host_address,
        }
        env = build_env(self.pod, spec, self.node.lookup, live)
        argv = build_argv(spec, env)
        env = {
            **self.node.base_env,
            "HOSTNAME": hostname_of(self.pod),
            "HOME": str(work),
            **env,
        }
        tools, tools_path = self.node.shell.equip(self.pod, self.address, self.folder)
        if tools_path:
            env["PATH"] = f"{tools_path}:{env['PATH']}"
        return Command(
            argv=[await self.node.rename(self.pod, word) for word in argv],
            env={name: await self.node.rename(self.pod, value) for name, value in env.items()},
            cwd=spec.get("workingDir") or str(work),
            log=log,
            binds=tools + self._binds(spec, env),
            scratch=scratch,
        )

    def _binds(self, spec: Object, env: dict[str, str]) -> list[Bind]:
        binds = []
        for mount in spec.get("volumeMounts") or ():
            source = self._volumes.get(mount["name"])
            if source is None:
                raise MissingError(f"volume {mount['name']!r} not found")
            inner = mount.get("subPath") or expand(mount.get("subPathExpr") or "", env)
            if inner:
                source = below(source, inner)
                if not source.exists():
                    source.mkdir(parents=True)
                source = source.resolve()
            binds.append(Bind(source, mount["mountPath"], bool(mount.get("readOnly"))))
        binds.sort(key=lambda bind: bind.target.count("/"))
        if self.node.place.separate:
            binds += [
                Bind(path, target)
                for target, path in (
                    ("/etc/hosts", self.hosts_path),
                    ("/etc/resolv.conf", self.node.root / "etc" / "resolv.conf"),
                    ("/etc/nsswitch.conf", self.node.root / "etc" / "nsswitch.conf"),
                )
            ]
        return binds

    # What is told.

    async def write_status(self) -> None:
        facts = PodFacts(
            containers=self.containers,
            address=self.address,
            host_address=self.host_address,
            started_at=self._started_at,
            initialized=self._initialized,
            has_sandbox=self._sandbox is not None and not self._over,
            over=self._over,
            reason=self._reason,
            message=self._message,
        )
        old = {**(self.pod.get("status") or {}), **self._kept_conditions()}
        status = build_status(facts, old, self._now())
        if status != self._last_status:
            self._last_status = status
            await self.node.write_status(self.pod, status)

    def _kept_conditions(self) -> Object:
        """Ours as we wrote them last, others' as the API server shows them."""
        ours = [c for c in self._last_status.get("conditions") or () if c["type"] in OURS]
        seen = (self.pod.get("status") or {}).get("conditions") or ()
        types = {condition["type"] for condition in ours}
        return {"conditions": ours + [c for c in seen if c["type"] not in types]}

    def _log_name(self, container: ContainerState) -> tuple[str, str, str]:
        meta = self.pod["metadata"]
        return meta["namespace"], meta["name"], container.name

    def _now(self) -> str:
        return rfc3339(self.node.wall())
