# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How many jobs are in which phase, whatever happens to them."""

import asyncio
import random  # noqa: TID251  seeded
from collections import Counter

from ascendop.app.census import NEW, Census
from ascendop.informer.change import Change

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import JOBS, NS  # noqa: TID252  likewise


def row(uid, phase):
    status = b'{"conditions":[{"type":"Created"},{"type":"%s"}]}' % phase.encode() if phase else b""
    return make.row(make.job(), uid=uid, status=status)


def test_counts_are_those_of_the_last_state_of_each_job():
    rng, census, jobs = random.Random(1), Census(), {}
    for _ in range(2000):
        uid = f"u{rng.randrange(20)}"
        new = row(uid, rng.choice(["", "Running", "Failed"])) if rng.random() < 0.8 else None
        old = jobs.get(uid)
        if new is None and old is None:
            continue
        replayed = None if rng.random() < 0.1 else old
        census(Change(replayed if new else old, new))
        jobs[uid] = new
        if new is None:
            del jobs[uid]
        want = Counter(_phase(found) for found in jobs.values())
        assert +census.counts == want


def _phase(found):
    return next((p for p in ("Running", "Failed") if p.encode() in found.status), NEW)


def test_a_status_that_somebody_wrote_by_hand_counts_as_none():
    census = Census()
    for number, status in enumerate([b'{"conditions": 7}', b'{"conditions": [7]}', b"[]"]):
        census(Change(None, make.row(make.job(), uid=str(number), status=status)))
    assert census.counts == {NEW: 3}


async def test_dashboards_see_phases_from_the_start(town):
    """runtime:Q-22"""
    operator = town.operator()

    def shown(phase):
        operator.metrics.refresh()
        labels = {"kind": "AscendJob", "phase": phase}
        return operator.metrics.registry.get_sample_value("ascendop_jobs", labels)

    assert shown("Running") == 0
    async with town.running(operator):
        await town.create()
        await town.until_pods(2)
        await asyncio.sleep(1)
        assert (shown("Created"), shown("Running")) == (1, 0)
        await town.turn("Running")
        await town.until_job("Running")
        await asyncio.sleep(1)
        assert (shown("Created"), shown("Running")) == (0, 1)
        await town.hands.delete(JOBS, NS, "j")
        await asyncio.sleep(1)
        assert shown("Running") == 0
