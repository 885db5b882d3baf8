# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A process that lives as long as we do: it ends when the other end of its input is closed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from typing import Final

from ascendop.sim.sandbox import SandboxError, exit_code

START_S: Final = 20.0  # a machine under load; it takes 20 ms otherwise
END_S: Final = 1.0


class Holder:
    """A started process, and our end of a socket that is its standard input and output.

    Why:  when we die, in whatever way, the kernel closes the socket, the process reads its end
          and ends itself; and with it whatever it holds.
    Not:  asyncio's own pipes. Cancelling the start of a process that has some may hang for ever,
          in Python up to 3.13 at least.
    """

    def __init__(self, process: Process, ours: socket.socket) -> None:
        self._process = process
        self._socket = ours
        self._read = b""
        self.pid = process.pid

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str]) -> Holder:
        """Raises SandboxError when there is no such program."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003  the name of the method says what
        try:
            with theirs:
                fd = theirs.fileno()
                process = await asyncio.create_subprocess_exec(
                    *argv, stdin=fd, stdout=fd, stderr=fd, env=env, process_group=0
                )
        except OSError as error:
            ours.close()
            raise SandboxError(f"{argv[0]} cannot be started: {error}") from error
        except BaseException:
            ours.close()
            raise
        return cls(process, ours)

    async def expect(self, word: str) -> None:
        """Wait for a line. Raises SandboxError with what the process said instead."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_S):
                while b"\n" not in self._read:
                    more = await loop.sock_recv(self._socket, 4096)
                    if not more:
                        break
                    self._read += more
        except TimeoutError as error:
            raise SandboxError(f"a namespace was not ready after {START_S:.0f} s") from error
        line, _, self._read = self._read.partition(b"\n")
        if line.strip() != word.encode():
            raise SandboxError(line.decode(errors="replace").strip() or "it could not be made")

    async def send(self, line: bytes) -> None:
        """Raises SandboxError when nobody reads any more."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, line + b"\n")
        except OSError as error:
            raise SandboxError(f"the process that should read has ended: {error}") from error

    async def end(self) -> int:
        """Close its input, and use force if that is not heard; its exit code."""
        self._socket.close()
        try:
            async with asyncio.timeout(END_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        return exit_code(await self._process.wait())
