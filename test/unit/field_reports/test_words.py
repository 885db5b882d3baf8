# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that do not start, are lost, or failed: a job names them."""

import asyncio

import pytest

from ascendop.api.observed import ContainerView
from ascendop.kube.resource import CORE_EVENTS, PODS, Scope
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..make import job, snapshot, torch_job  # noqa: TID252  likewise
from ..town import NS  # noqa: TID252  likewise


def held_up(where, name, reason):
    return {where: [{"name": name, "state": {"waiting": {"reason": reason}}}]}


WAITS = {
    "a side-car": (
        held_up("containerStatuses", "web", "ErrImagePull"),
        "web: ImagePullBackOff",
    ),
    "its start": (
        held_up("initContainerStatuses", "first", "CrashLoopBackOff"),
        "first: CrashLoopBackOff",
    ),
    "a node": (
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        "Unschedulable",
    ),
}


async def say(town, pod, **status):
    """What a kubelet or a scheduler says of a pod, and nothing else of it."""
    await town.hands.patch(PODS, NS, pod, {"status": status}, subresource="status")


async def created(town):
    return next(c for c in (await town.job())["status"]["conditions"] if c["type"] == "Created")


@pytest.mark.parametrize(("status", "why"), WAITS.values(), ids=WAITS)
async def test_a_pod_that_does_not_start_is_named_until_it_does(town, status, why):
    """field-reports:FR-015"""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=2)
        await town.until_pods(3)
        await town.turn("Running", "j-master-0", "j-worker-0")
        await town.until_job("Running")
        await say(town, "j-worker-1", phase="Pending", **status)
        await asyncio.sleep(20)
        assert (await created(town))["reason"] == "JobCreated", "it may still start by itself"
        await asyncio.sleep(15)
        found = await created(town)
        assert (found["reason"], found["message"]) == ("PodsNotStarted", f"j-worker-1 ({why})")
        assert (await town.conditions())[-1] == ("Running", "True")
        await asyncio.sleep(3600)
        assert (await town.reasons()).count("PodsNotStarted") == 1
        await say(town, "j-worker-1", conditions=None, initContainerStatuses=None)
        await town.turn("Running", "j-worker-1")
        await asyncio.sleep(5)
        assert (await created(town))["reason"] == "JobCreated"


async def test_of_many_pods_that_do_not_start_three_are_named(town):
    """field-reports:FR-015"""
    status, _ = WAITS["its start"]
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=9)
        await town.until_pods(10)
        for pod in await town.pods():
            await say(town, pod, **status)
        await asyncio.sleep(35)
        message = (await created(town))["message"]
        assert message.count("CrashLoopBackOff") == 3 and message.endswith(" and 7 more")
        assert (await town.conditions()) == [("Created", "True")]


@pytest.mark.parametrize("of_kind", [job, torch_job])
def test_a_pod_that_is_lost_with_its_node_is_named_and_not_killed(of_kind):
    """field-reports:FR-012"""
    lost = make.pod("worker", 0, deleting=True, reason="NodeLost", node="n2")
    seen = snapshot(of_kind(Master=1, Worker=1), pods=(make.pod("master"), lost), gang=False)
    plan = decide(seen)
    assert not make.deleted(plan) and not make.created(plan)
    found = make.concluded(plan).status["conditions"]
    words = next(c for c in found if c["type"] == "Created")
    assert words["message"] == "j-worker-0 (lost with node n2)"
    gone = snapshot(of_kind(Master=1, Worker=1), pods=(make.pod("master"),), gang=False)
    assert list(make.created(decide(gone))) == ["j-worker-0"], "as soon as it is gone"


def ended(code, reason, at, *, name="ascend"):
    return ContainerView(name, "terminated", ready=False, restarts=0, exit_code=code, reason=reason,
                         finished=f"2026-01-02T03:00:{at:02}Z")  # fmt: skip


def failed(role, index, *containers, **fields):
    return make.pod(role, index, "Failed", containers=containers, **fields)


def warnings(*pods):
    conclusion = make.concluded(decide(snapshot(job(Master=1, Worker=4), pods=pods)))
    assert make.conditions(conclusion)[-1][:2] == ("Failed", "True")
    return [note.note for note in conclusion.events if note.reason == "PodsFailed"]


def test_who_failed_first_is_named_first_with_all_that_is_known():
    """field-reports:FR-006"""
    (text,) = warnings(
        failed("master", 0, ended(1, "Error", 9)),
        failed("worker", 1, ended(137, "OOMKilled", 5), node="n7"),
    )
    assert text == (
        "j-worker-1 on n7: container ascend exited with code 137 (OOMKilled); "
        "j-master-0: container ascend exited with code 1 (Error)"
    )


def test_an_eviction_is_told_and_three_of_many_are_named():
    """field-reports:FR-006"""
    evicted = {"reason": "Evicted", "message": "The node was low on memory. " * 100}
    (text,) = warnings(
        failed("master", 0, ended(1, "Error", 9)),
        *(failed("worker", index, **evicted) for index in range(4)),
    )
    assert text.startswith("j-master-0: ") and "Evicted" in text
    assert len(text) <= 1024 and text.endswith(" and 2 more")


def test_a_plain_exit_code_is_told_once_by_the_event_of_the_contract():
    """field-reports:FR-006"""
    assert warnings(failed("worker", 1, ended(1, "Error", 5))) == []


async def test_a_worker_that_is_done_early_is_counted_and_not_made_again(town):
    """field-reports:FR-018: the words of the condition are the contract's; counters and an Event
    say who is done."""
    async with town.running(town.operator()):
        await town.create(policy={"activeDeadlineSeconds": 7200})
        await town.until_pods(2)
        await town.turn("Running")
        await town.until_job("Running")
        before = await town.pods()
        await town.turn("Succeeded", "j-worker-0")
        await asyncio.sleep(3600)
        status = (await town.job())["status"]
        assert status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"succeeded": 1}}
        assert (await town.conditions())[-1] == ("Running", "True")
        after = await town.pods()
        assert after["j-worker-0"]["metadata"]["uid"] == before["j-worker-0"]["metadata"]["uid"]
        notes = [event["message"] for event in await town.hands.list(CORE_EVENTS, Scope(NS))]
        assert f"Pod: {NS}.j-worker-0 exited with code 0" in notes
        await asyncio.sleep(3700)
        assert (await town.conditions())[-1] == ("Failed", "True"), "limits still hold"
