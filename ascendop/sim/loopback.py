# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where namespaces are not to be had: plain processes, each pod with a loopback address."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import shutil
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGKILL, Signals
from typing import Final

from ascendop.sim.netns import run_quietly
from ascendop.sim.sandbox import Bind, Command, SandboxError, exit_code

NETWORK: Final = ipaddress.IPv4Network("127.77.0.0/16")


class Loopback:
    """Pods share ports, names and mounts with the machine.

    Binds:  a mount path in arguments and environment is replaced by the folder that holds it.
    Not:    ClusterIPs, hosts files; whoever starts a container replaces names beforehand.
            What a killed driver leaves: grandchildren of its containers.
    """

    separate = False
    root = False

    async def open(self) -> None:
        return

    def addresses(self) -> Iterator[str]:
        return map(str, NETWORK.hosts())

    async def add_pod(self, address: str, hostname: str) -> LoopbackPod:  # noqa: ARG002
        return LoopbackPod(address)

    async def forward(self, table: Mapping[str, Sequence[str]]) -> None:  # noqa: ARG002
        return

    async def close(self) -> None:
        return


class LoopbackPod:
    """The processes of one pod."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._started: list[PlainProcess] = []

    async def start(self, command: Command) -> PlainProcess:
        argv = [_moved(word, command.binds) for word in command.argv]
        env = {name: _moved(value, command.binds) for name, value in command.env.items()}
        cwd = Path(_moved(command.cwd, command.binds))
        cwd.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  local and short
        with command.log.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *_tied_to_us(),
                    *argv,
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=env,
                    cwd=cwd,
                    start_new_session=True,
                )
            except OSError as error:
                raise SandboxError(f'exec: "{argv[0]}": {error.strerror}') from error
        running = PlainProcess(process)
        self._started.append(running)
        return running

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        return await run_quietly(argv, env)

    async def close(self) -> None:
        for running in self._started:
            running.signal(SIGKILL)
            await running.wait()


class PlainProcess:
    """A process group of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def wait(self) -> int:
        code = exit_code(await self._process.wait())
        self._signal_group(SIGKILL)  # what the main process left behind
        return code

    def signal(self, number: Signals) -> None:
        if self._process.returncode is not None:
            return
        if number is SIGKILL:
            self._signal_group(number)
        else:
            self._process.send_signal(number)

    def _signal_group(self, number: Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        return await run_quietly(argv, env)


def _tied_to_us() -> list[str]:
    """The kernel kills the process when we die, where util-linux is there to ask for it."""
    return ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []


def _moved(text: str, binds: Sequence[Bind]) -> str:
    for bind in sorted(binds, key=lambda bind: -len(bind.target)):
        text = text.replace(bind.target, str(bind.source))
    return text
