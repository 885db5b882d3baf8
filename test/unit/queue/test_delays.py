# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Heaps that stay small, back-offs that stay finite, buckets that keep their rate."""

from random import Random  # noqa: TID251  seeded

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.backoff import Backoff
from ascendop.queue.delayed import SLACK, DelayHeap
from ascendop.queue.limiter import JITTER, JOB_BACKOFF, FailureLimiter, TokenBucket
from ascendop.queue.ready import ReadyKeys


def test_a_delay_that_is_shortened_again_and_again_does_not_grow_the_heap_44():
    """runtime:Q-8 runtime:S-5"""
    heap = DelayHeap()
    for n in range(100_000):
        heap.set(n % 3, 1_000_000.0 - n)
        assert len(heap._heap) <= 2 * 3 + SLACK + 1
    assert len(heap) == 3


def test_a_key_that_is_raised_again_and_again_does_not_grow_the_ready_heaps_44():
    """runtime:S-5"""
    ready = ReadyKeys()
    for n in range(10_000):
        ready.push("low", -n - 2, 0.0)
        ready.lift("low", 7)
        assert ready.pop(0.0)[0] == "low"
    assert len(ready._levels) <= 17
    for n in range(10_000):
        ready.push(n, -100, 0.0)
        ready.lift(n, 0)
    assert ready._levels[-100].held <= SLACK


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 100))))
def test_keys_come_out_when_they_are_due_and_in_that_order(entries):
    """runtime:Q-12 runtime:Q-8"""
    heap = DelayHeap()
    want = {}
    for key, due in entries:
        heap.set(key, due)
        want[key] = min(due, want.get(key, due))
    assert heap.next_due() == min(want.values(), default=None)
    got = []
    while (key := heap.pop_due(50.0)) is not None:
        got.append(want[key])
    assert got == sorted(due for due in want.values() if due <= 50.0)
    assert len(heap) == sum(1 for due in want.values() if due > 50.0)


def test_a_dropped_key_does_not_come_out():
    heap = DelayHeap()
    heap.set("a", 1.0)
    heap.drop("a")
    heap.drop("unknown")
    assert heap.pop_due(5.0) is None


@pytest.mark.parametrize("failures", [0, 1, 5, 10_000])
def test_a_back_off_doubles_up_to_its_limit_and_never_overflows_45(failures):
    """runtime:Q-9"""
    limiter = FailureLimiter(Random(1))
    delay_s = [limiter.failed("a") for _ in range(failures + 1)][-1]
    want = min(300.0, 0.005 * 2.0 ** min(failures, 60))
    assert want * (1 - JITTER) <= delay_s <= want * (1 + JITTER)
    assert JOB_BACKOFF.limit_s == 300.0


def test_keys_that_fail_together_do_not_come_back_together():
    """runtime:Q-9"""
    limiter = FailureLimiter(Random(1))
    assert len({limiter.failed(n) for n in range(10)}) == 10


def test_an_old_failure_is_forgotten_after_a_success_42():
    """runtime:Q-10"""
    limiter = FailureLimiter(Random(1), Backoff(1.0, 1000.0))
    for _ in range(8):
        limiter.failed("a")
    assert limiter.failures("a") == 8
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.failed("a") < 1.2
    limiter.forget("never failed")


def test_failures_of_keys_that_nobody_forgets_are_bounded_42():
    """runtime:Q-10 runtime:S-5"""
    limiter = FailureLimiter(Random(1), kept=10)
    limiter.failed("first")
    limiter.failed("again")
    for n in range(9):
        limiter.failed(n)
        limiter.failed("again")
    assert len(limiter) == 10
    assert limiter.failures("first") == 0
    assert limiter.failures("again") == 10


def test_a_bucket_lets_a_burst_through_and_then_its_rate():
    """runtime:Q-11"""
    bucket = TokenBucket(50.0, 500)
    waits = [bucket.take(10.0) for _ in range(600)]
    assert waits[:500] == [0.0] * 500
    assert waits[500:503] == pytest.approx([0.02, 0.04, 0.06])
    assert bucket.take(12.0) == pytest.approx(0.02)
    assert bucket.take(1000.0) == 0.0


def test_time_in_which_the_loop_stood_still_earns_nothing():
    """runtime:O-5"""
    bucket = TokenBucket(1.0, 1)
    bucket.take(0.0)
    bucket.rebase(100.0)
    assert bucket.take(100.0) == pytest.approx(1.0)
