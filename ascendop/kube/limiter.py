# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How fast writes may leave: as fast as they come, until the server says it is too fast."""

from __future__ import annotations

from collections import deque

FLOOR_PER_S = 10.0
"""However often the server complains: enough to finish a job's pods in a minute or two."""
GROWTH_PER_S = 1.05
_CUT = 0.5
_BURST_S = 2.0  # seconds of a ceiling that may leave at once, unless a number was asked for
_SAME_COMPLAINT_S = 1.0  # one overload answers every request in flight; it is cut for once
_RECENT = 4096  # writes remembered to measure the last second
_FOR_EVER_S = 3600.0  # growth beyond this is no number any more


class WriteLimiter:
    """A rate that exists only after a 429: halved at each, growing by 5 % a second.

    Absent:   at default settings there is no limit of ours; priority and fairness on the server
              regulates. A `ceiling_per_s` is for clusters whose admin wants a hard bound.
    Shared:   one 429 slows every writer of the process, not only the call that met it.
    Passing:  the limit disappears again at twice the rate at which the server complained.
    Fair:     first come, first out.

    All times are those of the caller's loop, so nothing here waits or asks for the time.
    """

    def __init__(self, *, ceiling_per_s: float | None = None, burst: int | None = None) -> None:
        self.ceiling_per_s = ceiling_per_s
        """May be changed at any time; None for no ceiling."""
        self.burst = burst
        """Writes that may leave at once under a ceiling, after a quiet spell; None for the usual.

        May be changed at any time.
        """
        self._cut_per_s: float | None = None  # the rate at _cut_at; None while nobody complains
        self._cut_at = 0.0
        self._gone_at_per_s = 0.0  # having grown to this, the cut is forgotten
        self._next_at = float("-inf")  # when the next write may leave
        self._recent: deque[float] = deque(maxlen=_RECENT)  # when the last writes left

    def delay_s(self, now: float) -> float:
        """How long a write that asks now has to wait; nothing is promised by it."""
        if self.rate_per_s(now) is None:
            return 0.0
        return max(0.0, self._earliest(now) - now)

    def take(self, now: float) -> float:
        """Reserve the next turn; the seconds until then."""
        rate_per_s = self.rate_per_s(now)
        if rate_per_s is None:
            self._recent.append(now)
            return 0.0
        leaves_at = self._earliest(now)
        self._next_at = leaves_at + 1.0 / rate_per_s
        self._recent.append(max(leaves_at, now))
        return max(0.0, leaves_at - now)

    def complain(self, now: float, retry_after_s: float) -> None:
        """The server said 429: halve the rate, and hold everything for as long as it asked."""
        self._next_at = max(self._next_at, now + retry_after_s)
        if self._cut_per_s is not None and now - self._cut_at < _SAME_COMPLAINT_S:
            return
        was_per_s = self._grown(now) or self._measured_per_s(now)
        self._gone_at_per_s = max(self._gone_at_per_s, 2 * was_per_s, 2 * FLOOR_PER_S)
        self._cut_per_s = max(FLOOR_PER_S, was_per_s * _CUT)
        self._cut_at = now

    def rate_per_s(self, now: float) -> float | None:
        """What is allowed at this moment; None for anything."""
        grown = self._grown(now)
        if grown is None or self.ceiling_per_s is None:
            return grown if grown is not None else self.ceiling_per_s
        return min(grown, self.ceiling_per_s)

    def _grown(self, now: float) -> float | None:
        if self._cut_per_s is None:
            return None
        grown: float = self._cut_per_s * GROWTH_PER_S ** min(now - self._cut_at, _FOR_EVER_S)
        if grown < self._gone_at_per_s:
            return grown
        self._cut_per_s, self._gone_at_per_s = None, 0.0
        return None

    def _earliest(self, now: float) -> float:
        return max(self._next_at, now - self._credit_s())

    def _credit_s(self) -> float:
        """How much of the past may still be used."""
        if self._cut_per_s is not None:
            return 0.0
        if self.burst is None or self.ceiling_per_s is None:
            return _BURST_S
        return (self.burst - 1) / self.ceiling_per_s

    def _measured_per_s(self, now: float) -> float:
        return float(sum(1 for left_at in self._recent if now - 1.0 < left_at <= now))
