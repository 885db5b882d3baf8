# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The life of one replica, and of several, from start to end."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.app.causes import EndedError
from ascendop.errors import NotLeaderError, UsageError
from ascendop.informer.informer import NotSyncedError
from ascendop.kube.resource import CRDS, LEASES
from ascendop.sim.volcano import build_definitions

from ..town import JOBS, NS, status_patches  # noqa: TID252  test is in the standard library too
from ..wire import is_write, slow  # noqa: TID252  likewise


async def test_a_job_becomes_pods_and_their_end_becomes_its_own(town):
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=2)
        await town.until_pods(3)
        await town.turn("Running")
        await town.until_job("Running")
        await town.turn("Succeeded")
        await town.until_job("Succeeded")


# ── how it ends ──


async def ends(operator, stop=None):
    """What `run` raises, within ten seconds."""
    async with asyncio.timeout(10):
        await operator.run(stop or asyncio.Event())


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
async def test_a_part_that_ends_by_itself_ends_the_process(town, error):
    """runtime:O-2 field-reports:FR-075"""
    operator = town.operator()

    async def part():
        await asyncio.sleep(1)
        if error:
            raise error

    operator._clear_tables = part
    with pytest.raises(error or EndedError):
        await ends(operator)


@pytest.mark.parametrize("when_s", [0.0, 0.001, 3.0])
async def test_the_end_may_be_asked_for_before_the_caches_are_filled(town, when_s):
    """runtime:O-1, pitfall 85"""
    operator = town.operator()
    town.wire.before.append(slow(lambda request: request.path.endswith("/pods"), 100))
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(when_s, stop.set)
    await ends(operator, stop)
    assert not operator.synced.is_set() and town.wire.writes() == []


async def test_caches_that_do_not_fill_are_named(town):
    operator = town.operator(cache_sync_timeout_s=5)
    town.wire.before.append(slow(lambda request: request.path.endswith("/pods"), 100))
    with pytest.raises(NotSyncedError, match="pods"):
        await ends(operator)


async def test_an_unknown_kind_is_a_mistake_of_usage(town):
    with pytest.raises(UsageError, match="NoJob is no job kind"):
        town.operator(kinds=("NoJob",))


async def test_work_ends_then_events_are_told_then_the_lease_is_given_back(town):
    """runtime:E-6 runtime:L-11 runtime:Q-18 mpijob:W-31, order of 7.1"""
    operator = town.operator(leader_elect=True)
    wire = town.wire
    async with town.running(operator) as stop:
        await asyncio.sleep(1)
        wire.after.append(slow(is_write("POST", "pods"), 2))
        await town.create()
        await asyncio.sleep(0.5)
        stop.set()
    written = wire.writes()
    assert written[-1] == ("PUT", "ascendop")
    told = [number for number, write in enumerate(written) if write == ("POST", "events")]
    made = [number for number, write in enumerate(written) if write == ("POST", "pods")]
    assert len(made) == 2 and made[-1] < told[0]
    assert (await town.hands.get(LEASES, "kube-system", "ascendop"))["spec"]["holderIdentity"] == ""
    assert "SuccessfulCreatePod" in await town.reasons()


async def test_a_reconcile_that_takes_longer_than_the_grace_is_cut_off(town):
    operator = town.operator(grace_s=3)
    town.wire.before.append(slow(is_write("POST", "pods"), 25))
    began = asyncio.get_running_loop().time()
    async with town.running(operator) as stop:
        await town.create()
        await asyncio.sleep(1)
        stop.set()
    assert asyncio.get_running_loop().time() - began == pytest.approx(4, abs=0.5)
    assert await town.pods() == {}


# ── several replicas ──


async def test_a_follower_writes_nothing_but_the_lease_and_takes_over_warm(town):
    """ascendjob:W-41 runtime:L-10 runtime:L-12"""
    first, second = (town.operator(n, leader_elect=True) for n in ("a", "b"))
    async with town.running(first) as stop_first:
        await asyncio.sleep(1)
        async with town.running(second):
            await town.create()
            await town.until_pods(2)
            assert first.leads and not second.leads
            assert set(town.wires["b"].writes()) <= {("POST", "leases")}
            asked = len(town.wires["b"].watches)
            stop_first.set()
            await asyncio.sleep(1)
            assert second.leads
            await town.turn("Running")
            await town.until_job("Running")
            lists = [r for r in town.wires["b"].watches[asked:] if "pods" in r.path]
            assert lists == []


async def test_who_loses_the_lease_stops_and_says_so(town):
    """runtime:L-7"""
    operator = town.operator(leader_elect=True)

    async def somebody_takes_it():
        await asyncio.sleep(2)
        lease = await town.hands.get(LEASES, "kube-system", "ascendop")
        lease["spec"] |= {"holderIdentity": "somebody"}
        await town.hands.replace(LEASES, lease)

    async with asyncio.TaskGroup() as group:
        group.create_task(somebody_takes_it())
        with pytest.raises(NotLeaderError):
            await ends(operator)
    lease = await town.hands.get(LEASES, "kube-system", "ascendop")
    assert lease["spec"]["holderIdentity"] == "somebody"


# ── crashes ──


@pytest.mark.parametrize("seed", range(12))
async def test_killed_anywhere_and_started_again_nothing_is_doubled_or_lost(town, seed):
    """runtime:W-1 runtime:W-5 runtime:W-9: all that was remembered is gone each time."""
    rng = Random(seed)
    await town.create(Master=1, Worker=9)
    for number in range(6):
        operator = town.operator(f"replica-{number}")
        town.wire.before.append(slow(lambda request: request.method != "GET", 0.01))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(rng.uniform(0.05, 0.3)):
                await operator.run(asyncio.Event())
    async with town.running(town.operator("last")):
        await town.until_pods(10)
        await town.turn("Running")
        await town.until_job("Running")
    made = [write for wire in town.wires.values() for write in wire.bodies("POST", "pods")]
    pods = await town.pods()
    assert {pod["metadata"]["labels"]["version"] for pod in pods.values()} == {"0"}
    assert {body["metadata"]["name"] for body in made} == set(pods)
    uid = (await town.job())["metadata"]["uid"]
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods.values()}
    assert owners == {uid}


@pytest.mark.parametrize("gang", [False, True], ids=["alone", "a gang"])
async def test_nothing_is_written_while_nothing_happens(town, gang):
    """runtime:W-22 runtime:S-5: what the server filled in is no drift of ours."""
    for definition in build_definitions() if gang else ():
        await town.hands.create(CRDS, definition)
    async with town.running(town.operator(enable_gang_scheduling=gang)):
        await town.create()
        if gang:
            await town.let_in()
        await town.until_pods(2)
        await town.turn("Running")
        await town.until_job("Running")
        await asyncio.sleep(10)
        before = len(town.wire.writes())
        await asyncio.sleep(2 * 12 * 3600)
        assert town.wire.writes(since=0)[before:] == []


async def test_a_job_that_is_made_again_under_its_name_gets_pods_of_its_own(town):
    """field-reports:FR-019 ascendjob:W-9 runtime:W-9 runtime:W-11, pitfalls 51 and 59"""
    async with town.running(town.operator()):
        await town.create()
        await town.until_pods(2)
        await town.hands.delete(JOBS, NS, "j")
        again = await town.create()

        async def all_its_own():
            owners = {
                pod["metadata"]["ownerReferences"][0]["uid"] for pod in (await town.pods()).values()
            }
            return owners == {again["metadata"]["uid"]} and len(await town.pods()) == 2

        await town.until(all_its_own, within_s=30)
        assert "ChildConflict" not in await town.reasons()
        assert status_patches(town.wire)


async def test_the_files_of_a_job_go_with_it_but_not_those_of_the_next_of_its_name(town, tmp_path):
    operator = town.operator(rank_table_dir=str(tmp_path))
    table = tmp_path / f"{NS}.j" / "hccl.json"

    async def has_a_table():
        table.parent.mkdir(exist_ok=True)
        table.write_text("{}")
        await asyncio.sleep(1)

    async with town.running(operator):
        await town.create()
        await asyncio.sleep(1)
        gone = operator.mirror.jobs["AscendJob"].store.get(NS, "j")
        await has_a_table()
        await town.hands.delete(JOBS, NS, "j")
        await asyncio.sleep(1)
        assert not table.exists()
        await town.create()
        await asyncio.sleep(1)
        operator._gone.put_nowait(gone)  # a share that was slow: the news is old
        await has_a_table()
        assert table.exists()
