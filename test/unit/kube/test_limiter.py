# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How fast writes leave: without a limit of ours, until the server complains."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.kube.call import Traffic
from ascendop.kube.errors import BusyError
from ascendop.kube.limiter import FLOOR_PER_S, WriteLimiter
from ascendop.kube.resource import PODS

NAMED = {"metadata": {"namespace": "ml", "name": "a"}}


async def write(client, number):
    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(client.create(PODS, NAMED))


async def test_by_default_nothing_of_ours_slows_a_write(scripted):
    """runtime:H-13, with the default that the server regulates."""
    server = scripted()
    await write(server.client(), 5_000)
    assert asyncio.get_running_loop().time() == 0


async def test_a_ceiling_is_kept_when_somebody_wants_one(scripted):
    """runtime:H-13: 200 a second, 400 at once."""
    server = scripted()
    traffic = Traffic(server, limiter=WriteLimiter(ceiling_per_s=200.0))
    await write(server.client(traffic=traffic), 1_400)
    assert asyncio.get_running_loop().time() == pytest.approx(5.0, abs=0.1)
    assert sum(at == 0 for at in server.seen_at) == pytest.approx(400, abs=2)


@pytest.mark.parametrize("burst", [1, 100])
async def test_under_a_ceiling_as_many_leave_at_once_as_somebody_wants(scripted, burst):
    server = scripted()
    traffic = Traffic(server, limiter=WriteLimiter(ceiling_per_s=50.0, burst=burst))
    await write(server.client(traffic=traffic), burst + 100)
    assert asyncio.get_running_loop().time() == pytest.approx(2.0, abs=0.1)
    assert sum(at == 0 for at in server.seen_at) == pytest.approx(burst, abs=1)


def test_a_ceiling_may_come_and_go_while_writes_are_made():
    """runtime:O-11 runtime:H-13."""
    limiter = WriteLimiter()
    assert limiter.rate_per_s(0.0) is None
    limiter.ceiling_per_s = 20.0
    assert limiter.rate_per_s(1.0) == 20.0
    limiter.ceiling_per_s = None
    assert limiter.take(2.0) == 0.0


def test_a_complaint_halves_what_was_measured_and_growth_is_five_percent_a_second():
    """runtime:H-13."""
    limiter = WriteLimiter()
    for nth in range(100):
        limiter.take(nth / 100)
    limiter.complain(1.0, retry_after_s=0.0)
    assert limiter.rate_per_s(1.0) == pytest.approx(50, abs=1)
    assert limiter.rate_per_s(2.0) == pytest.approx(50 * 1.05, abs=1)
    assert limiter.rate_per_s(11.0) == pytest.approx(50 * 1.05**10, abs=2)


def test_one_overload_answers_many_requests_and_is_cut_for_once():
    limiter = WriteLimiter()
    for nth in range(100):
        limiter.take(nth / 100)
    for _ in range(32):
        limiter.complain(1.0, retry_after_s=0.0)
    assert limiter.rate_per_s(1.0) == pytest.approx(50, abs=1)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), max_size=50))
def test_the_rate_never_falls_below_the_floor(complaints):
    """runtime:H-13."""
    limiter, now = WriteLimiter(), 0.0
    for after_s, asked_s in complaints:
        now += after_s
        limiter.take(now)
        limiter.complain(now, asked_s)
        assert limiter.rate_per_s(now) >= FLOOR_PER_S


def test_the_limit_disappears_when_the_server_has_been_content_for_long():
    limiter = WriteLimiter()
    for nth in range(100):
        limiter.take(nth / 100)
    limiter.complain(1.0, retry_after_s=0.0)
    assert limiter.rate_per_s(28.0) is not None
    assert limiter.rate_per_s(31.0) is None
    assert limiter.take(31.0) == 0.0


async def test_one_retry_after_slows_every_writer_and_reads_go_on(scripted, reply):
    """runtime:H-13, pitfall 80."""
    server = scripted(reply(429, retry_after="5"))
    client = server.client()
    async with asyncio.TaskGroup() as group:
        group.create_task(client.create(PODS, NAMED))
        await asyncio.sleep(0.1)
        group.create_task(write(client, 10))
        await client.get(PODS, "ml", "a")
        assert asyncio.get_running_loop().time() == pytest.approx(0.1)
    late = [at for at, request in zip(server.seen_at, server.seen, strict=True) if at > 0.1]
    assert len(late) == 11
    assert min(late) >= 5.0
    assert max(late) - min(late) >= 0.9  # ten a second, not eleven at once


async def test_the_lease_is_never_held_back(scripted, reply):
    """runtime:H-13, runtime:L-4."""
    server = scripted(reply(429, retry_after="20"))
    client = server.client()
    with pytest.raises(BusyError):
        await client.sibling("job", attempts=1).create(PODS, NAMED)
    await client.sibling("lease", pool="lease").replace(PODS, NAMED)
    assert server.seen_at[1] == 0


async def test_a_write_that_would_wait_longer_than_it_may_fails_at_once(scripted, reply):
    server = scripted(reply(429, retry_after="60"))
    client = server.client(attempts=1)
    with pytest.raises(BusyError):
        await client.create(PODS, NAMED)
    with pytest.raises(BusyError, match="held back by ourselves") as caught:
        await client.create(PODS, NAMED)
    assert caught.value.retry_after_s == pytest.approx(60)
    assert len(server.seen) == 1


async def test_through_half_a_minute_of_429_the_rate_falls_and_comes_back_smoothly(reply, scripted):
    """field-reports:FR-081: Pitfall 80."""
    loop = asyncio.get_running_loop()
    server = scripted(takes_s=0.05)
    busy = reply(429, retry_after="1")
    server.script = Endless(lambda: busy if loop.time() % 1000 < 30 else reply(200))

    async def writer(client):
        while loop.time() < 90:
            try:
                await client.create(PODS, NAMED)
            except BusyError as error:
                await asyncio.sleep(error.retry_after_s)

    client = server.client()
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(writer(client))

    def per_s(start, end):
        return sum(start <= at < end for at in server.seen_at) / (end - start)

    assert per_s(5, 30) <= 15
    assert 10 <= per_s(31, 40) <= per_s(45, 55) <= per_s(60, 70)
    assert per_s(80, 90) > 100


class Endless:
    """A script that asks a function, each time."""

    def __init__(self, answer):
        self.answer = answer

    def __bool__(self):
        return True

    def pop(self, _index):
        return self.answer()


async def test_at_most_32_writes_are_in_flight_and_reads_do_not_count(scripted):
    """runtime:H-15."""
    server = scripted(takes_s=1.0)
    client = server.client()
    async with asyncio.TaskGroup() as group:
        group.create_task(write(client, 50))
        group.create_task(write(client.sibling("other"), 50))
        for _ in range(10):
            group.create_task(client.get(PODS, "ml", "a"))
    writes = [at for at, sent in zip(server.seen_at, server.seen, strict=True) if sent.body]
    assert [writes.count(float(second)) for second in range(4)] == [32, 32, 32, 4]
    assert server.most_in_flight == 42
