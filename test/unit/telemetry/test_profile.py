# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where time and memory go, for somebody on the same machine."""

import asyncio
import json

import pytest

from ascendop.errors import UsageError
from ascendop.settings import Settings
from ascendop.telemetry.health import Checks, OnLoop, Question, metrics_routes, probe_routes
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.profile import profile_routes


def busy(until):
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        sum(range(100))


@pytest.mark.real_time
async def test_a_profile_shows_what_the_loop_did():
    """runtime:O-10"""
    loop = asyncio.get_running_loop()
    routes = profile_routes("127.0.0.1", OnLoop(loop))
    async with asyncio.TaskGroup() as tasks:
        ask = tasks.create_task(asyncio.to_thread(routes["/profile"], Question({"seconds": "0.3"})))
        await asyncio.sleep(0.1)
        busy(loop.time() + 0.1)
    assert ask.result().status == 200 and b"busy" in ask.result().body


@pytest.mark.real_time
async def test_growth_tasks_and_collections_are_shown_too():
    """runtime:O-10"""
    routes = profile_routes("127.0.0.1", OnLoop(asyncio.get_running_loop()))
    kept = []
    async with asyncio.TaskGroup() as tasks:
        ask = tasks.create_task(asyncio.to_thread(routes["/memory"], Question({"seconds": "0.3"})))
        await asyncio.sleep(0.15)
        kept.extend(bytes(1000) for _ in range(1000))
    assert b"test_profile.py" in ask.result().body
    shown = await asyncio.to_thread(routes["/tasks"], Question({}))
    assert isinstance(json.loads(shown.body), list)
    assert len(json.loads(routes["/gc"](Question({})).body)["generations"]) == 3


@pytest.mark.real_time
async def test_only_one_measures_at_a_time_and_nobody_for_long():
    """runtime:O-10"""
    routes = profile_routes("::1", OnLoop(asyncio.get_running_loop()))
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(
            asyncio.to_thread(routes["/profile"], Question({"seconds": "0.3"}))
        )
        await asyncio.sleep(0.1)
        second = await asyncio.to_thread(routes["/memory"], Question({}))
    assert (first.result().status, second.status) == (200, 409)
    assert routes["/memory"](Question({"seconds": "for ever"})).status == 400


@pytest.mark.parametrize("host", ["", "0.0.0.0", "10.0.0.1"])
async def test_a_profile_is_never_served_to_the_network(host):
    """runtime:O-10"""
    with pytest.raises(UsageError, match="loopback"):
        profile_routes(host, OnLoop(asyncio.get_running_loop()))


async def test_profiling_is_off_by_default_and_never_on_the_other_ports():
    """runtime:O-10"""
    assert Settings().profile_listen == ""
    on_loop = OnLoop(asyncio.get_running_loop())
    others = {
        *probe_routes(Checks(), Checks(), {}, on_loop),
        *metrics_routes(Metrics(), on_loop),
    }
    assert not others & set(profile_routes("localhost", on_loop))
