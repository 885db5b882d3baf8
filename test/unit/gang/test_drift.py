# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A patch is sent when the meaning differs, and never else."""

import pytest

from ascendop.gang.drift import group_drift, settle
from ascendop.gang.podgroup import build_pod_group

from . import make  # noqa: TID252  the standard library has a package called test

PLAIN = build_pod_group(
    make.master_and_workers(labels={"framework": "pytorch"}, annotations={"sp-block": "16"}), {}
)
NAMED = build_pod_group(make.master_and_workers(policy={"queue": "q", "priorityClass": "hi"}), {})
UNCHECKED = build_pod_group(make.gang(make.role("Worker", 2, {"name": "a"})), {})
EMPTY = build_pod_group(
    make.gang(make.role("Worker", 2, {"name": "a"}), policy={"minResources": {}}), {}
)
RECOVERING = build_pod_group(
    make.master_and_workers(extra_labels={"process-recover-enable": "on"}), {}
)
AMOUNTS = {"cpu": "96", "huawei.com/Ascend910": "32", "memory": "384Gi"}


@pytest.mark.parametrize(
    ("want", "change"),
    [
        pytest.param(PLAIN, {}, id="as applied, with the queue that the server filled in"),
        pytest.param(PLAIN, {"spec": {"queue": "team"}}, id="a queue chosen by a webhook"),
        pytest.param(NAMED, {}, id="as applied, with queue and class"),
        pytest.param(
            PLAIN,
            {"spec": {"minResources": AMOUNTS | {"cpu": "96000m", "memory": "412316860416"}}},
            id="the same amounts in other words",
        ),
        pytest.param(
            PLAIN, {"spec": {"minResources": AMOUNTS | {"cpu": 96}}}, id="an amount as number"
        ),
        pytest.param(
            PLAIN,
            {"annotations": {"huawei.com/schedule_enqueue_time": "1"}},
            id="scheduling:SCH-20",
        ),
        pytest.param(PLAIN, {"labels": {"tool": "x"}}, id="a label of somebody else"),
        pytest.param(PLAIN, {"spec": {"priorityClassName": ""}}, id="an empty class is none"),
        pytest.param(UNCHECKED, {"spec": {"minResources": None}}, id="null is absent"),
        pytest.param(UNCHECKED, {"spec": {"minTaskMember": {}}}, id="no members are no members"),
        pytest.param(EMPTY, {}, id="an empty map is an empty map"),
        pytest.param(
            RECOVERING, {"labels": {"process-recover-enable": "pause"}}, id="clusterd's label"
        ),
    ],
)
def test_what_means_the_same_is_no_drift(want, change):
    """scheduling:SCH-19, scheduling:SCH-20."""
    assert not group_drift(make.stored(want, **change), want)


@pytest.mark.parametrize(
    ("want", "change"),
    [
        pytest.param(PLAIN, {"spec": {"minMember": 3}}, id="another size"),
        pytest.param(PLAIN, {"spec": {"minTaskMember": {"master": 1}}}, id="a missing role"),
        pytest.param(
            PLAIN,
            {"spec": {"minTaskMember": {"master": 1, "worker": 3, "x": 1}}},
            id="a role too many",
        ),
        pytest.param(NAMED, {"spec": {"queue": "old"}}, id="scheduling:SCH-13 another queue"),
        pytest.param(NAMED, {"spec": {"queue": None}}, id="no queue"),
        pytest.param(NAMED, {"spec": {"priorityClassName": "low"}}, id="another class"),
        pytest.param(PLAIN, {"spec": {"priorityClassName": "old"}}, id="a class that went"),
        pytest.param(
            PLAIN, {"spec": {"minResources": AMOUNTS | {"cpu": "95"}}}, id="another amount"
        ),
        pytest.param(
            PLAIN, {"spec": {"minResources": AMOUNTS | {"x": "1"}}}, id="an amount too many"
        ),
        pytest.param(PLAIN, {"spec": {"minResources": None}}, id="amounts that went"),
        pytest.param(PLAIN, {"spec": {"minResources": AMOUNTS | {"cpu": "lots"}}}, id="nonsense"),
        pytest.param(UNCHECKED, {"spec": {"minResources": {}}}, id="an empty map is not nothing"),
        pytest.param(EMPTY, {"spec": {"minResources": None}}, id="nothing is not an empty map"),
        pytest.param(PLAIN, {"labels": {"framework": "mindspore"}}, id="another label"),
        pytest.param(PLAIN, {"annotations": {"sp-block": "32"}}, id="another annotation"),
    ],
)
def test_what_means_something_else_is_drift(want, change):
    """ascendjob:W-46, scheduling:SCH-18, scheduling:SCH-19, scheduling:SCH-27."""
    assert group_drift(make.stored(want, **change), want)


def test_a_label_or_annotation_that_is_new_on_the_job_is_drift():
    bare = build_pod_group(make.master_and_workers(), {})
    assert group_drift(make.stored(bare), PLAIN)
    assert group_drift(make.stored(bare), RECOVERING)


def test_what_clusterd_wrote_since_the_creation_is_applied_as_it_is_now():
    """ascendjob.md 7.8."""
    paused = make.stored(RECOVERING, labels={"process-recover-enable": "pause"})
    assert settle(paused, RECOVERING)["metadata"]["labels"] == {"process-recover-enable": "pause"}
    assert RECOVERING["metadata"]["labels"] == {"process-recover-enable": "on"}
    assert settle(make.stored(PLAIN), PLAIN) is PLAIN


def test_a_label_that_the_job_no_longer_asks_for_is_not_kept():
    paused = make.stored(RECOVERING, labels={"process-recover-enable": "pause"})
    assert settle(paused, PLAIN) is PLAIN
