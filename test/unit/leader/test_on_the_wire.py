# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The elector and its gate with the real client, down to the requests."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import orjson
import pytest

from ascendop.clock import simulated
from ascendop.errors import NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.resource import CONFIGMAPS
from ascendop.kube.transport import Response
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases"


class Wire:
    """One Lease behind the Transport protocol, and a record of every request."""

    def __init__(self):
        self.requests = []
        self.lease = None
        self.job_writes_hang = False

    async def send(self, request):
        self.requests.append(request)
        await asyncio.sleep(0.001)
        if not request.path.startswith(LEASE_PATH):
            if self.job_writes_hang:
                await asyncio.sleep(1e6)
            return Response(201, {}, request.body)
        if request.method == "GET" and self.lease is None:
            return Response(404, {}, b'{"reason": "NotFound", "message": "no lease", "code": 404}')
        if request.method != "GET":
            self.lease = orjson.loads(request.body)
            self.lease["metadata"]["resourceVersion"] = str(len(self.requests))
        return Response(200, {}, orjson.dumps(self.lease))

    @asynccontextmanager
    async def stream(self, request):
        self.requests.append(request)
        yield Silence()

    async def close(self):
        pass


class Silence:
    def __init__(self):
        self.status, self.headers = 200, {}

    async def chunks(self):
        await asyncio.sleep(1e6)
        yield b""

    async def read(self):
        return b""


@pytest.fixture
def wire():
    return Wire()


async def leading(wire, body):
    """Run `body` with a client whose writes ask the gate, while the elector leads."""
    loop = asyncio.get_running_loop()
    client = Client(wire, rng=Random(1))
    elector = Elector(
        client.sibling("election", pool="lease"),
        namespace="ops",
        name="ascendop",
        identity="a",
        times=LeaseTimes(),
        wall=simulated(datetime(2026, 1, 1, tzinfo=UTC), loop.time),
        rng=Random(3),
    )
    writer = client.sibling("jobs", gate=elector.gate)
    await elector.run(lambda: body(writer))
    return elector, writer


def config_map(name):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "ml", "name": name},
    }


async def test_a_replica_that_does_not_lead_sends_no_write_but_the_lease(wire):
    """runtime:L-10"""

    async def nothing(_writer):
        pass

    _, writer = await leading(wire, nothing)
    with pytest.raises(NotLeaderError):
        await writer.create(CONFIGMAPS, config_map("late"))
    assert {r.path.removesuffix("/ascendop") for r in wire.requests} == {LEASE_PATH}


async def test_a_write_lasts_no_longer_than_the_lease(wire):
    """runtime:L-8"""

    async def write(writer):
        await asyncio.sleep(1.5)
        await writer.create(CONFIGMAPS, config_map("a"))

    await leading(wire, write)
    (request,) = [r for r in wire.requests if "configmaps" in r.path]
    assert 13.4 <= request.timeout_s <= 13.6


async def test_renewals_have_their_own_connections_and_do_not_wait_behind_writes_74(wire):
    """runtime:L-4: every slot for writes is taken by a request that nobody answers.

    field-reports:FR-074 field-reports:FR-089
    """
    wire.job_writes_hang = True

    async def flood(writer):
        async with asyncio.TaskGroup() as tasks:
            writes = [
                tasks.create_task(writer.create(CONFIGMAPS, config_map(f"c{n}"))) for n in range(64)
            ]
            await asyncio.sleep(60)
            writer._caller.gate.check()
            for write in writes:
                write.cancel()

    await leading(wire, flood)
    leases = [r for r in wire.requests if r.path.startswith(LEASE_PATH)]
    assert {r.pool for r in leases if r.method != "GET" or "watch" not in r.query} == {"lease"}
    assert len([r for r in leases if r.method == "PUT"]) >= 28
