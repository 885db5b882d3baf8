# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The queue's contract, one promise a test, in virtual time."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.backoff import Backoff
from ascendop.queue.limiter import TokenBucket
from ascendop.queue.ready import AGED_S
from ascendop.queue.workqueue import QueueShutDownError, WorkQueue
from ascendop.sim.loop import JumpingLoop


def queue_of(**wanted):
    return WorkQueue("test", rng=Random(1), **wanted)


def now():
    return asyncio.get_running_loop().time()


async def take(queue):
    """The next key, at once or not at all."""
    async with asyncio.timeout(0.001):
        return await queue.get()


async def take_all(queue):
    keys = []
    while True:
        try:
            keys.append(await take(queue))
        except TimeoutError:
            return keys
        queue.done(keys[-1])


async def test_an_added_key_is_handed_out_once_however_often_it_was_added():
    """runtime:Q-4"""
    queue = queue_of()
    for _ in range(3):
        queue.add("a")
    assert await take_all(queue) == ["a"]


async def test_keys_of_one_priority_come_out_in_the_order_they_went_in():
    """runtime:Q-5"""
    queue = queue_of()
    for key in "cab":
        queue.add(key)
    queue.add("c")
    assert await take_all(queue) == ["c", "a", "b"]


async def test_a_raised_key_goes_to_the_end_of_its_new_priority():
    """runtime:Q-5 runtime:Q-1"""
    queue = queue_of()
    queue.add("late", priority=-100)
    queue.add("a")
    queue.add("b")
    queue.add("late")
    queue.add("c")
    assert await take_all(queue) == ["a", "b", "late", "c"]


async def test_a_lower_priority_does_not_lower_a_key():
    """runtime:Q-1"""
    queue = queue_of()
    queue.add("a", priority=50)
    queue.add("b", priority=10)
    queue.add("a", priority=-100)
    assert await take_all(queue) == ["a", "b"]


async def test_a_key_whose_delay_ends_is_ordered_by_the_time_it_became_ready():
    """runtime:Q-5"""
    queue = queue_of()
    queue.add("delayed", after_s=2)
    await asyncio.sleep(1)
    queue.add("before")
    await asyncio.sleep(2)
    queue.add("after")
    assert await take_all(queue) == ["before", "delayed", "after"]


async def test_a_key_that_runs_is_not_handed_out_and_one_added_while_it_runs_is_afterwards():
    """ascendjob:W-1 runtime:Q-2 runtime:Q-3 field-reports:FR-080"""
    queue = queue_of()
    queue.add("a")
    assert await take(queue) == "a"
    queue.add("a")
    with pytest.raises(TimeoutError):
        await take(queue)
    queue.done("a")
    assert await take(queue) == "a"


async def test_a_key_added_with_a_delay_while_it_runs_waits_from_the_time_of_the_add():
    """runtime:Q-1"""
    queue = queue_of()
    queue.add("a")
    await take(queue)
    queue.add("a", after_s=5)
    queue.add("a", after_s=3)
    await asyncio.sleep(1)
    queue.done("a")
    await queue.get()
    assert now() == pytest.approx(3, abs=0.01)


@pytest.mark.parametrize(("first_s", "second_s"), [(10, 2), (2, 10)])
async def test_of_two_delays_the_earlier_counts(first_s, second_s):
    """runtime:Q-1 runtime:Q-12"""
    queue = queue_of()
    queue.add("a", after_s=first_s)
    queue.add("a", after_s=second_s)
    await queue.get()
    assert now() == pytest.approx(2)


async def test_a_waiting_key_that_is_added_without_delay_is_due_at_once_and_only_once():
    """runtime:Q-1"""
    queue = queue_of()
    queue.add("a", after_s=60)
    queue.add("a", priority=7)
    assert queue.depths() == {"7": 1}
    assert await take_all(queue) == ["a"]
    await asyncio.sleep(100)
    assert await take_all(queue) == []


async def test_a_delay_never_makes_a_ready_key_wait():
    """runtime:Q-1"""
    queue = queue_of()
    queue.add("a")
    queue.add("a", after_s=60)
    assert await take(queue) == "a"


async def test_a_timer_keeps_exact_time_over_hours():
    """runtime:Q-8"""
    queue = queue_of()
    queue.add("a", after_s=7200)
    await queue.get()
    assert now() == 7200


class Forgetful(JumpingLoop):
    """Forgets what is far away, as one whose clock was moved seems to."""

    def call_at(self, when, callback, *args, context=None):
        late_s = 1e6 if when > self.time() + 10 else 0
        return super().call_at(when + late_s, callback, *args, context=context)


def test_a_key_does_not_depend_on_one_timer_that_rings_in_an_hour():
    """runtime:Q-8: the safety tick."""

    async def wait():
        queue = queue_of()
        queue.add("a", after_s=3600)
        await queue.get()
        return now()

    with asyncio.Runner(loop_factory=Forgetful) as runner:
        assert 3600 <= runner.run(wait()) < 3611


async def test_done_without_get_is_a_bug_and_says_so():
    """runtime:Q-6"""
    queue = queue_of()
    with pytest.raises(AssertionError, match="without get"):
        queue.done("a")


async def test_a_worker_cancelled_after_it_was_woken_passes_the_wake_up_on():
    """runtime:Q-7 runtime:P-9"""
    queue = queue_of()
    got = []

    async def work():
        got.append(await queue.get())

    async with asyncio.TaskGroup() as group:
        first, _second = group.create_task(work()), group.create_task(work())
        await asyncio.sleep(0)
        queue.add("a")  # resolves the first one's future
        first.cancel()  # before it could run
    assert got == ["a"]


async def test_a_worker_cancelled_while_it_waits_leaves_nothing_behind():
    """runtime:Q-7 runtime:P-9"""
    queue = queue_of()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await take(queue)
    queue.add("a")
    assert await take(queue) == "a"
    assert not queue._getters


async def test_priorities_come_first_and_negative_ones_last():
    """runtime:Q-13"""
    queue = queue_of()
    queue.add("sweep", priority=-100)
    queue.add("event")
    queue.add("deleted", priority=50)
    assert queue.depths() == {"0": 1, "50": 1, "-100": 1}
    assert await take_all(queue) == ["deleted", "event", "sweep"]


@pytest.mark.parametrize("priority", [50, -100])
async def test_a_retried_key_keeps_the_priority_it_was_handed_out_with_41(priority):
    """runtime:Q-13"""
    queue = queue_of()
    queue.add("a", priority=priority)
    await take(queue)
    queue.retry("a")
    queue.add("a", after_s=0.001, priority=None)
    queue.done("a")
    await asyncio.sleep(1)
    assert queue.depths() == {str(priority): 1}


async def test_an_owed_run_has_the_highest_priority_it_was_asked_for_with():
    """runtime:Q-1"""
    queue = queue_of()
    queue.add("a", priority=7)
    await take(queue)
    for priority in (0, 50, -100):
        queue.add("a", priority=priority)
    queue.done("a")
    assert queue.depths() == {"50": 1}


async def test_a_result_may_name_another_priority():
    """runtime:Q-13"""
    queue = queue_of()
    queue.add("a", priority=50)
    await take(queue)
    queue.add("a", priority=-100)
    queue.done("a")
    assert queue.depths() == {"-100": 1}


async def test_a_sweep_is_not_starved_by_more_events_than_can_be_worked_off_40():
    """runtime:Q-14"""
    queue = queue_of()
    queue.add("sweep", priority=-100)
    served = 0.0
    async with asyncio.TaskGroup() as group:

        async def load():
            for n in range(2200):
                queue.add(n)
                await asyncio.sleep(0.1 / 1.1)

        async def work():
            nonlocal served
            while not served:
                key = await queue.get()
                await asyncio.sleep(0.1)
                queue.done(key)
                if key == "sweep":
                    served = now()

        adding = group.create_task(load())
        await group.create_task(work())
        adding.cancel()
    assert AGED_S <= served <= 90


async def test_an_aged_key_is_served_by_its_age_and_not_before():
    """runtime:Q-14"""
    queue = queue_of()
    queue.add("sweep", priority=-100)
    await asyncio.sleep(AGED_S - 1)
    queue.add("young")
    queue.add("younger")
    assert await take(queue) == "young"
    await asyncio.sleep(1)
    assert await take(queue) == "sweep"


async def test_ageing_does_not_change_what_a_retry_keeps():
    """runtime:Q-14 runtime:Q-13"""
    queue = queue_of()
    queue.add("sweep", priority=-100)
    await asyncio.sleep(AGED_S)
    await take(queue)
    queue.add("sweep", priority=None)
    queue.done("sweep")
    assert queue.depths() == {"-100": 1}


async def test_at_most_eight_priorities_are_told_apart_in_metrics():
    """runtime:Q-15"""
    queue = queue_of()
    for priority in range(12):
        queue.add(priority, priority=priority)
    depths = queue.depths()
    assert depths == {str(p): 1 for p in range(8)} | {"other": 4}


async def test_a_tenant_with_many_keys_delays_another_by_one_turn_48():
    """runtime:Q-16"""
    queue = queue_of(fair_by=lambda key: key[0])
    for n in range(5000):
        queue.add(("a", n))
    queue.add(("b", 0))
    assert [await take(queue) for _ in range(3)] == [("a", 0), ("b", 0), ("a", 1)]


async def test_tenants_take_turns_within_a_priority_only():
    """runtime:Q-16 runtime:Q-13"""
    queue = queue_of(fair_by=lambda key: key[0])
    for key in ("a1", "a2", "b1"):
        queue.add(key)
    queue.add("a3", priority=1)
    assert await take_all(queue) == ["a3", "a1", "b1", "a2"]


async def test_shutdown_wakes_every_worker_and_hands_out_nothing_more():
    """runtime:Q-17 runtime:Q-18"""
    queue = queue_of()
    ended = []

    async def work():
        with pytest.raises(QueueShutDownError):
            await queue.get()
        ended.append(1)

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(work())
        await asyncio.sleep(0)
        queue.add("waiting", after_s=1)
        queue.shutdown()
        queue.add("late")
        queue.shutdown()
    assert len(ended) == 3
    with pytest.raises(QueueShutDownError):
        await queue.get()
    assert len(queue) == 0


async def test_a_ready_key_is_not_handed_out_after_shutdown():
    """runtime:Q-17"""
    queue = queue_of()
    queue.add("a")
    queue.add("b")
    assert await take(queue) == "a"
    queue.add("a")
    queue.shutdown()
    queue.done("a")
    with pytest.raises(QueueShutDownError):
        await queue.get()


async def test_drain_hands_out_what_is_ready_and_then_ends_the_workers():
    """runtime:Q-17"""
    queue = queue_of()
    done = []

    async def work():
        while True:
            try:
                key = await queue.get()
            except QueueShutDownError:
                return
            await asyncio.sleep(1)
            done.append(key)
            queue.done(key)

    for key in "abc":
        queue.add(key)
    queue.add("waiting", after_s=0.5)
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        group.create_task(work())
        await asyncio.sleep(0)
        queue.add("a")  # owed another run; it counts as ready
        await queue.drain(60)
        assert now() == 2
        await queue.drain(60)  # at once
        assert now() == 2
    assert sorted(done) == ["a", "a", "b", "c"]


async def test_drain_gives_up_when_its_time_is_up():
    """runtime:Q-17"""
    queue = queue_of()
    queue.add("a")
    await queue.drain(3)
    assert now() == 3
    with pytest.raises(QueueShutDownError):
        await queue.get()


async def test_shutdown_during_drain_ends_it_39():
    """runtime:Q-17"""
    queue = queue_of()
    queue.add("a")
    await take(queue)
    async with asyncio.TaskGroup() as group:
        group.create_task(queue.drain(100))
        await asyncio.sleep(1)
        queue.shutdown()
    assert now() == pytest.approx(1, abs=0.01)


async def test_a_retry_waits_twice_as_long_after_each_failure_and_starts_anew_when_forgotten():
    """runtime:Q-9 runtime:Q-10"""
    queue = queue_of()
    waits = []
    for _ in range(3):
        began = now()
        queue.retry("a")
        await queue.get()
        queue.done("a")
        waits.append(now() - began)
    queue.forget("a")
    began = now()
    queue.retry("a")
    await queue.get()
    waits.append(now() - began)
    assert waits == [pytest.approx(s, rel=0.1) for s in (0.005, 0.01, 0.02, 0.005)]


async def test_a_retry_waits_at_least_what_it_is_told():
    queue = queue_of()
    queue.retry("a", at_least_s=7)
    await queue.get()
    assert now() == pytest.approx(7)


async def test_retries_of_all_keys_share_a_budget_and_events_do_not_pass_it():
    """runtime:Q-11 field-reports:FR-085 mpijob:W-09"""
    queue = queue_of(bucket=TokenBucket(2.0, 1), backoff=Backoff(0.001, 1.0))
    for key in "abc":
        queue.retry(key)
    queue.add("event")
    assert await take(queue) == "event"
    came = []
    for _ in range(3):
        await queue.get()
        came.append(now())
    assert came == [pytest.approx(t, abs=0.01) for t in (0, 0.5, 1.0)]


class Counts:
    def __init__(self):
        self.said = []

    def count(self, what):
        self.said.append(what)

    def took(self, what, seconds):
        self.said.append((what, round(seconds, 3)))


async def test_the_observer_hears_what_the_dashboards_of_client_go_show():
    counts = Counts()
    queue = queue_of(observer=counts)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    assert queue.unfinished_s() == queue.longest_running_s() == 3
    assert queue.running() == {"a": 3}
    queue.add("a", after_s=1)
    queue.done("a")
    assert counts.said == [
        "adds_total",
        ("queue_duration_seconds", 2),
        "retries_total",
        "adds_total",
        ("work_duration_seconds", 3),
    ]
    assert repr(queue) == "<WorkQueue test: open, 1 waiting, 0 ready, 0 running>"
