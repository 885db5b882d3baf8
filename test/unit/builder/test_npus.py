# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How many NPUs a template asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.builder.npus import NpuRequest, asks_for, chips, npu_request, npu_requests, pod_npus
from ascendop.kube.quantity import QuantityError


def container(requests=None, limits=None):
    resources = {"requests": requests, "limits": limits}
    return {"name": "ascend", "resources": {k: v for k, v in resources.items() if v is not None}}


@pytest.mark.parametrize(
    ("requests", "limits", "want"),
    [
        pytest.param({"huawei.com/Ascend910": 8}, None, ("huawei.com/Ascend910", 8), id="a number"),
        pytest.param({"huawei.com/npu": "8"}, None, ("huawei.com/npu", 8), id="a text"),
        pytest.param(
            {"cpu": 4}, {"huawei.com/Ascend910": 8}, ("huawei.com/Ascend910", 8), id="only a limit"
        ),
        pytest.param(
            {"huawei.com/Ascend910": 4},
            {"huawei.com/Ascend910": 8},
            ("huawei.com/Ascend910", 4),
            id="the request goes before the limit",
        ),
        pytest.param(
            {"huawei.com/npu": 2, "huawei.com/Ascend310P": 1},
            None,
            ("huawei.com/Ascend310P", 1),
            id="whole cards in their fixed order",
        ),
        pytest.param(
            {"huawei.com/Ascend910-6c": 2, "huawei.com/npu": 1},
            None,
            ("huawei.com/npu", 1),
            id="whole cards before shares of cards",
        ),
        pytest.param(
            {"huawei.com/b": 1, "huawei.com/a": 2},
            None,
            ("huawei.com/a", 2),
            id="then the alphabet",
        ),
        pytest.param(
            {"huawei.com/npu-core": "1500m"}, None, ("huawei.com/npu-core", 2), id="rounded up"
        ),
        pytest.param({"huawei.com/Ascend910": 0}, None, None, id="nothing of it"),
        pytest.param({"cpu": 4, "nvidia.com/gpu": 1}, None, None, id="other devices"),
        pytest.param(None, None, None, id="nothing at all"),
    ],
)
def test_the_npu_request_of_a_container(requests, limits, want):
    """ascendjob:W-23."""
    assert npu_request(container(requests, limits)) == (NpuRequest(*want) if want else None)


def test_a_container_without_resources_or_with_nonsense_there_asks_for_nothing():
    assert npu_request({"name": "ascend"}) is None
    assert npu_request({"name": "ascend", "resources": None}) is None
    assert npu_request({"name": "ascend", "resources": {"requests": "all"}}) is None


def test_an_unreadable_amount_is_an_error_with_the_text_in_it():
    with pytest.raises(QuantityError, match="'lots' is not an amount"):
        npu_request(container({"huawei.com/Ascend910": "lots"}))


names = st.sampled_from(
    ["huawei.com/Ascend910", "huawei.com/Ascend310P", "huawei.com/npu", "huawei.com/z", "cpu"]
)


@given(st.dictionaries(names, st.integers(0, 16)), st.randoms(use_true_random=False))
def test_the_order_in_which_resources_are_written_decides_nothing(requests, rng):
    shuffled = list(requests.items())
    rng.shuffle(shuffled)
    assert npu_request(container(requests)) == npu_request(container(dict(shuffled)))
    assert npu_requests(container(requests)) == npu_requests(container(dict(shuffled)))


def test_a_pod_asks_for_the_sum_over_its_containers():
    spec = {
        "containers": [container({"huawei.com/Ascend910": 6}), container({"huawei.com/npu": 2}), {}]
    }
    assert pod_npus(spec) == 8
    assert pod_npus({}) == 0


def test_chips_are_those_of_the_first_container_that_has_any():
    spec = {"containers": [container({"cpu": 1}), container({"huawei.com/Ascend910": 6})]}
    assert chips(spec) == 6
    assert chips({"containers": [container({"huawei.com/npu": 8})]}) == 0
    assert asks_for(spec, "huawei.com/Ascend910") and not asks_for(spec, "huawei.com/npu")
