# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A private network of namespaces: one for the machine with a bridge, one in it for every pod.

machine   net, mount, uts, ipc, pid   (and user, for who is not root)   bridge, ClusterIPs
└─ pod    net, mount, uts, ipc, pid                                     eth0, /dev/shm, hostname
   └─ container    mount, pid                                           volumes, /etc/hosts

Each level's first process ends when its standard input ends, that is when the driver ends, however
it ends; and with the first process of a PID namespace the kernel ends everything in it, then the
mounts and interfaces go. So nothing is ever left, and nothing has to be cleaned up.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ascendop.sim.holder import START_S, Holder
from ascendop.sim.sandbox import Command, SandboxError, exit_code

POD_NETWORK: Final = ipaddress.IPv4Network("10.244.0.0/16")
BRIDGE_ADDRESS: Final = "10.244.0.1"
SERVICE_NETWORK: Final = ipaddress.IPv4Network("10.96.0.0/12")
TOOLS: Final = ("unshare", "nsenter", "ip", "mount", "sh")
MAIN: Final = 3  # nsenter → unshare → PID 1 → the main process

# The whole service network is local to the machine: the forwarder can listen on any ClusterIP.
_MACHINE: Final = f"""set -e
mount --make-rprivate /
ip link set lo up
ip link add br0 type bridge
ip addr add {BRIDGE_ADDRESS}/{POD_NETWORK.prefixlen} dev br0
ip link set br0 up
ip route add local {SERVICE_NETWORK} dev lo
echo ready
exec cat >/dev/null
"""
_POD: Final = f"""set -e
echo unshared
read go
ip link set lo up
ip addr add "$ADDRESS/{POD_NETWORK.prefixlen}" dev eth0
ip link set eth0 up
ip route add default via {BRIDGE_ADDRESS}
mount -t tmpfs tmpfs /dev/shm || true
hostname "$NAME"
echo ready
exec cat >/dev/null
"""
_ALL: Final = ("--net", "--mount", "--uts", "--ipc", "--pid")
_HELD: Final = ("--fork", "--kill-child", "--mount-proc")
_HERE: Final = Path(__file__).parent


async def missing_for_namespaces(*, user: bool) -> str:
    """Why namespaces are not to be had here, as half a sentence; empty when they are."""
    if sys.platform != "linux":
        return "this is no Linux"
    if tools := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(tools)} not found"
    machine = Machine(user=user)
    try:
        await machine.open()
    except SandboxError as error:
        return str(error)
    finally:
        await machine.close()
    return ""


class Machine:
    """The network that all pods share.

    user: make a user namespace first, for who is not root. Root can have one too.
    """

    separate = True

    def __init__(self, *, user: bool) -> None:
        self._user = user
        self.root = not user
        self._holder: Holder | None = None
        self._forwarder: Holder | None = None
        self._pid = 0
        self._links = 0
        self._local: set[str] = set()  # ClusterIPs that are addresses of this machine

    async def open(self) -> None:
        enter_user = ("--user", "--map-root-user") if self._user else ()
        argv = ["unshare", *enter_user, *_ALL, *_HELD, "sh", "-c", _MACHINE]
        self._holder = await Holder.start(argv, os.environ)
        await self._holder.expect("ready")
        self._pid = await descendant(self._holder.pid, 1)
        script = [sys.executable, "-I", "-S", str(_HERE / "forward.py")]
        self._forwarder = await Holder.start([*self.enter(self._pid, "--net"), *script], os.environ)
        await self._forwarder.expect("ready")

    def enter(self, pid: int, *namespaces: str) -> list[str]:
        """The beginning of a command that runs in the namespaces of `pid`."""
        user = ("--user", "--preserve-credentials") if self._user else ()
        return ["nsenter", f"--target={pid}", *user, *namespaces, "--"]

    def addresses(self) -> Iterator[str]:
        return (str(ip) for ip in POD_NETWORK.hosts() if str(ip) != BRIDGE_ADDRESS)

    async def add_pod(self, address: str, hostname: str) -> PodNamespaces:
        held = [*self.enter(self._pid, *_ALL), "unshare", *_ALL, *_HELD, "sh", "-c", _POD]
        env = {**os.environ, "ADDRESS": address, "NAME": hostname}
        holder = await Holder.start(held, env)
        try:
            await holder.expect("unshared")
            pid = await descendant(holder.pid, 2)  # nsenter, unshare, sh
            await self._plug(pid)
            await holder.send(b"go")
            await holder.expect("ready")
        except BaseException:
            await holder.end()
            raise
        return PodNamespaces(self, holder, pid, address)

    async def _plug(self, pid: int) -> None:
        self._links += 1
        name = f"v{self._links}"
        script = (
            f"ip link add {name} type veth peer name eth0 netns {pid} && "
            f"ip link set {name} master br0 up"
        )
        # Not in the machine's PID namespace: `pid` is a number of ours.
        code = await run_quietly([*self.enter(self._pid, "--net"), "sh", "-c", script])
        if code:
            raise SandboxError("the pod's network interface could not be made")

    async def forward(self, table: Mapping[str, Sequence[str]]) -> None:
        if self._forwarder is None:
            return
        for address in sorted({port.rpartition(":")[0] for port in table} - self._local):
            if ipaddress.IPv4Address(address) not in SERVICE_NETWORK:
                route = ["ip", "route", "replace", "local", address, "dev", "lo"]
                await run_quietly([*self.enter(self._pid, "--net"), *route])
            self._local.add(address)
        await self._forwarder.send(json.dumps(table).encode())

    async def close(self) -> None:
        for holder in (self._forwarder, self._holder):
            if holder is not None:
                await holder.end()
        self._forwarder = self._holder = None


class PodNamespaces:
    """One pod's namespaces."""

    def __init__(self, machine: Machine, holder: Holder, pid: int, address: str) -> None:
        self._machine = machine
        self._holder = holder
        self._pid = pid
        self._started: list[Contained] = []
        self.address = address

    async def start(self, command: Command) -> Contained:
        spec = {
            "binds": [[str(b.source), b.target, b.read_only] for b in command.binds],
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": command.cwd,
            "scratch": str(command.scratch),
        }
        # A file: an argument is limited to 128 KiB, and environments may be larger.
        start = command.scratch / "start.json"
        start.write_text(json.dumps(spec))
        script = [sys.executable, "-I", "-S", str(_HERE / "enter.py"), str(start)]
        argv = [*self._machine.enter(self._pid, *_ALL), "unshare", "--mount", "--pid", *_HELD]
        with command.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *argv, *script, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        contained = Contained(self._machine, process)
        self._started.append(contained)
        # From here on there is somebody who hears signals; or it has ended already.
        with contextlib.suppress(SandboxError):
            await descendant(process.pid, MAIN)
        return contained

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        return await run_quietly([*self._machine.enter(self._pid, "--net"), *argv], env)

    async def close(self) -> None:
        await self._holder.end()
        for contained in self._started:
            await contained.wait()


class Contained:
    """One container: nsenter → unshare → its PID 1 → its main process."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine = machine
        self._process = process

    async def wait(self) -> int:
        return exit_code(await self._process.wait())

    def signal(self, number: signal.Signals) -> None:
        # The main process, so that PID 1 tells how it ended, and takes the others along.
        with contextlib.suppress(ProcessLookupError, SandboxError):
            os.kill(_descendant_now(self._process.pid, MAIN), number)

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        try:
            pid = await descendant(self._process.pid, MAIN)
        except SandboxError:
            return 1
        inside = self._machine.enter(pid, *_ALL, "--root", "--wd")
        return await run_quietly([*inside, *argv], env)


async def run_quietly(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, env=env
    )
    try:
        return exit_code(await process.wait())
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise


async def descendant(pid: int, depth: int) -> int:
    """The child of the child of …, `depth` times; waits until it is there."""
    give_up_at = asyncio.get_running_loop().time() + START_S
    while True:
        try:
            return _descendant_now(pid, depth)
        except SandboxError:
            gone = not os.path.lexists(f"/proc/{pid}")  # noqa: ASYNC240  never waits: not a disk
            if gone or asyncio.get_running_loop().time() > give_up_at:
                raise
        await asyncio.sleep(0.005)


def _descendant_now(pid: int, depth: int) -> int:
    for _ in range(depth):
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            children = []
        if not children:
            raise SandboxError(f"process {pid} has no child")
        pid = int(children[0])
    return pid
