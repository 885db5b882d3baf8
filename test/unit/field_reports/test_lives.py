# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs that sleep, wake, run out of time, belong to others, and what their conditions say then."""

import asyncio
from dataclasses import replace

import pytest

from ascendop.kube.resource import CORE_EVENTS, POD_GROUPS, PODS, SERVICES, Scope
from ascendop.reconciler.decide import decide

from .. import cluster, make  # noqa: TID252  the standard library has a package called test
from ..make import job, snapshot, torch_job  # noqa: TID252  likewise
from ..town import JOBS, NS, status_patches  # noqa: TID252  likewise

EXCLUSIVE = {"Running", "Restarting", "Suspended", "Succeeded", "Failed"}
KINDS = pytest.mark.parametrize("of_kind", [job, torch_job])


def told(wire):
    """The conditions of each status that was written and had some."""
    return [
        found
        for patch in status_patches(wire)
        if (found := patch["status"].get("conditions")) is not None
    ]


def keeps_to_one_state(conditions):
    true = [c["type"] for c in conditions if c["status"] == "True"]
    return (
        len(EXCLUSIVE & set(true)) <= 1
        and "Created" in true
        and conditions[-1]["type"] in (EXCLUSIVE & set(true) or {"Created"})
    )


async def suspend(town, suspended):
    body = {"spec": {"runPolicy": {"suspend": suspended}}}
    await town.hands.patch(JOBS, NS, "j", body)


def transitions(written):
    """Which (type, status) came new with each status."""
    seen, found = {}, []
    for conditions in written:
        for c in conditions:
            if seen.get(c["type"]) != c["status"]:
                found.append((c["type"], c["status"]))
                seen[c["type"]] = c["status"]
    return found


# ── one state at a time ──


@pytest.mark.parametrize(
    "phases",
    [["Running", "Succeeded"], ["Running", "Failed"], ["Succeeded"], ["Failed"]],
    ids=["runs", "fails", "is over before anybody saw it run", "fails at once"],
)
async def test_one_state_holds_at_a_time_and_it_is_the_one_that_is_printed(town, phases):
    """field-reports:FR-002"""
    async with town.running(town.operator()):
        await town.create()
        await town.until_pods(2)
        for phase in phases:
            await town.turn(phase)
            await asyncio.sleep(5)
    written = told(town.wire)
    assert written and all(keeps_to_one_state(conditions) for conditions in written)
    assert (phases[-1], "True") in await town.conditions()
    moments = {}
    for conditions in written:
        for c in conditions:
            status, since = moments.setdefault(c["type"], (c["status"], c["lastTransitionTime"]))
            assert since == c["lastTransitionTime"] or status != c["status"]
            moments[c["type"]] = c["status"], c["lastTransitionTime"]


async def test_a_job_that_is_born_asleep_gets_nothing(town):
    """field-reports:FR-032"""
    async with town.running(town.operator()):
        await town.create(policy={"suspend": True})
        await asyncio.sleep(60)
        assert await town.conditions() == [("Created", "True"), ("Suspended", "True")]
        assert "startTime" not in (await town.job())["status"]
        assert not await town.hands.list(SERVICES, Scope(NS)) and not await town.pods()


async def runs(town):
    """The status of the job when its pods have been made and run."""
    await town.until_pods(2)
    await asyncio.sleep(2)
    assert (await town.conditions())[-1] == ("Created", "True"), "not a Suspended that is over"
    await town.turn("Running")
    await town.until_job("Running")
    return (await town.job())["status"]


async def test_states_follow_each_other_through_sleep(town):
    """field-reports:FR-032 field-reports:FR-033 field-reports:FR-002"""
    async with town.running(town.operator()):
        await town.create(policy={"suspend": True})
        await town.until_job("Suspended")
        await suspend(town, suspended=False)
        first = await runs(town)
        await asyncio.sleep(10)
        await suspend(town, suspended=True)
        await town.until_pods(0)
        await town.until_job("Suspended")
        counts = (await town.job())["status"]["replicaStatuses"].values()
        assert not any("active" in found for found in counts)
        await suspend(town, suspended=False)
        again = await runs(town)
    assert again["startTime"] > first["startTime"]
    since = [found["conditions"][-1]["lastTransitionTime"] for found in (first, again)]
    assert since[0] < since[1]
    assert transitions(told(town.wire)) == [
        ("Created", "True"), ("Suspended", "True"),
        ("Suspended", "False"), ("Running", "True"),
        ("Running", "False"), ("Suspended", "True"),
        ("Suspended", "False"), ("Running", "True"),
    ]  # fmt: skip
    assert all(keeps_to_one_state(conditions) for conditions in told(town.wire))
    assert {"AscendJobSuspended", "AscendJobResumed"} <= set(await town.reasons())


async def test_a_gang_that_sleeps_has_no_pod_group(town):
    """field-reports:FR-032"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(policy={"suspend": True})
        await asyncio.sleep(5)
        assert not await town.hands.list(POD_GROUPS, Scope(NS))
        await suspend(town, suspended=False)
        await asyncio.sleep(5)
        assert len(await town.hands.list(POD_GROUPS, Scope(NS))) == 1
        await suspend(town, suspended=True)
        await asyncio.sleep(5)
        assert not await town.hands.list(POD_GROUPS, Scope(NS))


@KINDS
def test_a_restart_is_over_when_the_job_is_put_to_sleep(of_kind):
    """field-reports:FR-002"""
    restarting = {"type": "Restarting", "status": "True", "reason": "JobRestarting"}
    asleep = snapshot(of_kind(policy={"suspend": True}), status={"conditions": [restarting]})
    found = make.concluded(decide(asleep)).status["conditions"]
    assert [(c["type"], c["status"]) for c in found] == [
        ("Created", "True"), ("Restarting", "False"), ("Suspended", "True"),
    ]  # fmt: skip


# ── pods of an earlier life ──


def woken(of_kind, *, pods, policy):
    """A job that ran, slept, and is woken while its old pods take their time to go."""
    seen = snapshot(of_kind(policy={"suspend": True}), gang=False)
    asleep = make.concluded(decide(seen)).status
    replicas = {"Master": make.replica(1, main(of_kind), policy=policy)}
    return snapshot(
        of_kind(Master=replicas["Master"], policy={"suspend": False}),
        pods=pods,
        status=asleep | {"startTime": "2026-01-02T03:00:00Z"},
        now=make.later(30),
        gang=False,
    )


def main(of_kind):
    return make.container("pytorch" if of_kind is torch_job else "ascend", npus=0)


@KINDS
@pytest.mark.parametrize("policy", ["Never", "ExitCode", "OnFailure"])
@pytest.mark.parametrize("phase", ["Running", "Failed", "Succeeded"])
def test_pods_that_end_from_an_earlier_life_say_nothing_about_this_one(of_kind, policy, phase):
    """field-reports:FR-034 field-reports:FR-008"""
    old = make.pod("master", 0, phase, deleting=True, created="2026-01-02T03:00:00Z")
    seen = woken(of_kind, pods=(old,), policy=policy)
    for _ in range(3):
        plan = decide(seen)
        assert not make.created(plan) and not make.deleted(plan), "the slot is taken until it goes"
        seen = cluster.after(seen, plan, now=seen.now.replace(second=seen.now.second + 5))
        last = seen.status["conditions"][-1]
        assert (last["type"], last["status"]) == ("Created", "True")
        assert all(
            counts.get("active", 0) == counts.get("failed", 0) == counts.get("succeeded", 0) == 0
            for counts in seen.status.get("replicaStatuses", {}).values()
        )
    seen = replace(seen, pods=())
    assert list(make.created(decide(seen))) == ["j-master-0"]


@pytest.mark.parametrize("after_ms", range(0, 50, 5))
async def test_however_soon_it_is_woken_a_job_gets_its_pods(town, after_ms):
    """field-reports:FR-034"""
    async with town.running(town.operator()):
        await town.create(policy={"suspend": True})
        await asyncio.sleep(after_ms / 1000)
        await suspend(town, suspended=False)
        await town.until_pods(2)
        await asyncio.sleep(2)
        await town.turn("Running")
        await town.until_job("Running")
        before = {name: pod["metadata"]["uid"] for name, pod in (await town.pods()).items()}
        for suspended in (True, False, True, False):
            await suspend(town, suspended=suspended)
            await asyncio.sleep(0.03 + after_ms / 1000)
        await town.until_pods(2)
        await asyncio.sleep(5)
        now = {name: pod["metadata"]["uid"] for name, pod in (await town.pods()).items()}
        assert not set(now.values()) & set(before.values())
        assert (await town.conditions())[-1] == ("Created", "True")


# ── deadlines ──


async def test_a_deadline_needs_nobody_to_wake_it_not_even_the_same_process(town):
    """field-reports:FR-009"""
    loop = asyncio.get_running_loop()
    async with town.running(town.operator("a")):
        await town.create(policy={"activeDeadlineSeconds": 15, "cleanPodPolicy": "Running"})
        began = loop.time()
        await town.until_pods(2)
        await town.turn("Running")
        await asyncio.sleep(2)
    async with town.running(town.operator("b")):
        assert loop.time() - began < 10
        await asyncio.sleep(began + 14 - loop.time())
        assert ("Failed", "True") not in await town.conditions()
        await asyncio.sleep(4)
        last = (await town.job())["status"]["conditions"][-1]
        assert (last["type"], last["reason"]) == ("Failed", "DeadlineExceeded")
        assert not await town.pods()


def test_a_gang_that_waits_to_be_let_in_again_wakes_at_its_deadline():
    """field-reports:FR-009"""
    policy = {"activeDeadlineSeconds": 30}
    status = {"startTime": "2026-01-02T03:04:05Z"}
    seen = snapshot(job(policy=policy), group="Pending", status=status, now=make.later(20))
    plan = decide(seen)
    assert not make.created(plan) and plan.again_after_s == 10


async def test_a_job_s_time_does_not_run_while_it_sleeps(town):
    """field-reports:FR-009"""
    async with town.running(town.operator()):
        await town.create(policy={"activeDeadlineSeconds": 20})
        await town.until_pods(2)
        await town.turn("Running")
        await asyncio.sleep(10)
        await suspend(town, suspended=True)
        await asyncio.sleep(100)
        await suspend(town, suspended=False)
        await town.until_pods(2)
        await town.turn("Running")
        await asyncio.sleep(15)
        assert ("Failed", "True") not in await town.conditions()
        await asyncio.sleep(10)
        assert ("Failed", "True") in await town.conditions()


# ── whose it is ──


@KINDS
@pytest.mark.parametrize(
    "status",
    [
        {},
        {"conditions": [{"type": "Succeeded", "status": "True"}], "completionTime": "2020-01-01"},
    ],
    ids=["new", "ended over there"],
)
@pytest.mark.parametrize("valid", [True, False])
def test_a_job_of_another_controller_is_left_alone_whatever_it_says(of_kind, status, valid):
    """field-reports:FR-035 scheduling:SCH-46"""
    policy = {
        "managedBy": "kueue.x-k8s.io/multikueue",
        "ttlSecondsAfterFinished": 0,
        "cleanPodPolicy": "All",
    }
    role = make.replica(1) if valid else {"replicas": 1, "template": {"spec": {}}}
    seen = snapshot(of_kind(Master=role, policy=policy), pods=(make.pod("master"),), status=status)
    plan = decide(seen)
    assert not plan.steps and make.concluded(plan) is None and plan.table is None


async def test_a_job_of_another_controller_is_not_written_to(town):
    """field-reports:FR-035"""
    async with town.running(town.operator()):
        await town.create(policy={"managedBy": "kueue.x-k8s.io/multikueue"})
        await asyncio.sleep(60)
        assert town.wire.writes() == []


@pytest.mark.parametrize("name", [None, "kubeflow.org/training-operator"])
async def test_a_job_of_ours_is_taken_care_of(town, name):
    """field-reports:FR-035"""
    async with town.running(town.operator()):
        await town.create(policy={"managedBy": name} if name else {})
        await town.until_pods(2)


# ── deleted by hand ──


def test_a_pod_that_is_told_to_go_and_is_killed_for_it_does_not_fail_its_job():
    """field-reports:FR-004"""
    role = make.replica(1, make.container("pytorch", npus=0), policy="ExitCode")
    ran = snapshot(torch_job(Master=role, Worker=role), gang=False)
    pods = (make.pod("master"), make.pod("worker"))
    seen = cluster.after(replace(ran, pods=pods), decide(replace(ran, pods=pods)))
    for phase, code in (("Running", None), ("Failed", 137), ("Failed", 1)):
        worker = make.pod("worker", 0, phase, deleting=True, exit_code=code, main="pytorch")
        seen = replace(seen, pods=(make.pod("master"), worker))
        seen = cluster.after(seen, decide(seen))
        types = {c["type"] for c in seen.status["conditions"] if c["status"] == "True"}
        assert "Failed" not in types
    seen = replace(seen, pods=(make.pod("master"),))
    plan = decide(seen)
    assert list(make.created(plan)) == ["j-worker-0"] and not make.deleted(plan)


def test_a_pod_that_fails_by_its_own_word_still_fails_its_job():
    """field-reports:FR-004"""
    role = make.replica(1, make.container("pytorch", npus=0), policy="ExitCode")
    pods = (make.pod("master"), make.pod("worker", 0, "Failed", exit_code=1, main="pytorch"))
    seen = snapshot(torch_job(Master=role, Worker=role), pods=pods, gang=False)
    assert make.conditions(make.concluded(decide(seen)))[-1][:2] == ("Failed", "True")


async def test_a_pod_of_an_ascend_job_that_is_deleted_by_hand_comes_back(town):
    """field-reports:FR-004"""
    roles = {
        "Master": make.replica(1, policy="ExitCode"),
        "Worker": make.replica(1, policy="ExitCode"),
    }
    async with town.running(town.operator()):
        await town.create(roles=roles)
        await town.until_pods(2)
        await town.turn("Running")
        await town.until_job("Running")
        before = await town.pods()
        await town.hands.patch(
            PODS, NS, "j-worker-0", {"metadata": {"finalizers": ["test/kubelet"]}}
        )
        await town.hands.delete(PODS, NS, "j-worker-0")
        await town.turn("Failed", "j-worker-0", code=137)
        await asyncio.sleep(5)
        await town.hands.patch(PODS, NS, "j-worker-0", {"metadata": {"finalizers": None}})
        await asyncio.sleep(5)
        after = await town.pods()
        assert after["j-worker-0"]["metadata"]["uid"] != before["j-worker-0"]["metadata"]["uid"]
        assert after["j-master-0"]["metadata"]["uid"] == before["j-master-0"]["metadata"]["uid"]
    assert all(c["type"] != "Failed" for conditions in told(town.wire) for c in conditions)


async def test_a_restart_policy_in_a_template_is_told_once(town):
    """field-reports:FR-017: the replica's wins, and replacements say it no second time."""
    role = make.replica(1, policy="ExitCode", spec={"restartPolicy": "Always"})
    async with town.running(town.operator()):
        await town.create(roles={"Master": role, "Worker": role})
        await town.until_pods(2)
        await town.turn("Running")
        for turn in range(5):
            touch = {"metadata": {"annotations": {"touched": str(turn)}}}
            await town.hands.patch(JOBS, NS, "j", touch)
            await asyncio.sleep(5)
        assert {pod["spec"]["restartPolicy"] for pod in (await town.pods()).values()} == {"Never"}
        events = await town.hands.list(CORE_EVENTS, Scope(NS))
        found = [e for e in events if e["reason"] == "SettedPodTemplateRestartPolicy"]
        assert [event.get("count", 1) for event in found] == [1]


def test_an_own_port_is_in_the_service_and_in_the_environment():
    """field-reports:FR-048 field-reports:FR-051"""
    ports = [{"name": "ascendjob-port", "containerPort": 29600}]
    spec = {"hostNetwork": True}
    roles = {"Master": make.replica(1, ports=ports, spec=spec), "Worker": make.replica(1)}
    empty = snapshot(job(roles=roles), services=(), gang=False)
    (service,) = make.created(decide(empty), SERVICES).values()
    assert service["spec"]["ports"] == [
        {"name": "ascendjob-port", "port": 29600, "protocol": "TCP"}
    ]
    pods = make.created(decide(snapshot(job(roles=roles), gang=False)))
    assert {make.env_of(pod)["MASTER_PORT"] for pod in pods.values()} == {"29600"}
