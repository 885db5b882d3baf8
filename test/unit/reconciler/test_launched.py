# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The life of a job whose leader is a batch/v1 Job: rows of mpijob.md 13, and its weaknesses."""

import json
from dataclasses import replace

import pytest

from ascendop.api.launch import Place
from ascendop.api.observed import ContainerView, Failed
from ascendop.apply.plan import Apply, Create, Delete, Patch
from ascendop.apply.refusals import CHILD_CONFLICT
from ascendop.kube.resource import (
    BATCH_JOBS,
    COSCHEDULING_GROUPS,
    POD_GROUPS,
    PODS,
    SECRETS,
    SHARED_CONFIGMAPS,
    SHARED_SERVICES,
)
from ascendop.reconciler.decide import decide

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .. import make  # noqa: TID252  likewise

NOW, BEFORE = "2026-01-02T03:04:05Z", "2026-01-02T03:03:00Z"
GANG = Place(gang="volcano")


def said(type_, status="True", reason=None, message="", since=BEFORE):
    reason = f"MPIJob{type_}" if reason is None else reason
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message or f"MPIJob bar/foo is {type_.lower()}.",
        "lastUpdateTime": since,
        "lastTransitionTime": since,
    }


CREATED = said("Created")
RUNNING = said("Running")
SLEEPS = said("Suspended", message="MPIJob suspended")


def status(*conditions, **fields):
    return {"conditions": [CREATED, *conditions], "startTime": BEFORE, "replicaStatuses": {}} | (
        fields
    )


def pods(count, phase="Running", **fields):
    return [mpi.pod(i, phase, **fields) for i in range(count)]


def patches(plan, resource=BATCH_JOBS):
    return [w for w in make.writes(plan, Patch) if w.resource == resource]


def job_conditions(found, type_):
    return next(c for c in found.status["conditions"] if c["type"] == type_)


# ── whose it is ──


@pytest.mark.parametrize("name", ["kueue.x-k8s.io/multikueue", "somebody"])
@pytest.mark.parametrize("count", [1, 0])
def test_c12_a_job_of_another_controller_is_left_alone(name, count):
    """mpijob:C12: also one that could not run."""
    plan = decide(mpi.seen(mpi.job(workers=count, policy={"managedBy": name}), shared={}))
    assert plan.steps == () and make.concluded(plan) is None


@pytest.mark.parametrize("name", ["", "kubeflow.org/mpi-operator"])
def test_c13_c14_w21_a_job_of_nobody_else_is_ours(name):
    """mpijob:W-21: an empty name is none."""
    plan = decide(mpi.seen(mpi.job(workers=1, policy={"managedBy": name}), shared={}))
    assert len(mpi.made(plan)) == 5


def test_c15_a_job_on_its_way_out_is_left_alone():
    obj = mpi.job(workers=1)
    plan = decide(mpi.seen(obj, row=make.row(obj, namespace="bar", deleting=True), shared={}))
    assert plan.steps == () and make.concluded(plan) is None


# ── names that are taken ──


def test_c17_an_alien_launcher_stops_everything():
    plan, found = mpi.decided(
        mpi.seen(mpi.job(workers=1), shared={}, job=mpi.launcher(owner_uid="X"))
    )
    assert plan.steps == () and plan.again_after_s
    text = 'Resource "foo-launcher" of Kind "" already exists and is not managed by MPIJob'
    assert mpi.told(found)[-1] == ("Warning", "ErrResourceExists", text)


@pytest.mark.parametrize("name", ["foo", "foo-config", "foo-ssh", "foo-worker-0", "foo-launcher"])
def test_c17_w06_an_alien_is_told_and_never_touched(name):
    """mpijob:W-06: Created stands from the first pass on, and says what is in the way."""
    found = mpi.failing(
        mpi.seen(mpi.job(workers=1), shared={}), name, reason=CHILD_CONFLICT, retry_s=5.0
    )
    text = f'Resource "{name}" of Kind "" already exists and is not managed by MPIJob'
    assert mpi.told(found) == [
        ("Normal", "MPIJobCreated", "MPIJob bar/foo is created."),
        ("Warning", "ErrResourceExists", text),
    ]
    assert mpi.conditions(found) == [("Created", "True", "MPIJobCreated")]
    assert job_conditions(found, "Created")["message"] == text
    again = mpi.failing(
        mpi.seen(mpi.job(workers=1), shared={}, status=found.status), name, reason=CHILD_CONFLICT
    )
    assert [reason for _, reason, _ in mpi.told(again)] == ["ErrResourceExists"]
    _, healed = mpi.decided(mpi.seen(mpi.job(workers=1), shared={}, status=found.status))
    assert job_conditions(healed, "Created")["message"] == "MPIJob bar/foo is created."


def test_c17_nothing_of_ours_is_adopted():
    plan = decide(mpi.seen(mpi.job(workers=1), shared={}))
    assert not any(write.adopts for write in make.writes(plan, Create))


def test_c17_an_alien_pod_group():
    found = mpi.seen(mpi.job(workers=1), shared={}, place=GANG, alien_group=True)
    plan, conclusion = mpi.decided(found)
    assert make.created(plan, PODS) == {} == make.created(plan, POD_GROUPS)
    text = 'Resource "foo" of Kind "PodGroup" already exists and is not managed by MPIJob'
    assert mpi.told(conclusion)[-1] == ("Warning", "ErrResourceExists", text)


def test_a_gang_without_a_scheduler_is_told_and_not_torn():
    found = mpi.seen(mpi.job(workers=1), shared={}, place=GANG)
    found = replace(found, world=replace(found.world, groups_served=False))
    plan, after = mpi.decided(found)
    assert [kind for kind, _ in mpi.made(plan)] == ["Service", "ConfigMap", "Secret"]
    assert [reason for _, reason, _ in mpi.told(after)] == ["MPIJobCreated", "SyncPodGroupFailed"]
    assert "install Volcano" in job_conditions(after, "Created")["message"]
    _, again = mpi.decided(replace(found, status=after.status))
    assert mpi.told(again) == [] and make.unchanged(after.status, again)


# ── what is shared stays as it should be ──


def test_c18_a_changed_service_is_set_right():
    found = mpi.seen(mpi.job(workers=1), mpi.pod(), job=mpi.launcher(), status=status())
    other = mpi.SharedView(
        namespace="bar", name="foo", uid="s", version="7", owner_uid="U", content="x", keys=("a",)
    )
    shared = {**found.launched.shared, "Service": other}
    plan = decide(replace(found, launched=replace(found.launched, shared=shared)))
    (patch,) = make.writes(plan)
    assert (patch.resource, patch.uid, patch.version) == (SHARED_SERVICES, "s", "7")
    assert patch.body == {
        "spec": {
            "publishNotReadyAddresses": False,
            "selector": {
                "a": None,
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-name": "foo",
            },
        }
    }


def test_c19_data_that_somebody_put_there_go():
    found = mpi.seen(mpi.job(workers=1), mpi.pod(), job=mpi.launcher(), status=status())
    old = found.launched.shared["ConfigMap"]
    other = mpi.SharedView(
        namespace="bar", name=old.name, uid="c", version="7", owner_uid="U", keys=("hostfile", "x")
    )
    shared = {**found.launched.shared, "ConfigMap": other}
    plan = decide(replace(found, launched=replace(found.launched, shared=shared)))
    (patch,) = make.writes(plan)
    assert patch.resource == SHARED_CONFIGMAPS
    assert patch.body["data"]["x"] is None
    assert patch.body["data"]["hostfile"] == "foo-worker-0.foo.bar.svc slots=1\n"


@pytest.mark.parametrize(
    ("keys", "body"),
    [
        pytest.param(mpi.KEYS, None, id="C20 both, whatever is in them"),
        pytest.param(None, None, id="nobody can tell"),
        pytest.param(("ssh-privatekey",), {}, id="C21 one is missing"),
        pytest.param((*mpi.KEYS, "x"), {"x": None}, id="C21 one too many"),
    ],
)
def test_c20_c21_w23_keys_are_made_anew_only_where_they_are_not_these_two(keys, body):
    """mpijob:W-23: by their names alone; nobody makes a pair to find that out."""
    found = mpi.seen(mpi.job(workers=1), mpi.pod(), job=mpi.launcher(), status=status())
    secret = mpi.SharedView(
        namespace="bar", name="foo-ssh", uid="k", version="7", owner_uid="U", keys=keys
    )
    shared = {**found.launched.shared, "Secret": secret}
    plan = decide(replace(found, launched=replace(found.launched, shared=shared)))
    wanted = [] if body is None else [Patch(SECRETS, "foo-ssh", "k", "7", {"data": body})]
    assert [replace(w, filled="") for w in make.writes(plan)] == wanted
    assert all(write.filled for write in make.writes(plan))


def test_c23_a_worker_that_is_refused():
    found = mpi.failing(mpi.seen(mpi.job(workers=2), shared={}), "foo-worker-0", "spec is wrong")
    assert mpi.told(found) == [
        ("Normal", "MPIJobCreated", "MPIJob bar/foo is created."),
        ("Warning", "MPIJobFailed", "worker pod created failed: spec is wrong"),
    ]
    assert "startTime" not in found.status
    assert found.status["replicaStatuses"] == {"Worker": {}}
    found = mpi.failing(mpi.seen(mpi.job(), shared={}), "foo-launcher", "no")
    assert mpi.told(found)[-1] == ("Warning", "MPIJobFailed", "launcher pod created failed: no")


# ── scale ──


@pytest.mark.parametrize(
    ("before", "after", "working", "gone"),
    [
        pytest.param(4, 2, False, ["foo-worker-2", "foo-worker-3"], id="C37"),
        pytest.param(3, 2, True, ["foo-worker-2"], id="C37 W-01 a launcher that works"),
    ],
)
def test_c37_w01_the_tail_goes(before, after, working, gone):
    """mpijob:W-01: by the number in the name, which no launcher shifts."""
    obj = mpi.job(workers=after, runLauncherAsWorker=working)
    plan = decide(mpi.seen(obj, *pods(before), job=mpi.launcher(), status=status(RUNNING)))
    assert make.deleted(plan) == gone and plan.destructive
    assert make.created(plan) == {}


def test_c38_more_workers():
    obj = mpi.job(workers=4)
    small = mpi.seen(mpi.job(workers=2), *pods(2), job=mpi.launcher(), place=GANG)
    group = make.made_group(small, "Running")
    found = mpi.seen(
        obj, *pods(2), job=mpi.launcher(), status=status(RUNNING), place=GANG, group=group,
        shared=small.launched.shared,
    )  # fmt: skip
    plan = decide(found)
    assert list(make.created(plan, PODS)) == ["foo-worker-2", "foo-worker-3"]
    assert make.created(plan, POD_GROUPS)["foo"]["spec"]["minMember"] == 5
    (config,) = patches(plan, SHARED_CONFIGMAPS)
    assert len(config.body["data"]["hostfile"].splitlines()) == 4
    assert make.deleted(plan) == []


def test_c39_a_worker_that_was_deleted_comes_back():
    plan = decide(
        mpi.seen(mpi.job(workers=2), mpi.pod(0), job=mpi.launcher(), status=status(RUNNING))
    )
    assert list(make.created(plan)) == ["foo-worker-1"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_c40_a_worker_that_has_ended_is_not_replaced(phase):
    found = mpi.seen(
        mpi.job(workers=2), mpi.pod(0), mpi.pod(1, phase),
        job=mpi.launcher(), of_launcher=[mpi.launcher_pod()], status=status(RUNNING),
    )  # fmt: skip
    plan, after = mpi.decided(found)
    assert make.writes(plan) == []
    assert after.status["replicaStatuses"]["Worker"] == {"active": 1, phase.lower(): 1}
    assert mpi.conditions(after)[-1] == ("Running", "True", "MPIJobRunning")


# ── running ──


def test_c41_workers_that_pend():
    found = mpi.seen(
        mpi.job(workers=8), *pods(8, "Pending"),
        job=mpi.launcher(), of_launcher=[mpi.launcher_pod()], status=status(),
    )  # fmt: skip
    _, after = mpi.decided(found)
    assert after.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {}}
    assert mpi.conditions(after) == [("Created", "True", "MPIJobCreated")]


def test_c42_c43_w08_all_run_and_that_is_told_once():
    """field-reports:FR-007 mpijob:W-08"""
    running = {"job": mpi.launcher(), "of_launcher": [mpi.launcher_pod()]}
    found = mpi.seen(mpi.job(workers=8), *pods(8), status=status(), **running)
    plan, after = mpi.decided(found)
    assert plan.steps == ()
    assert mpi.conditions(after)[-1] == ("Running", "True", "MPIJobRunning")
    assert job_conditions(after, "Running")["message"] == "MPIJob bar/foo is running."
    assert after.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {"active": 8}}
    assert mpi.told(after) == [("Normal", "MPIJobRunning", "MPIJob bar/foo is running")]
    _, again = mpi.decided(replace(found, status=after.status))
    assert make.unchanged(after.status, again) and mpi.told(again) == []


def test_c42_without_a_pod_of_the_launcher_nothing_runs():
    _, after = mpi.decided(
        mpi.seen(mpi.job(workers=16), *pods(16), job=mpi.launcher(), status=status())
    )
    assert mpi.conditions(after) == [("Created", "True", "MPIJobCreated")]


def test_c33_a_launcher_that_works_alone_runs():
    found = mpi.seen(
        mpi.job(runLauncherAsWorker=True),
        job=mpi.launcher(), of_launcher=[mpi.launcher_pod()], status=status(),
    )  # fmt: skip
    assert mpi.conditions(mpi.decided(found)[1])[-1] == ("Running", "True", "MPIJobRunning")


# ── ends ──


def test_c44_an_end_of_which_no_beginning_was_seen():
    ended = "2026-01-02T03:04:01Z"
    done = mpi.launcher(end="Complete", ended=ended)
    plan, after = mpi.decided(mpi.seen(mpi.job(workers=8), job=done, status=status()))
    assert plan.steps == ()
    assert mpi.conditions(after) == [
        ("Created", "True", "MPIJobCreated"),
        ("Succeeded", "True", "MPIJobSucceeded"),
        ("Running", "False", "MPIJobRunning"),
    ]
    running = job_conditions(after, "Running")
    assert running["message"] == ("MPIJob bar/foo is finished but Running condition was never set.")
    assert running["lastUpdateTime"] == running["lastTransitionTime"] == ended
    assert after.status["completionTime"] == ended
    assert after.status["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}
    text = "MPIJob bar/foo successfully completed."
    assert mpi.told(after) == [("Normal", "MPIJobSucceeded", text)]


def test_c72_a_pod_that_the_cache_still_has_is_no_news():
    done = mpi.launcher(end="Complete", ended=NOW)
    found = mpi.seen(
        mpi.job(workers=1), mpi.pod(), job=done, of_launcher=[mpi.launcher_pod()],
        status=status(RUNNING),
    )  # fmt: skip
    _, after = mpi.decided(found)
    assert job_conditions(after, "Running") == {**RUNNING, "status": "False"}
    assert mpi.conditions(after)[-1] == ("Succeeded", "True", "MPIJobSucceeded")


def test_w42_an_end_without_a_time_ends_all_the_same():
    """mpijob:W-42"""
    done = mpi.launcher(end="Complete")
    found = mpi.seen(mpi.job(workers=1), job=done, status=status())
    _, after = mpi.decided(found)
    assert after.status["completionTime"] == NOW
    assert mpi.told(mpi.decided(replace(found, status=after.status))[1]) == []


FAILED = {"end": "Failed", "failed": 2, "reason": "BackoffLimitExceeded"}
LIMIT = "Job has reached the specified backoff limit"


def test_c48_what_the_last_pod_of_the_launcher_said():
    """field-reports:FR-014"""
    tries = [
        mpi.launcher_pod("Failed", number=0, created=NOW, reason="R2", message="second message"),
        mpi.launcher_pod("Failed", number=1, created=BEFORE, reason="R1", message="first"),
    ]
    found = mpi.seen(
        mpi.job(workers=1), job=mpi.launcher(message=LIMIT, **FAILED), of_launcher=tries,
        status=status(),
    )  # fmt: skip
    _, after = mpi.decided(found)
    failed = job_conditions(after, "Failed")
    assert (failed["reason"], failed["message"]) == (
        "BackoffLimitExceeded/R2",
        f"{LIMIT}: second message",
    )
    assert after.status["replicaStatuses"]["Launcher"] == {"failed": 2}
    assert mpi.conditions(after)[-1] == ("Running", "False", "MPIJobRunning")
    assert mpi.told(after) == [("Warning", failed["reason"], failed["message"])]


def test_c49_w44_pods_that_said_nothing():
    """mpijob:W-44: readers match what is left of it."""
    found = mpi.seen(
        mpi.job(), job=mpi.launcher(message=LIMIT, **FAILED),
        of_launcher=[mpi.launcher_pod("Failed")], status=status(),
    )  # fmt: skip
    failed = job_conditions(mpi.decided(found)[1], "Failed")
    assert (failed["reason"], failed["message"]) == ("BackoffLimitExceeded/", f"{LIMIT}: ")


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        pytest.param("", "container c exited with code 7 (Error)", id="W-44 the exit code"),
        pytest.param(
            "rank 4: no mesh\n",
            "container c exited with code 7 (Error): rank 4: no mesh",
            id="W-44 the last words",
        ),
    ],
)
def test_w44_a_container_that_said_more_than_its_pod(said, wanted):
    """mpijob:W-44: but not where everything is as in the original."""
    container = ContainerView("c", "terminated", False, 0, 7, "Error", said=said)
    tries = [mpi.launcher_pod("Failed", containers=(container,))]
    for strict, text in ((False, wanted), (True, "")):
        found = mpi.seen(
            mpi.job(), job=mpi.launcher(message=LIMIT, **FAILED), of_launcher=tries,
            status=status(), place=Place(strict=strict),
        )  # fmt: skip
        failed = job_conditions(mpi.decided(found)[1], "Failed")
        assert (failed["reason"], failed["message"]) == (
            "BackoffLimitExceeded/",
            f"{LIMIT}: {text}",
        )


def test_w44_a_pod_that_restarted_in_place_is_gone_before_its_job_has_failed():
    """mpijob:W-44: the job keeps its reason, and says what was seen last."""
    container = ContainerView("c", "terminated", False, 3, 7, "Error", said="rank 4: no mesh")
    waiting = ContainerView("c", "waiting", False, 3, 0, "CrashLoopBackOff")
    before = Failed(7, "Error", "rank 4: no mesh")
    killed = ContainerView("c", "terminated", False, 3, 137, "Error", before=before)
    text = "container c exited with code 7 (Error): rank 4: no mesh"
    for last, strict, wanted in (
        (container, False, f"{LIMIT}: {text}"),
        (container, True, LIMIT),
        (waiting, False, LIMIT),
        (killed, False, f"{LIMIT}: {text}"),
    ):
        found = mpi.seen(
            mpi.job(), job=mpi.launcher(message=LIMIT, **FAILED), status=status(),
            gone=mpi.launcher_pod("Running", containers=(last,)), place=Place(strict=strict),
        )  # fmt: skip
        failed = job_conditions(mpi.decided(found)[1], "Failed")
        assert (failed["reason"], failed["message"]) == ("BackoffLimitExceeded", wanted)


def test_w41_w44_of_many_words_the_last_are_kept():
    """mpijob:W-41 mpijob:W-44: no more than the original's bytes, and no half letter."""
    container = ContainerView("c", "terminated", False, 0, 7, "Error", said="é" * 1023 + "!")
    found = mpi.seen(
        mpi.job(), job=mpi.launcher(message=LIMIT, **FAILED),
        of_launcher=[mpi.launcher_pod("Failed", containers=(container,))], status=status(),
    )  # fmt: skip
    text = job_conditions(mpi.decided(found)[1], "Failed")["message"]
    assert text.startswith(f"{LIMIT}: container c exited with code 7 (Error): ...é")
    assert text.endswith("é!")
    assert len(text.encode()) in {1023, 1024}


def test_c50_a_job_that_failed_without_a_word():
    _, after = mpi.decided(mpi.seen(mpi.job(), job=mpi.launcher(end="Failed"), status=status()))
    text = "MPIJob bar/foo has failed"
    assert mpi.told(after) == [("Warning", "MPIJobFailed", text)]
    assert after.status["completionTime"] == NOW


def test_c71_a_launcher_that_is_tried_again():
    found = mpi.seen(
        mpi.job(workers=1), mpi.pod(), job=mpi.launcher(failed=1),
        of_launcher=[mpi.launcher_pod("Failed")], status=status(RUNNING),
    )  # fmt: skip
    _, after = mpi.decided(found)
    assert after.status["replicaStatuses"]["Launcher"] == {"failed": 1}
    assert mpi.conditions(after)[-1] == ("Running", "True", "MPIJobRunning")


def test_c45_w05_a_launcher_that_its_ttl_took_is_not_run_again():
    """mpijob:W-05"""
    obj = mpi.job(workers=1, policy={"ttlSecondsAfterFinished": 1})
    plan, after = mpi.decided(mpi.seen(obj, mpi.pod(), status=status(RUNNING)))
    assert plan.steps == () and plan.destructive, "only when the caches are trusted"
    assert job_conditions(after, "Failed")["message"] == (
        "launcher Job foo-launcher is gone, and nobody saw how it ended"
    )
    assert after.status["completionTime"] == NOW
    for other in (mpi.job(workers=1), obj):
        ran = RUNNING if other is not obj else {**RUNNING, "status": "False"}
        plan = decide(mpi.seen(other, mpi.pod(), status=status(ran)))
        assert list(make.created(plan, BATCH_JOBS)) == ["foo-launcher"]


# ── evictions ──


def test_c46_w04_an_eviction_is_the_end():
    """mpijob:W-04: with a time, so that what goes at the end goes."""
    evicted = mpi.pod(7, "Failed", reason="Evicted")
    running = {"job": mpi.launcher(), "of_launcher": [mpi.launcher_pod()]}
    found = mpi.seen(
        mpi.job(workers=8, policy={"cleanPodPolicy": "All"}), *pods(7), evicted,
        status=status(RUNNING), **running,
    )  # fmt: skip
    plan, after = mpi.decided(found)
    assert plan.destructive
    assert mpi.conditions(after)[1:] == [
        ("Running", "False", "MPIJobRunning"),
        ("Failed", "True", "MPIJobEvicted"),
    ]
    assert mpi.told(after) == [("Warning", "MPIJobEvicted", "1/8 workers are evicted")]
    assert after.status["completionTime"] == NOW
    plan = decide(replace(found, status=after.status))
    assert [patch.body for patch in patches(plan)] == [{"spec": {"suspend": True}}]
    assert len(make.deleted(plan)) == 8


def test_c47_a_failure_that_the_original_left_open_is_closed_by_the_launchers_end():
    evicted = said("Failed", reason="MPIJobEvicted", message="1/8 workers are evicted")
    done = mpi.launcher(end="Complete", ended=NOW)
    _, after = mpi.decided(mpi.seen(mpi.job(workers=8), job=done, status=status(evicted)))
    assert mpi.conditions(after) == [
        ("Created", "True", "MPIJobCreated"),
        ("Failed", "False", "MPIJobEvicted"),
        ("Succeeded", "True", "MPIJobSucceeded"),
        ("Running", "False", "MPIJobRunning"),
    ]
    assert after.status["completionTime"] == NOW


# ── after the end ──

SUCCEEDED = status(
    {**RUNNING, "status": "False"}, said("Succeeded"), completionTime=NOW,
    replicaStatuses={"Launcher": {"succeeded": 1}, "Worker": {"active": 2}},
)  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("None", []), ("Running", [0, 1]), ("All", [0, 1, 2, 3])],
    ids=["C69 None", "C68 Running", "C67 All"],
)
def test_c67_c68_c69_which_pods_go(policy, gone):
    """field-reports:FR-020"""
    phases = ("Running", "Pending", "Succeeded", "Failed")
    found = mpi.seen(
        mpi.job(workers=4, policy={"cleanPodPolicy": policy}),
        *(mpi.pod(i, phase) for i, phase in enumerate(phases)),
        job=mpi.launcher(end="Complete"), status=SUCCEEDED,
    )  # fmt: skip
    plan, after = mpi.decided(found)
    assert make.deleted(plan) == [f"foo-worker-{i}" for i in gone]
    worker = {"active": 2} if policy == "None" else {}
    assert after.status["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": worker}
    assert after.status["conditions"] == SUCCEEDED["conditions"] and after.events == ()


def test_w43_pods_beyond_the_last_worker_go_with_the_others():
    """mpijob:W-43"""
    obj = mpi.job(policy={"cleanPodPolicy": "All"})
    plan = decide(mpi.seen(obj, *pods(2), job=mpi.launcher(end="Complete"), status=SUCCEEDED))
    assert make.deleted(plan) == ["foo-worker-0", "foo-worker-1"]


def test_c69_w27_the_pod_group_goes_whatever_the_policy():
    """mpijob:W-27"""
    living = mpi.seen(mpi.job(workers=1), mpi.pod(), job=mpi.launcher(), place=GANG)
    found = mpi.seen(
        mpi.job(workers=1), mpi.pod(), job=mpi.launcher(end="Complete"), status=SUCCEEDED,
        place=GANG, group=make.made_group(living, "Running"),
    )  # fmt: skip
    plan = decide(found)
    assert make.deleted(plan, POD_GROUPS) == ["foo"] and make.deleted(plan) == []


# ── sleep ──

ASLEEP = {"suspend": True}


@pytest.mark.parametrize("implementation", ["OpenMPI", "Intel", "MPICH"])
def test_c51_made_asleep(implementation):
    obj = mpi.job(workers=8, policy=ASLEEP, mpiImplementation=implementation)
    plan, after = mpi.decided(mpi.seen(obj, shared={}, place=GANG))
    assert [name for _, name in mpi.made(plan)] == ["foo", "foo-config", "foo-ssh", "foo-launcher"]
    (job,) = make.created(plan, BATCH_JOBS).values()
    assert job["spec"]["suspend"] is True
    assert mpi.conditions(after) == [
        ("Created", "True", "MPIJobCreated"),
        ("Suspended", "True", "MPIJobSuspended"),
        ("Running", "False", "MPIJobSuspended"),
    ]
    assert "startTime" not in after.status
    assert after.status["replicaStatuses"] == {"Launcher": {}, "Worker": {}}
    assert [reason for _, reason, _ in mpi.told(after)] == ["MPIJobCreated", "MPIJobSuspended"]


def test_c53_c55_w10_put_to_sleep():
    """mpijob:W-10: nobody stays, not even who has failed under the policy Running."""
    obj = mpi.job(workers=8, policy={**ASLEEP, "cleanPodPolicy": "Running"})
    found = mpi.seen(
        obj, *pods(7), mpi.pod(7, "Failed"), job=mpi.launcher(),
        of_launcher=[mpi.launcher_pod()], status=status(RUNNING),
    )  # fmt: skip
    plan, after = mpi.decided(found)
    assert [patch.body for patch in patches(plan)] == [{"spec": {"suspend": True}}]
    assert len(make.deleted(plan)) == 8
    assert mpi.conditions(after)[1:] == [
        ("Suspended", "True", "MPIJobSuspended"),
        ("Running", "False", "MPIJobSuspended"),
    ]
    assert after.status["replicaStatuses"] == {"Launcher": {"active": 1}, "Worker": {}}
    assert after.status["startTime"] == BEFORE
    assert mpi.told(after) == [("Normal", "MPIJobSuspended", "MPIJob suspended")]


ASLEEP_STATUS = status(SLEEPS, said("Running", "False", "MPIJobSuspended"))
DIRECTED = {
    "template": mpi.template(
        metadata={"labels": {"new": "1"}, "annotations": {"note": "2"}},
        nodeSelector={"zone": "b"},
        tolerations=[{"operator": "Exists"}],
    )
}


def test_c54_woken():
    asleep = mpi.launcher(suspended=True, node_selector=("pool",))
    obj = mpi.job(workers=8, launcher=DIRECTED)
    plan, after = mpi.decided(mpi.seen(obj, job=asleep, status=ASLEEP_STATUS))
    assert [step.name for step in plan.steps] == ["pods", "launcher"]
    assert len(make.created(plan)) == 8
    (patch,) = patches(plan)
    assert patch.subresource is None and patch.body["spec"]["suspend"] is False
    template = patch.body["spec"]["template"]
    assert template["metadata"]["labels"]["new"] == "1"
    assert template["metadata"]["annotations"] == {"note": "2"}
    assert template["spec"] == {
        "nodeSelector": {"pool": None, "zone": "b"},
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": None,
    }
    assert job_conditions(after, "Suspended")["reason"] == "MPIJobResumed"
    assert mpi.conditions(after)[-1] == ("Suspended", "False", "MPIJobResumed")
    assert after.status["startTime"] == NOW
    assert mpi.told(after) == [("Normal", "MPIJobResumed", "MPIJob resumed")]


def test_c56_a_launcher_that_has_run_is_made_as_new_first():
    asleep = mpi.launcher(suspended=True, started=BEFORE)
    obj = mpi.job(workers=2, launcher=DIRECTED)
    plan, after = mpi.decided(mpi.seen(obj, job=asleep, status=ASLEEP_STATUS))
    assert [step.name for step in plan.steps] == ["pods", "launcher"]
    (patch,) = patches(plan)
    assert (patch.subresource, patch.body) == ("status", {"status": {"startTime": None}})
    assert plan.at_once and after is None, "the status comes when it goes on"
    plan = decide(mpi.seen(obj, *pods(2), job=mpi.launcher(suspended=True), status=ASLEEP_STATUS))
    (patch,) = patches(plan)
    assert patch.body["spec"]["suspend"] is False


def test_c57_w17_a_right_that_is_missing_is_told():
    """mpijob:W-17: and our role has it."""
    asleep = mpi.launcher(suspended=True, started=BEFORE)
    found = mpi.failing(
        mpi.seen(mpi.job(), job=asleep, status=ASLEEP_STATUS),
        "foo-launcher", "jobs/status is forbidden", retry_s=30.0,
    )  # fmt: skip
    assert any("jobs/status is forbidden" in text for _, _, text in mpi.told(found))


# ── workers first ──


def waits(**fields):
    return mpi.job(workers=2, launcherCreationPolicy="WaitForWorkersReady", **fields)


def test_c70_the_launcher_comes_when_all_are_ready():
    """field-reports:FR-037"""
    assert make.created(decide(mpi.seen(waits())), BATCH_JOBS) == {}
    found = mpi.seen(waits(), *pods(2, ready=False), status=status())
    plan, after = mpi.decided(found)
    assert make.created(plan, BATCH_JOBS) == {}
    assert after.status["replicaStatuses"] == {"Worker": {"active": 2}}
    plan, after = mpi.decided(mpi.seen(waits(), *pods(2), status=status()))
    assert list(make.created(plan, BATCH_JOBS)) == ["foo-launcher"]
    assert after.status["replicaStatuses"]["Launcher"] == {}


def test_c52_w02_after_a_sleep_too():
    """mpijob:W-02: it is not even made before, since nobody is ready while the job sleeps."""
    plan = decide(mpi.seen(waits(policy=ASLEEP)))
    assert make.created(plan, BATCH_JOBS) == {}
    asleep = mpi.launcher(suspended=True)
    plan = decide(mpi.seen(waits(), mpi.pod(), job=asleep, status=ASLEEP_STATUS))
    assert patches(plan) == [] and list(make.created(plan)) == ["foo-worker-1"]
    plan = decide(mpi.seen(waits(), *pods(2), job=asleep, status=status()))
    assert [patch.body["spec"]["suspend"] for patch in patches(plan)] == [False]


def group_of(obj, *found, **fields):
    plan = decide(mpi.seen(obj, *found, place=GANG, status=status(), **fields))
    return make.created(plan, POD_GROUPS)["foo"]["spec"]


def test_c62_w03_a_gang_does_not_wait_for_who_waits_for_it():
    """field-reports:FR-026 mpijob:W-03"""
    small = {"template": mpi.template({**mpi.PLAIN, "resources": {"requests": {"cpu": "1"}}})}
    obj = waits(launcher=small, worker=small)
    withheld = group_of(obj)
    assert (withheld["minMember"], withheld["minResources"]) == (2, {"cpu": "3"})
    assert group_of(obj, *pods(2))["minMember"] == 3
    assert group_of(obj, job=mpi.launcher())["minMember"] == 3


# ── gangs ──


def asks(cpu, memory, **spec):
    requests = {"cpu": cpu, "memory": memory}
    return {"template": mpi.template({**mpi.PLAIN, "resources": {"requests": requests}}, **spec)}


def test_c59_what_a_gang_is_made_of():
    obj = mpi.job(
        workers=2, launcher=asks("1", "2Gi", priorityClassName="high"), worker=asks("10", "20Gi")
    )
    obj["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "project-x"}
    assert group_of(obj) == {
        "minMember": 3,
        "queue": "project-x",
        "priorityClassName": "high",
        "minResources": {"cpu": "21", "memory": "42Gi"},
    }


def test_c60_what_the_policy_says_counts():
    """field-reports:FR-028"""
    policy = {
        "minAvailable": 2,
        "queue": "project-y",
        "priorityClass": "high",
        "minResources": {"cpu": 100, "memory": "512Gi", "example.com/gpu": 40},
    }
    spec = group_of(mpi.job(workers=1000, policy={"schedulingPolicy": policy}))
    assert spec == {
        "minMember": 2,
        "queue": "project-y",
        "priorityClassName": "high",
        "minResources": {"cpu": "100", "memory": "512Gi", "example.com/gpu": "40"},
    }


def test_w28_the_launcher_counts_once():
    """field-reports:FR-030 mpijob:W-28"""
    policy = {"schedulingPolicy": {"minAvailable": 5}}
    workers = asks("8", "1Gi", priorityClassName="high")
    spec = group_of(mpi.job(workers=10, policy=policy, launcher=asks("1", "1Gi"), worker=workers))
    assert spec["minResources"] == {"cpu": "33", "memory": "5Gi"}


def test_c61_w25_a_queue_that_the_server_chose_is_no_drift():
    """field-reports:FR-028 mpijob:W-25"""
    living = {"job": mpi.launcher(), "of_launcher": [mpi.launcher_pod()], "status": status(RUNNING)}
    small = mpi.seen(mpi.job(workers=1), mpi.pod(), place=GANG, **living)
    group = make.made_group(small, "Running")
    spec = json.loads(group.spec) | {"queue": "default"}
    group = make.group("Running", like={"metadata": {"name": "foo"}, "spec": spec})
    assert decide(replace(small, group=group)).steps == ()


def test_c66_a_policy_that_changes_is_followed():
    living = {"job": mpi.launcher(), "of_launcher": [mpi.launcher_pod()], "status": status(RUNNING)}
    small = mpi.seen(mpi.job(workers=1), mpi.pod(), place=GANG, **living)
    group = make.made_group(small, "Running")
    policy = {"schedulingPolicy": {"minAvailable": 1, "queue": "other"}}
    changed = mpi.seen(
        mpi.job(workers=1, policy=policy), mpi.pod(), place=GANG, group=group, **living
    )
    (want,) = make.created(decide(changed), POD_GROUPS).values()
    assert (want["spec"]["minMember"], want["spec"]["queue"]) == (1, "other")


# ── conditions ──


def test_c84_a_new_message_alone_changes_nothing():
    before = said("Running", message="another")
    found = mpi.seen(
        mpi.job(workers=1), mpi.pod(), job=mpi.launcher(), of_launcher=[mpi.launcher_pod()],
        status=status(before),
    )  # fmt: skip
    assert job_conditions(mpi.decided(found)[1], "Running") == before


def test_c85_a_new_reason_moves_to_the_end_and_keeps_its_beginning():
    before = said("Running", "False", "MPIJobSuspended")
    other = said("Suspended", "True", "Other")
    found = mpi.seen(
        mpi.job(workers=1, policy=ASLEEP), job=mpi.launcher(suspended=True),
        status=status(other, before),
    )  # fmt: skip
    _, after = mpi.decided(found)
    last = after.status["conditions"][-1]
    assert (last["type"], last["reason"]) == ("Suspended", "MPIJobSuspended")
    assert (last["lastTransitionTime"], last["lastUpdateTime"]) == (BEFORE, NOW)


def test_nothing_is_decided_before_the_caches_are_filled():
    plan = decide(mpi.seen(mpi.job(workers=1), shared={}, known=False))
    assert plan.steps == () and plan.again_after_s and make.concluded(plan) is None


def test_deletions_name_who_they_mean():
    plan = decide(mpi.seen(mpi.job(workers=1), *pods(3), job=mpi.launcher(), status=status()))
    assert {write.uid for write in make.writes(plan, Delete)} == {"uid-worker-1", "uid-worker-2"}


PLUGIN = Place(gang="my-sched")


def test_c59_c60_c63_a_gang_of_the_coscheduling_plug_in():
    """Its PodGroups know neither queue nor class, and have a time."""
    obj = mpi.job(workers=2, launcher=asks("1", "2Gi"), worker=asks("10", "20Gi"))
    obj["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "project-x"}
    plan = decide(mpi.seen(obj, shared={}, place=PLUGIN))
    (group,) = make.created(plan, COSCHEDULING_GROUPS).values()
    assert group["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert group["spec"] == {
        "minMember": 3,
        "scheduleTimeoutSeconds": 0,
        "minResources": {"cpu": "21", "memory": "42Gi"},
    }
    label = {"scheduling.x-k8s.io/pod-group": "foo"}
    (job,) = make.created(plan, BATCH_JOBS).values()
    template = job["spec"]["template"]
    for made in (*make.created(plan, PODS).values(), template):
        assert label.items() <= made["metadata"]["labels"].items()
        assert "annotations" not in made["metadata"]
        assert made["spec"]["schedulerName"] == "my-sched"


def test_c66_the_time_of_the_plug_in_is_followed():
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 900}}
    first = mpi.seen(mpi.job(workers=1, policy=policy), mpi.pod(), place=PLUGIN)
    group = make.made_group(first, "")
    running = {"job": mpi.launcher(), "of_launcher": [mpi.launcher_pod()], "group": group}
    assert decide(mpi.seen(mpi.job(workers=1, policy=policy), mpi.pod(), place=PLUGIN,
                           status=status(RUNNING), **running)).steps == ()  # fmt: skip
    policy = {"schedulingPolicy": {"scheduleTimeoutSeconds": 10}}
    changed = mpi.seen(mpi.job(workers=1, policy=policy), mpi.pod(), place=PLUGIN, **running)
    (want,) = make.created(decide(changed), COSCHEDULING_GROUPS).values()
    assert want["spec"]["scheduleTimeoutSeconds"] == 10


# ── what only those get who ask for it ──


def replacing(most, used=None):
    obj = mpi.job(workers=3)
    obj["metadata"]["annotations"] = {"ascendop.io/replace-failed-workers": str(most)}
    if used is not None:
        obj["metadata"]["annotations"]["ascendop.io/replaced-workers"] = str(used)
    return obj


def replaced(obj, *others):
    """What is done about two workers that have failed, one of them by an eviction."""
    failed = [mpi.pod(1, "Failed"), mpi.pod(2, "Failed", reason="Evicted")]
    return mpi.decided(
        mpi.seen(obj, mpi.pod(0), *(others or failed), job=mpi.launcher(), status=status(RUNNING))
    )


@pytest.mark.parametrize(
    ("most", "used", "gone", "counted"),
    [(5, None, [1, 2], "2"), (5, 4, [1], "5"), (2, 2, [], None), (0, None, [], None)],
)
def test_w07_a_worker_that_failed_is_replaced_where_the_user_says_how_often(
    most, used, gone, counted
):
    """mpijob:W-07: counted first, then deleted; its successor comes when it is gone."""
    plan, after = replaced(replacing(most, used))
    assert make.deleted(plan) == [f"foo-worker-{i}" for i in gone]
    counts = [w for w in make.writes(plan, Patch) if w.name == "foo"]
    assert [p.body["metadata"]["annotations"] for p in counts] == (
        [{"ascendop.io/replaced-workers": counted}] if counted else []
    )
    assert make.created(plan) == {} and plan.destructive
    ends = len(gone) < 2
    assert (("Failed", "True", "MPIJobEvicted") in mpi.conditions(after)) == ends


def test_w07_a_worker_on_its_way_out_is_waited_for():
    """mpijob:W-07: it is neither deleted twice nor counted twice, and no end of the job."""
    going = [mpi.pod(1, "Failed", reason="Evicted", deleting=True), mpi.pod(2)]
    plan, after = replaced(replacing(5, 1), *going)
    assert make.writes(plan) == []
    assert mpi.conditions(after)[-1] == ("Running", "True", "MPIJobRunning")
    plan, _ = replaced(replacing(5, 1), mpi.pod(2))
    assert list(make.created(plan)) == ["foo-worker-1"]


def test_w14_names_from_the_start_on():
    """mpijob:W-14"""
    plan = decide(mpi.seen(mpi.job(workers=1), shared={}, place=Place(names_early=True)))
    (service,) = make.created(plan, SHARED_SERVICES).values()
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert list(make.created(plan)) == ["foo-worker-0"]


@pytest.mark.parametrize("gang", ["", "volcano"])
@pytest.mark.parametrize("sleeping", [None, {"suspended": True}])
def test_w14_names_are_no_good_without_addresses(sleeping, gang):
    """mpijob:W-14: so the launcher is made, or goes on, when all workers have one."""
    there = mpi.pod(0, ip="10.0.0.1", ready=False)
    place = Place(names_early=True, gang=gang)
    for last, comes in (
        (mpi.pod(1, "Pending"), False),
        (mpi.pod(1, ip="10.0.0.2", ready=False), True),
        (mpi.pod(1, ip="10.0.0.2", deleting=True), False),
    ):
        found = mpi.seen(
            mpi.job(workers=2), there, last, status=status(), place=place,
            job=sleeping and mpi.launcher(**sleeping),
        )  # fmt: skip
        plan = decide(found)
        writes = [w for w in make.writes(plan) if w.resource == BATCH_JOBS]
        assert bool(writes) is comes
        groups = [w.object["spec"]["minMember"] for w in make.writes(plan, Apply)]
        assert groups == ([3 if comes or sleeping else 2] if gang else [])


def test_w16_pods_that_do_not_start_are_named():
    """mpijob:W-16: after a while, once, and for as long as they do not."""
    late = mpi.pod(1, "Pending", stuck="c: ImagePullBackOff", created="2026-01-02T03:03:00Z")
    young = mpi.pod(1, "Pending", stuck="c: ImagePullBackOff", created="2026-01-02T03:04:00Z")
    running = {"job": mpi.launcher(), "status": status()}
    plan, after = mpi.decided(mpi.seen(mpi.job(workers=2), mpi.pod(0), young, **running))
    assert plan.again_after_s == 25
    assert job_conditions(after, "Created")["message"] == "MPIJob bar/foo is created."
    _, after = mpi.decided(mpi.seen(mpi.job(workers=2), mpi.pod(0), late, **running))
    text = "foo-worker-1 (c: ImagePullBackOff)"
    created = job_conditions(after, "Created")
    assert (created["reason"], created["message"]) == ("MPIJobCreated", text)
    assert mpi.told(after) == [("Warning", "PodsNotStarted", text)]
    seen = mpi.seen(mpi.job(workers=2), mpi.pod(0), late, job=mpi.launcher(), status=after.status)
    assert mpi.told(mpi.decided(seen)[1]) == []
    seen = mpi.seen(mpi.job(workers=2), *pods(2), job=mpi.launcher(), status=after.status)
    message = job_conditions(mpi.decided(seen)[1], "Created")["message"]
    assert message == "MPIJob bar/foo is created."
