# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A snapshot has what belongs to this very job, and what the cluster is at this moment."""

import asyncio

import pytest

from ascendop.errors import InvalidJobError
from ascendop.kube.resource import NAMESPACES, PODS, PRIORITY_CLASSES, QUEUES, SERVICES, Key

from ..make import container, replica  # noqa: TID252  test is in the standard library too
from ..town import JOBS, NS, Town  # noqa: TID252  likewise

KEY = Key("AscendJob", NS, "j")


@pytest.fixture
async def town():
    town = Town()
    await town.install(volcano=True)
    yield town
    town.server.close()


async def seen(operator, key=KEY):
    """The snapshot when every watch has caught up."""
    await asyncio.sleep(1)
    return operator._observer.snapshot(key)


def child(owner, name, index=0):
    labels = {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": "worker",
        "training.kubeflow.org/replica-index": str(index),
    }
    reference = {"apiVersion": JOBS.api_version, "kind": "AscendJob", "name": "j", "uid": owner}
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": labels,
            "ownerReferences": [reference | {"controller": True}],
        },
        "spec": {"containers": [{"name": "ascend", "image": "i:1"}]},
    }


async def test_there_is_none_of_a_job_that_is_not_there(town):
    """runtime:I-44"""
    operator = town.operator(leader_elect=True)
    async with town.running(operator):
        assert await seen(operator) is None


async def test_pods_belong_by_uid_and_come_in_order_of_their_slots(town):
    """runtime:W-16: not by name or label; leftovers of a job of the same name are not counted."""
    operator = town.operator()
    async with town.running(operator):
        operator.queue.shutdown()  # nobody acts on what is looked at here
        job = await town.create()
        uid = job["metadata"]["uid"]
        for name, index, owner in (("c", 10, uid), ("a", 9, uid), ("b", 0, "another-uid")):
            await town.hands.create(PODS, child(owner, name, index))
        while len(operator.mirror.pods.store) < 3:  # noqa: ASYNC110  before the collector's turn
            await asyncio.sleep(0.01)
        found = operator._observer.snapshot(KEY)
    assert [pod.name for pod in found.pods] == ["a", "c"]


async def test_a_job_is_parsed_again_when_it_changes_and_not_when_its_pods_do(town):
    operator = town.operator()
    async with town.running(operator):
        await town.create()
        await town.until_pods(2)
        before = await seen(operator)
        await town.turn("Running")
        after = await seen(operator)
        assert after.job is before.job and after.pods != before.pods
        await town.hands.patch(JOBS, NS, "j", {"metadata": {"labels": {"a": "b"}}})
        assert (await seen(operator)).job is not before.job
        await town.hands.delete(JOBS, NS, "j")
        await asyncio.sleep(1)
        assert operator._observer._parsed == {}


async def test_what_keeps_a_job_from_running_is_in_its_place(town):
    operator = town.operator()
    async with town.running(operator):
        await town.create(Worker=1, Judge=1)
        found = await seen(operator)
    assert isinstance(found.job, InvalidJobError) and found.job.problems


async def test_e26_clusterd_is_its_domain_until_it_has_an_address(town):
    """ascendjob:E26"""
    operator = town.operator()
    async with town.running(operator):
        await town.create(policy={"suspend": True})
        domain = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
        assert (await seen(operator)).world.clusterd == domain
        await town.hands.create(NAMESPACES, {"metadata": {"name": "mindx-dl"}})
        service = {
            "metadata": {"name": "clusterd-grpc-svc", "namespace": "mindx-dl"},
            "spec": {"ports": [{"port": 8899}]},
        }
        made = await town.hands.create(SERVICES, service)
        assert (await seen(operator)).world.clusterd == made["spec"]["clusterIP"]


async def test_queue_and_priorities_are_those_that_the_job_names(town):
    await town.hands.create(QUEUES, {"metadata": {"name": "night"}, "spec": {"weight": 1}})
    for name, value in (("high", 7), ("other", 9)):
        await town.hands.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    spec = {"priorityClassName": "high"}
    policy = {"suspend": True, "schedulingPolicy": {"queue": "night"}}
    operator = town.operator(enable_gang_scheduling=True)
    async with town.running(operator):
        await town.create(policy=policy, Master=replica(1, container(), spec=spec), Worker=1)
        world = (await seen(operator)).world
    assert world.gang and world.groups_served and world.queues_known
    assert world.queue.name == "night" and dict(world.priorities) == {"high": 7}


async def test_without_volcano_the_gang_has_nobody_to_let_it_in(town):
    """runtime:I-39"""
    bare = Town()
    await bare.install()
    operator = bare.operator(enable_gang_scheduling=True)
    async with bare.running(operator):
        await bare.create()
        world = (await seen(operator)).world
        assert world.gang and not world.groups_served and not world.queues_known
        last = (await bare.job())["status"]["conditions"][-1]
        assert last["type"] == "Created" and await bare.pods() == {}
    bare.server.close()
