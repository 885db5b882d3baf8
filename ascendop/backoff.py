# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""First, doubling, limit."""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 62  # 2**63 no longer fits where C code may read it; every limit is reached before


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after the n-th failure in a row, in seconds.

    Monotone and bounded: first · 2ⁿ, at most `limit_s`, for every n >= 0, without overflow.
    """

    first_s: float
    limit_s: float

    def after(self, failures: int) -> float:
        """The delay after `failures` earlier failures (0 gives `first_s`)."""
        return min(self.limit_s, self.first_s * 2.0 ** min(failures, _MAX_DOUBLINGS))
