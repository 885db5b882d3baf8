# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What others count on, fault-tolerance.md 2.13, and faults of the original, 2.14."""

from dataclasses import replace

import pytest

from ascendop.builder import labels as keys
from ascendop.errors import InvalidJobError
from ascendop.kube.resource import POD_GROUPS, PODS, SERVICES
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after, gone, is_quiet, turned  # noqa: TID252  likewise
from ..make import job  # noqa: TID252  likewise

LABELS = {"fault-scheduling": "grace", "pod-rescheduling": "on", "ring-controller.atlas": "x"}


def running(obj, **of_world):
    """A job whose pods all run and have been counted."""
    seen = make.snapshot(obj, **of_world)
    seen = turned(after(seen, decide(seen)), "Running")
    return after(seen, decide(seen))


def first_pods(obj):
    return make.created(decide(make.snapshot(obj)))


def test_everything_that_is_made_has_the_job_as_its_controller():
    """fault-tolerance:C-01: clusterd finds the job by the uid in it."""
    seen = make.snapshot(job(), services=())
    made = [
        *make.created(decide(replace(seen, group=None)), POD_GROUPS).values(),
        *make.created(decide(seen), SERVICES).values(),
        *first_pods(job()).values(),
    ]
    assert {obj["kind"] for obj in made} == {"PodGroup", "Service", "Pod"}
    for obj in made:
        (owner,) = obj["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("AscendJob", "j", "U")
        assert owner["controller"] is True


def test_a_pod_is_born_with_what_clusterd_and_volcano_look_for():
    """fault-tolerance:C-02, fault-tolerance:C-09: the rank counts from the master on."""
    for number, (name, pod) in enumerate(first_pods(job(Master=1, Worker=2)).items()):
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        assert labels["job-name"] == "j"
        assert annotations["scheduling.k8s.io/group-name"] == "j-U"
        assert annotations["volcano.sh/task-spec"] == labels["training.kubeflow.org/replica-type"]
        assert annotations["hccl/rankIndex"] == str(number), name


def test_the_group_asks_for_all_pods_and_names_the_job():
    """fault-tolerance:C-03"""
    plan = decide(replace(make.snapshot(job(Master=1, Worker=3)), group=None))
    ((name, group),) = make.created(plan, POD_GROUPS).items()
    assert name == "j-U"
    assert group["spec"]["minMember"] == 4
    assert group["spec"]["minResources"]["huawei.com/Ascend910"] == "32"


def test_job_group_and_pods_agree_on_who_deletes():
    """fault-tolerance:C-06: pods, as in the recordings, say only what their template does."""
    obj = job(labels=LABELS)
    plan = decide(replace(make.snapshot(obj), group=None))
    (group,) = make.created(plan, POD_GROUPS).values()
    found = [o["metadata"]["labels"] for o in (obj, group)]
    assert [labels["fault-scheduling"] for labels in found] == ["grace", "grace"]
    said = {p["metadata"]["labels"].get("fault-scheduling") for p in first_pods(obj).values()}
    assert said == {None}


def test_a_pod_comes_back_with_its_name_its_rank_and_the_next_version():
    """fault-tolerance:C-09, fault-tolerance:C-10, fault-tolerance:D-01"""
    seen = running(job(Master=1, Worker=2))
    before = first_pods(job(Master=1, Worker=2))
    for version in (1, 2, 3):
        plan = decide(gone(seen, "j-worker-1"))
        ((name, pod),) = make.created(plan).items()
        assert name == "j-worker-1"
        assert pod["metadata"]["labels"]["version"] == str(version)
        rank = before[name]["metadata"]["annotations"]["hccl/rankIndex"]
        assert pod["metadata"]["annotations"]["hccl/rankIndex"] == rank
        env, old = make.env_of(pod), make.env_of(before[name])
        assert env["RANK"] == old["RANK"]
        seen = turned(after(gone(seen, "j-worker-1"), plan), "Running")
        seen = after(seen, decide(seen))


def test_no_pod_is_made_while_the_old_one_of_its_name_still_ends():
    """fault-tolerance:C-12"""
    seen = turned(running(job()), "Running", "j-worker-0", deleting=True)
    assert make.created(decide(seen)) == {}
    assert list(make.created(decide(gone(seen, "j-worker-0")))) == ["j-worker-0"]


@pytest.mark.parametrize("phase", ["", "Pending"])
def test_no_pod_is_made_before_the_gang_is_let_in(phase):
    """fault-tolerance:C-12"""
    assert make.created(decide(make.snapshot(job(), group=phase))) == {}


def test_the_master_is_found_by_a_literal_address():
    """fault-tolerance:C-15, and the port has the contract's name and number."""
    for pod in first_pods(job(Master=1, Worker=1)).values():
        assert make.env_of(pod)["MASTER_ADDR"] == make.LEADER_IP
    master = first_pods(job())["j-master-0"]
    (container,) = master["spec"]["containers"]
    assert container["name"] == "ascend"
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("ascendjob-port", 2222)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_job_that_has_ended_holds_no_place_and_says_so_once(phase):
    """fault-tolerance:C-16, fault-tolerance:D-08, fault-tolerance:D-23"""
    policy = {"ttlSecondsAfterFinished": 3600, "cleanPodPolicy": "All"}
    seen = turned(running(job(policy=policy)), phase)
    seen = after(seen, decide(seen))
    assert seen.status["completionTime"]
    plan = decide(seen)
    assert make.deleted(plan, POD_GROUPS) == ["j-U"]
    assert sorted(make.deleted(plan)) == ["j-master-0", "j-worker-0"]
    seen = after(seen, plan)
    assert is_quiet(seen, decide(seen))


def test_the_time_to_live_is_a_timer_of_the_job_s_own():
    """fault-tolerance:D-09: no other event has to happen."""
    seen = turned(running(job(policy={"ttlSecondsAfterFinished": 60})), "Succeeded")
    seen = after(seen, decide(seen))
    seen = after(seen, decide(seen))
    assert decide(seen).again_after_s == 60


def test_the_deadline_is_a_timer_of_the_job_s_own():
    """fault-tolerance:D-10"""
    seen = running(job(policy={"activeDeadlineSeconds": 60}))
    assert decide(seen).again_after_s == 60
    found = make.concluded(decide(replace(seen, now=make.later(61))))
    assert make.conditions(found)[-1] == ("Failed", "True", "DeadlineExceeded")


def test_pods_lost_together_are_one_attempt_and_a_deleted_survivor_is_none():
    """fault-tolerance:D-02"""
    seen = running(job(Master=1, Worker=3))
    lost = gone(seen, "j-master-0", "j-worker-0")
    seen = turned(after(lost, decide(lost)), "Running")
    seen = after(seen, decide(seen))
    lost = gone(seen, "j-worker-2")
    plan = decide(lost)
    (pod,) = make.created(plan).values()
    assert pod["metadata"]["labels"]["version"] == "1"


@pytest.mark.parametrize(
    "of_world",
    [
        pytest.param({"queues_known": False, "queue": None}, id="the list cannot be had"),
        pytest.param({"queues_known": True, "queue": None}, id="the queue is gone"),
    ],
)
def test_no_trouble_with_a_queue_touches_a_job_that_runs(of_world):
    """fault-tolerance:D-05: nor one that has succeeded."""
    named = job(policy={"schedulingPolicy": {"queue": "default"}})
    seen = running(named)
    troubled = replace(seen, world=replace(seen.world, **of_world))
    assert is_quiet(troubled, decide(troubled))
    ended = turned(seen, "Succeeded")
    ended = after(ended, decide(ended))
    ended = after(ended, decide(ended))
    ended = replace(ended, world=replace(ended.world, **of_world))
    assert is_quiet(ended, decide(ended))


def test_one_success_beside_pods_that_wait_is_no_success_of_the_job():
    """fault-tolerance:D-06"""
    seen = turned(running(job(Master=1, Worker=2)), "Pending")
    seen = turned(seen, "Succeeded", "j-worker-0")
    types = {type_ for type_, _, _ in make.conditions(make.concluded(decide(seen)))}
    assert "Succeeded" not in types


def test_an_edit_that_makes_a_running_job_wrong_does_not_kill_it():
    """fault-tolerance:D-17: it is told; its pods run on, and so does the job."""
    seen = running(job())
    wrong = make.snapshot(
        job(framework="none-such"), pods=seen.pods, group=seen.group, status=seen.status
    )
    assert isinstance(wrong.job, InvalidJobError)
    plan = decide(wrong)
    found = make.concluded(plan)
    assert make.writes(plan) == []
    assert make.conditions(found) == make.conditions(make.concluded(decide(seen)))
    assert found.events


def test_a_retry_count_that_is_no_number_is_a_mistake_with_a_name():
    """fault-tolerance:D-03"""
    found = make.concluded(decide(make.snapshot(job(labels={keys.FAULT_RETRY_TIMES: "many"}))))
    assert make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")
    assert keys.FAULT_RETRY_TIMES in found.status["conditions"][-1]["message"]


def test_pods_are_made_one_by_one():
    """fault-tolerance:D-14: no private parameter of the server is needed."""
    found = [
        w for w in make.writes(decide(make.snapshot(job(Worker=3, Master=1)))) if w.resource == PODS
    ]
    assert [write.object["kind"] for write in found] == ["Pod"] * 4
