# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which version of the rank table a job needs."""

import pytest

from ascendop.ranktable.choose import choose_version


def template(resource="huawei.com/Ascend910", *, limit=False, **selector):
    kind = "limits" if limit else "requests"
    containers = [{"name": "sidecar"}, {"name": "ascend", "resources": {kind: {resource: 8}}}]
    return {"spec": {"containers": containers, "nodeSelector": selector}}


A3 = template(**{"accelerator-type": "module-a3-16-super-pod"})
A3_SMALL = template(**{"accelerator-type": "module-a3-8-super-pod"})
POLICY = "huawei.com/schedule_policy"


@pytest.mark.parametrize(
    ("templates", "annotations", "want", "because"),
    [
        pytest.param([template()], {}, "1.0", "nothing asks", id="ascendjob:R1 plain"),
        pytest.param([A3], {}, "1.2", "accelerator-type", id="ascendjob:R6 node of a super-pod"),
        pytest.param(
            [template(), A3_SMALL], {}, "1.2", "accelerator-type", id="any template's node"
        ),
        pytest.param(
            [A3],
            {"sp-block": "16", POLICY: "chip2-node16"},
            "1.0",
            POLICY,
            id="ascendjob:R7 another policy wins over block and node",
        ),
        pytest.param([template()], {"sp-block": "16"}, "1.2", "sp-block", id="ascendjob:R8 block"),
        pytest.param(
            [template()], {"sp-block": ""}, "1.2", "sp-block", id="any value of the block"
        ),
        pytest.param(
            [template()], {POLICY: "chip2-node8-sp"}, "1.2", POLICY, id="ascendjob:R8 policy"
        ),
        pytest.param(
            [template()], {POLICY: "chip2-node16-sp"}, "1.2", POLICY, id="the other policy"
        ),
        pytest.param([template()], {POLICY: "multilevel"}, "1.2", POLICY, id="ascendjob:R8 levels"),
        pytest.param([A3], {POLICY: ""}, "1.0", POLICY, id="an empty policy is a policy"),
        pytest.param(
            [template(), template("huawei.com/npu")],
            {POLICY: "multilevel", "sp-block": "16"},
            "2.0",
            "huawei.com/npu",
            id="ascendjob:R8 the resource wins over everything",
        ),
        pytest.param(
            [template("huawei.com/npu", limit=True)],
            {},
            "2.0",
            "huawei.com/npu",
            id="a limit counts",
        ),
        pytest.param(
            [{}, {"spec": None}], {}, "1.0", "nothing asks", id="no templates to speak of"
        ),
    ],
)
def test_the_first_fact_that_speaks_decides_and_is_named(templates, annotations, want, because):
    got = choose_version(templates, annotations)
    assert got.version == want
    assert because in got.because


def test_an_edited_job_gets_the_version_of_its_edit():
    """ascendjob:W-29: nothing is remembered from the creation of the job."""
    annotations = {}
    assert choose_version([template()], annotations).version == "1.0"
    annotations["sp-block"] = "16"
    assert choose_version([template()], annotations).version == "1.2"
