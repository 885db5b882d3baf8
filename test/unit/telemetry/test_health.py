# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Ports for probes, answered by threads."""

import asyncio
import json
import socket
import threading
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from ascendop.errors import UsageError
from ascendop.telemetry.health import (
    CONNECTIONS,
    Checks,
    HealthServer,
    LoopSilentError,
    OnLoop,
    metrics_routes,
    probe_routes,
)
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.watchdog import Watchdog

pytestmark = pytest.mark.real_time


@contextmanager
def served(routes, host="127.0.0.1"):
    server = HealthServer((host, 0), routes, flag="--health-listen")
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def get(port, path, *, method="GET", headers=None, host="127.0.0.1"):
    connection = HTTPConnection(host, port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers
    finally:
        connection.close()


async def ask(port, path, **options):
    return await asyncio.to_thread(get, port, path, **options)


@pytest.fixture
def live():
    return Checks()


@pytest.fixture
def ready():
    return Checks()


async def test_a_probe_is_green_until_a_check_says_why_not(live, ready):
    """runtime:O-4"""
    trouble = ""
    ready.add("informers", lambda: trouble)
    live.add("loop", lambda: "")
    with served(probe_routes(live, ready, {}, OnLoop(asyncio.get_running_loop()))) as port:
        assert (await ask(port, "/healthz"))[:2] == (200, "ok\n")
        assert (await ask(port, "/readyz"))[:2] == (200, "ok\n")
        trouble = "Pod is not synced"
        assert (await ask(port, "/readyz"))[:2] == (503, "informers: Pod is not synced\n")
        assert (await ask(port, "/"))[0] == 200, "the stock operator answers here"


async def test_a_stuck_loop_is_seen_from_outside_and_told_where_it_is_stuck(live, ready):
    """runtime:O-4: probes are answered from a thread."""
    loop = asyncio.get_running_loop()
    dog = Watchdog(Metrics().loop)
    live.add("loop", dog.unhealthy)
    on_loop = OnLoop(loop)
    routes = probe_routes(live, ready, {"queuez": dict}, on_loop)
    answers = {}
    with served({**routes, **metrics_routes(Metrics(), on_loop)}) as port:
        askers = [
            threading.Thread(target=lambda path=path: answers.update({path: get(port, path)}))
            for path in ("/healthz", "/queuez", "/metrics")
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()  # and the loop stands still meanwhile
    assert answers["/healthz"][:2] == (200, "ok\n")
    assert answers["/metrics"][0] == 200
    status, text, _ = answers["/queuez"]
    assert status == 503 and "the loop did not answer for 2 s" in text
    assert "asker.join()" in text


async def test_dumps_are_json_asked_for_on_the_loop(live, ready):
    """runtime:P-19: what they show lives there, and no thread but the loop's touches it."""
    loop = asyncio.get_running_loop()
    here = threading.get_ident()

    def queues():
        assert threading.get_ident() == here
        return {"jobs": {"depth": 3, "running": {("ml", "a"): 0.5}.__len__()}}

    async def waits():
        await asyncio.sleep(60)

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waits(), name="waits-for-ever")
        with served(probe_routes(live, ready, {"queuez": queues}, OnLoop(loop))) as port:
            status, text, headers = await ask(port, "/queuez")
            assert status == 200 and json.loads(text) == {"jobs": {"depth": 3, "running": 1}}
            assert headers["Content-Type"] == "application/json"
            tasks_seen = {
                t["task"]: t["waits"] for t in json.loads((await ask(port, "/tasksz"))[1])
            }
            assert any("test_health.py" in place for place in tasks_seen["waits-for-ever"])
        waiting.cancel()


async def test_a_scrape_takes_states_on_the_loop_and_renders_elsewhere():
    """runtime:Q-23 runtime:P-19"""
    metrics = Metrics()
    depth = metrics.gauge("depth", "d")
    here = threading.get_ident()
    seen = []

    class Where:
        def collect(self):
            seen.append(threading.get_ident())
            return []

    metrics.before_scrape(lambda: depth.set(7 if threading.get_ident() == here else 0))
    metrics.registry.register(Where())
    seen.clear()
    with served(metrics_routes(metrics, OnLoop(asyncio.get_running_loop()))) as port:
        status, text, headers = await ask(port, "/metrics")
        assert status == 200 and "\ndepth 7.0\n" in text and "process_cpu_seconds_total" in text
        assert headers["Content-Type"].startswith("text/plain; version=")
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        _, text, headers = await ask(port, "/metrics", headers=accept)
        assert text.endswith("# EOF\n") and "openmetrics" in headers["Content-Type"]
    assert here not in seen and len(seen) == 2


async def test_what_fails_on_the_loop_fails_for_who_asked_even_if_it_is_a_time_out():
    on_loop = OnLoop(asyncio.get_running_loop())

    def fail():
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await asyncio.to_thread(on_loop.ask, fail)


def test_a_closed_loop_is_a_silent_one():
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(LoopSilentError):
        OnLoop(loop).ask(dict)


async def test_an_address_that_is_taken_is_one_sentence_with_the_flag():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"cannot listen on 127.*--metrics-listen"):
            HealthServer(taken.getsockname(), {}, flag="--metrics-listen")


async def test_without_a_host_all_addresses_are_served(live):
    with served({"/healthz": live.answer}, host="") as port:
        assert (await ask(port, "/healthz"))[0] == 200
        if socket.has_dualstack_ipv6():
            assert (await ask(port, "/healthz", host="::1"))[0] == 200


async def test_an_unknown_page_names_the_known_ones_and_only_reading_is_allowed(live):
    with served({"/healthz": live.answer}) as port:
        status, text, _ = await ask(port, "/nothing")
        assert (status, text) == (404, "there is /healthz\n")
        for method in ("POST", "DELETE", "PROPFIND"):
            status, _, headers = await ask(port, "/nothing", method=method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD"), "the method comes first"
        status, text, headers = await ask(port, "/healthz?verbose=1", method="HEAD")
        assert (status, text, headers["Content-Length"]) == (200, "", "3")


async def test_m2_the_answers_to_a_prober_written_for_the_stock_operator(live, ready):
    """ascendjob:W-42: but for the sixth in a second, which that one sends away with 429.

    A limit protects nothing here: an answer costs less than a refusal, and connections are bounded.
    """
    with served(probe_routes(live, ready, {}, OnLoop(asyncio.get_running_loop()))) as port:
        status, text, headers = await ask(port, "/")
        assert (status, text.strip()) == (200, "ok")
        assert headers["Content-Type"].startswith("text/plain")
        assert (await ask(port, "/", method="POST"))[0] == 405
        assert (await ask(port, "/x"))[0] == 404
        assert {(await ask(port, "/"))[0] for _ in range(20)} == {200}


async def test_clients_that_say_nothing_cannot_use_up_the_process(live):
    with served({"/healthz": live.answer}) as port:
        before = threading.active_count()
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS + 20)]
        await asyncio.sleep(0.3)
        assert threading.active_count() - before <= CONNECTIONS
        for one in idle:
            one.close()
        await asyncio.sleep(0.1)
        assert (await ask(port, "/healthz"))[0] == 200
