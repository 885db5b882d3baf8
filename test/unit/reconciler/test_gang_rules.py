# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What Volcano and its NPU plug-in rely on, from the PodGroup to the pods that come back."""

from dataclasses import replace

import pytest

from ascendop.apply.plan import Apply, Create, Delete
from ascendop.kube.resource import POD_GROUPS, PODS
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after, changed, gone, is_quiet, turned  # noqa: TID252  likewise

NPU = "huawei.com/Ascend910"
OWNER = {
    "apiVersion": "mindxdl.gitee.com/v1",
    "kind": "AscendJob",
    "name": "j",
    "uid": "U",
    "controller": True,
    "blockOwnerDeletion": True,
}


def new(found, **of_world):
    """A job that was created just now."""
    return replace(make.snapshot(found, services=(), **of_world), group=None)


def group_of(plan):
    (found,) = [w.object for w in make.writes(plan, Apply) if w.resource == POD_GROUPS]
    return found


def running(found):
    """The job after all its pods were made and run."""
    seen = make.snapshot(found, group="Inqueue")
    seen = turned(after(seen, decide(seen)), "Running", node="n")
    return after(seen, decide(seen))


def pod_writes(plan):
    return [w for w in make.writes(plan) if w.resource == PODS]


# ── the PodGroup ──


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            make.job("tensorflow", Chief=1, Worker=1),
            {
                "minMember": 2,
                "minTaskMember": {"chief": 1, "worker": 1},
                "minResources": {NPU: "16"},
            },
            id="scheduling:C7",
        ),
        pytest.param(
            make.job(
                annotations={"sp-block": "32"},
                Master=make.replica(1, npus=16),
                Worker=make.replica(3, npus=16),
            ),
            {
                "minMember": 4,
                "minTaskMember": {"master": 1, "worker": 3},
                "minResources": {NPU: "64"},
            },
            id="scheduling:C11 a super-pod",
        ),
    ],
)
def test_the_spec_of_the_pod_group_of_a_whole_job(found, want):
    assert group_of(decide(new(found)))["spec"] == want


def test_labels_and_annotations_of_the_job_are_on_its_pod_group():
    """scheduling:C9, scheduling:C10, scheduling:C11, scheduling:SCH-27, scheduling:SCH-28,
    scheduling:SCH-71

    Kueue's label stays, as it was recorded; a recording wins over SCH-72.
    """
    labels = {"ring-controller.atlas": "ascend-910b", "fault-scheduling": "force"}
    annotations = {
        "sp-block": "16",
        "recover-strategy": "retry",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    meta = group_of(decide(new(make.job(labels=labels, annotations=annotations))))["metadata"]
    recovers = {"process-recover-enable": "on"}
    assert meta["labels"] == {"framework": "pytorch"} | labels | recovers
    assert meta["annotations"] == {"sp-block": "16", "recover-strategy": "retry"}
    assert (meta["name"], meta["ownerReferences"]) == ("j-U", [OWNER])
    assert not meta["name"].startswith("podgroup-")


def test_a_change_of_the_job_is_one_apply_of_our_fields_over_what_was_seen():
    """scheduling:C13, scheduling:SCH-17, scheduling:SCH-34"""
    seen = make.snapshot(make.job(Master=1, Worker=3), services=(), group="Pending")
    grown = make.snapshot(make.job(Master=1, Worker=5), services=(), group=seen.group)
    (write,) = make.writes(decide(grown))
    assert isinstance(write, Apply)
    assert write.object["spec"] == {
        "minMember": 6,
        "minTaskMember": {"master": 1, "worker": 5},
        "minResources": {NPU: "48"},
    }
    assert write.object["metadata"]["resourceVersion"] == seen.group.version
    assert "status" not in write.object and make.writes(decide(seen)) == []


def test_without_gangs_there_is_no_pod_group_and_pods_know_of_none():
    """scheduling:C40"""
    seen = make.snapshot(make.job(), gang=False)
    plan = decide(seen)
    assert make.created(plan, POD_GROUPS) == {}
    for pod in make.created(plan).values():
        assert "scheduling.k8s.io/group-name" not in pod["metadata"]["annotations"]
        assert "schedulerName" not in pod["spec"]


def test_a_job_that_is_created_asleep_has_nothing_and_one_that_is_put_to_sleep_keeps_nothing():
    """scheduling:C30, scheduling:C32, scheduling:SCH-21: pods go with or before their PodGroup."""
    asleep = make.job(Master=1, Worker=3, policy={"suspend": True})
    assert make.writes(decide(new(asleep))) == []
    seen = running(make.job(Master=1, Worker=3))
    plan = decide(replace(seen, job=make.snapshot(asleep).job))
    deleted = [w.resource for w in make.writes(plan, Delete)]
    assert deleted.count(PODS) == 4 and deleted[-1] == POD_GROUPS


# ── the pods ──


def test_each_pod_is_made_into_its_gang_with_its_role_and_rank():
    """scheduling:SCH-5, scheduling:SCH-9, scheduling:SCH-29, scheduling:I3, scheduling:I5

    All at once, whether any of them runs or not.
    """
    made = make.created(decide(make.snapshot(make.job(Master=1, Worker=3), group="Inqueue")))
    assert list(made) == ["j-master-0", "j-worker-0", "j-worker-1", "j-worker-2"]
    for rank, pod in enumerate(made.values()):
        keys = pod["metadata"]["annotations"]
        assert keys["scheduling.k8s.io/group-name"] == "j-U"
        assert keys["volcano.sh/task-spec"] == pod["metadata"]["name"].split("-")[1]
        assert keys["hccl/rankIndex"] == str(rank)
        assert pod["spec"]["schedulerName"] == "volcano"


def test_a_job_that_runs_is_written_to_no_more():
    """scheduling:I4: no write in a steady state."""
    seen = running(make.job(Master=1, Worker=3))
    assert is_quiet(seen, decide(seen))


@pytest.mark.parametrize("phase", ["Pending", "Unknown", ""])
def test_a_pod_that_is_lost_comes_back_as_it_was_and_at_once(phase):
    """scheduling:P11, scheduling:SCH-32, scheduling:SCH-34: same name, rank and PodGroup."""
    seen = running(make.job(Master=1, Worker=3))
    seen = replace(gone(seen, "j-worker-1"), group=changed(seen.group, phase=phase))
    plan = decide(seen)
    (back,) = make.created(plan).values()
    assert back["metadata"]["name"] == "j-worker-1"
    keys = back["metadata"]["annotations"]
    assert (keys["hccl/rankIndex"], keys["scheduling.k8s.io/group-name"]) == ("2", "j-U")
    assert make.created(plan, POD_GROUPS) == {} and make.deleted(plan, POD_GROUPS) == []


def test_a_gang_that_lost_all_its_pods_waits_again():
    """scheduling:SCH-2: a restart of all pods needs the scheduler's word."""
    seen = running(make.job(Master=1, Worker=1))
    seen = gone(replace(seen, group=changed(seen.group, phase="Pending")), *("j-master-0",))
    seen = gone(seen, "j-worker-0")
    assert make.created(decide(seen)) == {}
    admitted = replace(seen, group=changed(seen.group, phase="Inqueue"))
    assert list(make.created(decide(admitted))) == ["j-master-0", "j-worker-0"]


def test_a_pod_that_still_ends_is_not_made_again_before_it_has_gone():
    """scheduling:P19, scheduling:SCH-35"""
    seen = running(make.job(Master=1, Worker=3))
    pods = tuple(changed(p, deleting=True) if p.name == "j-worker-1" else p for p in seen.pods)
    plan = decide(replace(seen, pods=pods))
    assert [w for w in pod_writes(plan) if isinstance(w, Create)] == []
