# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A child process with a log file, ended by its pid, and by the kernel when its parent dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TETHER = Path(__file__).with_name("tether.py")
GRACE_S = 5.0  # etcd and the API server end in less; what does not is not worth waiting for


class ProcessError(Exception):
    """A process ended that should run; the message has the end of its log."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, all different.

    Not: reserved. Somebody may take one before the process opens it, so starting is tried again.
    """
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Process:
    """One child. Its output is appended to `log`, over all its starts."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] = {}
    ) -> None:
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self.env = {**os.environ, **env}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the child that runs, or ran last."""
        assert self._child, f"{self.name} was not started"
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """As a shell would not say it: minus the number of the signal. None while it runs."""
        return self._child.poll() if self._child else None

    def start(self) -> None:
        """Start it; the log goes on where it ended."""
        assert not self.running, f"{self.name} runs"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-I", "-S", TETHER, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.env,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to hear it."""
        if self._child and self.running:
            self._child.send_signal(number)

    def wait(self, timeout_s: float = GRACE_S) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        assert self._child, f"{self.name} was not started"
        return self._child.wait(timeout_s)

    def kill(self) -> None:
        """End it as a crash would, and wait for the end."""
        self.signal(signal.SIGKILL)
        if self._child:
            self._child.wait()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Ask it to end, and end it when it does not; nothing when it does not run."""
        if not self._child:
            return
        self.signal(signal.SIGTERM)
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def check(self) -> None:
        """Raise ProcessError, with the last lines of the log, when it has ended."""
        if not self.running:
            last = "\n".join(self.tail())
            raise ProcessError(f"{self.name} ended with code {self.exit_code}:\n{last}")

    def tail(self, lines: int = 15) -> list[str]:
        """The last lines of its log."""
        return self.log.read_text(errors="replace").splitlines()[-lines:]
