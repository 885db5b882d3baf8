# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The arithmetic of logical super-pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.builder.integers import integer
from ascendop.builder.superpod import logic_super_pod, logical_super_pods, super_pod_block


def template(**requests):
    return {"spec": {"containers": [{"name": "ascend", "resources": {"requests": requests}}]}}


MULTILEVEL = {"huawei.com/schedule_policy": "multilevel"}


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, 0, id="no annotation"),
        pytest.param({"sp-block": "32"}, 32, id="a block"),
        pytest.param({"sp-block": "-4"}, -4, id="a negative block stays negative"),
        pytest.param({"sp-block": " 32"}, 0, id="blanks are no number"),
        pytest.param({"sp-block": "many"}, 0, id="words are no number"),
        pytest.param(
            MULTILEVEL | {"huawei.com/affinity-config": "level1=2,level2=4"}, 32, id="multilevel"
        ),
        pytest.param(
            MULTILEVEL | {"huawei.com/affinity-config": "level1=2", "sp-block": "8"},
            8,
            id="a block goes before the levels",
        ),
        pytest.param(
            MULTILEVEL | {"huawei.com/affinity-config": "level1=2,level2"}, 0, id="a broken level"
        ),
        pytest.param(
            MULTILEVEL | {"huawei.com/affinity-config": "level1=2=3"},
            0,
            id="a level with two values",
        ),
        pytest.param(
            MULTILEVEL | {"huawei.com/affinity-config": "level2=4"}, 0, id="no first level"
        ),
        pytest.param(MULTILEVEL, 0, id="no levels"),
        pytest.param({"huawei.com/affinity-config": "level1=2"}, 0, id="levels without the policy"),
    ],
)
def test_the_block_of_a_job_with_16_chips_per_pod(annotations, want):
    templates = [template(cpu=4), template(**{"huawei.com/Ascend910": 16}), {}]
    assert super_pod_block(annotations, templates) == want


@pytest.mark.parametrize(
    ("block", "chips", "want"),
    [
        pytest.param(32, 16, [0, 0, 1, 1], id="ascendjob:E6 two pods share one"),
        pytest.param(4, 8, [0, 1, 2, 3], id="ascendjob:E25 a block below one pod"),
        pytest.param(40, 16, [0, 0, 1, 1], id="a block that is no multiple"),
        pytest.param(0, 16, [0, 0, 0, 0], id="no block"),
        pytest.param(-32, 16, [0, 0, 0, 0], id="a negative block"),
        pytest.param(32, 0, [0, 0, 0, 0], id="no chips"),
    ],
)
def test_the_logical_super_pod_of_the_first_four_pods(block, chips, want):
    assert [logic_super_pod(position, block, chips) for position in range(4)] == want


@given(st.integers(-8, 64), st.integers(0, 16), st.integers(1, 100))
def test_logical_super_pods_follow_each_other_without_a_hole(block, chips, pods):
    got = [logic_super_pod(position, block, chips) for position in range(pods)]
    assert sorted(set(got)) == list(range(got[-1] + 1))
    assert got == sorted(got)


def test_the_number_of_logical_super_pods_is_rounded_down_and_zero_without_a_block():
    assert logical_super_pods(64, 32) == 2
    assert logical_super_pods(40, 32) == 1
    assert logical_super_pods(64, 0) == logical_super_pods(64, -1) == 0


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_000", "٣", "1.0", "0x1", "--1", "9" * 19])
def test_what_other_components_cannot_read_is_no_integer(text):
    assert integer(text) is None


def test_signs_and_leading_zeros_are_fine():
    assert (integer("+4"), integer("-4"), integer("007")) == (4, -4, 7)
