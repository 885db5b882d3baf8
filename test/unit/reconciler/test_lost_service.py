# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A leader's Service that somebody deletes comes back with the address that its pods know."""

import asyncio

import pytest

from ascendop.kube.resource import CORE_EVENTS, SERVICES, Scope
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import NS  # noqa: TID252  likewise

FRAMEWORKS = {
    "pytorch": ("Master", "MASTER_ADDR"),
    "mindspore": ("Scheduler", "MS_SCHED_HOST"),
    "tensorflow": ("Chief", "CM_CHIEF_IP"),
}


async def address(town, name):
    return (await town.hands.get(SERVICES, NS, name))["spec"]["clusterIP"]


async def take(town, ip):
    """Somebody else gets this address."""
    spec = {"clusterIP": ip, "ports": [{"port": 80}]}
    meta = {"namespace": NS, "name": "other"}
    await town.hands.create(
        SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    )


def taking(town, ip):
    """A hook that is quicker than whoever makes a Service next."""
    done = []

    async def hook(request):
        if request.method == "POST" and request.path.endswith("/services") and not done:
            done.append(request)
            await take(town, ip)

    return hook


async def says_taken(town):
    found = await town.hands.list(CORE_EVENTS, Scope(NS))
    return [e["message"] for e in found if e["reason"] == "AddressTaken"]


async def until_service(town, name):
    async def there():
        return name in {s["metadata"]["name"] for s in await town.hands.list(SERVICES, Scope(NS))}

    await town.until(there)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "by another operator"])
async def test_the_service_comes_back_with_the_address_that_pods_know(town, framework, restarted):
    """field-reports:FR-068 ascendjob:W-47: what a replaced pod is told is what the others know."""
    leader, variable = FRAMEWORKS[framework]
    service = f"j-{leader.lower()}-0"
    async with town.running(town.operator()):
        await town.create(framework=framework, **{leader: 1, "Worker": 2})
        await town.until_pods(3)
        await town.turn("Running")
        await town.until_job("Running")
        before = await address(town, service)
        if not restarted:
            await town.hands.delete(SERVICES, NS, service)
            await until_service(town, service)
    if restarted:
        await town.hands.delete(SERVICES, NS, service)
    async with town.running(town.operator("b")):
        await until_service(town, service)
        assert await address(town, service) == before
        old = (await town.pods())["j-worker-1"]["metadata"]["uid"]
        await town.lose("j-worker-1")

        async def replaced():
            found = (await town.pods()).get("j-worker-1")
            return found and found["metadata"]["uid"] != old

        await town.until(replaced)
        pods = await town.pods()
        told = {make.env_of(pods[f"j-worker-{i}"])[variable] for i in range(2)}
        assert told == {before}


async def test_an_address_that_somebody_else_has_by_now_is_said_with_the_ways_out(town):
    """field-reports:FR-068: no pod is made that would look for its leader elsewhere."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await town.turn("Running")
        await town.until_job("Running")
        before = await address(town, "j-master-0")
        town.wire.before.append(taking(town, before))
        await town.hands.delete(SERVICES, NS, "j-master-0")
        await town.until(lambda: says_taken(town))
        (text,) = await says_taken(town)
        assert before in text and "already allocated" in text and "delete all pods" in text
        last = (await town.job())["status"]["conditions"][-1]
        assert (last["type"], last["reason"]) == ("Created", "SyncServiceFailed")
        assert before in last["message"]
        await town.lose("j-worker-0")
        await asyncio.sleep(20)
        assert list(await town.pods()) == ["j-master-0"]
        await town.hands.delete(SERVICES, NS, "other")
        await town.until_pods(2, within_s=120)
        assert await address(town, "j-master-0") == before
        await town.turn("Running")
        await asyncio.sleep(2)
        assert (await town.conditions())[-1] == ("Running", "True")


async def test_with_its_last_pod_goes_the_last_who_knew_the_address(town):
    """field-reports:FR-068: all of them start together at a new one."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await town.turn("Running")
        await town.until_job("Running")
        before = await address(town, "j-master-0")
    await town.hands.delete(SERVICES, NS, "j-master-0")
    await take(town, before)
    await town.lose("j-master-0", "j-worker-0")
    async with town.running(town.operator("b")):
        await town.until_pods(2)
        pods = await town.pods()
        told = {make.env_of(pod)["MASTER_ADDR"] for pod in pods.values()}
        assert told == {await address(town, "j-master-0")} != {before}


async def test_pods_that_have_ended_bind_nobody_to_their_address():
    status = {"startTime": "2026-01-01T00:00:00Z"}
    pods = [make.pod("master", phase="Succeeded"), make.pod("worker", deleting=True)]
    seen = make.snapshot(make.job(), pods=pods, services=(), status=status)
    (write,) = make.writes(decide(seen), step="services")
    assert write.told is None
    pods = [make.pod("master"), make.pod("worker", phase="Pending")]
    seen = make.snapshot(make.job(), pods=pods, services=(), status=status)
    (write,) = make.writes(decide(seen), step="services")
    assert write.told.pods == ("j-worker-0", "j-master-0")


async def test_a_service_without_an_address_is_named_and_no_pod_is_told_nothing():
    """field-reports:FR-068: a headless one, adopted; the contract has no name for its leader."""
    plan = decide(make.snapshot(make.job(), services=[make.service(ip="")]))
    found = make.concluded(plan)
    assert make.created(plan) == {}
    (created,) = (c for c in found.status["conditions"] if c["type"] == "Created")
    assert (
        created["reason"] == "SyncServiceFailed" and "no address of its own" in created["message"]
    )
