# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""When the collector of garbage may look at the caches: as good as never."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

THRESHOLDS: Final = (50_000, 50, 1_000)
"""A full pass looks at what came after the freeze, so it may be rare; a young one stays cheap."""
REPLACED: Final = 0.2
"""A resync that replaced more of a cache than this leaves that much to be looked at again."""
REFREEZE_S: Final = 6 * 3600.0
"""What piles up in a standby's caches without any resync."""
PAUSES: Final = 4096
"""Pauses between two scrapes; of more, the oldest are not told."""


class PauseObserver(Protocol):
    """Who counts: ascendop_gc_pause_seconds."""

    def paused(self, generation: int, seconds: float) -> None: ...


class Collector:
    """The policy: off while caches fill, then frozen, then rare.

    Why:  a full pass over 100,000 pods takes 10 ms as flat rows and seconds as dicts; a pause of
          seconds costs the lease. Frozen objects are never examined, and still freed by count.
    Not:  for a process that shares itself with others; `undo` gives the defaults back.
    """

    def __init__(self, observer: PauseObserver) -> None:
        self._observer = observer
        self._began_at = 0.0
        self._pauses: deque[tuple[int, float]] = deque(maxlen=PAUSES)
        """Not told yet: a collection may begin while the very lock of the metric is held."""
        self._before = gc.get_threshold()
        gc.callbacks.append(self._note)

    def before_sync(self) -> None:
        """The caches are going to be filled: nothing of that is garbage."""
        gc.disable()

    def synced(self) -> None:
        """The caches are filled."""
        self.refreeze()
        gc.enable()
        gc.set_threshold(*THRESHOLDS)

    def resynced(self, replaced: int, of: int) -> None:
        """A cache was got anew: so many of its objects differ, of so many."""
        if of and replaced / of > REPLACED:
            self.refreeze()

    def refreeze(self) -> None:
        """Look once at what is new, and never again."""
        gc.collect()
        gc.freeze()

    async def keep(self, is_standby: Callable[[], bool]) -> None:
        """Refreeze for ever, on standbys: a leader's garbage is short-lived."""
        while True:
            await asyncio.sleep(REFREEZE_S)
            if is_standby():
                self.refreeze()

    def tell(self) -> None:
        """Tell the pauses since the last time. Before a scrape."""
        while self._pauses:
            self._observer.paused(*self._pauses.popleft())

    def undo(self) -> None:
        """Leave the interpreter as it was."""
        gc.callbacks.remove(self._note)
        gc.unfreeze()
        gc.set_threshold(*self._before)
        gc.enable()

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_at = perf_counter()
        else:
            self._pauses.append((info["generation"], perf_counter() - self._began_at))
