# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is made for a job, and when; ascendjob.md 4, 12.2 and 12.3."""

from dataclasses import replace

import pytest

from ascendop.apply.plan import Failure
from ascendop.builder.names import MAX_NAME
from ascendop.kube.resource import POD_GROUPS, SERVICES
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after  # noqa: TID252  likewise
from ..make import container, job, replica  # noqa: TID252  likewise


def group_of(obj, **of_world):
    plan = decide(make.snapshot(obj, group=make.group("Running", name="other"), **of_world))
    return next(iter(make.created(plan, POD_GROUPS).values()), None)


def test_p4_the_user_s_least_number_is_the_gang_s():
    """ascendjob:P4"""
    policy = {"schedulingPolicy": {"minAvailable": 1, "queue": "default"}}
    spec = group_of(job(policy=policy, Master=1, Worker=3))["spec"]
    assert (spec["minMember"], spec["minTaskMember"]) == (1, {"master": 1, "worker": 3})
    assert spec["minResources"] == {"huawei.com/Ascend910": "8"}


def test_p7_a_recover_strategy_even_an_empty_one_marks_the_gang():
    """ascendjob:P7"""
    meta = group_of(job(annotations={"recover-strategy": ""}))["metadata"]
    assert meta["labels"]["process-recover-enable"] == "on"


def test_what_is_odd_about_a_gang_is_told_when_it_is_made_and_never_again():
    """scheduling:SCH-65: who wrote it learns of it before wondering why nothing starts."""
    policy = {"schedulingPolicy": {"minAvailable": 9}}
    seen = replace(make.snapshot(job(policy=policy)), group=None)
    plan = decide(seen)
    (event,) = make.concluded(plan).events
    assert (event.type, event.reason) == ("Warning", "GangNeverFits")
    assert event.note.startswith("schedulingPolicy.minAvailable: is 9, but the job has 2 pods")
    assert make.concluded(decide(after(seen, plan))).events == ()


def test_p13_limits_count_where_there_are_no_requests():
    """ascendjob:P13"""
    cpu = container(npus=0, resources={"limits": {"cpu": 2}})
    spec = group_of(job(Master=replica(1, cpu), Worker=replica(1, cpu)))["spec"]
    assert spec["minResources"] == {"cpu": "4"}


@pytest.mark.parametrize(
    ("phase", "reason", "message"),
    [
        pytest.param(
            "",
            "PodGroupNotInitialized",
            "volcano-scheduler is maybe not running, execute command to check the status: "
            "kubectl get pod -n volcano-system -l app=volcano-scheduler",
            id="ascendjob:P8 no phase",
        ),
        pytest.param(
            "Pending",
            "PodGroupPending",
            "the cluster resource is not enough",
            id="ascendjob:P9 pending",
        ),
    ],
)
def test_while_the_gang_waits_nothing_but_its_group_is_made(phase, reason, message):
    seen = make.snapshot(job(), services=(), group=phase)
    plan = decide(seen)
    found = make.concluded(plan)
    assert plan.steps == ()
    assert make.conditions(found) == [("Created", "True", reason)]
    assert found.status["conditions"][0]["message"] == message
    assert found.status["lastReconcileTime"] == "2026-01-02T03:04:05Z"
    assert "startTime" not in found.status


def test_a_job_that_goes_on_waiting_is_not_written_again():
    """ascendjob:W-34"""
    seen = make.snapshot(job(), services=(), group="Pending")
    waiting = make.concluded(decide(seen)).status
    later = make.snapshot(job(), services=(), group="Pending", status=waiting, now=make.later(3600))
    assert make.unchanged(waiting, make.concluded(decide(later)))


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_p10_when_the_gang_is_let_in_the_service_comes_first_and_then_all_pods(phase):
    """ascendjob:P10"""
    seen = make.snapshot(job(Master=1, Worker=3), services=(), group=phase)
    plan = decide(seen)
    assert list(make.created(plan, SERVICES)) == ["j-master-0"]
    assert make.created(plan) == {}
    assert plan.at_once
    plan = decide(after(seen, plan))
    assert list(make.created(plan)) == ["j-master-0", "j-worker-0", "j-worker-1", "j-worker-2"]


def test_no_pod_is_made_before_the_service_has_an_address():
    seen = make.snapshot(job(), services=[make.service(ip="")])
    assert make.created(decide(seen)) == {}


@pytest.mark.parametrize(
    ("step", "resource", "services", "want"),
    [
        pytest.param("group", POD_GROUPS, (), "SyncPodGroupFailed", id="ascendjob:P11 the group"),
        pytest.param("services", SERVICES, (), "SyncServiceFailed", id="the Service"),
    ],
)
def test_what_the_server_refuses_stands_in_the_created_condition(step, resource, services, want):
    drifted = make.group("Inqueue", name="j-U") if step == "group" else None
    plan = decide(make.snapshot(job(), services=services, group=drifted))
    write = make.writes(plan, step=step)[0]
    found = make.concluded(plan, Failure(step, write, "quota is used up"))
    last = found.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Created", want)
    assert "quota is used up" in last["message"]
    assert [event.reason for event in found.events] == [f"FailedCreate{resource.kind}"]


def test_s7_a_refused_pod_stands_in_the_created_condition_of_a_running_job():
    """ascendjob:S7: the State column shows Created."""
    running = {"conditions": [{"type": "Running", "status": "True", "reason": "JobRunning"}]}
    plan = decide(make.snapshot(job(), pods=[make.pod("master")], status=running))
    refused = make.writes(plan, step="pods")[0]
    found = make.concluded(plan, Failure("pods", refused, "exceeded quota"))
    assert make.conditions(found)[-1] == ("Created", "True", "PodCreateFailed")
    said = "failed to create pods of type<Worker>: exceeded quota"
    assert found.status["conditions"][-1]["message"] == said, "ascendjob.md 1.8, word for word"
    both = [make.pod("master"), make.pod("worker")]
    again = make.concluded(decide(make.snapshot(job(), pods=both, status=found.status)))
    assert make.conditions(again)[-1] == ("Running", "True", "JobRunning"), "it is over"
    assert not again.events, "and was told before"


def test_an_attempt_that_cannot_be_written_down_is_told_for_no_pod_follows():
    running = {
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Running", "status": "True", "reason": "JobRunning"}],
    }
    plan = decide(make.snapshot(job(), pods=[make.pod("master")], status=running))
    (patch,) = make.writes(plan, step="attempt")
    found = make.concluded(plan, Failure("attempt", patch, "annotations: Too long"))
    assert make.conditions(found)[-1] == ("Created", "True", "PodCreateFailed")
    assert "Too long" in found.status["conditions"][-1]["message"]
    assert [e.reason for e in found.events if e.type == "Warning"] == ["FailedUpdateJob"]


def test_a_name_that_is_not_free_yet_is_no_failure():
    plan = decide(make.snapshot(job()))
    taken = make.writes(plan, step="pods")[0]
    found = make.concluded(plan, Failure("pods", taken, "on its way out", waits=True))
    assert "PodCreateFailed" not in {reason for _, _, reason in make.conditions(found)}
    assert not [event for event in found.events if event.type == "Warning"]


def test_p12_without_a_gang_pods_come_at_once_and_know_of_none():
    """ascendjob:P12: who schedules them is the template's word; the job's own does not count."""
    theirs = replica(1, spec={"schedulerName": "bar"})
    obj = job(spec={"schedulerName": "foo"}, Master=1, Worker=theirs)
    plan = decide(make.snapshot(obj, gang=False))
    assert make.created(plan, POD_GROUPS) == {}
    made = make.created(plan)
    assert {name: pod["spec"].get("schedulerName") for name, pod in made.items()} == {
        "j-master-0": None,
        "j-worker-0": "bar",
    }
    for pod in made.values():
        assert list(pod["metadata"]["annotations"]) == ["hccl/rankIndex"]
    assert not [event for event in make.concluded(plan).events if event.type == "Warning"]


def test_without_volcano_a_gang_waits_and_says_so():
    found = make.concluded(decide(make.snapshot(job(), groups_served=False, group=None)))
    last = found.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Created", "SyncPodGroupFailed")
    assert "install Volcano" in last["message"]


def test_d5_a_scheduler_with_chips_is_rank_zero_and_workers_follow():
    """ascendjob:D5"""
    obj = job("mindspore", Scheduler=1, Worker=3)
    made = make.created(decide(make.snapshot(obj)))
    ranks = {name: pod["metadata"]["annotations"]["hccl/rankIndex"] for name, pod in made.items()}
    assert ranks == {
        "j-scheduler-0": "0", "j-worker-0": "1", "j-worker-1": "2", "j-worker-2": "3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "template", "want", "warning"),
    [
        pytest.param({}, None, "volcano", None, id="ascendjob:D6 none named"),
        pytest.param(
            {"schedulerName": "foo"}, None, "foo", "SettedJobSchedulerName", id="D6 by the job"
        ),
        pytest.param({}, "bar", "bar", "SettedPodTemplateSchedulerName", id="D6 by the template"),
    ],
)
def test_d6_who_schedules_a_pod(spec, template, want, warning):
    """ascendjob:D6"""
    in_template = {"schedulerName": template} if template else {}
    obj = job(spec=spec, Master=replica(1, spec=in_template))
    plan = decide(make.snapshot(obj))
    assert make.created(plan)["j-master-0"]["spec"]["schedulerName"] == want
    warned = [event.reason for event in make.concluded(plan).events if event.type == "Warning"]
    assert warned == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("policy", "template", "want", "warnings"),
    [
        pytest.param("ExitCode", None, "Never", [], id="ascendjob:D7 exit codes are ours"),
        pytest.param(
            "OnFailure",
            "Never",
            "OnFailure",
            ["SettedPodTemplateRestartPolicy"],
            id="ascendjob:D7 the template's word does not count",
        ),
        pytest.param(None, None, "Never", [], id="ascendjob:D7 nothing said"),
    ],
)
def test_whether_a_container_is_restarted(policy, template, want, warnings):
    """field-reports:FR-017"""
    in_template = {"restartPolicy": template} if template else {}
    obj = job(Master=replica(1, policy=policy, spec=in_template))
    plan = decide(make.snapshot(obj))
    assert make.created(plan)["j-master-0"]["spec"]["restartPolicy"] == want
    found = [event.reason for event in make.concluded(plan).events if event.type == "Warning"]
    assert found == warnings


def test_d10_a_service_of_somebody_else_is_told_in_the_contract_s_words():
    """What is in the way is in the message; the Event has the reason that all kinds share."""
    plan = decide(make.snapshot(job(), services=()))
    (write,) = make.writes(plan, step="services")
    taken = Failure("services", write, "belongs to nobody", reason="ChildConflict")
    found = make.concluded(plan, taken)
    assert make.conditions(found)[-1] == ("Created", "True", "SyncServiceFailed")
    assert "ChildConflict" in {event.reason for event in found.events}


def test_d10_a_service_without_the_contract_s_port_makes_no_pod():
    """ascendjob:D10"""
    seen = make.snapshot(job(), services=[make.service(ports=(("http", 80),))])
    plan = decide(seen)
    found = make.concluded(plan)
    assert make.created(plan) == {}
    assert make.conditions(found)[-1] == ("Created", "True", "SyncServiceFailed")


def test_d13_surplus_pods_go_when_a_role_shrinks():
    """ascendjob:W-12 ascendjob:D13"""
    pods = [make.pod("master"), *(make.pod("worker", i) for i in range(4))]
    plan = decide(make.snapshot(job(Master=1, Worker=2), pods=pods))
    assert make.deleted(plan) == ["j-worker-2", "j-worker-3"]
    assert make.created(plan) == {}
    assert plan.destructive


def test_of_two_pods_in_one_slot_the_newest_stays_and_counts():
    """fault-tolerance:D-18: by attempt, whatever it is called; its slot is not lost meanwhile."""
    old = make.pod("worker", 0, "Failed")
    new = make.pod("worker", 0, name="by-hand", uid="uid-new", attempt=1)
    status = {"startTime": "2026-01-01T00:00:00Z"}
    plan = decide(make.snapshot(job(), pods=[make.pod("master"), old, new], status=status))
    assert make.deleted(plan) == ["j-worker-0"]
    found = make.concluded(plan)
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
    assert found.status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 1}}
    plan = decide(make.snapshot(job(), pods=[make.pod("master"), new], status=found.status))
    assert make.deleted(plan) == []
    assert make.created(plan) == {}
    assert '"attempt":1' in str([write.body for write in make.writes(plan, step="attempt")])


def test_of_two_pods_of_one_attempt_the_one_that_we_have_named_stays():
    """fault-tolerance:D-18"""
    twin = make.pod("worker", 0, name="x-by-hand", uid="uid-twin")
    plan = decide(make.snapshot(job(), pods=[make.pod("master"), make.pod("worker"), twin]))
    assert make.deleted(plan) == ["x-by-hand"]


def test_a_backup_is_no_second_pod_of_its_slot():
    """fault-tolerance:D-18: the one case in which two are legal."""
    backup = make.pod("worker", 0, name="j-worker-0-hot-1", annotations=(("podType", "backup"),))
    plan = decide(make.snapshot(job(), pods=[make.pod("master"), make.pod("worker"), backup]))
    assert make.deleted(plan) == []


@pytest.mark.parametrize(
    ("exit_code", "deleted", "state"),
    [
        pytest.param(137, ["j-worker-0"], "Restarting", id="ascendjob:D14 a signal"),
        pytest.param(1, [], "Failed", id="ascendjob:D14 the program's own word"),
        pytest.param(None, ["j-worker-0"], "Restarting", id="ascendjob:D14 nobody knows"),
    ],
)
def test_an_exit_code_decides_on_another_try(exit_code, deleted, state):
    pods = [make.pod("master"), make.pod("worker", 0, "Failed", exit_code=exit_code)]
    obj = job(Master=replica(1, policy="ExitCode"), Worker=replica(1, policy="ExitCode"))
    plan = decide(make.snapshot(obj, pods=pods))
    found = make.concluded(plan)
    assert make.deleted(plan) == deleted
    assert make.conditions(found)[-1][0] == state
    if state == "Restarting":
        told = [(e.type, e.reason) for e in found.events if e.reason == "jobRestarting"]
        assert told == [("Warning", "jobRestarting"), ("Normal", "jobRestarting")]


def test_another_job_s_dates_and_labels_do_not_reach_its_pods():
    """A job's own labels are not copied to its pods: ascendjob.md 1.4."""
    pod = make.created(decide(make.snapshot(job(labels={"team": "x"}))))["j-master-0"]
    assert "team" not in pod["metadata"]["labels"]
    assert "framework" not in pod["metadata"]["labels"]


def test_every_name_given_is_one_that_a_server_takes():
    obj = job(name="x" * (MAX_NAME - len("-master-0")))
    made = make.created(decide(make.snapshot(obj)))
    assert all(len(name) <= MAX_NAME for name in made)
    assert len(made) == 2


def test_a_job_being_deleted_is_left_to_the_garbage_collector():
    seen = make.snapshot(job(), job_row=make.row(job(), deleting=True))
    plan = decide(seen)
    assert plan.steps == ()
    assert make.concluded(plan) is None


def test_a_job_of_another_controller_is_left_alone():
    obj = job(policy={"managedBy": "kueue.x-k8s.io/multikueue"})
    plan = decide(make.snapshot(obj))
    assert plan.steps == ()
    assert make.concluded(plan) is None
