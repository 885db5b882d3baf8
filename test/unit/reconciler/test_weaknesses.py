# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Weaknesses of ascend-operator that ours has not: ascendjob.md 11, those that no other test shows.

Each test names its finding; hack/check_rules.py knows where the others are.
"""

import asyncio
import copy
from dataclasses import replace

import pytest

from ascendop.kube.resource import POD_GROUPS, QUEUES, SERVICES, Scope
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after, gone, turned  # noqa: TID252  likewise
from ..make import container, job, pod, replica  # noqa: TID252  likewise
from ..town import NS, Town, is_status_patch  # noqa: TID252  likewise


def running(obj, **of_world):
    """A job whose pods all run and have been counted."""
    seen = make.snapshot(obj, **of_world)
    seen = turned(after(seen, decide(seen)), "Running")
    return after(seen, decide(seen))


@pytest.mark.parametrize("version", [0, 2, 7])
def test_a_job_of_which_no_count_was_kept_is_not_out_of_its_budget(version):
    """ascendjob:W-8: what is missing is read from the pods, and is 0 where there are none."""
    obj = job(policy={"backoffLimit": max(version, 1)})
    status = {"startTime": "2026-01-01T00:00:00Z"}
    pods = [pod("master", attempt=version), pod("worker", attempt=version)]
    found = make.concluded(decide(make.snapshot(obj, pods=pods, status=status)))
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
    fresh = decide(make.snapshot(obj))
    labels = [made["metadata"]["labels"]["version"] for made in make.created(fresh).values()]
    assert labels == ["0", "0"]


def test_a_job_without_pods_has_not_succeeded():
    """ascendjob:W-13: an empty job is not done at once."""
    obj = job("mindspore", Worker=replica(0, npus=0))
    found = make.concluded(decide(make.snapshot(obj)))
    assert "Succeeded" not in {type_ for type_, _, _ in make.conditions(found)}


def test_a_budget_that_is_used_up_ends_the_job_and_its_time_to_live_begins():
    """ascendjob:W-15"""
    seen = running(job(policy={"backoffLimit": 1, "ttlSecondsAfterFinished": 60}))
    for _ in range(2):
        seen = gone(seen, "j-master-0", "j-worker-0")
        for _ in range(3):
            seen = after(seen, decide(seen))
        seen = turned(seen, "Running")
    assert make.conditions(make.concluded(decide(seen)))[-1][:2] == ("Failed", "True")
    assert seen.status["completionTime"]
    assert decide(seen).again_after_s == 60
    due = replace(seen, now=make.later(61))
    assert [step.name for step in decide(due).steps] == ["job"]


def test_a_retry_budget_that_is_no_number_is_told_and_not_forgotten():
    """ascendjob:W-21"""
    found = make.concluded(decide(make.snapshot(job(labels={"fault-retry-times": "many"}))))
    assert make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")
    assert found.status["conditions"][-1]["message"].startswith("InvalidFaultRetryTimes: ")


def test_each_template_has_its_scheduler():
    """ascendjob:W-22: one that names its own takes none away from the others."""
    obj = job(Master=replica(1, spec={"schedulerName": "mine"}), Worker=replica(2))
    made = make.created(decide(make.snapshot(obj)))
    assert {name: made[name]["spec"]["schedulerName"] for name in made} == {
        "j-master-0": "mine",
        "j-worker-0": "volcano",
        "j-worker-1": "volcano",
    }


def test_what_a_pod_requests_beside_its_chips_hides_none_of_them():
    """ascendjob:W-23: cpu and memory make no chip a virtual one."""
    amounts = {"requests": {"cpu": "8", "memory": "64Gi", make.ASCEND_910: 8}}
    obj = job(Master=replica(1, container(npus=0, resources=amounts)))
    env = make.env_of(make.created(decide(make.snapshot(obj)))["j-master-0"])
    assert env["ASCEND_VISIBLE_DEVICES"] == "<metadata.annotations['huawei.com/Ascend910']>"
    assert env["LOCAL_WORLD_SIZE"] == "8"


def test_limits_count_where_there_are_no_requests():
    """ascendjob:W-23: 5.10; the server would say the same of the pod."""
    limited = container(npus=0, resources={"limits": {make.ASCEND_910: 4}})
    obj = job(Master=replica(1, limited), Worker=replica(1, limited))
    env = make.env_of(make.created(decide(make.snapshot(obj)))["j-worker-0"])
    assert (env["LOCAL_WORLD_SIZE"], env["WORLD_SIZE"], env["RANK"]) == ("4", "8", "1")


@pytest.mark.parametrize(
    ("framework", "leader", "local", "world"),
    [
        ("pytorch", "Master", "LOCAL_WORLD_SIZE", "WORLD_SIZE"),
        ("tensorflow", "Chief", "CM_LOCAL_WORKER", "CM_WORKER_SIZE"),
        ("mindspore", "Scheduler", "MS_LOCAL_WORKER", "MS_WORKER_NUM"),
    ],
)
def test_pods_of_unequal_roles_are_told_of_one_world(framework, leader, local, world):
    """ascendjob:W-23: as many as the rank table has; the original assumes that all are equal."""
    roles = {leader: replica(1, npus=4), "Worker": replica(2, npus=8)}
    made = make.created(decide(make.snapshot(job(framework, roles=roles))))
    found = [make.env_of(pod) for pod in made.values()]
    assert [env[local] for env in found] == ["4", "8", "8"]
    assert [env[world] for env in found] == ["20", "20", "20"]


def test_a_decision_leaves_what_it_was_made_from_as_it_was():
    """ascendjob:W-25"""
    seen = running(job(Master=1, Worker=2))
    seen = turned(seen, "Failed", "j-worker-0")
    before = copy.deepcopy(seen.status), seen.row, seen.pods, seen.services, seen.group
    make.concluded(decide(seen))
    assert (seen.status, seen.row, seen.pods, seen.services, seen.group) == before


def test_an_edit_of_the_block_counts_for_the_next_pod():
    """ascendjob:W-29: 8.1; nothing is frozen at the creation of the job."""
    found = []
    for block in ("16", "8"):
        obj = job(annotations={"sp-block": block}, Master=1, Worker=3)
        made = make.created(decide(make.snapshot(obj)))
        found.append(make.env_of(made["j-worker-2"])["HCCL_LOGIC_SUPERPOD_ID"])
    assert found == ["1", "3"]


def test_a_running_job_tells_so_once():
    """ascendjob:W-35"""
    seen = running(job())
    for _ in range(3):
        found = make.concluded(decide(seen))
        assert found is None or not found.events
        seen = after(seen, decide(seen))


def test_an_edit_reaches_the_pod_group_and_nothing_else():
    """ascendjob:W-46"""
    before = running(job(labels={"team": "a"}))
    edited = job(labels={"team": "b"}, policy={"schedulingPolicy": {"minAvailable": 1}})
    seen = replace(
        before,
        row=make.row(edited, annotations=before.row.annotations),
        job=make.parsed(before.kind, make.row(edited)),
    )
    plan = decide(seen)
    (group,) = make.created(plan, POD_GROUPS).values()
    assert group["metadata"]["labels"]["team"] == "b"
    assert group["spec"]["minMember"] == 1
    assert make.created(plan) == {} == make.created(plan, SERVICES)
    assert make.deleted(plan) == []


@pytest.mark.parametrize(
    ("policy", "phases", "succeeded"),
    [
        pytest.param("", ("Succeeded", "Running"), False, id="nothing said, one still runs"),
        pytest.param("AllWorkers", ("Succeeded", "Running"), False, id="one still runs"),
        pytest.param("AllWorkers", ("Succeeded", "Succeeded"), True, id="all have succeeded"),
        pytest.param("", ("Succeeded", "Succeeded"), True, id="nothing said, all have succeeded"),
    ],
)
def test_success_is_that_of_all_pods(policy, phases, succeeded):
    """ascendjob:W-45: what the documentation says of successPolicy holds."""
    obj = job(spec={"successPolicy": policy})
    pods = [pod("master", 0, phases[0]), pod("worker", 0, phases[1])]
    found = make.concluded(decide(make.snapshot(obj, pods=pods)))
    assert ("Succeeded" in {type_ for type_, _, _ in make.conditions(found)}) is succeeded


# ── over time ──


@pytest.fixture
async def town():
    town = Town()
    await town.install(volcano=True)
    yield town
    town.server.close()


@pytest.mark.parametrize("gang", [False, True], ids=["alone", "in a gang with a queue"])
async def test_a_job_in_steady_state_costs_the_server_next_to_nothing(town, gang):
    """ascendjob:W-32 ascendjob:W-33: no write in an hour.

    What is read is the ConfigMap that may still come, ever less often, and which kinds are served.
    """
    policy = {"schedulingPolicy": {"queue": "night"}}
    await town.hands.create(QUEUES, {"metadata": {"name": "night"}, "spec": {"weight": 1}})
    async with town.running(town.operator(enable_gang_scheduling=gang)):
        await town.create(policy=policy, Master=1, Worker=3)
        if gang:
            await town.let_in("Running")
        await town.until_pods(4)
        await town.turn("Running")
        await town.until_job("Running")
        await asyncio.sleep(10)
        sent = len(town.wire.sent)
        await asyncio.sleep(3600)
        asked = [r for r in town.wire.sent[sent:] if "watch" not in r.query]
    assert {r.method for r in asked} <= {"GET"}
    looks = [r.path for r in asked if r.path.endswith("/configmaps/rings-config-j")]
    others = {r.path for r in asked} - set(looks)
    assert len(looks) <= 12
    assert all(path in {"/api", "/apis"} for path in others), others


async def test_a_gang_that_waits_costs_no_write_whatever_volcano_writes_on_it(town):
    """ascendjob:W-34: the original writes a status twice for each event of a PodGroup."""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(Master=1, Worker=3)
        await town.let_in("Pending")
        await asyncio.sleep(120)  # by then it is said what is missing
        sent = len(town.wire.sent)
        (group,) = await town.hands.list(POD_GROUPS, Scope(NS))
        for number in range(60):
            status = {"status": {"phase": "Pending", "pending": number}}
            await town.hands.patch(POD_GROUPS, NS, group["metadata"]["name"], status)
            await asyncio.sleep(60)
        assert town.wire.writes(since=sent) == []
        last = (await town.job())["status"]["conditions"][-1]
        assert (last["type"], last["reason"]) == ("Created", "PodGroupPending")


async def test_events_of_many_pods_are_few_status_writes(town):
    """ascendjob:W-33: 50 pods that start one after the other."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=49)
        await town.until_pods(50)
        await town.turn("Running")
        await town.until_job("Running")
        await asyncio.sleep(5)
    assert sum(map(is_status_patch, town.wire.sent)) < 12
    reasons = await town.reasons()
    assert reasons.count("JobRunning") == 1
