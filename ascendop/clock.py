# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The one place that asks the wall what time it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

WallClock = Callable[[], datetime]
"""An aware time in UTC, only for timestamps in API objects; the loop's clock decides on delays."""


def wall() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """As API objects carry times: whole seconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """As Leases and Events carry times: microseconds, Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """An RFC 3339 time of the API server. Raises ValueError."""
    return datetime.fromisoformat(text)


def simulated(start: datetime, loop_time: Callable[[], float]) -> WallClock:
    """A wall clock that moves with a loop's clock: for virtual time."""
    origin = loop_time()
    return lambda: start + timedelta(seconds=loop_time() - origin)
