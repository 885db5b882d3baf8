# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Job in, PodGroup out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.gang.podgroup import build_pod_group
from ascendop.kube.quantity import QuantityError

from . import make  # noqa: TID252  the standard library has a package called test
from .make import BIG, container, npus, role  # noqa: TID252  likewise


def spec(gang, **priorities):
    return build_pod_group(gang, priorities)["spec"]


def mindspore(scheduler, worker, workers=2):
    return make.gang(
        role("Scheduler", 1, scheduler), role("Worker", workers, worker), task_members=True
    )


CONTRACT = [
    pytest.param(
        make.master_and_workers(),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "96", "huawei.com/Ascend910": "32", "memory": "384Gi"},
        },
        id="scheduling:C1",
    ),
    pytest.param(
        make.master_and_workers(policy={"queue": "q", "priorityClass": "hi"}),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "worker": 3},
            "queue": "q",
            "priorityClassName": "hi",
            "minResources": {"cpu": "96", "huawei.com/Ascend910": "32", "memory": "384Gi"},
        },
        id="scheduling:C2",
    ),
    pytest.param(
        make.master_and_workers(policy={"minAvailable": 2}),
        {
            "minMember": 2,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "48", "huawei.com/Ascend910": "16", "memory": "192Gi"},
        },
        id="scheduling:C3",
    ),
    pytest.param(
        make.master_and_workers(policy={"minResources": {"cpu": 1}}),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "1"},
        },
        id="scheduling:C4",
    ),
    pytest.param(
        mindspore(container(cpu=2, memory="4Gi"), BIG),
        {
            "minMember": 3,
            "minTaskMember": {"scheduler": 1, "worker": 2},
            "minResources": {"cpu": "50", "huawei.com/Ascend910": "16", "memory": "196Gi"},
        },
        id="scheduling:C5",
    ),
    pytest.param(
        make.gang(role("Worker", 1, npus(1, cpu=4)), task_members=True),
        {
            "minMember": 1,
            "minTaskMember": {"worker": 1},
            "minResources": {"cpu": "4", "huawei.com/Ascend910": "1"},
        },
        id="scheduling:C6",
    ),
    pytest.param(
        make.master_and_workers(container({"huawei.com/Ascend910": 8}, cpu=24, memory="96Gi")),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "96", "huawei.com/Ascend910": "32", "memory": "384Gi"},
        },
        id="scheduling:C8 devices only in the limits",
    ),
    pytest.param(
        make.gang(
            role("Launcher", 1, container(cpu=1), delayed=True),
            role("Worker", 4, container(cpu=8)),
        ),
        {"minMember": 4, "minResources": {"cpu": "32"}},
        id="scheduling:C23 a role that waits for the others",
    ),
    pytest.param(
        make.gang(
            role("Launcher", 1, container(cpu=1), delayed=True),
            role("Worker", 4, container(cpu=8)),
            policy={"minAvailable": 5},
        ),
        {"minMember": 5, "minResources": {"cpu": "33"}},
        id="scheduling:SCH-10 unless the user counted it",
    ),
    pytest.param(
        make.gang(
            role("Launcher", 1, container(cpu=1)),
            role("Worker", 4, container(cpu=8), priority_class="hi"),
            policy={"minAvailable": 3},
        ),
        {"minMember": 3, "minResources": {"cpu": "24"}},
        id="scheduling:C24 the important role first",
    ),
    pytest.param(
        make.gang(role("Worker", 2, {"name": "a"})),
        {"minMember": 2},
        id="scheduling:C27 nobody asks for anything",
    ),
    pytest.param(
        make.gang(role("Worker", 2, container(cpu=0))),
        {"minMember": 2},
        id="scheduling:SCH-68 zeros are dropped",
    ),
    pytest.param(
        make.gang(role("Worker", 2, container(cpu=1), initContainers=[container(cpu=4)])),
        {"minMember": 2, "minResources": {"cpu": "8"}},
        id="scheduling:C28",
    ),
    pytest.param(
        make.gang(
            role(
                "Worker",
                2,
                container(cpu=2),
                initContainers=[container(cpu=1) | {"restartPolicy": "Always"}],
                overhead={"cpu": "250m"},
            )
        ),
        {"minMember": 2, "minResources": {"cpu": "6500m"}},
        id="scheduling:C29",
    ),
    pytest.param(
        make.master_and_workers(container(cpu=1), policy={"minAvailable": 9}),
        {
            "minMember": 9,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "4"},
        },
        id="scheduling:C33 more than there are is kept",
    ),
    pytest.param(
        make.gang(
            role("Master", 1, container(cpu=1)),
            role("Worker", 3, container(cpu=1), task="trainer"),
            task_members=True,
        ),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "trainer": 3},
            "minResources": {"cpu": "4"},
        },
        id="scheduling:C34 the user's own task name",
    ),
    pytest.param(
        make.gang(role("Worker", 2, container(cpu=1)), policy={"minResources": {}}),
        {"minMember": 2, "minResources": {}},
        id="scheduling:C42 an empty map stays an empty map",
    ),
    pytest.param(
        make.gang(role("Worker", 2, container(cpu=1)), policy={"minAvailable": 0}),
        {"minMember": 1, "minResources": {"cpu": "1"}},
        id="scheduling:SCH-65 no gang is a gang of one",
    ),
    pytest.param(
        make.gang(role("Worker", 0, container(cpu=1))),
        {"minMember": 1},
        id="scheduling:SCH-65 no pods at all",
    ),
    pytest.param(
        make.master_and_workers(container({"cpu": 2})),
        {
            "minMember": 4,
            "minTaskMember": {"master": 1, "worker": 3},
            "minResources": {"cpu": "8"},
        },
        id="limits count where requests are absent",
    ),
    pytest.param(
        make.master_and_workers(npus(), policy={"minAvailable": 1, "queue": "default"}),
        {
            "minMember": 1,
            "minTaskMember": {"master": 1, "worker": 3},
            "queue": "default",
            "minResources": {"huawei.com/Ascend910": "8"},
        },
        id="a gang of one of four",
    ),
]


@pytest.mark.parametrize(("gang", "want"), CONTRACT)
def test_p4_p13_the_spec_of_a_pod_group(gang, want):
    """ascendjob:P4, ascendjob:P13.

    scheduling:SCH-10, scheduling:SCH-65, scheduling:SCH-66, scheduling:SCH-67, scheduling:SCH-68,
    scheduling:SCH-69, scheduling:SCH-70.
    """
    assert spec(gang, hi=100) == want


def test_nothing_but_a_name_labels_annotations_one_owner_and_a_spec():
    """scheduling:SCH-17, scheduling:SCH-22, scheduling:SCH-27, scheduling:SCH-72."""
    got = build_pod_group(
        make.master_and_workers(
            labels={"ring-controller.atlas": "ascend-910b", "kueue.x-k8s.io/queue-name": "lq"},
            annotations={
                "sp-block": "16",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "argocd.argoproj.io/tracking-id": "x",
                "ascendop.io/attempt": "3",
            },
            extra_labels={"process-recover-enable": "on"},
        ),
        {},
    )
    del got["spec"]
    assert got == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "j-U",
            "namespace": "ns",
            "labels": {
                "ring-controller.atlas": "ascend-910b",
                "kueue.x-k8s.io/queue-name": "lq",
                "process-recover-enable": "on",
            },
            "annotations": {"sp-block": "16"},
            "ownerReferences": [make.OWNER],
        },
    }


def test_maps_without_an_entry_are_left_out():
    got = build_pod_group(make.master_and_workers(), {})
    assert "labels" not in got["metadata"] and "annotations" not in got["metadata"]


def test_our_label_wins_over_the_one_that_the_user_gave_the_job():
    """ascendjob.md 4.4."""
    job = make.master_and_workers(
        labels={"process-recover-enable": "off"}, extra_labels={"process-recover-enable": "on"}
    )
    assert build_pod_group(job, {})["metadata"]["labels"] == {"process-recover-enable": "on"}


PARAMETER_SERVERS = (
    role(
        "Worker", 4, container(cpu=2, memory="16Gi", **{"nvidia.com/gpu": 1}), priority_class="mid"
    ),
    role("PS", 2, container(cpu=4, memory="8Gi")),
    role("Chief", 1, container(cpu=1, memory="4Gi"), priority_class="hi"),
)


@pytest.mark.parametrize(
    ("priorities", "want"),
    [
        pytest.param(
            {"hi": 100, "mid": 50},
            {"cpu": "5", "memory": "36Gi", "nvidia.com/gpu": "2"},
            id="scheduling:C18",
        ),
        pytest.param(
            {}, {"cpu": "9", "memory": "20Gi"}, id="scheduling:C17 unknown classes count as zero"
        ),
    ],
)
@given(order=st.permutations(PARAMETER_SERVERS))
def test_the_order_in_which_roles_are_written_decides_nothing(priorities, want, order):
    """field-reports:FR-030 scheduling:SCH-67, ascendjob:W-46."""
    gang = make.gang(*order, policy={"minAvailable": 3})
    assert spec(gang, **priorities)["minResources"] == want


def test_negative_priorities_come_last():
    gang = make.gang(
        role("Master", 1, container(cpu=1), priority_class="low"),
        role("Worker", 1, container(cpu=8)),
        policy={"minAvailable": 1},
    )
    assert spec(gang, low=-10)["minResources"] == {"cpu": "8"}


def test_roles_of_one_task_name_are_counted_together():
    """scheduling:SCH-6."""
    gang = make.gang(
        role("Master", 1, BIG, task="trainer"),
        role("Worker", 3, BIG, task="trainer"),
        task_members=True,
    )
    assert spec(gang)["minTaskMember"] == {"trainer": 4}


@pytest.mark.parametrize("policy", [None, {"minResources": {"memory": "99E", "npu": "99E"}}])
def test_no_more_is_asked_for_than_the_scheduler_can_count(policy):
    each = container(memory="9E", npu="9E")
    amounts = spec(make.gang(role("Worker", 20_000, each), policy=policy))["minResources"]
    assert amounts == {"memory": str(2**63 - 1), "npu": str((2**63 - 1) // 1000)}


def test_an_unreadable_amount_is_an_error_with_the_text_in_it():
    with pytest.raises(QuantityError, match="'plenty' is not an amount"):
        spec(make.gang(role("Worker", 1, container(cpu="plenty"))))
