# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether this replica may write now, and how long that write may last."""

from __future__ import annotations

from collections.abc import Callable

from ascendop.errors import NotLeaderError

WRITE_S = 30.0
"""Of one write at most; the API server gives up on a request after about as long."""


class LeaseGate:
    """Open from each renewal until the next is overdue; the lease itself lasts longer.

    Promises:  `check` raises NotLeaderError when no renewal came in time, even if nothing else of
               this process has run since, and otherwise says how many seconds a write may last.
               No await: nothing happens between check and send.
    Not:       a fence. A request may wait in the server for longer than our lease lasts; therefore
               every write carries a fixed name, a UID or a version, and is harmless when late.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._open_until = 0.0
        self.valid_until: float | None = None
        """Loop time until which nobody else takes the lease; None when it is not ours."""

    def renewed(self, *, open_until: float, valid_until: float) -> None:
        """The lease is ours until `valid_until`; writes may start until `open_until`."""
        self._open_until = open_until
        self.valid_until = valid_until

    def close(self) -> None:
        """The lease is not ours (any more)."""
        self.valid_until = None

    @property
    def is_open(self) -> bool:
        return self.valid_until is not None and self._time() < self._open_until

    def check(self) -> float:
        if self.valid_until is None:
            raise NotLeaderError("this replica does not hold the lease")
        now = self._time()
        if now >= self._open_until:
            raise NotLeaderError(
                f"the lease should have been renewed {now - self._open_until:.1f} s ago"
            )
        return min(WRITE_S, self.valid_until - now)


class AlwaysLeads:
    """The gate of a replica that has no rival: `--no-leader-elect`, local runs."""

    def check(self) -> float:
        return WRITE_S
