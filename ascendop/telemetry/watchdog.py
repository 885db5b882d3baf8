# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the loop lives, how late it is, and what it was doing when it stood still."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ascendop.telemetry.health import stack_of
from ascendop.telemetry.log import get_log

log = get_log(__name__)

BEAT_S: Final = 0.1
STILL_S: Final = 0.5
"""Without a beat for so long, the loop stands still: its stack is taken."""
STALL_S: Final = 5.0
"""Worth a counter and an Event."""
DEAD_S: Final = 20.0
"""Worth a restart; longer than a lease, so that the leader has changed before."""
STACKS: Final = 32
"""The last of them are kept."""


class LoopObserver(Protocol):
    """Who counts: ascendop_loop_lag_seconds and ascendop_loop_stalls_total."""

    def lagged(self, seconds: float) -> None: ...

    def stalled(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Stall:
    """What the loop was doing."""

    for_s: float
    stack: str


class Watchdog:
    """A beat on the loop, and a thread that listens for it.

    Promises:  after a pause, everybody who counts time is told before it counts on: no time passed
               for the peers whose data waited in our sockets.
    Threads:   `age_s`, `unhealthy` and `stalls` may be read from any.
    """

    def __init__(
        self, observer: LoopObserver, *, on_long_stall: Callable[[float], None] | None = None
    ) -> None:
        self._observer = observer
        self._on_long_stall = on_long_stall
        self._rebase: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        self._beat_at = self._loop.time()
        self._thread_of_loop = threading.get_ident()
        self.stalls: deque[Stall] = deque(maxlen=STACKS)
        """The last moments at which the loop stood still."""

    def after_stall(self, rebase: Callable[[], None]) -> None:
        """Call this when the loop has stood still."""
        self._rebase.append(rebase)

    def age_s(self) -> float:
        """Since the last beat."""
        return self._loop.time() - self._beat_at

    def unhealthy(self) -> str:
        """Why a restart would help; empty when it would not."""
        age_s = self.age_s()
        return f"the loop stands still for {age_s:.0f} s" if age_s > DEAD_S else ""

    async def run(self) -> None:
        """Beat for ever, with the thread beside it."""
        stop = threading.Event()
        thread = threading.Thread(target=self._listen, args=(stop,), name="watchdog", daemon=True)
        thread.start()
        try:
            await self.beat()
        finally:
            stop.set()
            thread.join()

    async def beat(self) -> None:
        """Beat for ever, without a thread: for loops whose clock is not the wall's."""
        self._beat_at = self._loop.time()
        while True:
            await asyncio.sleep(BEAT_S)
            late_s = self._loop.time() - self._beat_at - BEAT_S
            self._beat_at += BEAT_S + late_s
            self._observer.lagged(max(0.0, late_s))
            if late_s >= STILL_S:
                self._stood_still(late_s)

    def _stood_still(self, late_s: float) -> None:
        for rebase in self._rebase:
            rebase()
        if late_s < STALL_S:
            return
        self._observer.stalled()
        log.warning("loop stood still", for_s=round(late_s, 1))
        if self._on_long_stall is not None:
            self._on_long_stall(late_s)

    def _listen(self, stop: threading.Event) -> None:
        """On the thread: one stack for each time that the loop stands still."""
        taken_at_beat = -1.0
        while not stop.wait(BEAT_S):
            beat_at, age_s = self._beat_at, self.age_s()
            if age_s < STILL_S or beat_at == taken_at_beat:
                continue
            taken_at_beat = beat_at
            stall = Stall(age_s, stack_of(self._thread_of_loop))
            self.stalls.append(stall)
            log.warning("loop stands still", for_s=round(age_s, 1), stack=stall.stack)
