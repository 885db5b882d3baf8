# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A loop whose clock jumps: an hour costs nothing, a deadlock is an error and not a hang."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class DeadlockError(RuntimeError):
    """Every task waits for something that nobody will do."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: says how long the loop wanted to, and lets it believe that it did."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(
        self,
        timeout: float | None = None,  # N3: its name is the base class's
    ) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("every task waits for something that nobody will do")
        self.now_s += max(timeout, 0.0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """Time stands still while any task can run, and jumps to the next timer when none can.

    Not: for real sockets, threads or subprocesses; nothing waits for them.
    """

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ARG002
        """Inline: a thread would finish at a moment that no seed decides."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the future carries it, as an executor's would
            done.set_exception(error)
        return done
