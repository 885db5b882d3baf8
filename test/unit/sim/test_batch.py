# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs of one pod, as kube-controller-manager runs them."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import BATCH_JOBS, NAMESPACES, PODS, Scope
from ascendop.sim.batch import BatchJobs
from ascendop.sim.nodes import create_nodes, parse_nodes
from ascendop.sim.scheduler import Scheduler
from ascendop.sim.server import ApiServer
from ascendop.sim.staged import StagedNodes
from ascendop.sim.transport import SimTransport


class Cluster:
    def __init__(self, client):
        self.client = client

    async def make(self, outcome, after="10s", policy="Never", **spec):
        """A Job of which every pod fares alike."""
        annotations = {"ascendop.io/outcome": outcome, "ascendop.io/after": after}
        pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "ml"},
            "spec": {
                "podReplacementPolicy": "Failed",
                "template": {"metadata": {"annotations": annotations}, "spec": pod},
                **spec,
            },
        }
        return await self.client.create(BATCH_JOBS, job)

    async def job(self):
        return await self.client.get(BATCH_JOBS, "ml", "j")

    async def status(self):
        return (await self.job()).get("status") or {}

    async def pods(self):
        return await self.client.list(PODS, Scope("ml"))

    async def end(self, within_s=4000.0):
        """Type and reason of how it ended."""
        async with asyncio.timeout(within_s):
            while True:
                for condition in (await self.status()).get("conditions") or ():
                    if condition["type"] in {"Complete", "Failed"}:
                        return condition["type"], condition.get("reason", "")
                await asyncio.sleep(0.5)


@asynccontextmanager
async def cluster():
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    server = ApiServer(wall=wall, rng=Random(1))
    client = Client(SimTransport(server), rng=Random(2))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    await client.create(NAMESPACES, space)
    await create_nodes(client, parse_nodes("1x8"), wall=wall)
    async with asyncio.TaskGroup() as group:
        parts = (
            StagedNodes(client, wall=wall, rng=Random(3), sets=("", "finish")),
            Scheduler(client, wall=wall),
            BatchJobs(client, wall=wall),
        )
        tasks = [group.create_task(part.run()) for part in parts]
        yield Cluster(client)
        for task in tasks:
            task.cancel()
    server.close()


async def test_a_job_whose_pod_succeeds_is_complete():
    async with cluster() as c:
        job = await c.make("succeed")
        assert await c.end() == ("Complete", "")
        status = await c.status()
        assert (status["succeeded"], "active" in status) == (1, False)
        assert status["startTime"] < status["completionTime"]
        (pod,) = await c.pods()
        meta = pod["metadata"]
        assert meta["name"].startswith("j-") and len(meta["name"]) == 7
        assert meta["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
        assert meta["labels"]["batch.kubernetes.io/job-name"] == "j"


async def test_a_pod_that_fails_is_followed_by_another_until_there_were_too_many():
    async with cluster() as c:
        await c.make("fail", after="1s", backoffLimit=2)
        assert await c.end() == ("Failed", "BackoffLimitExceeded")
        status = await c.status()
        assert status["failed"] == 3 == len(await c.pods())
        assert "completionTime" not in status


async def test_there_is_a_pause_before_another_pod():
    async with cluster() as c:
        await c.make("fail", after="1s")
        await asyncio.sleep(9)
        assert len(await c.pods()) == 1
        await asyncio.sleep(5)
        assert len(await c.pods()) == 2


async def test_a_job_may_not_be_active_for_longer_than_it_says():
    async with cluster() as c:
        await c.make("succeed", after="1h", activeDeadlineSeconds=30)
        assert await c.end() == ("Failed", "DeadlineExceeded")
        await asyncio.sleep(60)
        assert await c.pods() == []


async def test_a_job_sleeps_and_wakes():
    async with cluster() as c:
        await c.make("succeed", after="1h", suspend=True)
        await asyncio.sleep(5)
        assert await c.pods() == [] and "startTime" not in await c.status()
        for suspend, pods in ((False, 1), (True, 0), (False, 1)):
            await c.client.patch(BATCH_JOBS, "ml", "j", {"spec": {"suspend": suspend}})
            await asyncio.sleep(60)
            assert len(await c.pods()) == pods
            assert (await c.status()).get("active", 0) == pods
        assert await c.end() == ("Complete", "")


async def test_a_pod_on_its_way_out_is_waited_for():
    """So two never have the host name at once."""
    async with cluster() as c:
        await c.make("succeed", after="1h")
        await asyncio.sleep(5)
        (pod,) = await c.pods()
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await c.client.patch(PODS, "ml", pod["metadata"]["name"], held)
        await c.client.delete(PODS, "ml", pod["metadata"]["name"])
        await asyncio.sleep(60)
        assert len(await c.pods()) == 1
        let_go = {"metadata": {"finalizers": None}}
        await c.client.patch(PODS, "ml", pod["metadata"]["name"], let_go)
        await asyncio.sleep(60)
        (other,) = await c.pods()
        assert other["metadata"]["uid"] != pod["metadata"]["uid"]


async def test_a_job_goes_when_its_time_is_over_and_its_pods_with_it():
    async with cluster() as c:
        await c.make("succeed", ttlSecondsAfterFinished=60)
        await c.end()
        await asyncio.sleep(30)
        assert await c.job()
        await asyncio.sleep(60)
        with pytest.raises(NotFoundError):
            await c.job()
        assert await c.pods() == []
