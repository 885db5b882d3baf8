# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The queue on the loop that a cluster runs it on."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest
import uvloop

from ascendop.queue.workqueue import WorkQueue


@pytest.mark.real_time
def test_delays_below_a_millisecond_are_delays_for_uvloop_too():
    """uvloop answers `call_at` for what is due now with a handle that knows no time."""

    async def hand_out():
        queue = WorkQueue("test", rng=Random(1))
        for key, after_s in (("b", 0.0002), ("c", 0.0003), ("a", 0.0001)):
            queue.add(key, after_s=after_s)
        async with asyncio.timeout(5):
            return {await queue.get() for _ in range(3)}

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(hand_out()) == {"a", "b", "c"}
