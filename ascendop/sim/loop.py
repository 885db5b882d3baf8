# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A loop whose clock jumps: an hour costs nothing, a deadlock is an error and not a hang."""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Any, Final

SHUFFLED: Final = 0.2
"""Share of the turns of a loop in which whoever is ready runs in another order."""


class DeadlockError(RuntimeError):
    """Every task waits for something that nobody will do."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: says how long the loop wanted to, and lets it believe that it did."""

    def __init__(self, before: Callable[[], None]) -> None:
        super().__init__()
        self.now_s = 0.0
        self._before = before
        """Called once in every turn of the loop, before anybody runs."""

    def select(
        self,
        timeout: float | None = None,  # N3: its name is the base class's
    ) -> list[tuple[selectors.SelectorKey, int]]:
        self._before()
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

    def __init__(self, rng: Random | None = None) -> None:
        """`rng` now and then lets those who are ready run in another order than they became so."""
        self._rng = rng
        self._jumping = _JumpingSelector(self._shuffle)
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def _shuffle(self) -> None:
        if self._rng is None or self._rng.random() >= SHUFFLED:
            return
        ready: deque[asyncio.Handle] = getattr(self, "_ready")  # noqa: B009  it has no other door
        handles = list(ready)
        self._rng.shuffle(handles)
        ready.clear()
        ready.extend(handles)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # noqa: ARG002
        """Inline: a thread would finish at a moment that no seed decides."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001  the future carries it, as an executor's would
            done.set_exception(error)
        return done
