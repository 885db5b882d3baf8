# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Warnings come before people wonder, and not without a reason."""

import pytest

from ascendop.gang.advice import gang_advice, mixed_npus

from . import make  # noqa: TID252  the standard library has a package called test
from .make import container, role  # noqa: TID252  likewise

DELAYED = (role("Launcher", 1, delayed=True), role("Worker", 4))
TWO_KINDS = (
    role("Master", 1, make.npus(8)),
    role("Worker", 1, container(**{"huawei.com/Ascend310P": 1})),
)
BOTH = {"huawei.com/Ascend910": 8, "huawei.com/Ascend310P": 1}
CLASSED = role("Worker", 1, container(cpu=1), priority_class="hi")


@pytest.mark.parametrize(
    ("gang", "want"),
    [
        pytest.param(
            make.master_and_workers(policy={"minAvailable": 9}),
            ["minAvailable: is 9, but the job has 4 pods"],
            id="scheduling:SCH-65 larger than the job",
        ),
        pytest.param(
            make.gang(*DELAYED, policy={"minAvailable": 5}),
            ["minAvailable: is 5, but only 4 pods are made before"],
            id="scheduling:SCH-10 waits for pods that wait for it",
        ),
        pytest.param(
            make.gang(role("Worker", 1, priority_class="none")),
            ["Worker.template.spec.priorityClassName: no PriorityClass is called 'none'"],
            id="scheduling:SCH-67 an unknown class",
        ),
        pytest.param(
            make.gang(CLASSED),
            ["Worker.template.spec.priorityClassName: a class on the pods orders roles"],
            id="scheduling:SCH-74 a class on the pods alone",
        ),
        pytest.param(
            make.master_and_workers(policy={"minResources": {"cpu": 1}}),
            ["minResources: names 0 kinds of NPU, and the pods ask for huawei.com/Ascend910;"],
            id="scheduling:C4 scheduling:SCH-26 written by hand, without NPUs",
        ),
        pytest.param(
            make.gang(TWO_KINDS[0], TWO_KINDS[1], policy={"minResources": BOTH}),
            ["minResources: names 2 kinds of NPU, and the pods ask for huawei.com/Ascend310P, "],
            id="scheduling:SCH-26 written by hand, with two kinds",
        ),
        pytest.param(
            make.master_and_workers(policy={"minResources": {"huawei.com/Ascend910": 1}}),
            [],
            id="written by hand, with the one kind",
        ),
        pytest.param(make.gang(CLASSED, policy={"priorityClass": "hi"}), [], id="a class on both"),
        pytest.param(make.gang(*DELAYED, policy={"minAvailable": 4}), [], id="a size that fits"),
        pytest.param(make.master_and_workers(), [], id="nothing odd"),
    ],
)
def test_what_is_odd_about_a_gang(gang, want):
    got = [str(problem) for problem in gang_advice(gang, {"hi": 100})]
    assert len(got) == len(want)
    assert all(text in line for text, line in zip(want, got, strict=True))


def test_classes_that_cannot_be_read_are_not_called_unknown():
    unknown = make.gang(role("Worker", 1, priority_class="none"), policy={"priorityClass": "hi"})
    assert gang_advice(unknown, None) == ()
    assert [problem.reason for problem in gang_advice(unknown, {})] == ["PriorityClassUnknown"]


@pytest.mark.parametrize(
    ("gang", "mixed"),
    [
        pytest.param(make.gang(*TWO_KINDS), True, id="scheduling:C12 two kinds"),
        pytest.param(make.gang(*TWO_KINDS, policy={"minResources": {}}), False, id="by hand"),
        pytest.param(make.master_and_workers(), False, id="one kind"),
        pytest.param(
            make.gang(TWO_KINDS[0], role("Worker", 0, container(**{"huawei.com/npu": 1}))),
            False,
            id="nobody of the other kind",
        ),
        pytest.param(make.gang(role("Worker", 2, container(cpu=1))), False, id="none"),
    ],
)
def test_a_gang_has_one_kind_of_npu(gang, mixed):
    """scheduling:C12, scheduling:SCH-26: the scheduler sees the first that its map gives."""
    problem = mixed_npus(gang)
    assert (problem is not None) is mixed
    assert problem is None or "2 kinds of NPU: huawei.com/Ascend310P, huawei.com/Ascend910" in (
        problem.what
    )
