# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Two replicas on the API server of the house, with the real client."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.resource import LEASES
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport


class Cluster:
    def __init__(self):
        self.wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
        self.server = ApiServer(wall=self.wall, rng=Random(1))
        self.client = Client(SimTransport(self.server), rng=Random(2))

    def elector(self, name):
        return Elector(
            self.client.sibling("election", pool="lease"),
            namespace="default",
            name="ascendop",
            identity=name,
            times=LeaseTimes(),
            wall=self.wall,
            rng=Random(name),
        )

    async def lease(self):
        return (await self.client.get(LEASES, "default", "ascendop"))["spec"]


@pytest.fixture
async def cluster():
    return Cluster()


async def test_a_lease_is_held_renewed_given_back_and_taken_over_within_a_second(cluster):
    """runtime:L-11"""
    loop = asyncio.get_running_loop()
    a, b = cluster.elector("a"), cluster.elector("b")
    stop_a, stop_b = asyncio.Event(), asyncio.Event()
    led_at = {}

    async def lead(name, stop):
        led_at[name] = loop.time()
        await stop.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(a.run(lambda: lead("a", stop_a)))
        await asyncio.sleep(1)
        tasks.create_task(b.run(lambda: lead("b", stop_b)))
        await asyncio.sleep(60)
        assert (await cluster.lease())["holderIdentity"] == "a" and list(led_at) == ["a"]
        assert b.holder == "a"
        stop_a.set()
        stopped_at = loop.time()
        await asyncio.sleep(3)
        assert led_at["b"] - stopped_at < 1
        lease = await cluster.lease()
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("b", 1)
        assert (a.epoch, b.epoch) == (0, 1)
        stop_b.set()
    assert (await cluster.lease())["holderIdentity"] == ""


async def test_a_lease_left_behind_is_taken_within_eighteen_seconds(cluster):
    """runtime:L-11"""
    a, b = cluster.elector("a"), cluster.elector("b")
    forever, stop = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(a._acquire())  # takes it once, and never renews: it is dead
        await asyncio.sleep(1)
        tasks.create_task(b.run(stop.wait))
        await asyncio.sleep(18)
        assert b.leads and not a.gate.is_open
        stop.set()
        forever.set()
