# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes, scheduler, devices and stages against the simulator's server, in virtual time."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  the type; seeded

import pytest

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.resource import CORE_EVENTS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES
from ascendop.sim import volcano
from ascendop.sim.nodes import create_nodes, parse_nodes
from ascendop.sim.scheduler import Scheduler
from ascendop.sim.server import ApiServer
from ascendop.sim.staged import StagedNodes
from ascendop.sim.transport import SimTransport

from ..wire import Wire  # noqa: TID252  the standard library has a package called test

NPU = "huawei.com/Ascend910"
GROUP = "scheduling.k8s.io/group-name"


class Cluster:
    """A server, and what happens on it while a test waits."""

    def __init__(self, client, staged):
        self.client = client
        self.staged = staged

    async def pod(self, name):
        return await self.client.get(PODS, "ml", name)

    async def make(self, name, npus=8, *, group=None, **annotations):
        notes = {f"ascendop.io/{key}": value for key, value in annotations.items()}
        if group:
            notes[GROUP] = group
        container = {"name": "c", "image": "i", "resources": {"limits": {NPU: str(npus)}}}
        await self.client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "ml", "annotations": notes},
                "spec": {"containers": [container], "schedulerName": "volcano"},
            },
        )

    async def make_group(self, name, **spec):
        await self.client.create(
            POD_GROUPS,
            {
                "apiVersion": POD_GROUPS.api_version,
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "ml"},
                "spec": spec,
            },
        )

    async def group_phase(self, name):
        group = await self.client.get(POD_GROUPS, "ml", name)
        return (group.get("status") or {}).get("phase")

    async def phases(self):
        return {
            pod["metadata"]["name"]: (pod.get("status") or {}).get("phase")
            for pod in await self.client.list(PODS)
        }


@asynccontextmanager
async def cluster(nodes="2x8", sets=("",), seed=1, before=None):
    """`before` is awaited before each request of the nodes: it may write what overtakes it."""
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    server = ApiServer(wall=wall, rng=Random(seed))
    client = Client(SimTransport(server), rng=Random(seed))
    await volcano.install(client)
    await client.create(
        NAMESPACES,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}},
    )
    if nodes:
        await create_nodes(client, parse_nodes(nodes), wall=wall)
    wire = Wire(server)
    wire.before += [before] if before else []
    hands = Client(wire, rng=Random(seed))
    staged = StagedNodes(hands, wall=wall, rng=Random(seed), sets=sets)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(staged.run()),
            group.create_task(Scheduler(client, wall=wall).run()),
        ]
        yield Cluster(client, staged)
        for task in tasks:
            task.cancel()
    server.close()


async def test_somebody_else_s_label_does_not_keep_a_pod_from_its_next_stage():
    """It overtakes the write of the stage, and changes nothing that the stage is drawn by."""
    overtaken = asyncio.Event()

    async def label(request):
        if overtaken.is_set() or not request.path.endswith("/p/status"):
            return
        overtaken.set()
        await c.client.patch(PODS, "ml", "p", {"metadata": {"labels": {"team": "a"}}})
        await asyncio.sleep(1)  # by now the nodes have heard of it

    async with cluster(before=label) as c:
        await c.make("p", 0)
        await asyncio.sleep(60)
        assert overtaken.is_set()
        assert await c.phases() == {"p": "Running"}


async def test_a_pod_is_bound_gets_devices_runs_and_ends_as_annotated():
    async with cluster() as c:
        await c.make("p", 2, outcome="succeed", after="1h")
        await asyncio.sleep(1)
        pod = await c.pod("p")
        assert pod["spec"]["nodeName"] == "node-1"
        assert pod["status"]["phase"] == "Running" and pod["status"]["podIP"] == "10.244.0.1"
        assert pod["metadata"]["annotations"][NPU] == "Ascend910-0,Ascend910-1"
        assert {k["type"]: k["status"] for k in pod["status"]["conditions"]} == {
            "PodScheduled": "True",
            "Initialized": "True",
            "Ready": "True",
            "ContainersReady": "True",
        }
        await asyncio.sleep(3600)
        assert (await c.phases()) == {"p": "Succeeded"}


async def test_a_pod_fails_with_the_code_that_is_annotated():
    async with cluster() as c:
        await c.make("p", outcome="fail", **{"exit-code": "137"})
        await asyncio.sleep(10)
        status = (await c.pod("p"))["status"]
        assert status["phase"] == "Failed"
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


async def test_a_gang_is_admitted_before_its_pods_and_bound_with_the_last():
    async with cluster() as c:
        await c.make_group("g", minMember=2, minResources={NPU: "16"})
        await asyncio.sleep(1)
        assert await c.group_phase("g") == "Inqueue"
        await c.make("p0", group="g")
        await asyncio.sleep(5)
        assert (await c.phases())["p0"] == "Pending"
        await c.make("p1", group="g")
        await asyncio.sleep(5)
        assert await c.phases() == {"p0": "Running", "p1": "Running"}
        assert await c.group_phase("g") == "Running"


async def test_a_gang_that_does_not_fit_is_admitted_when_a_node_comes():
    async with cluster("1x8") as c:
        await c.make_group("g", minMember=2, minResources={NPU: "16"})
        await asyncio.sleep(5)
        assert await c.group_phase("g") == "Pending"
        [event] = [e for e in await c.client.list(CORE_EVENTS) if e["reason"] == "Unschedulable"]
        assert f"short of {NPU}" in event["message"]
        wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
        await create_nodes(c.client, parse_nodes("2x8"), wall=wall)
        await asyncio.sleep(5)
        assert await c.group_phase("g") == "Inqueue"


async def test_a_gang_without_room_says_so_on_group_and_pods_once():
    async with cluster("1x8") as c:
        await c.make_group("g", minMember=2)
        await c.make("p0", group="g")
        await c.make("p1", group="g")
        await asyncio.sleep(600)
        group = await c.client.get(POD_GROUPS, "ml", "g")
        [condition] = group["status"]["conditions"]
        assert condition["message"].startswith("2/2 tasks in gang unschedulable")
        assert condition["transitionID"] == "1"
        [scheduled] = (await c.pod("p1"))["status"]["conditions"]
        assert scheduled["reason"] == "Unschedulable"
        reasons = [e["reason"] for e in await c.client.list(CORE_EVENTS)]
        assert reasons.count("FailedScheduling") == 1


async def test_devices_are_freed_when_their_pod_ends():
    async with cluster("1x4") as c:
        await c.make("first", 4, outcome="succeed", after="10s")
        await c.make("second", 4)
        await asyncio.sleep(5)
        assert (await c.phases())["second"] == "Pending"
        await asyncio.sleep(10)
        assert await c.phases() == {"first": "Succeeded", "second": "Running"}
        config = (await c.pod("second"))["metadata"]["annotations"][
            "ascend.kubectl.kubernetes.io/ascend-910-configuration"
        ]
        assert [d["device_id"] for d in json.loads(config)["devices"]] == ["0", "1", "2", "3"]


async def test_two_pods_of_one_node_share_no_device():
    async with cluster("1x8") as c:
        await c.make("a", 4)
        await c.make("b", 4)
        await asyncio.sleep(5)
        lists = {(await c.pod(name))["metadata"]["annotations"][NPU] for name in "ab"}
        assert lists == {
            "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3",
            "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7",
        }


async def test_a_deleted_pod_is_gone_and_its_room_is_free():
    async with cluster("1x8") as c:
        await c.make("p")
        await asyncio.sleep(5)
        await c.client.delete(PODS, "ml", "p")
        await asyncio.sleep(5)
        assert await c.phases() == {}
        await c.make("q")
        await asyncio.sleep(5)
        assert await c.phases() == {"q": "Running"}


async def test_on_a_lost_node_nothing_happens_until_it_is_found():
    async with cluster("1x8") as c:
        await c.make("p")
        await asyncio.sleep(5)
        c.staged.lose("node-1")
        await c.client.delete(PODS, "ml", "p")
        await asyncio.sleep(3600)
        assert await c.phases() == {"p": "Running"}
        c.staged.find("node-1")
        await asyncio.sleep(5)
        assert await c.phases() == {}


async def test_an_annotation_does_not_start_a_delay_anew():
    async with cluster() as c:
        await c.make("p", outcome="succeed", after="100s")
        await asyncio.sleep(90)
        await c.client.patch(PODS, "ml", "p", {"metadata": {"annotations": {"a": "b"}}})
        await asyncio.sleep(15)
        assert await c.phases() == {"p": "Succeeded"}


async def test_a_node_that_says_nothing_becomes_ready():
    async with cluster(nodes="") as c:
        bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
        await c.client.create(NODES, bare)
        await asyncio.sleep(5)
        status = (await c.client.get(NODES, None, "n"))["status"]
        assert {k["type"]: k["status"] for k in status["conditions"]}["Ready"] == "True"
        assert status["allocatable"]["pods"] == "110"


@pytest.mark.parametrize("seed", [1, 2])
async def test_chaos_is_the_same_for_the_same_seed(seed):
    async def once():
        async with cluster("4x8", sets=("", "finish", "chaos"), seed=seed) as c:
            for index in range(20):
                await c.make(f"p{index}", 1)
            await asyncio.sleep(600)
            return await c.phases()

    first = await once()
    assert first == await once()
    assert set(first.values()) <= {"Succeeded", "Failed"} and len(first) == 20


async def test_the_default_queue_is_there_and_open():
    async with cluster() as c:
        await asyncio.sleep(1)
        assert (await c.client.get(QUEUES, None, "default"))["status"]["state"] == "Open"


async def test_nothing_is_asked_while_nothing_changes():
    async with cluster() as c:
        await c.make("p")
        await asyncio.sleep(5)
        before = len(await c.client.list(CORE_EVENTS))
        version = (await c.pod("p"))["metadata"]["resourceVersion"]
        await asyncio.sleep(3000)
        assert (await c.pod("p"))["metadata"]["resourceVersion"] == version
        assert len(await c.client.list(CORE_EVENTS)) == before
