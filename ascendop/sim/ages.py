# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How long ago, the way kubectl's columns say it: the coarser the longer."""

from __future__ import annotations

from datetime import datetime

from ascendop.clock import parse_time

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
UNKNOWN = "<unknown>"


def age(since: str | None, now: datetime) -> str:
    """Of a timestamp of an object; `<unknown>` without one."""
    if not since:
        return UNKNOWN
    return spell((now - parse_time(since)).total_seconds())


def spell(seconds: float) -> str:
    """A duration: at most two units, and two only while the second one still matters."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for limit, unit, name, small, small_name in _STEPS:
        if whole < limit:
            return _pair(whole, unit, name, small, small_name)
    return f"{whole // _YEAR}y"


def _pair(whole: int, unit: int, name: str, small: int, small_name: str) -> str:
    rest = whole % unit // small if small else 0
    return f"{whole // unit}{name}" + (f"{rest}{small_name}" if rest else "")


_STEPS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
