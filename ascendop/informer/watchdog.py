# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a peer may be silent, as opposed to how long we were busy."""

from __future__ import annotations

import asyncio

STALL_S = 1.0
"""A timer that rings this late says that our own loop stood still; the peer may have spoken."""


class Watchdog:
    """Ends a `timeout` scope when what is expected has not come in time.

    Fair:  only time between `expect` and `rest` counts; a slow consumer is no silent peer. After a
           stall of the loop the peer gets its whole time again: its bytes may lie in our socket.
    Cheap: one timer for a stream, moved when it rings and not with every chunk.
    """

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._loop = asyncio.get_running_loop()
        self._scope = scope
        self._within_s = 0.0
        self._due: float | None = None
        """When what is expected must have come; None while nothing is."""
        self._timer: asyncio.Handle | None = None
        self._rings_at = 0.0
        """When the timer rings. Kept here: uvloop's handles of what is due now do not know it."""

        self._called_off = False
        """The scope is to end as soon as something is expected."""

    def expect(self, within_s: float) -> None:
        """Something is to come within that time from now on."""
        if self._called_off:
            self._end()
            return
        self._within_s = within_s
        self._due = self._loop.time() + within_s
        if self._timer is None or self._rings_at > self._due:
            self._arm(self._due)

    def rest(self) -> None:
        """It came; we are busy with it."""
        self._due = None

    def call_off(self) -> None:
        """End the scope: now, if something is expected, else when we are done with what came."""
        self._called_off = True
        if self._due is not None:
            self._end()

    def close(self) -> None:
        """Nothing is expected any more."""
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(when, self._ring, when), when

    def _ring(self, when: float) -> None:
        self._timer = None
        if self._due is None:
            return
        now = self._loop.time()
        if now - when > STALL_S:
            self._due = now + self._within_s
        if self._due > now:
            self._arm(self._due)
        else:
            self._end()

    def _end(self) -> None:
        if not self._scope.expired():
            self._scope.reschedule(self._loop.time())
