# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The jumping loop: the clock of every unit test and of simulate."""

import asyncio

import pytest

from ascendop.sim.loop import DeadlockError, JumpingLoop


async def test_an_hour_passes_at_once_and_exactly():
    """runtime:S-1"""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(3600)
    assert loop.time() - before == pytest.approx(3600)


def test_a_wait_that_nobody_ends_is_an_error_and_not_a_hang():
    """runtime:S-1"""
    loop = JumpingLoop()
    with pytest.raises(DeadlockError):
        loop.run_until_complete(loop.create_future())
    loop.close()
