# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the process driver needs of the place where a pod runs: an address, processes, an end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ascendop.errors import AscendopError


class SandboxError(AscendopError):
    """A pod's place could not be made, or a process not started in it."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of this machine, seen by the container at another path."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """One process to start."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    log: Path
    """Where stdout and stderr go, appended."""
    binds: Sequence[Bind] = ()
    scratch: Path = field(default_factory=Path)
    """An empty folder for the start itself, the container's own."""


class Running(Protocol):
    """A started container."""

    async def wait(self) -> int:
        """Its exit code; 128 + n after signal n. Everything it started is gone by then."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """To its main process; SIGKILL to all of it. Too late is no error."""
        ...

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Exit code of a short command in the same place, for probes."""
        ...


class Sandbox(Protocol):
    """The place of one pod."""

    address: str

    async def start(self, command: Command) -> Running:
        """Raises SandboxError."""
        ...

    async def run_beside(self, argv: Sequence[str], env: Mapping[str, str]) -> int:
        """Exit code of a short command that sees the pod's network."""
        ...

    async def close(self) -> None:
        """Whatever still runs in it is killed."""
        ...


class Place(Protocol):
    """Where sandboxes are made."""

    separate: bool
    """Whether pods have names, mounts and all ports to themselves."""
    root: bool
    """Whether processes may become any user of this machine, as sshd does."""

    async def open(self) -> None:
        """Raises SandboxError."""
        ...

    async def add_pod(self, address: str, hostname: str) -> Sandbox: ...

    def addresses(self) -> Iterator[str]:
        """Those that pods may have, each once, beginning with the lowest."""
        ...

    async def forward(self, table: Mapping[str, Sequence[str]]) -> None:
        """From now on, connections to `ip:port` reach one of these `ip:port`."""
        ...

    async def close(self) -> None: ...


def exit_code(returncode: int) -> int:
    """As Kubernetes counts: 128 + n after signal n."""
    return 128 - returncode if returncode < 0 else returncode
