# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a job stands, from its pods; ascendjob.md 1.8, 7 and 12.6."""

import pytest

from ascendop.kube.resource import POD_GROUPS, SERVICES
from ascendop.reconciler.attempts import Attempts
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after, gone, is_quiet, turned  # noqa: TID252  likewise
from ..make import job, pod  # noqa: TID252  likewise


def running(obj, **of_world):
    """A job whose pods all run and have been counted."""
    seen = make.snapshot(obj, **of_world)
    seen = turned(after(seen, decide(seen)), "Running")
    return after(seen, decide(seen))


def concluded(obj, *pods, **of_world):
    return make.concluded(decide(make.snapshot(obj, pods=pods, **of_world)))


def test_s1_one_running_pod_makes_a_job_run():
    """ascendjob:S1"""
    found = concluded(job(), pod("master"), pod("worker", 0, "Pending"))
    assert make.conditions(found) == [
        ("Created", "True", "JobCreated"),
        ("Running", "True", "JobRunning"),
    ]
    assert found.status["conditions"][-1]["message"] == "Job ns/j is running."
    assert found.status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {}}
    assert found.status["startTime"] == "2026-01-02T03:04:05Z"
    assert [event.reason for event in found.events] == ["JobRunning"]


def test_s2_a_job_succeeds_when_all_pods_have():
    """ascendjob:W-30 ascendjob:S2: then its PodGroup goes and its pods stay."""
    seen = turned(running(job()), "Succeeded")
    plan = decide(seen)
    found = make.concluded(plan)
    assert make.conditions(found)[-2:] == [
        ("Running", "False", "JobRunning"),
        ("Succeeded", "True", "JobRunning"),
    ]
    assert found.status["conditions"][-1]["message"] == "Job<ns-j> successfully completed."
    assert found.status["completionTime"] == "2026-01-02T03:04:05Z"
    plan = decide(after(seen, plan))
    assert make.deleted(plan, POD_GROUPS) == ["j-U"]
    assert make.deleted(plan) == []


def test_s3_a_pending_worker_is_no_success():
    """ascendjob:W-13 ascendjob:S3"""
    seen = turned(turned(running(job()), "Succeeded", "j-master-0"), "Pending", "j-worker-0")
    plan = decide(seen)
    found = make.concluded(plan)
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning"), "still"
    assert found.status["replicaStatuses"] == {"Master": {"succeeded": 1}, "Worker": {}}
    assert "completionTime" not in found.status
    assert plan.steps == (), "the pending pod may still run"


def test_s4_a_failed_pod_fails_the_job_and_leaves_the_others():
    """ascendjob:S4"""
    seen = turned(running(job()), "Failed", "j-worker-0")
    plan = decide(seen)
    found = make.concluded(plan)
    assert make.conditions(found)[-1] == ("Failed", "True", "JobFailed")
    assert found.status["conditions"][-1]["message"] == (
        "Job <ns/j> has failed because has pod failed."
    )
    assert found.status["completionTime"]
    plan = decide(after(seen, plan))
    assert make.deleted(plan, POD_GROUPS) == ["j-U"]
    assert make.deleted(plan) == []


def test_s5_a_failed_pod_on_its_way_out_does_not_count():
    """ascendjob:S5"""
    found = concluded(job(), pod("master"), pod("worker", 0, "Failed", deleting=True))
    assert "Failed" not in {type_ for type_, _, _ in make.conditions(found)}
    assert found.status["replicaStatuses"]["Worker"] == {}


@pytest.mark.parametrize(
    ("policy", "pods", "services"),
    [
        pytest.param("Running", ["j-master-0"], ["j-master-0"], id="ascendjob:S6 running ones"),
        pytest.param("All", ["j-master-0", "j-worker-0"], ["j-master-0"], id="ascendjob:S6 all"),
        pytest.param("None", [], [], id="ascendjob:S6 none"),
    ],
)
def test_which_pods_go_when_a_job_has_failed(policy, pods, services):
    """field-reports:FR-020 field-reports:FR-023"""
    seen = turned(running(job(policy={"cleanPodPolicy": policy})), "Failed", "j-worker-0")
    plan = decide(after(seen, decide(seen)))
    assert make.deleted(plan) == pods
    assert make.deleted(plan, SERVICES) == services


def test_a_service_goes_with_its_pod_also_when_that_has_gone_before():
    """fault-tolerance:3.5 finish-recorded: killed between the two deletions."""
    seen = turned(running(job(policy={"cleanPodPolicy": "Running"})), "Failed", "j-worker-0")
    seen = after(seen, decide(seen))
    for left in (gone(seen, "j-master-0"), turned(seen, "Running", "j-master-0", deleting=True)):
        assert make.deleted(decide(left), SERVICES) == ["j-master-0"]


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        pytest.param(None, ["j-master-0"], id="nothing said"),
        pytest.param("None", [], id="the job's own word stands"),
        pytest.param("All", ["j-master-0", "j-worker-0"], id="so does this one"),
    ],
)
def test_survivors_of_a_failure_go_where_the_operator_is_told_to_stop_them(policy, gone):
    """ascendjob:W-20"""
    policies = {"cleanPodPolicy": policy} if policy else {}
    seen = turned(running(job(policy=policies), stop_survivors=True), "Failed", "j-worker-0")
    assert make.deleted(decide(after(seen, decide(seen)))) == gone


def test_pods_of_a_success_stay_where_survivors_of_a_failure_are_stopped():
    """ascendjob:W-20"""
    seen = turned(running(job(), stop_survivors=True), "Succeeded")
    assert make.deleted(decide(after(seen, decide(seen)))) == []


def test_pending_pods_go_at_the_end_whatever_the_policy():
    seen = running(job(Master=1, Worker=2))
    seen = turned(turned(seen, "Failed", "j-worker-0"), "Pending", "j-worker-1")
    plan = decide(after(seen, decide(seen)))
    assert make.deleted(plan) == ["j-worker-1"]


def test_a_finished_job_is_cleaned_once():
    """ascendjob:W-35"""
    seen = turned(running(job(policy={"cleanPodPolicy": "All"})), "Succeeded")
    for _ in range(2):
        seen = after(seen, decide(seen))
    assert is_quiet(seen, decide(seen))


def test_f11_a_scheduled_deletion_comes_when_its_time_has_come():
    """ascendjob:F11"""
    seen = turned(running(job(policy={"ttlSecondsAfterFinished": 60})), "Succeeded")
    seen = after(after(seen, decide(seen)), decide(after(seen, decide(seen))))
    assert decide(seen).again_after_s == 60
    due = after(seen, decide(seen), now=make.later(60))
    assert [step.name for step in decide(due).steps] == ["job"]
    assert make.deleted(decide(due), decide(due).steps[0].writes[0].resource) == ["j"]


def test_f11_a_job_without_a_time_of_its_end_goes_by_its_last_condition():
    """So the original left jobs whose budget was used up; ascendjob:W-15."""
    failed = {
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "reason": "JobFailed",
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ]
    }
    obj = job(policy={"ttlSecondsAfterFinished": 60})
    assert decide(make.snapshot(obj, status=failed, group=None, gang=False)).again_after_s == 60
    due = decide(make.snapshot(obj, status=failed, now=make.later(60), gang=False))
    assert "job" in [step.name for step in due.steps]


def test_f12_a_deadline_is_kept_to_the_second():
    """ascendjob:W-45 ascendjob:F12"""
    seen = running(job(policy={"activeDeadlineSeconds": 60}))
    assert decide(seen).again_after_s == 60
    due = after(seen, decide(seen), now=make.later(60))
    found = make.concluded(decide(due))
    assert make.conditions(found)[-1] == ("Failed", "True", "DeadlineExceeded")
    assert found.status["completionTime"]


# ── generations ──


def lose(seen, *names):
    """Pods are deleted by the scheduler, and what follows until new ones run."""
    seen = gone(seen, *names)
    for _ in range(3):
        seen = after(seen, decide(seen))
    return turned(seen, "Running")


def versions(seen):
    return {p.name: p.attempt for p in seen.pods}


def attempts_of(seen):
    return dict(seen.row.annotations).get("ascendop.io/attempt", "")


def test_f1_a_budget_of_two_is_used_up_by_the_third_loss():
    """ascendjob:F1: unlike the original, with a completionTime (W-15)."""
    seen = running(job(policy={"backoffLimit": 2}))
    for version in (1, 2):
        seen = lose(seen, "j-master-0", "j-worker-0")
        assert set(versions(seen).values()) == {version}
    seen = gone(seen, "j-master-0", "j-worker-0")
    for _ in range(2):
        seen = after(seen, decide(seen))
    last = seen.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Failed", "JobFailed")
    assert last["message"] == "Job j has failed because it has reached the specified backoff limit"
    assert seen.status["completionTime"]
    assert seen.pods == ()


def test_f2_pods_lost_together_are_one_loss():
    """ascendjob:F2"""
    seen = running(job(Master=1, Worker=3))
    seen = lose(seen, *versions(seen))
    assert set(versions(seen).values()) == {1}
    assert len(seen.pods) == 4


def test_f3_a_survivor_lost_later_joins_the_new_generation():
    """ascendjob:F3"""
    seen = lose(running(job(Master=1, Worker=3)), "j-worker-1")
    assert versions(seen) == {
        "j-master-0": 0, "j-worker-0": 0, "j-worker-1": 1, "j-worker-2": 0,
    }  # fmt: skip
    seen = lose(seen, "j-worker-2")
    assert versions(seen)["j-worker-2"] == 1
    assert set(versions(seen).values()) == {0, 1}


def test_a_generation_that_is_lost_again_counts_again():
    seen = lose(running(job(Master=1, Worker=1)), "j-worker-0")
    seen = lose(seen, "j-worker-0")
    assert versions(seen)["j-worker-0"] == 2


@pytest.mark.parametrize(
    ("labels", "policy", "want"),
    [
        pytest.param({"fault-retry-times": "5"}, {}, 5, id="ascendjob:F4 by the label"),
        pytest.param(
            {"fault-retry-times": "5"}, {"backoffLimit": 3}, 3, id="ascendjob:F4 by the policy"
        ),
        pytest.param(
            {"fault-retry-times": "5"}, {"backoffLimit": 0}, 0, id="ascendjob:F4 without limit"
        ),
        pytest.param({}, {}, 0, id="nothing said"),
    ],
)
def test_how_many_losses_a_job_bears(labels, policy, want):
    seen = make.snapshot(job(labels=labels, policy=policy))
    assert seen.kind.attempt_limit(seen.job) == want


def test_an_operator_that_starts_anew_counts_a_loss_once():
    """ascendjob:W-7: the count stands in the cluster before the pods are replaced."""
    seen = gone(running(job()), "j-worker-0")
    plan = decide(seen)
    patched = after(seen, plan.__class__(conclude=plan.conclude, steps=plan.steps[:1]))
    assert [step.name for step in plan.steps] == ["attempt", "pods"]
    again = decide(patched)
    made = make.created(again)["j-worker-0"]
    assert made["metadata"]["labels"]["version"] == "1"


def test_a_count_that_somebody_broke_is_read_from_the_pods():
    obj = job(annotations={"ascendop.io/attempt": "{"})
    pods = [pod("master", attempt=3), pod("worker", attempt=2)]
    plan = decide(make.snapshot(obj, pods=pods, status={"startTime": "2026-01-01T00:00:00Z"}))
    assert make.created(plan) == {}
    assert (
        '"attempt":3'
        in make.writes(plan, step="attempt")[0].body["metadata"]["annotations"][
            "ascendop.io/attempt"
        ]
    )


def test_nothing_is_counted_before_all_pods_have_been_there_once():
    obj = job(Master=1, Worker=3)
    plan = decide(make.snapshot(obj, pods=[pod("master")]))
    assert make.writes(plan, step="attempt") == []
    assert {p["metadata"]["labels"]["version"] for p in make.created(plan).values()} == {"0"}
    assert Attempts().text() == '{"attempt":0}'


# ── unconditional retry ──

RETRIED = job(labels={"fault-retry-times": "5"})


def test_f5_a_job_with_retries_left_restarts():
    """ascendjob:F5"""
    seen = turned(running(RETRIED, retries_left=3), "Failed", "j-worker-0")
    found = make.concluded(decide(seen))
    assert make.conditions(found)[-1] == ("Restarting", "True", "JobRestarting")
    assert found.status["conditions"][-1]["message"] == (
        "Job <ns/j> is unconditional retry job and remain retry times is <3>."
    )
    assert "Running" not in {type_ for type_, _, _ in make.conditions(found)}


@pytest.mark.parametrize(
    "left", [pytest.param(0, id="none left"), pytest.param(None, id="nobody says how many")]
)
def test_f6_a_job_without_retries_left_fails(left):
    """ascendjob:F6"""
    seen = turned(running(RETRIED, retries_left=left), "Failed", "j-worker-0")
    assert make.conditions(make.concluded(decide(seen)))[-1] == ("Failed", "True", "JobFailed")


def test_f7_new_pods_end_the_restart():
    """ascendjob:F7"""
    seen = turned(running(RETRIED, retries_left=3), "Failed", "j-worker-0")
    seen = after(seen, decide(seen))
    seen = turned(seen, "Running")
    found = make.concluded(decide(seen))
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
    assert "Restarting" not in {type_ for type_, _, _ in make.conditions(found)}


def test_pods_that_end_do_not_end_the_restart():
    """The plug-in deletes all: the failed one is gone at once, the others take half a minute."""
    seen = turned(running(RETRIED, retries_left=3), "Failed", "j-worker-0")
    seen = gone(after(seen, decide(seen)), "j-worker-0")
    seen = turned(seen, "Running", deleting=True)
    for _ in range(2):
        seen = after(seen, decide(seen))
        assert seen.status["conditions"][-1]["type"] == "Restarting"
    seen = turned(gone(after(seen, decide(seen)), "j-master-0"), "Running", deleting=False)
    seen = after(seen, decide(seen))
    assert seen.status["conditions"][-1]["type"] == "Running"


# ── suspension ──


def test_a_suspended_job_has_no_pods_and_says_so_once():
    """ascendjob:W-45"""
    seen = running(job())
    asleep = make.snapshot(
        job(policy={"suspend": True}), pods=seen.pods, group=seen.group, status=seen.status
    )
    plan = decide(asleep)
    assert make.deleted(plan) == ["j-master-0", "j-worker-0"]
    assert make.conditions(make.concluded(plan))[-2:] == [
        ("Running", "False", "AscendJobSuspended"),
        ("Suspended", "True", "AscendJobSuspended"),
    ]
    quiet = after(asleep, plan)
    assert is_quiet(quiet, decide(quiet))


def test_a_resumed_job_is_no_longer_suspended():
    asleep = make.snapshot(job(policy={"suspend": True}), services=(), group=None)
    status = make.concluded(decide(asleep)).status
    found = make.concluded(decide(make.snapshot(job(), status=status)))
    assert ("Suspended", "False", "AscendJobResumed") in make.conditions(found)
