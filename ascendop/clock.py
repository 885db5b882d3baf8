# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The one place that asks the wall what time it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ascendop.times import parse_time, rfc3339, rfc3339_micro

__all__ = ["WallClock", "parse_time", "rfc3339", "rfc3339_micro", "simulated", "wall"]

WallClock = Callable[[], datetime]
"""An aware time in UTC, only for timestamps in API objects; the loop's clock decides on delays."""


def wall() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def simulated(start: datetime, loop_time: Callable[[], float]) -> WallClock:
    """A wall clock that moves with a loop's clock: for virtual time."""
    origin = loop_time()
    return lambda: start + timedelta(seconds=loop_time() - origin)
