# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The jumping loop: the clock of every unit test and of simulate."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.sim.loop import DeadlockError, JumpingLoop


async def test_an_hour_passes_at_once_and_exactly():
    """runtime:S-1"""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - before == pytest.approx(3600)


def order(seed):
    """In which order ten tasks run that are ready at once, ten times in a row."""
    ran = []

    async def run(number):
        for _ in range(10):
            ran.append(number)
            await asyncio.sleep(0)

    async def everybody():
        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(run(number))

    rng = None if seed is None else Random(seed)
    with asyncio.Runner(loop_factory=lambda: JumpingLoop(rng)) as runner:
        runner.run(everybody())
    return ran


def test_a_seed_decides_in_which_order_tasks_run():
    """runtime:S-1, runtime:S-7"""
    in_order = list(range(10)) * 10
    assert order(None) == in_order
    assert order(1) == order(1) != in_order
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(in_order)


def test_a_wait_that_nobody_ends_is_an_error_and_not_a_hang():
    """runtime:S-1"""
    loop = JumpingLoop()
    with pytest.raises(DeadlockError):
        loop.run_until_complete(loop.create_future())
    loop.close()
