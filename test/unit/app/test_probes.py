# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is served beside the work, and where."""

import asyncio
import json
import socket
import urllib.error
import urllib.request

import pytest

from ascendop.app.probes import serve_probes
from ascendop.errors import UsageError
from ascendop.settings import Settings
from ascendop.telemetry.watchdog import Watchdog

NOWHERE = {"health_listen": "", "metrics_listen": "", "profile_listen": ""}


def free_address():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


async def get(address, path):
    """Status and body."""

    def ask():
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    return await asyncio.to_thread(ask)


def serve(operator, stop=None, **listen):
    watchdog = Watchdog(operator.metrics.loop)
    return serve_probes(operator, Settings(**NOWHERE | listen), watchdog, stop or asyncio.Event())


@pytest.mark.real_time
async def test_a_replica_is_ready_when_its_caches_are_filled_and_until_it_stops(town):
    operator, stop, address = town.operator(), asyncio.Event(), free_address()
    with serve(operator, stop, health_listen=address):
        before = await get(address, "/readyz")
        operator.synced.set()
        ready = await get(address, "/readyz")
        stop.set()
        after = await get(address, "/readyz")
        assert (await get(address, "/healthz"))[0] == 200
    assert before == (503, "caches: are being filled\n")
    assert ready[0] == 200
    assert after == (503, "end: this replica is stopping\n")


@pytest.mark.real_time
async def test_caches_of_kinds_that_may_be_absent_do_not_make_it_unready(town):
    """runtime:I-40: no Volcano is here, and nobody waits for it."""
    operator, address = town.operator(cache_sync_timeout_s=5), free_address()
    with serve(operator, health_listen=address):
        async with town.running(operator):
            assert (await get(address, "/readyz"))[0] == 200
            shown = json.loads((await get(address, "/informerz"))[1])
    assert {found["state"] for found in shown} >= {"watching", "starting"}


@pytest.mark.real_time
async def test_profiles_have_a_door_of_their_own(town):
    """runtime:O-10"""
    metrics, profile = free_address(), free_address()
    with serve(town.operator(), metrics_listen=metrics, profile_listen=profile):
        assert (await get(profile, "/profile?seconds=0.05"))[0] == 200
        assert (await get(profile, "/metrics"))[0] == 404
        assert (await get(metrics, "/profile"))[0] == 404
        assert "workqueue_depth" in (await get(metrics, "/metrics"))[1]


async def test_a_profile_on_the_network_stops_the_start(town):
    """runtime:O-10"""
    with (
        pytest.raises(UsageError, match="loopback"),
        serve(town.operator(), profile_listen=":6060"),
    ):
        pass
