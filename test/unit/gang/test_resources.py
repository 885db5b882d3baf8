# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a pod asks for, as the schedulers count it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.gang.resources import pod_request

from .make import container  # noqa: TID252  the standard library has a package called test


def sidecar(**requests):
    return container(**requests) | {"restartPolicy": "Always"}


def request(*containers, init=(), **spec):
    found = pod_request({"containers": list(containers), "initContainers": list(init)} | spec)
    return {name: str(amount) for name, amount in found.items()}


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(request(), {}, id="no containers"),
        pytest.param(
            request(container({"cpu": 8, "huawei.com/Ascend910": 8}, cpu=4)),
            {"cpu": "4", "huawei.com/Ascend910": "8"},
            id="per name the request, else the limit",
        ),
        pytest.param(
            request(container(cpu=1), container(cpu="500m")),
            {"cpu": "1500m"},
            id="containers add up",
        ),
        pytest.param(
            request(container(cpu=2), init=[container(cpu=1), container(cpu=3)]),
            {"cpu": "3"},
            id="ordinary inits run one after the other",
        ),
        pytest.param(
            request(container(cpu=2), init=[sidecar(cpu=1), container(cpu=4)]),
            {"cpu": "5"},
            id="an init runs beside the side-cars before it",
        ),
        pytest.param(
            request(container(cpu=2), init=[container(cpu=2), sidecar(cpu=1)]),
            {"cpu": "3"},
            id="and not beside those after it",
        ),
        pytest.param(
            request(container(cpu=1, memory="8Gi"), init=[container(cpu=4, memory="1Gi")]),
            {"cpu": "4", "memory": "8Gi"},
            id="the larger step is found for each name",
        ),
        pytest.param(
            request(
                container(cpu=8, **{"huawei.com/npu": 2}),
                resources={
                    "requests": {"cpu": 3},
                    "limits": {"memory": "1Gi", "huawei.com/npu": 9},
                },
            ),
            {"cpu": "3", "memory": "1Gi", "huawei.com/npu": "2"},
            id="the pod's own amounts replace cpu and memory, never devices",
        ),
        pytest.param(
            request(container(cpu=1), overhead={"cpu": "250m", "memory": "120Mi"}),
            {"cpu": "1250m", "memory": "120Mi"},
            id="overhead comes on top",
        ),
    ],
)
def test_the_request_of_a_pod(got, want):
    """field-reports:FR-030 scheduling:SCH-66."""
    assert got == want


amounts = st.integers(0, 8)
inits = st.lists(st.tuples(st.booleans(), amounts), max_size=5)


@given(st.lists(amounts, max_size=4), inits)
def test_a_pod_asks_for_at_least_what_runs_and_at_least_each_step_of_its_start(run, init):
    """scheduling:SCH-66."""
    steps = [sidecar(cpu=n) if stays else container(cpu=n) for stays, n in init]
    got = pod_request({"containers": [container(cpu=n) for n in run], "initContainers": steps})
    sidecars = sum(n for stays, n in init if stays)
    before = [sum(n for stays, n in init[:i] if stays) for i in range(len(init))]
    peaks = [n + others for (_, n), others in zip(init, before, strict=True)]
    assert (got["cpu"].whole if got else 0) == max([sum(run) + sidecars, *peaks])
