# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the loop lives, and what it was doing when it did not."""

import asyncio
import threading

import pytest

from ascendop.telemetry.watchdog import Watchdog


class Counts:
    def __init__(self):
        self.lags = []
        self.stalls = 0

    def lagged(self, seconds):
        self.lags.append(seconds)

    def stalled(self):
        self.stalls += 1


def stand_still(seconds):
    """What a library does that sleeps instead of awaiting."""
    threading.Event().wait(seconds)


def jump(seconds):
    """The same in virtual time."""
    asyncio.get_running_loop()._jumping.now_s += seconds


async def running(watchdog, body):
    async with asyncio.TaskGroup() as tasks:
        beat = tasks.create_task(watchdog.beat())
        await body()
        beat.cancel()


async def test_a_loop_that_is_in_time_has_no_lag():
    """runtime:O-4"""
    counts = Counts()
    dog = Watchdog(counts)

    async def an_hour():
        await asyncio.sleep(3600)
        assert dog.age_s() <= 0.1 and not dog.unhealthy()

    await running(dog, an_hour)
    assert len(counts.lags) == pytest.approx(36_000, abs=2) and max(counts.lags) < 1e-6


async def test_every_pause_is_measured_and_a_long_one_counted_and_told():
    """runtime:O-4"""
    counts = Counts()
    told = []
    dog = Watchdog(counts, on_long_stall=told.append)

    async def pauses():
        for seconds in (0.3, 4.0, 6.0):
            await asyncio.sleep(1)
            jump(seconds)
        await asyncio.sleep(1)

    await running(dog, pauses)
    assert [round(lag) for lag in counts.lags if lag > 1] == [4, 6]
    assert counts.stalls == 1 and [round(seconds) for seconds in told] == [6]


async def test_after_a_stall_everybody_who_counts_time_is_told_once():
    """runtime:O-5"""
    told = []
    dog = Watchdog(Counts())
    dog.after_stall(lambda: told.append("silence watchdog"))
    dog.after_stall(lambda: told.append("rate bucket"))

    async def pauses():
        await asyncio.sleep(1)
        jump(0.3)
        await asyncio.sleep(1)
        assert told == []
        jump(3)
        await asyncio.sleep(1)

    await running(dog, pauses)
    assert told == ["silence watchdog", "rate bucket"]


async def test_a_loop_that_stands_still_for_twenty_seconds_is_dead():
    """runtime:O-4"""
    dog = Watchdog(Counts())

    async def pauses():
        await asyncio.sleep(1)
        jump(19)
        assert not dog.unhealthy()
        jump(2)
        assert dog.unhealthy() == "the loop stands still for 21 s"
        await asyncio.sleep(1)
        assert not dog.unhealthy()

    await running(dog, pauses)


@pytest.mark.real_time
async def test_the_thread_takes_the_stack_of_what_blocks_the_loop_once_per_stall_47():
    """runtime:O-4"""
    dog = Watchdog(Counts())
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(dog.run())
        await asyncio.sleep(0.25)
        stand_still(1.0)
        await asyncio.sleep(0.25)
        run.cancel()
    (stall,) = dog.stalls
    assert "stand_still(1.0)" in stall.stack and 0.5 <= stall.for_s < 1.0
    assert not [thread for thread in threading.enumerate() if thread.name == "watchdog"]
