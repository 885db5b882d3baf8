# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Turns on the loop, silence of a peer, and ends: who waits for whom, and for how long."""

import asyncio

import pytest

from ascendop.informer import reflector
from ascendop.informer.slices import EVERY, in_slices
from ascendop.informer.watchdog import Watchdog


async def ticking(ticks):
    while True:
        ticks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)


async def test_a_long_loop_lets_others_run_in_between():
    """runtime:I-29"""
    ticks = []
    async with asyncio.TaskGroup() as group:
        other = group.create_task(ticking(ticks))
        got = [n async for n in in_slices(range(1000), budget_s=0.0)]
        other.cancel()
    assert got == list(range(1000))
    assert len(ticks) >= 1000 // EVERY - 1


async def test_a_short_loop_keeps_its_turn():
    """runtime:I-29"""
    ticks = []
    async with asyncio.TaskGroup() as group:
        other = group.create_task(ticking(ticks))
        assert [n async for n in in_slices(range(1000), budget_s=1.0)]
        assert ticks == []
        other.cancel()


async def test_a_burst_is_applied_in_slices_and_the_backlog_is_told(
    source, pods, running, monkeypatch
):
    """runtime:I-17 runtime:I-46 field-reports:FR-079"""
    monkeypatch.setattr(reflector, "BUDGET_S", 0.0)
    informer = pods(source)
    levels = []
    informer.counts.is_at = lambda what, value: levels.append((what, value))
    lines = [b'{"type":"FANCY","object":{}}'] * 200
    source.fail(on="initial", raw=[b"\n".join(lines)])
    async with running(informer):
        await informer.synced.wait()
    backlog = [value for what, value in levels if what == "watch_backlog_bytes"]
    assert len(backlog) == 200 // EVERY + 1
    assert backlog == sorted(backlog, reverse=True)
    assert backlog[-1] == 0


async def barked(watchdog_of, *, seconds):
    """Whether the scope ended within that time, and when."""
    scope = asyncio.timeout(None)
    try:
        async with scope:
            await watchdog_of(Watchdog(scope), seconds)
    except TimeoutError:
        return True
    return False


async def test_a_silent_peer_ends_the_scope_when_its_time_is_up():
    """runtime:I-26"""

    async def wait(watchdog, seconds):
        watchdog.expect(5.0)
        await asyncio.sleep(seconds)

    assert not await barked(wait, seconds=4.9)
    assert await barked(wait, seconds=5.1)


async def test_every_word_of_the_peer_gives_it_its_time_again():
    """runtime:I-26"""

    async def wait(watchdog, seconds):
        for _ in range(10):
            watchdog.expect(5.0)
            await asyncio.sleep(4.0)
            watchdog.rest()
        watchdog.close()

    assert not await barked(wait, seconds=0)


async def test_a_slow_consumer_is_no_silent_peer():
    """runtime:I-26"""

    async def wait(watchdog, seconds):
        watchdog.expect(5.0)
        await asyncio.sleep(1.0)
        watchdog.rest()
        await asyncio.sleep(seconds)

    assert not await barked(wait, seconds=1000)


async def test_a_loop_that_stood_still_gives_the_peer_its_time_again():
    """runtime:I-26 runtime:O-5"""
    loop = asyncio.get_running_loop()

    async def wait(watchdog, seconds):
        watchdog.expect(5.0)
        loop._jumping.now_s += 60.0  # the loop was busy elsewhere
        await asyncio.sleep(seconds)
        watchdog.close()

    assert not await barked(wait, seconds=4.0)
    assert await barked(wait, seconds=6.0)


async def test_a_shorter_time_counts_at_once():
    """runtime:I-26"""

    async def wait(watchdog, seconds):
        watchdog.expect(500.0)
        watchdog.expect(5.0)
        await asyncio.sleep(seconds)

    assert await barked(wait, seconds=6.0)


async def test_only_cancellation_ends_an_informer_and_at_once_wherever_it_is(source, pods):
    """runtime:P-3 runtime:P-7 runtime:I-25"""
    source.put("a")
    for seconds in (0.0, 0.3, 0.5, 1.0, 59.0, 400.0):
        informer = pods(source)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(informer.run())
            await asyncio.sleep(seconds)
            before = asyncio.get_running_loop().time()
            task.cancel()
            await asyncio.wait({task})
            assert asyncio.get_running_loop().time() == before
            assert task.cancelled()
        assert source.open == 0


async def test_a_source_that_is_broken_in_any_way_is_asked_again_and_never_in_haste(
    source, pods, running
):
    """runtime:P-2 runtime:I-25"""
    source.fail(error=RuntimeError("a bug of the client"), times=5)
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await asyncio.sleep(10)
        assert len(source.asked) <= 6
        await informer.synced.wait()


async def test_a_bug_of_the_store_ends_the_process(source, pods):
    """runtime:P-2"""
    informer = pods(source)
    source.put("a")

    def broken(row):
        raise AssertionError("a bug of ours")

    informer._indexes["owner"] = broken
    with pytest.raises(ExceptionGroup) as caught:
        await informer.run()
    assert caught.group_contains(AssertionError, match="a bug of ours")


async def test_how_an_informer_stands_can_be_asked(source, pods, running):
    """runtime:I-46"""
    source.put("a")
    informer = pods(source)
    assert informer.figures().state == "starting"
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(70)
        source.put("b")
        await asyncio.sleep(10)
        found = informer.figures()
        assert (found.kind, found.state, found.synced) == ("pods", "watching", True)
        assert (found.objects, found.position) == (2, float(source.revision))
        assert found.last_event_age_s == pytest.approx(10)
    assert informer.figures().state == "stopped"
    assert informer.counts.counted["events_total", "ADDED"] == 2
    assert informer.counts.counted["events_total", "BOOKMARK"] == 2
    assert len(informer.counts.timed["watch_seconds"]) == 1
    assert informer.counts.timed["apply_seconds"]


async def test_an_object_of_odd_shape_is_counted(source, pods, running):
    """runtime:I-34 runtime:I-46"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.put("a", node="bomb")
        await asyncio.sleep(1)
        assert informer.store.get("ml", "a").node == "broken"
    assert informer.counts.counted["informer_transform_errors_total"] == 1
