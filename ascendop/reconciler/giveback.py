# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A gang of which a quota admits a part gives that part back, and tries again a little later.

Two gangs that each have half of a quota would wait for each other for ever, and pods that cannot
start without their siblings take quota from jobs that could run.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from ascendop.api.job import Condition
from ascendop.api.kind import S
from ascendop.api.observed import PodView
from ascendop.reconciler.attempts import Attempts
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import Conditions, put_condition
from ascendop.times import parse_time

GIVEN_BACK: Final = "GangOverQuota"
REST_S: Final = (10.0, 60.0)
"""The least and the most; up to as much again comes on top, by chance."""
OVER_QUOTA: Final = "exceeded quota"
"""The quota admission plug-in's words; nothing else in its answer tells it from other denials."""


def gives_back(s: Snapshot[S], pods: Sequence[PodView], least: int, attempts: Attempts) -> bool:
    """Whether the pods there are go, because the quota has no room for a gang of `least`.

    Not of one that began: its pods compute, or have, and the rest is replaced when there is room.
    """
    started = bool(s.status.get("startTime")) and attempts.made
    waiting = all(pod.phase in {"Pending", ""} for pod in pods)
    found = _created(s)
    return (
        s.world.gang
        and not started
        and waiting
        and 0 < sum(not pod.deleting for pod in pods) < least
        and found is not None
        and found.reason != GIVEN_BACK
        and OVER_QUOTA in found.message
    )


def given_back(s: Snapshot[S], before: Conditions, had: int, least: int) -> Conditions:
    """The conditions of a job whose pods go."""
    found = _created(s)
    why = found.message if found is not None else ""
    text = f"{had} of at least {least} pods fit, and make room until all do: {why}"
    return put_condition(before, "Created", GIVEN_BACK, text, s.now)


def rests_s(s: Snapshot[S]) -> float:
    """How long to wait before the next try; 0 for a job that has given nothing back.

    Longer with every try, and another time for every job and every try: who tries alone gets all.
    """
    found = _created(s)
    if found is None or found.reason != GIVEN_BACK:
        return 0.0
    since = parse_time(found.last_update_time)
    waited_s = (since - parse_time(found.last_transition_time)).total_seconds()
    shortest, longest = REST_S
    rest_s = min(max(waited_s / 2, shortest), longest)
    chance = zlib.crc32(f"{s.row.uid} {found.last_update_time}".encode()) / 2**32
    return max(0.0, rest_s * (1 + chance) - (s.now - since).total_seconds())


def _created(s: Snapshot[S]) -> Condition | None:
    return next((c for c in s.conditions if c.type == "Created"), None)
