# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How often a job is looked at and its status written, when nothing is urgent."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

GATHER_S: Final = 0.05
"""A gang's pods change together: so long a pass waits for the rest of them."""
ECHO_S: Final = 0.25
"""Our own write comes back, and most often something real comes right after it: the scheduler lets
the gang in, its pods start. One pass then sees both."""
SHARE: Final = 3.0
"""Times as long as its last decision took, a job rests when nothing was lost: one of thousands of
pods leaves room for the others, and sees its pods start in tens of passes and not in thousands."""
STATUS_S: Final = 0.25
"""Between two writes of a status: those who watch jobs are people and other controllers, who see
no more."""
COUNTERS_S: Final = 0.75
"""How many pods run is written so long after it first differed, unless all of them do: a gang that
starts is one write, and a thousand pods are a few."""


class Haste(Enum):
    """How much of a hurry there is for what a change asks for."""

    NOW = auto()
    """Something was lost, or somebody has asked for it."""
    LIKELY = auto()
    """Ranks may wait for it: a job that has been at rest goes on at once."""
    CALM = auto()
    """Nobody waits for it: a pass gathers what comes with it."""
    ECHO = auto()
    """Our own write comes back, whose answer has been read; or more is to come. Real news first."""


@dataclass(slots=True)
class _Known:
    took_s: float = 0.0
    """What the last decision took."""
    decided_at: float = -inf
    """Loop time of it."""
    wrote_at: float = -STATUS_S
    """Loop time of the last write of the status."""
    differs_since: float | None = None
    """Loop time at which counters first differed from what was written; None when none did."""


class Pace(Generic[K]):
    """Advice for each key. Forgetting it costs a pass or a write more, and nothing else."""

    def __init__(self) -> None:
        self._known: dict[K, _Known] = {}

    def decided(self, key: K, now: float, took_s: float) -> None:
        """A decision was made."""
        known = self._known.setdefault(key, _Known())
        known.decided_at, known.took_s = now, took_s

    def wrote(self, key: K, now: float) -> None:
        """A status was written."""
        known = self._known.setdefault(key, _Known())
        known.wrote_at, known.differs_since = now, None

    def forget(self, key: K) -> None:
        """The job is gone."""
        self._known.pop(key, None)

    def rest_s(self, key: K, haste: Haste, now: float) -> float:
        """How long a pass may gather further changes before it begins."""
        if haste is Haste.NOW:
            return 0.0
        known, least_s = self._known.get(key), ECHO_S if haste is Haste.ECHO else GATHER_S
        rest_s = least_s if known is None else max(least_s, SHARE * known.took_s)
        if haste is not Haste.LIKELY:
            return rest_s
        return 0.0 if known is None else max(0.0, known.decided_at + rest_s - now)

    def wait_s(self, key: K, now: float, *, counters: bool) -> float:
        """Until a status that nobody waits for may be written; 0 for now.

        counters:  it says no more than how many pods run by now, and that will soon be more.
        """
        known = self._known.setdefault(key, _Known())
        due = known.wrote_at + STATUS_S
        if counters:
            if known.differs_since is None:
                known.differs_since = now
            due = max(due, known.differs_since + COUNTERS_S)
        return max(0.0, due - now)

    def __len__(self) -> int:
        """Keys that are known."""
        return len(self._known)
