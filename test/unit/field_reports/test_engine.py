# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Trouble of the whole operator, as its users met it elsewhere; each case as its report has it."""

import asyncio
from collections import Counter

import pytest

from ascendop.kube.errors import BusyError, ForbiddenError, NotFoundError, TransportError
from ascendop.kube.resource import CORE_EVENTS, EVENTS, Scope

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import JOBS, NS, status_patches  # noqa: TID252  likewise
from ..wire import refuse, slow  # noqa: TID252  likewise


def calls(town, since=0):
    """What was asked, but for watches and the lease."""
    found = [r for r in town.wire.sent[since:] if "watch" not in r.query]
    return [(r.method, r.path) for r in found if "/leases" not in r.path]


async def run_jobs(town, *names, roles=None):
    for name in names:
        await town.create(name, **(roles or {"Master": 1, "Worker": 1}))
    await town.until_pods(len(names) * sum((roles or {"M": 1, "W": 1}).values()))
    await town.turn("Running")
    for name in names:
        await town.until_job("Running", name)


async def test_nothing_is_asked_while_nothing_happens_and_a_new_job_does_not_wait(town):
    """field-reports:FR-076: a job that wants a table and has no ConfigMap is another matter."""
    no_npus = {"Master": make.replica(1, npus=0), "Worker": make.replica(1, npus=0)}
    ended, running = [f"e{i}" for i in range(30)], [f"r{i}" for i in range(5)]
    async with town.running(town.operator()):
        await run_jobs(town, *ended)
        await town.turn("Succeeded")
        for name in ended:
            await town.until_job("Succeeded", name)
        for name in running:
            await town.create(name, roles=no_npus)
        await town.until_pods(70)
        await town.turn(
            "Running", *(f"r{i}-{pod}" for i in range(5) for pod in ("master-0", "worker-0"))
        )
        await asyncio.sleep(60)
        before = len(town.wire.sent)
        await asyncio.sleep(600)
        # Which kinds there are is asked every few minutes, in one small request.
        assert set(calls(town, before)) <= {("GET", "/apis")}
        assert len(calls(town, before)) <= 4
        await town.create("new", Master=1, Worker=1)
        await town.until_pods(72, within_s=1)


async def test_no_write_before_the_pods_are_known_however_late_their_list(town):
    """field-reports:FR-078: a job whose pods are not listed yet is no job without pods."""
    names = [f"j{i}" for i in range(5)]
    async with town.running(town.operator()):
        await run_jobs(town, *names)
    operator = town.operator("b")
    late = slow(lambda r: r.method == "GET" and r.path.endswith("/pods"), 15.0)
    town.wire.before.append(late)
    async with town.running(operator):
        assert asyncio.get_running_loop().time() >= 15
        await asyncio.sleep(30)
        assert town.wire.writes() == []
    assert len(await town.pods()) == 10


async def test_an_api_server_that_is_away_or_busy_ends_no_job(town):
    """field-reports:FR-081: 40 s without an answer, 30 s of 429; then all goes on."""
    async with town.running(town.operator()):
        await run_jobs(town, "j")
        before = (await town.job())["status"]
        away = refuse(lambda _: True, TransportError("connection refused", sent=False))
        town.wire.before.append(away)
        town.server.cut_watches()
        for i in range(3):
            await town.create(f"n{i}", Master=1, Worker=1)
        await asyncio.sleep(40)
        town.wire.before.remove(away)
        began = len(town.wire.sent)
        busy = refuse(lambda r: r.method != "GET", BusyError(429, "slow", retry_after_s=5.0))
        town.wire.before.append(busy)
        await asyncio.sleep(30)
        asked = [r for r in town.wire.sent[began:] if r.method != "GET"]
        assert len(asked) < 60
        town.wire.before.remove(busy)
        await town.until_pods(8, within_s=60)
        assert (await town.job())["status"] == before


async def test_a_job_that_comes_and_goes_at_once_leaves_nothing_behind(town, caplog):
    """field-reports:FR-083: what is decided is decided on what is there now."""
    async with town.running(town.operator()):
        for _ in range(30):
            await town.create(Master=1, Worker=1)
            await asyncio.sleep(0.01)
            await town.hands.delete(JOBS, NS, "j")
        await asyncio.sleep(30)
        assert await town.pods() == {}
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == []


async def test_a_crowd_of_refused_jobs_delays_nobody_else(town):
    """field-reports:FR-085: each key has its own back-off, and fresh news no limit."""
    async with town.running(town.operator()):
        quota = ForbiddenError(403, "exceeded quota: none, used: pods=0, limited: pods=0")
        hook = refuse(
            lambda r: r.method == "POST" and r.path.endswith("/pods") and b'"good-' not in r.body,
            quota,
        )
        town.wire.before.append(hook)
        for i in range(100):
            await town.create(f"bad{i}", Master=1)
        await asyncio.sleep(20)
        await town.create("good", Master=1)
        await town.until_pods(1, within_s=1)
        began = len(town.wire.sent)
        await asyncio.sleep(120)
        tries = [r for r in town.wire.sent[began:] if r.method == "POST" and "/pods" in r.path]
        assert len(tries) < 120 * 20


async def test_another_writer_of_the_job_costs_no_word(town, caplog):
    """field-reports:FR-086: conflicts are settled, not told."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        for i in range(200):
            await town.hands.patch(JOBS, NS, "j", {"metadata": {"labels": {"n": str(i)}}})
            if i == 60:
                await town.turn("Running")
            if i == 150:
                await town.turn("Succeeded")
            await asyncio.sleep(0.05)
        await town.until_job("Succeeded", within_s=3)
        await asyncio.sleep(5)
        found = await town.hands.list(CORE_EVENTS, Scope(NS))
        assert [e["reason"] for e in found if e["type"] == "Warning"] == []
    assert [r.message for r in caplog.records if r.levelname in {"ERROR", "WARNING"}] == []


async def test_a_job_that_is_touched_500_times_is_told_of_once(town):
    """field-reports:FR-087"""
    async with town.running(town.operator()):
        await run_jobs(town, "j")
        await town.turn("Failed", "j-worker-0", code=1)
        await town.until_job("Failed")
        await asyncio.sleep(30)
        before = len(await town.hands.list(CORE_EVENTS, Scope(NS)))
        began = len(town.wire.sent)
        for i in range(500):
            await town.hands.patch(JOBS, NS, "j", {"metadata": {"annotations": {"n": str(i)}}})
            await asyncio.sleep(0.02)
        await asyncio.sleep(120)
        assert len(await town.hands.list(CORE_EVENTS, Scope(NS))) == before
        assert not [r for r in town.wire.sent[began:] if "/events" in r.path]


async def test_without_the_right_to_write_events_jobs_run_all_the_same(town):
    """field-reports:FR-087"""
    operator = town.operator()
    town.wire.before.append(refuse(lambda r: "/events" in r.path, ForbiddenError(403, "no")))
    async with town.running(operator):
        await run_jobs(town, "j")
        await town.turn("Succeeded")
        await town.until_job("Succeeded")
    assert await town.hands.list(EVENTS, Scope(NS)) == []


async def test_a_rack_that_fails_is_replaced_pod_by_pod_and_no_pod_twice(town):
    """field-reports:FR-092: 20 jobs lose all their workers in one second."""
    names = [f"j{i}" for i in range(20)]
    roles = {"Master": 1, "Worker": make.replica(5, policy="ExitCode")}
    async with town.running(town.operator()):
        for name in names:
            await town.create(name, roles={"Master": make.replica(1), "Worker": roles["Worker"]})
        await town.until_pods(120)
        await town.turn("Running")
        for name in names:
            await town.until_job("Running", name)
        workers = [name for name in await town.pods() if "-worker-" in name]
        began = len(town.wire.sent)
        await town.turn("Failed", *workers, code=137)

        async def replaced():
            found = await town.pods()
            phases = Counter(p["status"]["phase"] for p in found.values())
            return len(found) == 120 and phases["Pending"] == 100

        await town.until(replaced)
        made = Counter(
            path for method, path in calls(town, began) if (method, path[-5:]) == ("POST", "/pods")
        )
        assert sum(made.values()) == 100
        assert len(calls(town, began)) < 10 * 100
        await town.turn("Running")
        for name in names:
            await town.until_job("Running", name)


async def test_a_status_of_many_pods_is_not_written_for_each_of_them(town):
    """field-reports:FR-091 runtime:W-19: four a second at most, and the last state always."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=200)
        await town.until_pods(201)
        before = len(status_patches(town.wire))
        names = list(await town.pods())
        for name in names:
            await town.turn("Running", name)
            await asyncio.sleep(0.02)
        await asyncio.sleep(3)
        assert len(status_patches(town.wire)) - before <= 4 * 7
        counts = (await town.job())["status"]["replicaStatuses"]
        assert counts == {"Master": {"active": 1}, "Worker": {"active": 200}}


async def test_a_definition_without_a_status_is_named_and_asked_seldom(town, caplog):
    """field-reports:FR-088: the original asks for ever, in silence."""
    async with town.running(town.operator()):
        gone = NotFoundError(404, "the server could not find the requested resource")
        hook = refuse(lambda r: r.path.endswith("/j/status"), gone)
        town.wire.before.append(hook)
        await town.create(Master=1, Worker=1)
        await town.create("k", Master=1, Worker=1)
        await town.until_pods(4)
        await asyncio.sleep(5)
        errors = [getattr(r, "err", "") for r in caplog.records]
        assert "CustomResourceDefinition ascendjobs.mindxdl.gitee.com has no subresource" in str(
            [r.__dict__ for r in caplog.records]
        ), errors
        began = len(town.wire.sent)
        await asyncio.sleep(60)
        tries = [r for r in town.wire.sent[began:] if r.path.endswith("/j/status")]
        assert len(tries) <= 3
        await town.turn("Running", "k-master-0", "k-worker-0")
        await town.until_job("Running", "k")
        town.wire.before.remove(hook)
        await town.turn("Running", "j-master-0", "j-worker-0")
        await town.until_job("Running", "j", within_s=400)


@pytest.mark.parametrize(
    ("master", "worker", "told"),
    [
        pytest.param({"role": "master"}, {}, 1, id="a node of the one fits the other, too"),
        pytest.param({"role": "master"}, {"zone": "a"}, 1, id="different keys"),
        pytest.param({"role": "master"}, {"role": "worker"}, 0, id="no node fits both"),
        pytest.param({"role": "x"}, {"role": "x"}, 0, id="the same"),
    ],
)
async def test_selectors_that_may_lock_a_gang_are_told_once_and_the_leader_comes_first(
    town, master, worker, told
):
    """field-reports:FR-071"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        roles = {
            "Master": make.replica(1, spec={"nodeSelector": master}),
            "Worker": make.replica(3, spec={"nodeSelector": worker}),
        }
        await town.create(roles=roles)
        await town.let_in()
        await town.until_pods(4)
        await asyncio.sleep(5)
        found = await town.hands.list(CORE_EVENTS, Scope(NS))
        assert len([e for e in found if e["reason"] == "NodeSelectorsDiffer"]) == told
        bodies = town.wire.bodies("POST", "pods")
        assert bodies[0]["metadata"]["name"] == "j-master-0"
