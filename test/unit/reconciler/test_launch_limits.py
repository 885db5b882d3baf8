# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the original leaves to its users about jobs with a launcher: limits, leftovers, drift."""

from datetime import timedelta

import msgspec
import pytest

from ascendop.api.launch import NOWHERE, Place
from ascendop.apply.plan import Delete, Patch
from ascendop.builder.content import program_content
from ascendop.kube.resource import BATCH_JOBS, POD_GROUPS, PODS, SECRETS, SHARED_CONFIGMAPS
from ascendop.reconciler.decide import decide

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .. import make  # noqa: TID252  likewise

STARTED = "2026-01-02T03:04:05Z"
STRICT = Place(strict=True)


def said(type_, status="True", reason=None):
    return {
        "type": type_,
        "status": status,
        "reason": reason or f"MPIJob{type_}",
        "message": f"MPIJob bar/foo is {type_.lower()}.",
        "lastUpdateTime": STARTED,
        "lastTransitionTime": STARTED,
    }


def status(*conditions, **fields):
    return {"conditions": [said("Created"), *conditions], "startTime": STARTED, **fields}


def after(seconds):
    return {"now": make.NOW + timedelta(seconds=seconds)}


def waiting(*pods, **fields):
    """A job whose launcher waits for two workers, of which these are there."""
    policy = {"activeDeadlineSeconds": 60}
    obj = mpi.job(workers=2, policy=policy, launcherCreationPolicy="WaitForWorkersReady")
    return mpi.seen(obj, *pods, **{"status": status(), **fields})


# ── GPUs on the launcher ──


def gpus(*env, **spec):
    """A job whose launcher has this environment, and requests what is said."""
    amount = {"resources": spec.pop("resources")} if "resources" in spec else {}
    launcher = {"template": mpi.template({**mpi.PLAIN, "env": list(env), **amount})}
    return mpi.job(workers=1, launcher=launcher, **spec)


def blanked(obj, place=NOWHERE):
    """Whether the launcher is kept from GPUs, and what is told of that."""
    plan, found = mpi.decided(mpi.seen(obj, shared={}, place=place))
    (job,) = (w.object for s in plan.steps for w in s.writes if w.object["kind"] == "Job")
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    last = {entry["name"]: entry.get("value", "") for entry in env}
    told = [text for _, reason, text in mpi.told(found) if reason == "EnvironmentOverridden"]
    return last.get(MINE["name"]), told


MINE = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
ONE_GPU = {"limits": {"nvidia.com/gpu": "1"}}


def test_a_launcher_that_asks_for_gpus_sees_them():
    """field-reports:FR-042"""
    assert blanked(gpus()) == ("", [])
    assert blanked(gpus(resources={"limits": {"cpu": "1"}})) == ("", [])
    assert blanked(gpus(resources=ONE_GPU)) == (None, [])
    assert blanked(gpus(MINE, resources=ONE_GPU)) == ("all", [])
    assert blanked(gpus(MINE, runLauncherAsWorker=True)) == ("all", [])
    assert blanked(gpus(MINE, resources=ONE_GPU), STRICT) == ("", [])


def test_who_is_not_heard_is_told():
    """field-reports:FR-042"""
    text = (
        "NVIDIA_VISIBLE_DEVICES=all of the launcher does not count, since it asks for no GPU: "
        "request nvidia.com/gpu, or set runLauncherAsWorker"
    )
    assert blanked(gpus(MINE)) == ("", [text])
    assert blanked(gpus(MINE), STRICT) == ("", [])


# ── how long a job may take to start ──


def test_w16_the_deadline_runs_while_there_is_no_launcher():
    """mpijob:W-16: the Job that would count it is not made yet."""
    half = (mpi.pod(0), mpi.pod(1, "Pending"))
    assert decide(waiting(*half, **after(0))).again_after_s == 30
    assert decide(waiting(*half, **after(59))).again_after_s == 1
    plan, found = mpi.decided(waiting(*half, **after(60)))
    text = (
        "MPIJob bar/foo has not started within 60 s (activeDeadlineSeconds): "
        "1 of 2 workers are ready, not foo-worker-1"
    )
    assert mpi.conditions(found)[0] == ("Created", "True", "MPIJobCreated")
    assert ("Failed", "True", "DeadlineExceeded") in mpi.conditions(found)
    assert ("Warning", "DeadlineExceeded", text) in mpi.told(found)
    assert found.status["completionTime"] == "2026-01-02T03:05:05Z"
    assert plan.steps == () and plan.destructive


def test_w16_the_deadline_says_which_pods_do_not_start():
    """mpijob:W-16"""
    stuck = mpi.pod(1, "Pending", stuck="c: ImagePullBackOff", created=STARTED)
    _, found = mpi.decided(waiting(mpi.pod(0), stuck, **after(60)))
    (text,) = (text for _, reason, text in mpi.told(found) if reason == "DeadlineExceeded")
    assert text.endswith("(activeDeadlineSeconds): foo-worker-1 (c: ImagePullBackOff)")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"job": mpi.launcher()}, id="the Job of the launcher counts itself"),
        pytest.param({"place": STRICT}, id="as in the original"),
        pytest.param({"status": {"conditions": [said("Created")]}}, id="not started"),
        pytest.param({"status": status(said("Suspended"))}, id="woken just now, with a new start"),
    ],
)
def test_w16_nobody_counts_twice_or_what_has_not_begun(fields):
    """mpijob:W-16"""
    _, found = mpi.decided(waiting(mpi.pod(0), **after(999), **fields))
    assert "Failed" not in {type_ for type_, _, _ in mpi.conditions(found)}


@pytest.mark.parametrize(
    ("conditions", "fails"),
    [((), True), ((said("Running"),), False), ((said("Running", "False"),), True)],
)
def test_w16_a_start_may_take_so_long_where_the_operator_says_so(conditions, fails):
    """mpijob:W-16: also with a launcher, which is stopped then."""
    place = Place(start_timeout_s=30)
    obj = mpi.job(workers=1)
    seen = {"job": mpi.launcher(), "place": place, "status": status(*conditions)}
    running = mpi.launcher_pod("Pending")
    plan, found = mpi.decided(mpi.seen(obj, mpi.pod(0), of_launcher=[running], **seen, **after(30)))
    assert (("Failed", "True", "DeadlineExceeded") in mpi.conditions(found)) is fails
    if fails:
        ended = {**seen, "status": found.status}
        plan = decide(mpi.seen(obj, mpi.pod(0), of_launcher=[running], **ended, **after(30)))
        (stops,) = make.writes(plan, Patch)
        assert (stops.resource, stops.body) == (BATCH_JOBS, {"spec": {"suspend": True}})


def test_w16_a_launcher_that_waits_says_for_whom():
    """mpijob:W-16 field-reports:FR-007 field-reports:FR-037"""
    text = "the launcher waits: 1 of 2 workers are ready, not foo-worker-1"
    seen = (mpi.pod(0), mpi.pod(1, ready=False))
    _, found = mpi.decided(waiting(*seen, **after(29)))
    assert mpi.told(found) == []
    plan, found = mpi.decided(waiting(*seen, **after(30)))
    assert plan.again_after_s == 30
    assert found.status["conditions"][0]["message"] == text
    assert mpi.told(found) == [("Warning", "PodsNotStarted", text)]
    told = waiting(*seen, status=found.status, **after(40))
    assert mpi.told(mpi.decided(told)[1]) == []
    _, found = mpi.decided(waiting(mpi.pod(0), mpi.pod(1), status=found.status, **after(41)))
    assert found.status["conditions"][0]["message"] == "MPIJob bar/foo is created."


# ── what stays ──


def ending(place=NOWHERE, **policy):
    return mpi.seen(
        mpi.job(workers=2, policy=policy),
        *(mpi.pod(index) for index in range(2)),
        job=mpi.launcher(end="Complete"),
        status=status(said("Running")),
        place=place,
    )


def test_w15_pods_that_an_end_leaves_running_are_told_once():
    """mpijob:W-15: they hold their accelerators until somebody deletes the job."""
    _, found = mpi.decided(ending())
    (text,) = (text for _, reason, text in mpi.told(found) if reason == "PodsKept")
    assert text.startswith("2 pods run on")
    again = mpi.seen(
        mpi.job(workers=2), mpi.pod(0), job=mpi.launcher(end="Complete"), status=found.status
    )
    assert mpi.told(mpi.decided(again)[1]) == []


@pytest.mark.parametrize("seen", [ending(STRICT), ending(cleanPodPolicy="Running")])
def test_w15_who_asked_for_more_or_less_is_not_told(seen):
    """mpijob:W-15"""
    assert "PodsKept" not in {reason for _, reason, _ in mpi.told(mpi.decided(seen)[1])}


@pytest.mark.parametrize(
    ("place", "passed_s", "gone", "again_s"),
    [
        pytest.param(NOWHERE, 999, [], None, id="as in the original"),
        pytest.param(Place(deletes_expired=True), 20, [], 10, id="not yet"),
        pytest.param(Place(deletes_expired=True), 30, ["foo"], None, id="now"),
    ],
)
def test_w15_the_ttl_takes_the_whole_job_where_the_operator_says_so(place, passed_s, gone, again_s):
    """mpijob:W-15: with all that it owns, the private key too."""
    ended = status(said("Succeeded"), completionTime=STARTED)
    obj = mpi.job(workers=1, policy={"ttlSecondsAfterFinished": 30})
    plan = decide(mpi.seen(obj, status=ended, place=place, **after(passed_s)))
    assert [write.name for write in make.writes(plan, Delete)] == gone
    assert plan.again_after_s == again_s


@pytest.mark.parametrize("deletes", [False, True])
def test_w15_the_keys_go_with_the_end_where_the_operator_says_so(deletes):
    """mpijob:W-15: of a job that has ended, and only those that are its own."""
    place = Place(deletes_keys=deletes)
    obj = mpi.job(workers=1)
    ended = {"status": status(said("Succeeded"), completionTime=STARTED), "place": place}
    plan = decide(mpi.seen(obj, **ended))
    found = [(write.resource, write.name, write.uid) for write in make.writes(plan, Delete)]
    assert found == ([(SECRETS, "foo-ssh", "uid-Secret")] if deletes else [])
    shared = mpi.seen(obj).launched.shared
    for change in ({"owner_uid": "V"}, {"deleting": True}):
        secret = msgspec.structs.replace(shared["Secret"], **change)
        plan = decide(mpi.seen(obj, shared={**shared, "Secret": secret}, **ended))
        assert make.writes(plan, Delete) == []
    assert make.writes(decide(mpi.seen(obj, place=place)), Delete) == []


# ── a node that does not answer ──


def test_w38_a_launcher_that_a_lost_node_holds_is_named():
    """mpijob:W-38: no other one starts before it is gone."""
    fields = {"deleting": True, "disrupted": "DeletionByTaintManager", "node": "n2"}
    seen = {"job": mpi.launcher(), "status": status(said("Running"))}
    obj = mpi.job(workers=1)
    leaving = mpi.launcher_pod(ready=True, **fields)
    _, found = mpi.decided(mpi.seen(obj, mpi.pod(0), of_launcher=[leaving], **seen))
    assert mpi.told(found) == [], "a pod that still answers takes its time"
    lost = mpi.launcher_pod(ready=False, **fields)
    _, found = mpi.decided(mpi.seen(obj, mpi.pod(0), of_launcher=[lost], **seen))
    text = "foo-launcher-00000 (lost with node n2)"
    assert mpi.told(found) == [("Warning", "PodsNotStarted", text)]
    assert found.status["conditions"][0]["message"] == text


# ── a launcher that slept ──

ASLEEP = mpi.launcher(
    suspended=True,
    labels=("app", "old", "job-name", "batch.kubernetes.io/job-name"),
    annotations=("admitted-by",),
    node_affinity=True,
)
SLEPT = status(said("Suspended"), said("Running", "False", "MPIJobSuspended"))


def woken(spec=None, place=NOWHERE, **policy):
    launcher = {"template": mpi.template(metadata={"labels": {"app": "x"}}, **(spec or {}))}
    obj = mpi.job(workers=1, policy=policy, launcher=launcher)
    (patch,) = make.writes(decide(mpi.seen(obj, job=ASLEEP, status=SLEPT, place=place)), Patch)
    return patch.body["spec"]


def test_w39_marks_of_an_earlier_admission_go():
    """mpijob:W-39: but not those by which the server knows the pods of the Job."""
    meta = woken()["template"]["metadata"]
    assert meta["labels"]["old"] is None and meta["labels"]["app"] == "x"
    assert not {"job-name", "batch.kubernetes.io/job-name"} & meta["labels"].keys()
    assert meta["annotations"] == {"admitted-by": None}
    strict = woken(place=STRICT)["template"]["metadata"]
    assert "old" not in strict["labels"] and "annotations" not in strict


def test_w39_limits_that_were_changed_meanwhile_hold():
    """mpijob:W-39"""
    spec = woken(backoffLimit=3, activeDeadlineSeconds=60)
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (3, 60)
    assert spec["ttlSecondsAfterFinished"] is None
    assert "backoffLimit" not in woken(place=STRICT, backoffLimit=3)


def test_w39_affinity_to_nodes_is_followed():
    """mpijob:W-39: the rest of an affinity no Job may change."""
    required = {"nodeSelectorTerms": [{"matchFields": []}]}
    kinds = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    wanted = {"nodeAffinity": {kinds[0]: required}, "podAffinity": {}}
    (found,) = woken({"affinity": wanted})["template"]["spec"]["affinity"].items()
    assert found == ("nodeAffinity", {kinds[0]: required, kinds[1]: None})
    assert woken()["template"]["spec"]["affinity"] == {"nodeAffinity": None}
    assert "affinity" not in woken({"affinity": wanted}, STRICT)["template"]["spec"]


def keeps(place=NOWHERE, **launcher):
    """What Created says of a job that runs, and whether a Warning tells of it."""
    obj = mpi.job(workers=1)
    ran = mpi.seen(
        obj,
        mpi.pod(0),
        job=mpi.launcher(**launcher),
        of_launcher=(mpi.launcher_pod(),),
        status=status(said("Running")),
        place=place,
    )
    _, found = mpi.decided(ran)
    created = next(c for c in found.status["conditions"] if c["type"] == "Created")
    return created["message"], [r for _, r, _ in mpi.told(found) if r == "LauncherKept"]


def test_w39_an_edit_that_a_launcher_does_not_follow_is_told_of():
    """mpijob:W-39"""
    launcher = mpi.job(workers=1)["spec"]["mpiReplicaSpecs"]["Launcher"]
    wanted = program_content(launcher["template"]["spec"]["containers"])
    usual = "MPIJob bar/foo is created."
    text = (
        "the launcher keeps the containers that Job foo-launcher was made with: "
        "delete that Job, and it is made anew from the template of now"
    )
    assert keeps(program="another") == (text, ["LauncherKept"])
    assert keeps(program=wanted) == (usual, [])
    assert keeps(program="") == (usual, [])
    assert keeps(STRICT, program="another") == (usual, [])


# ── what a gang is made of ──


def test_w30_a_gang_counts_what_the_scheduler_will():
    """mpijob:W-30: steps of the start, side-cars and the overhead of the pods' runtime."""
    requests = {"requests": {"cpu": "1"}}
    workers = mpi.template(
        {**mpi.PLAIN, "resources": requests},
        initContainers=[
            {"name": "once", "image": "i", "resources": {"requests": {"cpu": "3"}}},
            {"name": "beside", "image": "i", "restartPolicy": "Always", "resources": requests},
        ],
        overhead={"cpu": "250m"},
    )
    obj = mpi.job(workers=2, worker={"template": workers})
    for whole, cpu in ((False, "2"), (True, "6500m")):
        place = Place(gang="volcano", whole_requests=whole)
        plan = decide(mpi.seen(obj, place=place, status=status()))
        group = make.created(plan, POD_GROUPS)["foo"]["spec"]
        assert group["minResources"] == {"cpu": cpu}


# ── hosts that change ──


@pytest.mark.parametrize("pokes", [False, True])
def test_w35_kubelet_is_made_to_look_where_the_operator_says_so(pokes):
    """mpijob:W-35: it refreshes the host file of a pod that changes at once."""
    place = Place(pokes_launcher=pokes)
    pods = [mpi.launcher_pod(version="7"), mpi.launcher_pod("Failed", number=1)]
    known = {"job": mpi.launcher(), "of_launcher": pods, "place": place}
    shared = mpi.shared_of(mpi.seen(mpi.job(workers=1)).job, (), place)
    fewer = mpi.seen(mpi.job(workers=2), mpi.pod(0), shared=shared, status=status(), **known)
    writes = make.writes(decide(fewer), Patch)
    found = [(w.resource, w.name, w.version, w.body) for w in writes if w.resource == PODS]
    body = {"metadata": {"annotations": {"ascendop.io/hosts-changed": "1"}}}
    assert found == ([(PODS, "foo-launcher-00000", "7", body)] if pokes else [])
    assert [w.resource for w in writes][:1] == [SHARED_CONFIGMAPS]
    same = mpi.seen(mpi.job(workers=2), mpi.pod(0), status=status(), **known)
    assert make.writes(decide(same), Patch) == []
