# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Gangs that real Volcano lets in, or not, on fake nodes that have just so much room.

Beside every test a watch of the server looks whether scheduling.md 8.3 holds: hack/invariants.py.
"""

import time
from contextlib import contextmanager

import pytest

from hack.admin import RefusedError, path_of, wait_for
from hack.controlplane import SHARP, ControlPlane
from hack.invariants import Gangs
from hack.jobs import Job
from hack.watching import Watching

SLOW_S = 120.0
"""A busy machine is no failure."""
STILL_S = 2.5
"""Several cycles of the scheduler: what has not happened by then does not happen."""
NPU = "huawei.com/Ascend910"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
WATCHED = {
    "/api/v1/pods": "Pod",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups": "PodGroup",
    "/apis/mindxdl.gitee.com/v1/ascendjobs": "AscendJob",
}
LOOSE = SHARP.replace("overcommit-factor: 1.0", "overcommit-factor: 4.0").replace(
    "  - name: proportion", "  - name: proportion\n    enableJobEnqueued: false"
)
"""Lets in more than fits, so that placing decides."""
PREEMPTING = LOOSE.replace("backfill", "backfill, reclaim, preempt").replace(
    "overcommit-factor: 4.0}", "overcommit-factor: 4.0}\n    enableJobEnqueued: false"
)
"""Configuration B of scheduling.md 7.3: a more important gang takes the place of another."""


@pytest.fixture(scope="module")
def tight(folder):
    """Volcano that lets in what fits, and two nodes of eight NPUs."""
    with ControlPlane(folder("tight"), volcano=SHARP, kwok=True) as plane:
        for name in ("node-1", "node-2"):
            plane.add_node(name)
        yield plane


@pytest.fixture(scope="module")
def replica(tight, make_replica):
    with make_replica(tight, name="gangs") as found:
        yield found


@pytest.fixture(scope="module")
def gangs(tight):
    found = Gangs()
    with Watching(tight.admin, WATCHED, lambda t, obj: found.saw(t, obj, time.monotonic())) as all_:
        found.lock = all_.lock
        yield found


@pytest.fixture
def cluster(tight, replica, gangs, namespace):
    where = namespace(tight)
    with tight.admin() as admin:
        yield admin, where
        with gangs.lock:
            gangs.look(time.monotonic())
            broken, gangs.broken = gangs.broken, []
    assert broken == []
    tight.check()


# ------------------------------------------------------------ what there is
def gang(cluster, name, pods, npus=8, policy=None, run=None, **options):
    """A job of so many pods, each of which asks for so many NPUs."""
    admin, where = cluster
    asked = {"requests": {NPU: str(npus), "cpu": "1"}, "limits": {NPU: str(npus)}}
    container = {"name": "ascend", "image": "train:1", "resources": asked}
    roles = {"Master": 1, "Worker": pods - 1}
    job = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": name, "labels": {"framework": "pytorch"}},
        "spec": {
            "replicaSpecs": {
                role: {"replicas": count, "template": {"spec": {"containers": [container]}}}
                for role, count in roles.items()
                if count
            },
            "runPolicy": {**({"schedulingPolicy": policy} if policy else {}), **(run or {})},
        },
    }
    return Job(admin, where, job, **options)


def scale(job, workers):
    job.patch(job.asked, {"spec": {"replicaSpecs": {"Worker": {"replicas": workers}}}})


@contextmanager
def queue(admin, name, **spec):
    """A queue of its own, open, for a `with` block."""
    body = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, "reclaimable": True, **spec},
    }
    admin.create(body)
    try:
        wait_for(f"queue {name} is open", lambda: state_of(admin, name) == "Open", SLOW_S)
        yield
    finally:
        admin.ask("DELETE", f"{QUEUES}/{name}")


def state_of(admin, name):
    return admin.request("GET", f"{QUEUES}/{name}").get("status", {}).get("state", "")


def command(admin, action, name, state):
    """What `vcctl queue operate` does: CloseQueue or OpenQueue."""
    meta = admin.request("GET", f"{QUEUES}/{name}")["metadata"]
    target = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "name": name,
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": f"{name}-", "ownerReferences": [target]},
        "target": target,
        "action": action,
    }
    admin.request("POST", "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands", body)
    wait_for(f"{name} is {state}", lambda: state_of(admin, name) in state, SLOW_S)


def says(job, *parts):
    """Wait until the job's Created condition has all of this; its text."""

    def found():
        text = job.conditions.get("Created", {}).get("message", "")
        return text if all(part in text for part in parts) else ""

    return wait_for(f"{job.name} says {parts}", found, SLOW_S)


def waits(job, phase="Pending"):
    """Wait until its PodGroup is in this phase and stays there, without a pod."""

    def there():
        return [group.get("status", {}).get("phase", "") for group in job.pod_groups] == [phase]

    wait_for(f"{job.name} is {phase}", there, SLOW_S)
    time.sleep(STILL_S)
    assert there() and job.pods == []


def runs(job, pods):
    found = job.wait_pods(pods, "Running", SLOW_S)
    job.wait("Running", SLOW_S)
    return found


def ends(job, state="Succeeded"):
    job.wait(state, SLOW_S)
    wait_for(f"{job.name} has no PodGroup", lambda: not job.pod_groups, SLOW_S)


def group_of(job):
    (group,) = job.pod_groups
    return group


# ------------------------------------------------------------ room
def test_a_gang_that_does_not_fit_starts_no_pod_and_says_why_until_a_node_comes(cluster, tight):
    """scheduling:P1"""
    job = gang(cluster, "big", 3)
    job.create()
    text = says(job, "24 huawei.com/Ascend910", "2 nodes have 16 in all")
    assert text.startswith("the cluster resource is not enough: the gang of 3 pods asks for ")
    wait_for("an Event says the same", lambda: ("Unschedulable", text) in job.events, SLOW_S)
    assert job.pods == []
    tight.add_node("node-3")
    try:
        runs(job, 3)
        ranks = {p["metadata"]["annotations"]["hccl/rankIndex"] for p in job.pods}
        assert ranks == {"0", "1", "2"}
    finally:
        job.delete()
        job.admin.request("DELETE", "/api/v1/nodes/node-3")


def test_two_gangs_that_fit_one_at_a_time_both_end(cluster, gangs):
    """scheduling:P3: the second has no pod, not one, until the first has ended."""
    first, second = (gang(cluster, name, 2, outcome="succeed", after="3s") for name in "ab")
    first.create()
    second.create()
    most = 0

    def over():
        nonlocal most
        with gangs.lock:
            most = max(most, gangs.held(NPU))
        for job in (first, second):
            job.give_devices()
        return all("Succeeded" in job.conditions for job in (first, second))

    wait_for("both have ended", over, SLOW_S)
    assert most == 16
    for job in (first, second):
        reasons = [reason for reason, _ in job.events]
        assert reasons.count("SuccessfulCreatePod") == 2


def test_of_two_gangs_that_were_both_let_in_one_is_placed_whole_and_then_the_other(cluster, tight):
    """scheduling:P2: all four pods are there, and two nodes have room for two of them."""
    tight.configure_volcano(LOOSE)
    try:
        jobs = [gang(cluster, name, 2, npus=6) for name in "ab"]
        for job in jobs:
            job.create()
        for job in jobs:
            job.wait_pods(2, timeout_s=SLOW_S)
        (first,) = wait_for("one runs", lambda: [j for j in jobs if placed(j) == 2], SLOW_S)
        (second,) = (job for job in jobs if job is not first)
        time.sleep(STILL_S)
        assert placed(second) == 0
        says(second, "the gang of 2 pods asks for 12 huawei.com/Ascend910, and 4 of 16")
        assert "Volcano says: " in second.conditions["Created"]["message"]
        first.tell("succeed")
        ends(first)
        runs(second, 2)
    finally:
        tight.configure_volcano(SHARP)


def placed(job):
    return sum(bool(pod["spec"].get("nodeName")) for pod in job.pods)


def test_a_small_gang_passes_a_big_one_that_does_not_fit(cluster):
    """scheduling:P28"""
    big, small = gang(cluster, "big", 3), gang(cluster, "small", 1)
    big.create()
    waits(big)
    small.create()
    runs(small, 1)
    assert big.pods == []


@pytest.mark.long
def test_many_gangs_never_hold_more_than_there_is_and_all_end(cluster, gangs):
    """scheduling:P22: a gang that was not let in has no pod."""
    jobs = [gang(cluster, f"j{n}", 4, 1, outcome="succeed", after="1s") for n in range(20)]
    for job in jobs:
        job.create()
    most, waited = 0, 0

    def over():
        nonlocal most, waited
        with gangs.lock:
            most = max(most, gangs.held(NPU))
        left = [job for job in jobs if "Succeeded" not in job.conditions]
        for job in left:
            job.give_devices()
            pods = job.pods
            if [g.get("status", {}).get("phase") for g in job.pod_groups] == ["Pending"]:
                assert pods == []
                waited += 1
        return not left

    wait_for("all have ended", over, 2 * SLOW_S)
    assert 0 < most <= 16 and waited


def test_a_gang_that_is_preempted_waits_as_the_same_gang_and_comes_back(cluster, tight):
    """scheduling:P4: it has not failed, and its PodGroup is the one it had."""
    admin, _ = cluster
    for name, value in (("high", 1000), ("low", 1)):
        meta = {"name": name}
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        admin.ensure({**kind, "metadata": meta, "value": value})
    tight.configure_volcano(PREEMPTING)
    try:
        low = gang(cluster, "low", 2, policy={"priorityClass": "low"})
        low.create()
        uids, before = runs(low, 2), group_of(low)["metadata"]["uid"]
        high = gang(cluster, "high", 2, policy={"priorityClass": "high"})
        high.create()
        runs(high, 2)
        wait_for("its pods wait again", lambda: placed(low) == 0 and len(low.pods) == 2, SLOW_S)
        assert "Failed" not in low.conditions
        assert group_of(low)["metadata"]["uid"] == before
        high.tell("succeed")
        ends(high)
        again = runs(low, 2)
        assert again.keys() == uids.keys() and not set(again.values()) & set(uids.values())
        assert group_of(low)["metadata"]["uid"] == before
    finally:
        tight.configure_volcano(SHARP)


def test_an_important_gang_preempts_nobody_where_it_is_not_let_in(cluster):
    """scheduling:P7: what Volcano does as it is delivered; and we do not promise otherwise."""
    low = gang(cluster, "low", 2)
    low.create()
    uids = runs(low, 2)
    admin, _ = cluster
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    admin.ensure({**kind, "metadata": {"name": "high"}, "value": 1000})
    high = gang(cluster, "high", 2, policy={"priorityClass": "high"})
    high.create()
    text = says(high, "asks for 16 huawei.com/Ascend910, and 0 of 16 on 2 nodes are free")
    assert "preempt" not in text and high.pods == [] and low.uids == uids


# ------------------------------------------------------------ queues
def test_a_queue_that_is_not_there_is_a_mistake_of_a_new_job(cluster):
    """ascendjob:V13: so says the kind's contract, other than scheduling.md P10."""
    job = gang(cluster, "lost", 1, policy={"queue": "nowhere"})
    job.create()
    assert "nowhere" in job.wait("Failed", SLOW_S)["message"]
    assert job.pods == [] and job.pod_groups == []


def test_a_queue_that_goes_while_a_job_waits_is_named_and_no_end(cluster):
    """scheduling:P10"""
    admin, _ = cluster
    job = gang(cluster, "left", 3, policy={"queue": "brief"})
    with queue(admin, "brief"):
        job.create()
        wait_for("it waits", lambda: "Created" in job.conditions, SLOW_S)
    says(job, "there is no queue brief")
    assert "Failed" not in job.conditions and job.pods == []
    scale(job, 1)
    with queue(admin, "brief"):
        runs(job, 2)
        job.delete()
        wait_for("it is gone", lambda: not job.pod_groups, SLOW_S)


def test_a_closed_queue_keeps_new_jobs_out_and_lets_running_ones_run(cluster):
    """scheduling:P9"""
    admin, _ = cluster
    with queue(admin, "team"):
        old, new = (gang(cluster, name, 1, policy={"queue": "team"}) for name in ("old", "new"))
        old.create()
        uids = runs(old, 1)
        command(admin, "CloseQueue", "team", {"Closed", "Closing"})
        new.create()
        assert says(new, "queue team is Clos").startswith("the cluster resource is not enough: ")
        assert new.pods == [] and old.uids == uids
        command(admin, "OpenQueue", "team", {"Open"})
        runs(new, 1)
        assert old.uids == uids
        for job in (old, new):
            job.delete()
        wait_for("both are gone", lambda: not (old.pod_groups or new.pod_groups), SLOW_S)


def test_a_queue_that_may_hold_no_more_is_named_with_numbers(cluster):
    """scheduling:P8"""
    admin, _ = cluster
    with queue(admin, "small", capability={NPU: "8"}):
        first, second = (gang(cluster, name, 1, policy={"queue": "small"}) for name in "ab")
        first.create()
        runs(first, 1)
        second.create()
        says(second, "the one pod asks for 8 huawei.com/Ascend910, and queue small has 0 of its 8")
        assert second.pods == []
        first.tell("succeed")
        ends(first)
        runs(second, 1)
        second.delete()
        wait_for("it is gone", lambda: not second.pod_groups, SLOW_S)


# ------------------------------------------------------------ Volcano
def test_a_job_that_came_while_the_scheduler_was_down_starts_when_it_is_back(cluster, tight):
    """scheduling:P17"""
    scheduler = tight.process("vc-scheduler")
    scheduler.stop()
    try:
        job = gang(cluster, "early", 2)
        job.create()
        wait_for(
            "it says so",
            lambda: job.conditions.get("Created", {}).get("reason") == "PodGroupNotInitialized",
            SLOW_S,
        )
        time.sleep(STILL_S)
        assert job.pods == []
    finally:
        scheduler.start()
    runs(job, 2)
    assert len([r for r, _ in job.events if r == "SuccessfulCreatePod"]) == 2


def test_a_job_says_that_there_is_no_volcano_and_starts_when_it_is_installed(folder, make_replica):
    """Without a restart of the operator, and without a touch of the job."""
    plane = ControlPlane(folder("late"), groups=False, kwok=True)
    with plane, make_replica(plane, name="late") as replica, plane.admin() as admin:
        plane.add_node("node-1")
        job = gang((admin, "default"), "early", 1)
        job.create()
        text = says(job, "install Volcano, or turn gang scheduling off")
        assert "does not serve podgroups.scheduling.volcano.sh" in text
        assert job.conditions["Created"]["reason"] == "SyncPodGroupFailed" and job.pods == []
        plane.install_volcano(SHARP)
        runs(job, 1)
        assert group_of(job)["spec"]["minMember"] == 1
        assert replica.process.running


# ------------------------------------------------------------ people
def test_a_pod_group_that_is_deleted_by_hand_comes_back_and_no_pod_goes(cluster):
    """scheduling:P16, scheduling:SCH-24"""
    job = gang(cluster, "robbed", 2)
    job.create()
    uids = runs(job, 2)
    before = group_of(job)
    job.admin.request("DELETE", path_of(before))

    def again():
        groups = job.pod_groups
        return groups and groups[0]["metadata"]["uid"] != before["metadata"]["uid"]

    wait_for("there is another", again, SLOW_S)
    assert group_of(job)["spec"] == before["spec"]
    wait_for(
        "and it runs", lambda: group_of(job).get("status", {}).get("phase") == "Running", SLOW_S
    )
    assert job.uids == uids and "Running" in job.conditions


def test_a_gang_that_waits_asks_for_what_its_job_asks_for_now(cluster):
    """scheduling:C13, scheduling:SCH-20: one patch, and what others have written stays."""
    job = gang(cluster, "grows", 3)
    job.create()
    waits(job)
    note = {"huawei.com/schedule_enqueue_time": "1"}
    job.patch(group_of(job), {"metadata": {"annotations": note}})
    scale(job, 4)
    wait_for("it asks for five", lambda: group_of(job)["spec"]["minMember"] == 5, SLOW_S)
    spec, meta = group_of(job)["spec"], group_of(job)["metadata"]
    assert spec["minTaskMember"] == {"master": 1, "worker": 4}
    assert spec["minResources"] == {"cpu": "5", NPU: "40"}
    assert meta["annotations"].items() >= note.items()
    scale(job, 1)
    runs(job, 2)
    assert group_of(job)["metadata"]["annotations"].items() >= note.items()


def test_a_running_gang_grows_and_shrinks_and_grows_beyond_the_room(cluster):
    """scheduling:P27"""
    job = gang(cluster, "elastic", 2, npus=4)
    job.create()
    uids = runs(job, 2)
    scale(job, 3)
    more = job.wait_pods(4, "Running", SLOW_S)
    assert more.items() >= uids.items()
    scale(job, 1)
    assert job.wait_pods(2, "Running", SLOW_S) == uids
    wait_for("the gang is two", lambda: group_of(job)["spec"]["minMember"] == 2, SLOW_S)
    scale(job, 4)
    wait_for("all pods are made", lambda: len(job.pods) == 5, SLOW_S)
    time.sleep(STILL_S)
    assert job.uids.items() >= uids.items()
    assert [job.phases[name] for name in uids] == ["Running", "Running"]
    assert "Running" in job.conditions and "Failed" not in job.conditions


# ------------------------------------------------------------ what is left over
def test_a_quota_for_half_a_gang_binds_no_half_and_is_named(cluster):
    """scheduling:P21"""
    admin, where = cluster
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": where},
        "spec": {"hard": {"pods": "1"}},
    }
    admin.create(quota)
    path = f"/api/v1/namespaces/{where}/resourcequotas/few"
    wait_for(
        "the quota counts", lambda: admin.request("GET", path).get("status", {}).get("hard"), SLOW_S
    )
    job = gang(cluster, "half", 2)
    job.create()
    says(job, "exceeded quota: few")
    time.sleep(STILL_S)
    assert placed(job) == 0 and "Failed" not in job.conditions
    job.patch(quota, {"spec": {"hard": {"pods": "2"}}})
    runs(job, 2)


@pytest.mark.parametrize(
    "how", ["ended", "failed", "deleted while it waited", "deleted while it ran", "deleted at once"]
)
def test_what_a_job_leaves_behind_does_not_starve_the_next(how, cluster):
    """scheduling:P12, scheduling:P26"""
    old = gang(cluster, "j", 2, run={"cleanPodPolicy": "Running"})
    old.create()
    if how == "deleted while it waited":
        scale(old, 2)
        wait_for("it has a PodGroup", lambda: old.pod_groups, SLOW_S)
    elif how != "deleted at once":
        runs(old, 2)
    if how == "ended":
        old.tell("succeed")
        ends(old)
    elif how == "failed":
        old.tell("fail", "j-worker-0")
        ends(old, "Failed")
        wait_for("nothing of it runs", lambda: "Running" not in old.phases.values(), SLOW_S)
    new = gang(cluster, "next", 2)
    if how.startswith("deleted"):
        old.delete()
        new = gang(cluster, "j", 2)  # under the same name, too
        wait_for("it is gone", lambda: created(new), SLOW_S)
    else:
        new.create()
    runs(new, 2)
    assert len(new.pod_groups) == 1


def created(job):
    """Whether the name was free."""
    try:
        job.create()
    except RefusedError:
        return False
    return True
