# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long a retry waits: for its own failures, and for everybody's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Generic, TypeVar

from ascendop.backoff import Backoff

K = TypeVar("K", bound=Hashable)

JOB_BACKOFF = Backoff(0.005, 300.0)
"""5 ms covers a conflict with another writer; 5 min is what a person who repaired it will wait."""
JITTER = 0.1
"""Keys that failed together do not come back together."""
FAILURES_KEPT = 20_000
"""Two per job of the largest cluster we aim at; a leak of keys never forgotten ends here."""


class FailureLimiter(Generic[K]):
    """How long each key has to wait, by its failures in a row.

    Separate: a key's failures delay that key only; `forget` after a success starts it anew.
    Bounded:  remembers the `kept` keys that failed last; the others start anew.
    """

    def __init__(
        self, rng: Random, backoff: Backoff = JOB_BACKOFF, *, kept: int = FAILURES_KEPT
    ) -> None:
        self._rng = rng
        self.backoff = backoff
        """May be changed at any time."""
        self._kept = kept
        self._failures: OrderedDict[K, int] = OrderedDict()
        """Keys that failed since they last succeeded, the latest failure last."""

    def failed(self, key: K) -> float:
        """Count a failure; the delay in seconds that it earns."""
        failures = self._failures.pop(key, 0)
        self._failures[key] = failures + 1
        if len(self._failures) > self._kept:
            self._failures.popitem(last=False)
        return self.backoff.after(failures) * self._rng.uniform(1 - JITTER, 1 + JITTER)

    def forget(self, key: K) -> None:
        """The key succeeded, or is gone: its next failure is its first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures in a row, as far as they are remembered."""
        return self._failures.get(key, 0)

    def __len__(self) -> int:
        return len(self._failures)


class TokenBucket:
    """A rate with room for a burst: those who come too early are told how long to wait.

    Exact:  every caller gets a turn of its own; turns are `1 / rate_per_s` apart once the burst is
            used up, however many callers come at once.
    """

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self._rate_per_s = rate_per_s
        self._burst = burst
        self._tokens = float(burst)
        """Turns that may be taken at once; below zero, turns given away in advance."""
        self._as_of: float | None = None

    def take(self, now: float) -> float:
        """Take the next turn; the seconds from `now` (loop time) until it comes."""
        if self._as_of is not None and now > self._as_of:
            earned = (now - self._as_of) * self._rate_per_s
            self._tokens = min(float(self._burst), self._tokens + earned)
        self._as_of = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate_per_s)

    def rebase(self, now: float) -> None:
        """The loop stood still until `now`: that time has earned nobody a turn."""
        if self._as_of is not None:
            self._as_of = max(self._as_of, now)
