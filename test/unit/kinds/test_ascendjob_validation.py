# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""AscendJobs that cannot run as written; ascendjob.md 2 and 12.1."""

import pytest

from ascendop.errors import InvalidJobError
from ascendop.kube.resource import POD_GROUPS, SERVICES
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..make import container, job, replica  # noqa: TID252  likewise

ASCEND_310 = "huawei.com/Ascend310"


def problems(obj):
    found = make.parsed(make.KINDS["AscendJob"], make.row(obj))
    return list(found.problems) if isinstance(found, InvalidJobError) else []


def no_npus(count):
    return replica(count, npus=0)


@pytest.mark.parametrize(
    ("obj", "reason", "words"),
    [
        pytest.param(
            job(framework=None),
            "InvalidFramework",
            "framework label is not set, please set label framework as one of "
            "<pytorch,mindspore,tensorflow>",
            id="ascendjob:V1 no framework",
        ),
        pytest.param(
            job("mempool"), "InvalidFramework", "mempool", id="ascendjob:V2 unknown framework"
        ),
        pytest.param(
            job(Worker=2),
            "InvalidReplicaType",
            "replicaType is not valid: there need 1 leader replicaType, "
            "Master for pytorch, Chief of tensorflow",
            id="ascendjob:V3 no leader",
        ),
        pytest.param(
            job(Master=2, Worker=1),
            "InvalidReplicaSpec",
            "Master replicaSpec is not valid, the replicas must be only 1",
            id="ascendjob:V4 two leaders",
        ),
        pytest.param(
            job(Chief=1, Worker=1),
            "InvalidReplicaType",
            "replicaType is Chief but must be one of [Master Worker]",
            id="ascendjob:V5 another framework's leader",
        ),
        pytest.param(
            job(Master=1, Worker=-1),
            "InvalidReplicaSpec",
            "Worker replicaSpec is not valid: replicas can not be negative num, but got -1",
            id="ascendjob:V7 fewer than none",
        ),
        pytest.param(
            job(Master=1, Worker=20001),
            "InvalidReplicaSpec",
            "Worker replicaSpec is not valid: replicas can not be larger than 20000, but got 20001",
            id="ascendjob:V7 more than the most",
        ),
        pytest.param(
            job(Master=replica(1, container("main"))),
            "InvalidContainer",
            "Master replicaSpec is not valid: There is no container named ascend",
            id="ascendjob:V8 no container of the name",
        ),
        pytest.param(
            job(Master=replica(1, container(image=""))),
            "InvalidContainer",
            "Master",
            id="ascendjob:V9 no image",
        ),
        pytest.param(
            job("mindspore", Worker=replica(2, npus=1)),
            "InvalidReplicaSpec",
            "replicaSpec is not valid: when scheduler not found, the req num must be 1",
            id="ascendjob:V11 two chips in two pods without a scheduler",
        ),
        pytest.param(
            job("mindspore", Worker=replica(1, npus=8)),
            "InvalidReplicaSpec",
            "the req num must be 1",
            id="ascendjob:V11 eight chips in one pod without a scheduler",
        ),
        pytest.param(
            job(spec={"successPolicy": "Any"}),
            "InvalidSuccessPolicy",
            'job success policy is invalid, it must be one of <"", AllWorkers>',
            id="ascendjob:V12 unknown success policy",
        ),
        pytest.param(
            job(labels={"scaleout-type": "ib"}),
            "InvalidScaleOutConfig",
            "scaleout-type",
            id="ascendjob:V15 unknown scale-out",
        ),
        pytest.param(
            job(labels={"mind-cluster/scaling-rule": "r", "jobID": "s"}),
            "InvalidScalingConfig",
            "job j has no group name, "
            "please set label of mind-cluster/group-name=<the group of job>",
            id="ascendjob:V16 a scaling rule without a group",
        ),
        pytest.param(
            job(labels={"mind-cluster/scaling-rule": "r", "mind-cluster/group-name": "g"}),
            "InvalidScalingConfig",
            "jobID",
            id="ascendjob:V16 a scaling rule without a job id",
        ),
        pytest.param(
            job() | {"spec": None}, "InvalidSpecs", "is missing", id="ascendjob:V17 no spec"
        ),
        pytest.param(
            job(labels={"fault-retry-times": "many"}),
            "InvalidFaultRetryTimes",
            "many",
            id="a retry budget that is no number",
        ),
        pytest.param(job(name="x" * 60), "InvalidName", "63", id="a name too long for a Service"),
        pytest.param(job(name="a.b"), "InvalidName", "begin with a letter", id="a name with a dot"),
        pytest.param(job(name="1st"), "InvalidName", "begin with a letter", id="a digit in front"),
    ],
)
def test_a_job_that_cannot_run_is_told_why(obj, reason, words):
    """field-reports:FR-022 field-reports:FR-051 field-reports:FR-067"""
    found = problems(obj)
    assert [problem.reason for problem in found] == [reason]
    assert words in str(found[0])


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            job(roles={"master": 1, "WORKER": 1}), id="ascendjob:V6 roles in any letter case"
        ),
        pytest.param(job(Master=1, Worker=20000), id="ascendjob:V7 as many as can be"),
        pytest.param(job(Master=1, Worker=0), id="ascendjob:V7 no workers"),
        pytest.param(job("mindspore", Worker=replica(1, npus=1)), id="ascendjob:V10 one chip"),
        pytest.param(job("mindspore", Worker=no_npus(2)), id="ascendjob:V11 workers without chips"),
        pytest.param(
            job(policy={"schedulingPolicy": {"minAvailable": 2}}),
            id="ascendjob:V14 a policy without a queue",
        ),
        pytest.param(job(labels={"scaleout-type": "RoCe"}), id="ascendjob:V15 any letter case"),
        pytest.param(job(labels={"scaleout-type": " "}), id="ascendjob:V15 a blank"),
        pytest.param(
            job(
                labels={
                    "mind-cluster/scaling-rule": "r",
                    "mind-cluster/group-name": "g",
                    "jobID": "s",
                }
            ),
            id="ascendjob:V16 a whole scaling rule",
        ),
        pytest.param(job(spec={"successPolicy": "AllWorkers"}), id="a known success policy"),
        pytest.param(job(spec={"successPolicy": ""}), id="an empty success policy"),
    ],
)
def test_a_job_that_can_run_is_let_through(obj):
    assert problems(obj) == []


def test_v6_a_role_in_any_letter_case_is_the_role_of_the_contract():
    """ascendjob:V6 ascendjob:W-44: in names, labels, variables and counters."""
    plan = decide(make.snapshot(job(roles={"master": 1, "WORKER": 1})))
    made = make.created(plan)
    assert list(made) == ["j-master-0", "j-worker-0"]
    assert [make.env_of(pod)["REPLICA_TYPE"] for pod in made.values()] == ["Master", "Worker"]
    assert [pod["metadata"]["labels"]["replica-type"] for pod in made.values()] == [
        "master",
        "worker",
    ]
    assert list(make.concluded(plan).status["replicaStatuses"]) == ["Master", "Worker"]


def test_v10_a_worker_alone_needs_no_service_and_gets_no_variable():
    """ascendjob:V10"""
    plan = decide(make.snapshot(job("mindspore", Worker=replica(1, npus=1)), services=()))
    assert make.created(plan, SERVICES) == {}
    (pod,) = make.created(plan).values()
    assert make.env_of(pod) == {}


def test_every_mistake_is_told_at_once_and_in_one_order():
    """ascendjob:W-44"""
    obj = job(labels={"scaleout-type": "ib"}, Worker=replica(-1, container("main")), Chief=1)
    paths = [problem.path for problem in problems(obj)]
    assert paths == [
        "metadata.labels.scaleout-type",
        "spec.replicaSpecs.Chief",
        "spec.replicaSpecs.Worker.replicas",
        "spec.replicaSpecs.Worker.template.spec.containers",
    ]


def test_v1_a_refused_job_fails_with_one_condition_and_one_event():
    """ascendjob:V1: nothing is made, and the reason is the first word of the message."""
    plan = decide(make.snapshot(job(framework=None)))
    found = make.concluded(plan)
    assert plan.steps == ()
    assert make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")
    assert found.status["conditions"][-1]["message"].startswith("InvalidFramework: framework label")
    assert [(event.type, event.reason) for event in found.events] == [
        ("Warning", "InvalidFramework")
    ]


def test_v15_an_unknown_scale_out_has_no_event():
    """ascendjob:W-30 ascendjob:V15"""
    found = make.concluded(decide(make.snapshot(job(labels={"scaleout-type": "ib"}))))
    assert found.events == ()
    assert make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")


QUEUED = job(policy={"schedulingPolicy": {"queue": "nope"}})


def test_v13_a_queue_that_does_not_exist_fails_the_job():
    """ascendjob:W-4 ascendjob:V13"""
    found = make.concluded(decide(make.snapshot(QUEUED, queue=None)))
    assert make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")
    message = found.status["conditions"][-1]["message"]
    assert message.startswith("InvalidQueue: check queue<nope> failed, err: ")
    assert message.endswith(", maybe it is not create")
    assert [(event.type, event.reason) for event in found.events] == [("Warning", "InvalidQueue")]


def test_v14_a_policy_without_a_queue_is_held_against_no_job():
    """ascendjob:V14: not even where there is no queue at all; the PodGroup leaves it open."""
    obj = job(policy={"schedulingPolicy": {"minAvailable": 2}})
    plan = decide(make.snapshot(obj, queue=None, group=make.group("", name="another")))
    (group,) = make.created(plan, POD_GROUPS).values()
    assert group["spec"].get("queue", "default") == "default"
    assert plan.absent is None
    assert "Failed" not in {type_ for type_, _, _ in make.conditions(make.concluded(plan))}


@pytest.mark.parametrize(
    "of_world",
    [
        pytest.param({"gang": False}, id="ascendjob:V13 gang scheduling is off"),
        pytest.param({"queues_known": False}, id="nobody knows which queues there are"),
        pytest.param({"pods": [make.pod("master")]}, id="its pods are there already"),
    ],
)
def test_a_queue_that_does_not_exist_is_not_held_against_the_job_when(of_world):
    """ascendjob:W-4"""
    found = make.concluded(decide(make.snapshot(QUEUED, queue=None, **of_world)))
    assert "JobValidFailed" not in {reason for _, _, reason in make.conditions(found)}


def test_v18_a_job_that_failed_stays_failed_when_it_is_corrected():
    """ascendjob:V18"""
    failed = make.concluded(decide(make.snapshot(job(framework=None)))).status
    plan = decide(make.snapshot(job(), status=failed, group=make.group()))
    assert make.created(plan) == {}
    assert make.unchanged(failed, make.concluded(plan))
    assert make.deleted(plan, POD_GROUPS) == ["j-U"], "it is finished like any other job"


def test_a_running_job_is_told_of_a_mistake_and_goes_on():
    running = {"conditions": [{"type": "Running", "status": "True", "reason": "JobRunning"}]}
    seen = make.snapshot(job("mempool"), pods=[make.pod("master")], status=running)
    found = make.concluded(decide(seen))
    assert make.unchanged(running, found)
    assert [event.reason for event in found.events] == ["InvalidFramework"]
