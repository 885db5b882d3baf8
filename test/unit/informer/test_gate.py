# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Decisions wait for the caches to have seen our own writes, and not for ever."""

import asyncio

import pytest

from ascendop.errors import StaleCacheError
from ascendop.informer.gate import PATIENCE_S, FreshnessGate
from ascendop.kube.resource import Key

JOB = Key("AscendJob", "ml", "a")
OTHER = Key("AscendJob", "ml", "b")


def now():
    return asyncio.get_running_loop().time()


class Jobs:
    """Who is woken, and who is read live."""

    def __init__(self):
        self.woken = []
        self.read = []
        self.gate = FreshnessGate(self.live, self.woken.append)

    async def live(self, key):
        self.read.append(key)
        return f"children of {key.name}"


@pytest.fixture
async def jobs():
    jobs = Jobs()
    for key in (JOB, OTHER):
        jobs.gate.trust(key)
    return jobs


async def test_a_decision_is_made_at_once_where_nothing_was_written(jobs):
    """runtime:W-6"""
    assert await jobs.gate.fresh(JOB) is None
    assert jobs.read == []


async def test_a_decision_waits_for_the_cache_to_pass_our_write_and_its_job_is_woken(
    source, pods, running, jobs
):
    """runtime:W-6"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        version = source.revision + 2
        jobs.gate.note(JOB, informer, str(version))
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        source.put("a")
        await asyncio.sleep(0.1)
        assert jobs.woken == []
        source.put("b")
        await asyncio.sleep(0.1)
        assert jobs.woken == [JOB]
        assert await jobs.gate.fresh(JOB) is None
        assert len(jobs.gate) == 0


async def test_of_several_writes_the_last_has_to_be_seen(source, pods, running, jobs):
    """runtime:W-6"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        for ahead in (3, 1, 2):
            jobs.gate.note(JOB, informer, str(source.revision + ahead))
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        for name in "ab":
            source.put(name)
            await asyncio.sleep(0.1)
            with pytest.raises(StaleCacheError):
                await jobs.gate.fresh(JOB)
        source.put("c")
        await asyncio.sleep(0.1)
        assert jobs.woken == [JOB]
        assert await jobs.gate.fresh(JOB) is None


async def test_a_bookmark_is_enough(source, pods, running, jobs):
    """runtime:W-6 runtime:I-13"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, str(source.revision + 5))
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        source.pass_time(5)
        await asyncio.sleep(61)
        assert await jobs.gate.fresh(JOB) is None


async def test_the_last_cache_to_catch_up_wakes_the_job(source, pods, running, jobs):
    """runtime:W-6"""
    one, two = pods(source, seed=1), pods(source, seed=2)
    async with running(one):
        async with running(two):
            await asyncio.gather(one.synced.wait(), two.synced.wait())  # noqa: TID251  a test
        version = str(source.revision + 1)
        jobs.gate.note(JOB, one, version)
        jobs.gate.note(JOB, two, version)
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        source.put("a")
        await asyncio.sleep(0.1)
        assert jobs.woken == []
        async with running(two):
            await asyncio.sleep(2)
            assert jobs.woken == [JOB]


async def test_a_job_that_was_not_refused_is_not_woken(source, pods, running, jobs):
    """runtime:W-6"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, str(source.revision + 1))
        source.put("a")
        await asyncio.sleep(0.1)
        assert jobs.woken == []
        assert len(jobs.gate) == 0


async def test_a_stalled_watch_slows_a_decision_and_does_not_stop_it(source, pods, running, jobs):
    """runtime:W-7"""
    informer = pods(source)
    source.fail(on="initial", silent_after=1)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, str(source.revision + 1))
        began = now()
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        await asyncio.sleep(PATIENCE_S - 0.1)
        with pytest.raises(StaleCacheError):
            await jobs.gate.fresh(JOB)
        await asyncio.sleep(0.2)
        assert jobs.woken == [JOB]
        assert await jobs.gate.fresh(JOB) == "children of a"
        assert now() - began < PATIENCE_S + 1
        assert await jobs.gate.fresh(JOB) == "children of a", "the watch is still stalled"


async def test_one_jobs_stale_cache_does_not_hold_up_another(source, pods, running, jobs):
    """runtime:W-8"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, str(source.revision + 1))
        assert await jobs.gate.fresh(OTHER) is None


async def test_in_a_new_term_the_first_decision_about_each_job_takes_a_live_read(jobs):
    """runtime:L-13 runtime:W-7"""
    jobs.gate.new_term()
    assert await jobs.gate.fresh(JOB) == "children of a"
    assert await jobs.gate.fresh(JOB) is None
    assert await jobs.gate.fresh(OTHER) == "children of b"


async def test_live_reads_of_a_new_term_are_fifty_a_second():
    """runtime:L-13"""
    jobs = Jobs()
    keys = [Key("AscendJob", "ml", str(n)) for n in range(100)]
    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(jobs.gate.fresh(key))
    assert now() == pytest.approx(99 / 50)


async def test_a_version_that_is_no_number_counts_as_not_seen_until_a_live_read(
    source, pods, running, jobs
):
    """runtime:I-3 runtime:W-6"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, "opaque-7")
        assert await jobs.gate.fresh(JOB) == "children of a"
        assert await jobs.gate.fresh(JOB) is None


async def test_a_live_read_that_fails_leaves_the_gate_closed():
    """runtime:W-7"""

    async def live(key):
        raise OSError("down")

    gate = FreshnessGate(live, lambda key: None)
    for _ in range(2):
        with pytest.raises(OSError, match="down"):
            await gate.fresh(JOB)


async def test_nothing_is_kept_of_a_job_that_is_gone(source, pods, running, jobs):
    """runtime:S-5"""
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        jobs.gate.note(JOB, informer, str(source.revision + 9))
        jobs.gate.forget(JOB)
        assert len(jobs.gate) == 0
        jobs.gate.forget(OTHER)
        assert jobs.gate._trusted == set()
