# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong on the wire to the simulator goes wrong as drawn, and as told."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest

from ascendop.clock import simulated
from ascendop.kube.errors import TransportError
from ascendop.kube.transport import Request
from ascendop.sim.faults import Faults, Plan
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

PATH = "/api/v1/namespaces/default/configmaps"


def make_server():
    start = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    return ApiServer(wall=start, rng=Random(1))


def shaken(server, seed=1, **plan):
    return SimTransport(server, faults=Faults(Plan(**plan), Random(seed)))


def create(name):
    body = orjson.dumps({"metadata": {"name": name}})
    return Request("POST", PATH, {}, {"Content-Type": "application/json"}, body)


async def names(server):
    listed = orjson.loads((await server.handle(Request("GET", PATH))).body)
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.mark.parametrize(
    ("plan", "sent", "stored"),
    [
        pytest.param({"refuse": 1}, False, [], id="refused: nothing was sent"),
        pytest.param({"reset_before": 1}, True, [], id="reset before the effect"),
        pytest.param({"reset_after": 1}, True, ["a"], id="reset after the effect"),
        pytest.param({"hang": 1}, True, [], id="hanging until the client gives up"),
    ],
)
async def test_a_broken_request_says_whether_it_may_have_worked(plan, sent, stored):
    """runtime:S-4"""
    server = make_server()
    with pytest.raises(TransportError) as caught:
        await shaken(server, **plan).send(create("a"))
    assert caught.value.sent is sent
    assert await names(server) == stored


async def test_a_request_that_hangs_takes_as_long_as_its_client_waits():
    """runtime:S-4"""
    loop = asyncio.get_running_loop()
    with pytest.raises(TransportError):
        await shaken(make_server(), hang=1).send(create("a"))
    assert loop.time() == pytest.approx(30.0)


@pytest.mark.parametrize(("code", "after"), [(429, "1"), (500, None), (503, "1"), (504, None)])
async def test_a_drawn_answer_has_no_effect_and_says_when_to_ask_again(code, after):
    """runtime:S-4"""
    server = make_server()
    answer = await shaken(server, status={code: 1}).send(create("a"))
    assert (answer.status, answer.headers.get("retry-after")) == (code, after)
    assert await names(server) == []


async def test_the_same_seed_draws_the_same_faults():
    """runtime:S-7"""

    async def outcomes(seed):
        wire = shaken(make_server(), seed, refuse=0.3, status={503: 0.3})
        seen = []
        for index in range(40):
            try:
                seen.append((await wire.send(create(f"c{index}"))).status)
            except TransportError:
                seen.append(0)
        return seen

    assert await outcomes(1) == await outcomes(1)
    assert set(await outcomes(1)) == {0, 201, 503}
    assert await outcomes(1) != await outcomes(2)


async def lines(server, transport, count):
    """Make some objects and read the watch of them, through what happens to it."""
    seen = b""
    query = {"watch": "1", "timeoutSeconds": "30", "resourceVersion": str(server.revision)}
    async with transport.stream(Request("GET", PATH, query)) as stream:
        for index in range(count):
            await server.handle(create(f"c{index}"))
        async for chunk in stream.chunks():
            seen += chunk
    return seen


async def test_a_chunk_in_two_pieces_is_still_the_same_bytes():
    """runtime:S-4"""
    server = make_server()
    seen = await lines(server, shaken(server, split=1), 3)
    assert [orjson.loads(line)["type"] for line in seen.splitlines()] == ["ADDED"] * 3


@pytest.mark.parametrize("plan", [{"truncate": 1}, {"cut": 1}])
async def test_a_watch_that_is_cut_says_so(plan):
    """runtime:S-4"""
    server = make_server()
    with pytest.raises(TransportError) as caught:
        await lines(server, shaken(server, **plan), 3)
    assert caught.value.sent


async def test_a_watch_that_lags_is_late_and_complete():
    """runtime:S-4"""
    server = make_server()
    started = asyncio.get_running_loop().time()
    seen = await lines(server, shaken(server, lag_s=5), 3)
    assert len(seen.splitlines()) == 3
    assert asyncio.get_running_loop().time() >= started + 30


async def test_faults_that_are_switched_off_do_nothing():
    server = make_server()
    faults = Faults(Plan(refuse=1), Random(1))
    faults.enabled = False
    assert (await SimTransport(server, faults=faults).send(create("a"))).status == 201


async def test_what_is_spared_goes_through():
    server = make_server()
    faults = Faults(Plan(refuse=1), Random(1), spare=lambda request: request.method == "POST")
    wire = SimTransport(server, faults=faults)
    assert (await wire.send(create("a"))).status == 201
    with pytest.raises(TransportError):
        await wire.send(Request("GET", PATH))


async def test_a_closed_transport_sends_nothing():
    server = make_server()
    wire = SimTransport(server)
    await wire.close()
    with pytest.raises(TransportError) as caught:
        await wire.send(create("a"))
    assert not caught.value.sent
