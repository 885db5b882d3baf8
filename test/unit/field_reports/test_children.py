# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods, Services and PodGroups that somebody removes, edits, writes late, or leaves behind."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.kube.resource import CONFIGMAPS, POD_GROUPS, PODS, QUEUES, SERVICES, Scope
from ascendop.sim.faults import Faults, Plan

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import JOBS, NS  # noqa: TID252  likewise

PREFIX = "training.kubeflow.org/"
HIDDEN = f"{PREFIX}job-name"


async def runs(town, **job):
    """A job of two pods that run."""
    await town.create(**job)
    await town.until_pods(2)
    await town.turn("Running")
    await town.until_job("Running")


def uids(pods):
    return {name: pod["metadata"]["uid"] for name, pod in pods.items()}


# ── after the end ──


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
async def test_a_job_that_has_ended_never_runs_again(town, end):
    """field-reports:FR-001 field-reports:FR-025"""
    async with town.running(town.operator("a")):
        await runs(town)
        await town.turn(end)
        await town.until_job(end)
        await asyncio.sleep(5)
        before = (await town.job())["status"]
        await town.lose(*await town.pods())
        await asyncio.sleep(60)
    async with town.running(town.operator("b")):
        await town.hands.patch(JOBS, NS, "j", {"metadata": {"annotations": {"touched": "1"}}})
        await asyncio.sleep(3600)
        assert town.wire.writes() == []
    assert not await town.pods() and (await town.job())["status"] == before


@pytest.mark.parametrize("policy", ["None", "Running"])
async def test_pods_that_failed_stay_for_their_logs(town, policy):
    """field-reports:FR-025"""
    async with town.running(town.operator()):
        await runs(town, policy={"cleanPodPolicy": policy})
        await town.turn("Failed", "j-worker-0", code=1)
        await town.until_job("Failed")
        await asyncio.sleep(60)
        kept = {"j-worker-0"} | ({"j-master-0"} if policy == "None" else set())
        assert set(await town.pods()) == kept


async def test_nobody_is_killed_without_the_time_that_his_template_gives_him(town):
    """field-reports:FR-052 field-reports:FR-020"""
    async with town.running(town.operator()):
        await runs(town, policy={"cleanPodPolicy": "All"})
        await town.turn("Succeeded", "j-master-0")
        await asyncio.sleep(30)
        assert len(await town.pods()) == 2, "the job is not over before all of it is"
        await town.turn("Succeeded", "j-worker-0")
        await town.until_pods(0)
    bodies = town.wire.bodies("DELETE", "pods")
    assert len(bodies) == 2 and all("gracePeriodSeconds" not in body for body in bodies)


# ── a cache that lags ──


async def test_a_watch_that_lags_makes_no_pod_twice(town):
    """field-reports:FR-003"""
    late = Faults(Plan(lag_s=6.0), Random(5), spare=lambda asked: not asked.path.endswith("/pods"))
    async with town.running(town.operator(faults=late)):
        await town.create(Master=1, Worker=8)
        for turn in range(10):
            await asyncio.sleep(0.25)
            edit = {"metadata": {"annotations": {"touched": str(turn)}}}
            await town.hands.patch(JOBS, NS, "j", edit)
        await asyncio.sleep(60)
        assert len(await town.pods()) == 9
    assert town.wire.writes("pods") == [("POST", "pods")] * 9
    assert "FailedCreatePod" not in await town.reasons()


# ── edited by hand ──


@pytest.mark.parametrize(
    "labels",
    [
        {HIDDEN: None},
        {HIDDEN: "another"},
        {"training.kubeflow.org/replica-index": "7"},
        {"training.kubeflow.org/replica-index": None, "replica-index": None},
        {"training.kubeflow.org/replica-index": "0"},
        {"training.kubeflow.org/replica-type": "captain"},
    ],
    ids=["unseen", "another job's", "beyond the job", "nowhere", "a sibling's", "no role"],
)
async def test_a_pod_whose_labels_somebody_edits_stays_a_pod_of_its_job(town, labels):
    """field-reports:FR-003: it is counted, not killed and not made a second time."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=2)
        await town.until_pods(3)
        await town.turn("Running")
        await town.until_job("Running")
        before = await town.pods()
        await town.hands.patch(PODS, NS, "j-worker-1", {"metadata": {"labels": labels}})
        await asyncio.sleep(60)
        after = await town.pods()
        assert uids(after) == uids(before)
        found = after["j-worker-1"]["metadata"]["labels"]
        assert HIDDEN in found
        assert (found[f"{PREFIX}replica-type"], found[f"{PREFIX}replica-index"]) == ("worker", "1")
        status = (await town.job())["status"]
        assert status["replicaStatuses"]["Worker"] == {"active": 2}
        await town.turn("Succeeded")
        await town.until_job("Succeeded")


async def test_a_service_whose_labels_somebody_edits_is_found_again(town):
    """field-reports:FR-003"""
    async with town.running(town.operator()):
        await runs(town)
        edit = {"metadata": {"labels": {HIDDEN: None}}}
        before = await town.hands.patch(SERVICES, NS, "j-master-0", edit)
        await asyncio.sleep(5)
        after = await town.hands.get(SERVICES, NS, "j-master-0")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["labels"][HIDDEN] == "j"
        assert len(town.wire.writes("services")) < 5


# ── the same name again ──


async def test_pods_of_an_earlier_job_of_the_name_are_nobody_s_and_make_room_at_once(town):
    """field-reports:FR-019"""
    async with town.running(town.operator()):
        await runs(town)
        for name in await town.pods():
            held = {"metadata": {"finalizers": ["test/kubelet"]}}
            await town.hands.patch(PODS, NS, name, held)
        await town.hands.delete(JOBS, NS, "j")
        await town.until(lambda: all_leaving(town))
        again = await town.create()
        await asyncio.sleep(10)
        status = (await town.job())["status"]
        assert not any(status.get("replicaStatuses", {}).values())
        for name in ("j-worker-0", "j-master-0"):
            await town.hands.patch(PODS, NS, name, {"metadata": {"finalizers": None}})
            await asyncio.sleep(3)
            owner = (await town.pods())[name]["metadata"]["ownerReferences"][0]
            assert owner["uid"] == again["metadata"]["uid"]
        assert "Failed" not in {type_ for type_, _ in await town.conditions()}
        assert "ChildConflict" not in await town.reasons()


async def all_leaving(town):
    pods = (await town.pods()).values()
    return all(pod["metadata"].get("deletionTimestamp") for pod in pods)


# ── whose they are ──


async def test_every_child_has_one_owner_and_what_is_the_user_s_has_none(town):
    """field-reports:FR-024"""
    table = {"metadata": {"name": "rings-config-j", "namespace": NS}, "data": {"hccl.json": "{}"}}
    await town.hands.create(CONFIGMAPS, table)
    async with town.running(town.operator(enable_gang_scheduling=True)):
        made = await town.create()
        await town.let_in()
        await town.until_pods(2)
        children = [
            child
            for resource in (PODS, SERVICES, POD_GROUPS)
            for child in await town.hands.list(resource, Scope(NS))
        ]
        assert len(children) == 4
        owner = {
            "apiVersion": JOBS.api_version,
            "kind": "AscendJob",
            "name": "j",
            "uid": made["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        assert all(child["metadata"]["ownerReferences"] == [owner] for child in children)
        theirs = await town.hands.get(CONFIGMAPS, NS, "rings-config-j")
        assert "ownerReferences" not in theirs["metadata"]


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_of_a_job_that_is_deleted_nothing_is_made_again(town, policy):
    """field-reports:FR-024 field-reports:FR-021"""
    async with town.running(town.operator()):
        await runs(town)
        posts = town.wire.writes("pods") + town.wire.writes("services")
        await town.hands.delete(JOBS, NS, "j", propagation=policy)
        await town.until_pods(0)
        await asyncio.sleep(60)
        assert not await town.hands.list(SERVICES, Scope(NS))
        assert town.wire.writes("pods") + town.wire.writes("services") == posts


# ── gangs ──


async def queues(town):
    for name in ("q1", "q2"):
        await town.hands.create(QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1}})


async def test_a_queue_that_somebody_else_chose_is_left_to_them(town):
    """field-reports:FR-028"""
    policy = {"schedulingPolicy": {"minAvailable": 2, "queue": "q1"}}
    await queues(town)
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(Master=1, Worker=2, policy=policy)
        await town.let_in("Pending")
        (group,) = await town.hands.list(POD_GROUPS, Scope(NS))
        assert group["spec"]["queue"] == "q1"
        name = group["metadata"]["name"]
        edit = {"spec": {"queue": "q2"}, "metadata": {"annotations": {"theirs": "1"}}}
        await town.hands.patch(POD_GROUPS, NS, name, edit)
        for turn in range(3):
            touch = {"metadata": {"annotations": {"touched": str(turn)}}}
            await town.hands.patch(JOBS, NS, "j", touch)
            await asyncio.sleep(5)
        group = await town.hands.get(POD_GROUPS, NS, name)
        assert group["spec"]["queue"] == "q2" and group["spec"]["minMember"] == 2
        assert group["metadata"]["annotations"] == {"theirs": "1", "touched": "2"}
        before = group["metadata"]["resourceVersion"]
        await asyncio.sleep(3600)
        group = await town.hands.get(POD_GROUPS, NS, name)
        assert group["metadata"]["resourceVersion"] == before


async def test_a_queue_that_the_job_chooses_anew_is_the_gang_s(town):
    """field-reports:FR-028 scheduling:SCH-13"""
    await queues(town)
    policy = {"schedulingPolicy": {"queue": "q1"}}
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(policy=policy)
        await town.let_in("Pending")
        edit = {"spec": {"runPolicy": {"schedulingPolicy": {"queue": "q2"}}}}
        await town.hands.patch(JOBS, NS, "j", edit)
        await asyncio.sleep(5)
        (group,) = await town.hands.list(POD_GROUPS, Scope(NS))
        assert group["spec"]["queue"] == "q2"


async def test_a_gang_without_a_queue_names_none(town):
    """field-reports:FR-028"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create()
        await town.let_in("Pending")
        (group,) = await town.hands.list(POD_GROUPS, Scope(NS))
        assert "queue" not in group["spec"] or group["spec"]["queue"] == "default"


async def test_pods_come_soon_after_the_gang_is_let_in_and_not_before(town):
    """field-reports:FR-027"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create()
        await asyncio.sleep(20)
        assert (await town.job())["status"]["conditions"][-1]["reason"] == "PodGroupNotInitialized"
        await town.let_in("Pending")
        await asyncio.sleep(20)
        assert (await town.job())["status"]["conditions"][-1]["reason"] == "PodGroupPending"
        assert not await town.pods()
        await town.let_in("Inqueue")
        await town.until_pods(2, within_s=2)


# ── who places them ──


async def test_pods_of_another_scheduler_do_not_wait_for_a_phase_that_nobody_sets(town):
    """field-reports:FR-031"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(spec={"schedulerName": "other"})
        await asyncio.sleep(20)
        assert not await town.pods(), "Volcano, if it runs, is given the time to say something"
        await town.until_pods(2, within_s=15)
        for turn in range(5):
            touch = {"metadata": {"annotations": {"touched": str(turn)}}}
            await town.hands.patch(JOBS, NS, "j", touch)
            await asyncio.sleep(5)
        pods = (await town.pods()).values()
        assert {pod["spec"]["schedulerName"] for pod in pods} == {"other"}
        groups = {pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for pod in pods}
        (group,) = await town.hands.list(POD_GROUPS, Scope(NS))
        assert groups == {group["metadata"]["name"]}
        reasons = await town.reasons()
        assert reasons.count("SettedJobSchedulerName") == 1
        assert reasons.count("PodGroupUnheeded") == 1


async def test_a_gang_that_volcano_lets_in_waits_whoever_places_it(town):
    """field-reports:FR-031: a phase that is set is waited for, as the original does."""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(spec={"schedulerName": "other"})
        await town.let_in("Pending")
        await asyncio.sleep(3600)
        assert not await town.pods()
        await town.let_in("Inqueue")
        await town.until_pods(2, within_s=2)
        assert "PodGroupUnheeded" not in await town.reasons()


async def test_a_gang_of_volcano_s_waits_for_its_phase_however_long(town):
    """field-reports:FR-031: one role of another scheduler does not tear the gang apart."""
    roles = {"Master": make.replica(1, spec={"schedulerName": "other"}), "Worker": make.replica(1)}
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(roles=roles)
        await asyncio.sleep(3600)
        assert not await town.pods()
