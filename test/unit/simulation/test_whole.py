# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The whole operator in a calm world: what it costs, what it remembers, and who leads."""

import asyncio
from collections import Counter

import pytest

from ascendop.kube.resource import CONFIGMAPS, PODS, Key

from .. import make  # noqa: TID252  the standard library has a package called test
from . import scenarios as on  # noqa: TID252  likewise
from .ends import difference, end_of  # noqa: TID252  likewise
from .oracles import GROUPS, STRANGER  # noqa: TID252  likewise
from .weather import plant  # noqa: TID252  likewise
from .world import running  # noqa: TID252  likewise

BUDGET = {
    "POST pods": 5,
    "POST services": 1,
    "PATCH podgroups": 1,
    "DELETE podgroups": 1,
    "PATCH ascendjobs/status": 3,
    "POST events": 14,
}
"""Of a job of five pods from its creation to the end of its PodGroup."""


def calls(replica):
    """How often what was written, without names: method and resource."""
    found = Counter()
    for (method, path), times in replica.wire.calls.items():
        parts = path.partition("/namespaces/")[2].split("/")[1:]
        what = "/".join([parts[0], *parts[2:]])
        found[f"{method} {what}"] += times
    return dict(found)


def one_leads(world):
    return any(replica.leads for replica in world.replicas)


async def test_a_job_of_five_pods_costs_no_more_than_its_budget():
    """runtime:S-5 (h)"""
    async with running(1, nodes=("5x8 910B",)) as world:
        await on.apply(world, on.lasting(make.job(Master=1, Worker=4), 60))
        await world.until(on.is_("Succeeded"))
        await world.until(on.cleaned())
        await asyncio.sleep(600)
        found = calls(world.replicas[0])
        over = {what: n for what, n in found.items() if n > BUDGET.get(what, 0)}
        assert not over, found


async def test_nothing_is_remembered_of_jobs_that_are_gone():
    """runtime:S-5 (g), runtime:Q-10"""
    async with running(2) as world:
        for name in ("a", "b", "c"):
            await on.apply(world, make.job(name=name, Master=1, Worker=1))
        await on.apply(world, make.torch_job(name="t"))
        await world.until(on.run(2, "a"))
        for name in ("a", "b", "c"):
            await on.delete(world, on.ASCENDJOBS, name)
        await on.delete(world, on.PYTORCHJOBS, "t")
        for name in ("a", "b", "c", "t"):
            await world.until(on.gone(name))
        await asyncio.sleep(1800)
        world.oracles.tidy(world.replicas[0])


@pytest.mark.parametrize("replicas", [("a",), ("a", "b")])
async def test_a_restart_with_running_jobs_writes_nothing(replicas):
    """Not even a status, when nothing has changed meanwhile.

    ascendjob:W-7 ascendjob:W-8 runtime:L-12 runtime:L-13
    """
    settings = {"leader_elect": len(replicas) > 1}
    async with running(3, replicas=replicas, settings=settings) as world:
        await on.apply(world, make.job(Master=1, Worker=1))
        await on.apply(world, make.torch_job(name="t"))
        await world.until(on.is_("Running"))
        await world.until(on.is_("Running", "t"))
        await world.until(on.run(2))
        await world.until(on.run(3, "t"))
        await asyncio.sleep(60)
        before, revision = end_of(world), world.server.revision
        (leader,) = [replica for replica in world.replicas if replica.leads]
        leader.kill()
        await asyncio.sleep(60)
        assert [replica.leads for replica in world.replicas].count(True) == 1
        assert not difference(before, end_of(world))
        for name, table in world.server.world.storage.tables.items():
            new = [c for c in table.changes if c.revision > revision]
            assert not new or name.startswith("leases"), f"written: {name} {new}"


async def test_the_leader_is_killed_and_the_other_takes_over():
    """runtime:L-11: within 18 s, in the middle of making pods, and nothing is doubled."""
    async with running(4, replicas=("a", "b"), settings={"leader_elect": True}) as world:
        await world.until(one_leads)
        await on.apply(world, make.job(Master=1, Worker=2))
        await world.until(on.pods, every_s=0.01)
        (leader,) = [replica for replica in world.replicas if replica.leads]
        leader.restart_s = 3600
        leader.kill()
        killed_at = world.loop.time()
        await world.until(one_leads, every_s=0.1)
        assert world.loop.time() - killed_at < 18
        await world.until(on.run(3))
        await world.until(on.is_("Running"))
        assert set(world.oracles.created.values()) == {1}


async def test_a_leader_that_stops_hands_over_within_a_second():
    """runtime:L-11"""
    async with running(5, replicas=("a", "b"), settings={"leader_elect": True}) as world:
        await world.until(one_leads)
        (leader,) = [replica for replica in world.replicas if replica.leads]
        leader.stop.set()
        stopped_at = world.loop.time()
        (other,) = [replica for replica in world.replicas if replica is not leader]
        await world.until(lambda _: other.leads, every_s=0.05)
        assert world.loop.time() - stopped_at < 1
        await on.apply(world, make.job(Master=1, Worker=2))
        await world.until(on.run(3))


async def test_a_lost_pod_is_back_within_a_third_of_a_second():
    """fault-tolerance:C-13: the rest of wait-reschedule-timeout is the scheduler's."""
    async with running(6, nodes=("5x8 910B",)) as world:
        await on.apply(world, make.job(Master=1, Worker=4))
        await world.until(on.run(5))
        await world.until(on.is_("Running"))
        gone, made = {}, {}

        def note(table, change):
            if table.name == "pods" and change.new is None:
                gone[change.last.key[1]] = world.loop.time()
            elif table.name == "pods" and change.old is None:
                made[change.last.key[1]] = world.loop.time()

        world.server.world.storage.listeners.append(note)
        for name in ("j-worker-3", "j-master-0"):
            await on.lose(world, name)
            assert 0 <= made[name] - gone[name] <= 0.3
            await world.until(on.run(5))


async def test_the_keys_of_strangers_survive_a_thousand_passes():
    """fault-tolerance:C-04: on every object, through restarts of pods and of the operator."""
    async with running(7) as world:
        table = {"metadata": {"name": "rings-config-j", "namespace": "default"}, "data": {}}
        await world.people.create(CONFIGMAPS, table)
        await on.apply(world, make.job(Master=1, Worker=2))
        await world.until(on.is_("Running"))
        await world.until(on.run(3))
        rng = world.dice("strangers")
        for _ in range(60):
            await plant(world, rng)
        planted = planted_keys(world)
        assert len([keys for keys in planted.values() if keys]) == 7
        for times in range(1000):
            if times % 250 == 100:
                await on.delete(world, PODS, "j-worker-1")
                await asyncio.sleep(60)
            if times == 500:
                world.replicas[0].kill()
                await asyncio.sleep(10)
            world.replicas[0].operator.queue.add(Key("AscendJob", "default", "j"))
            await asyncio.sleep(0.01)
        await world.until(on.run(3))
        for uid, keys in planted_keys(world).items():
            assert planted.get(uid, keys) == keys


def planted_keys(world):
    """Keys of strangers by uid of what they are on."""
    tables = ("ascendjobs.mindxdl.gitee.com", "pods", "services", "configmaps", GROUPS)
    objects = [obj for table in tables for obj in world.objects(table)]
    return {obj["metadata"]["uid"]: strangers_keys(obj) for obj in objects}


def strangers_keys(obj):
    planted = f"{STRANGER}/{obj['kind'].lower()}-"
    return {
        (field, key): value
        for field in ("labels", "annotations")
        for key, value in (obj["metadata"].get(field) or {}).items()
        if planted in key
    }
