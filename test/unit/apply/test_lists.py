# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods by the thousand: lists where the server takes them, one by one where it does not."""

import asyncio
from random import Random  # noqa: TID251  seeded

import orjson
import pytest

from ascendop.apply.lists import AGAIN_S, PodLists
from ascendop.apply.plan import Create, Delete
from ascendop.errors import NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.resource import PODS
from ascendop.kube.transport import Response

from .conftest import NS  # noqa: TID252  the standard library has a package called test


class ListTaker:
    """A transport to a server that takes lists, as openFuyao's; the rest is the simulator's."""

    def __init__(self, bench):
        self._inner = bench.wire
        self._hands = bench.hands
        self.sizes = []

    async def send(self, request):
        if request.query.get("collectionCreate") != "true":
            return await self._inner.send(request)
        body = orjson.loads(request.body)
        assert (body["kind"], body["apiVersion"]) == ("PodLists", "v1")
        assert request.path == f"/api/v1/namespaces/{NS}/pods"
        self.sizes.append(len(body["items"]))
        for pod in body["items"]:
            await self._hands.create(PODS, pod)
        return Response(201, {}, b"{}")

    def stream(self, request):
        return self._inner.stream(request)

    async def close(self):
        await self._inner.close()


def lists(request):
    return request.query.get("collectionCreate") == "true"


def posts(bench):
    """How many lists and how many single pods were sent."""
    sent = [r for r in bench.wire.sent if r.method == "POST" and r.path.endswith("/pods")]
    return sum(map(lists, sent)), len(sent) - sum(map(lists, sent))


def workers(bench, count, first=0):
    return [Create(PODS, bench.pod(f"j-worker-{n}")) for n in range(first, first + count)]


@pytest.fixture
def taken(bench):
    """The server takes lists, and the executor makes them."""
    taker = ListTaker(bench)
    bench.client = Client(taker, rng=Random(5), attempts=1)
    bench.executor = bench.executor_of(PodLists(bench.client))
    return taker


async def test_d11_2500_workers_are_three_requests(bench, taken):
    """ascendjob:W-37"""
    executed = await bench.run(*workers(bench, 2500))
    assert sorted(taken.sizes) == [500, 1000, 1000]
    assert posts(bench) == (0, 0), "nothing was sent besides"
    assert len(executed.done.written) == 2500 and not executed.done.failures
    assert all(written.uid for written in executed.done.written)
    known = [bench.pods.get(NS, f"j-worker-{n}") for n in range(2500)]
    assert all(known), "the next pass knows them before the watch says so"


async def test_deletions_of_the_same_step_go_beside_a_list(bench, taken):
    old = await bench.exists("j-worker-9")
    executed = await bench.run(
        Delete(PODS, "j-worker-9", old["metadata"]["uid"]), *workers(bench, 3)
    )
    assert taken.sizes == [3]
    assert len(executed.done.written) == 4


async def test_a_single_pod_is_no_list(bench, taken):
    await bench.run(*workers(bench, 1))
    assert taken.sizes == [] and posts(bench) == (0, 1)


async def test_d12_a_stock_server_is_asked_once_an_hour_and_gets_single_pods(bench):
    """ascendjob:W-37"""
    bench.executor = bench.executor_of(PodLists(bench.client))
    executed = await bench.run(*workers(bench, 2500))
    asked, single = posts(bench)
    assert 1 <= asked <= 3 and single == 2500
    assert len(executed.done.written) == 2500 and not executed.done.failures
    await asyncio.sleep(AGAIN_S - 60)
    await bench.run(*workers(bench, 10, first=2500))
    assert posts(bench) == (asked, 2510)
    await asyncio.sleep(120)
    await bench.run(*workers(bench, 10, first=2510))
    assert posts(bench)[0] == asked + 1 and posts(bench)[1] == 2520


async def test_d12_what_a_list_has_made_before_it_failed_is_found(bench, taken):
    """A pod that is there and ours is success, as for single ones."""
    await bench.exists("j-worker-1")  # so that the list fails behind the first pod
    executed = await bench.run(*workers(bench, 3))
    assert taken.sizes == [3] and posts(bench) == (0, 3)
    assert not executed.done.failures and executed.trouble is None
    assert all(bench.pods.get(NS, f"j-worker-{n}") for n in range(3))


async def test_without_the_setting_no_list_is_ever_sent(bench):
    """ascendjob:W-37: the original tries it on every stock cluster."""
    await bench.run(*workers(bench, 20))
    assert posts(bench) == (0, 20)


async def test_a_lost_lease_ends_it_as_it_ends_all_writes(bench):
    async def forbid(request):
        if lists(request):
            raise NotLeaderError("the lease is gone")

    bench.wire.before.append(forbid)
    bench.executor = bench.executor_of(PodLists(bench.client))
    with pytest.raises(NotLeaderError):
        await bench.run(*workers(bench, 5))
    assert posts(bench)[1] == 0
