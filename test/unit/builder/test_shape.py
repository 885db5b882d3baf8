# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Templates of a shape that no pod has."""

import pytest

from ascendop.api.job import ReplicaSpec, RunPolicy
from ascendop.builder.shape import shape_problems


def mistakes(template, **policy):
    roles = {"Worker": ReplicaSpec(template=template)}
    return list(shape_problems("spec.replicaSpecs", roles, RunPolicy(**policy)))


def containers(**fields):
    return {"spec": {"containers": [{"name": "ascend", "image": "i"} | fields]}}


@pytest.mark.parametrize(
    ("template", "where", "text"),
    [
        pytest.param(
            {"spec": {"volumes": "x"}}, ".spec.volumes", "is text; write a list", id="text for list"
        ),
        pytest.param(
            containers(ports=[{"name": "p"}]),
            ".spec.containers[0].ports[0]",
            "has no containerPort; write it",
            id="a port without a number",
        ),
        pytest.param(
            containers(ports=[{"containerPort": "80"}]),
            ".spec.containers[0].ports[0].containerPort",
            "is text; write a whole number",
            id="a number in quotes",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": 1}}},
            ".metadata.labels[...]",
            "is a whole number; write text",
            id="a label without quotes",
        ),
        pytest.param(
            containers(resources={"limits": {"cpu": "abc"}}),
            ".spec.containers[ascend].resources.limits.cpu",
            "is 'abc', no amount; write it like 8, 500m or 16Gi",
            id="an amount that is none",
        ),
        pytest.param(
            containers(resources={"requests": {"huawei.com/Ascend910": "-1"}}),
            ".spec.containers[ascend].resources.requests.huawei.com/Ascend910",
            "is '-1', less than nothing; write 0 or more",
            id="an amount below zero",
        ),
        pytest.param(
            {"spec": {"containers": [], "overhead": {"cpu": "x"}}},
            ".spec.overhead.cpu",
            "is 'x', no amount; write it like 8, 500m or 16Gi",
            id="an overhead that is none",
        ),
        pytest.param(
            {"spec": {"hostNetwork": "yes"}},
            ".spec.hostNetwork",
            "is text; write true or false",
            id="text for a boolean",
        ),
    ],
)
def test_a_template_that_no_pod_can_have_is_told_where_and_what(template, where, text):
    (found,) = mistakes(template)
    assert found.path == f"spec.replicaSpecs.Worker.template{where}"
    said = f"{found.what}; {found.fix}"
    assert said == f"Worker replicaSpec is not valid: template{where} {text}"


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"spec": None},
        containers(env=None, ports=None, resources=None),
        containers(resources={"limits": {"cpu": 1.5, "memory": "1Gi", "huawei.com/npu": 8}}),
        containers(resizePolicy=[{"resourceName": "cpu"}]) | {"newer": {"field": 1}},
    ],
)
def test_a_template_of_whatever_kubernetes_is_left_alone(template):
    assert mistakes(template) == []


def test_amounts_of_the_policy_are_read_too():
    (found,) = mistakes({}, scheduling_policy={"min_resources": {"cpu": "abc"}})
    assert found.path == "spec.runPolicy.schedulingPolicy.minResources.cpu"


def test_every_amount_of_a_template_is_told():
    template = containers(resources={"limits": {"cpu": "a"}, "requests": {"memory": "b"}})
    assert len(mistakes(template)) == 2
