# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The schemas: structural, complete, and as wide as those of the original operators."""

from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import Field

from ascendop.api.model import Model
from ascendop.kinds import load_kinds
from ascendop.schema.crd import crd, job_schema, model_schema

KINDS = load_kinds()
RECORDED = Path(__file__).parents[2] / "e2e" / "recorded"
JOBS = sorted(
    path
    for kind in KINDS.values()
    for path in RECORDED.glob(f"{kind.kind.lower()}/*.job.yaml")
    if "invalid" not in path.name and "denied" not in path.name
)
FORBIDDEN = {"title", "$ref", "$defs", "const", "definitions", "additionalItems", "nullable"}
OPEN = "x-kubernetes-preserve-unknown-fields"


def nodes(schema, path=""):
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[]")


ALL = [
    pytest.param(node, id=f"{kind.kind}{path}")
    for kind in KINDS.values()
    for path, node in nodes(job_schema(kind))
]


@pytest.mark.parametrize("node", ALL)
def test_a_schema_is_structural(node):
    """style:M2"""
    assert not FORBIDDEN & set(node)
    assert "type" in node or node.get("x-kubernetes-int-or-string")
    if "anyOf" in node:
        assert node["x-kubernetes-int-or-string"]


def named(schema, path=""):
    for name, inner in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", inner
        yield from named(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from named(schema[key], f"{path}[]")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_field_that_a_user_can_write_has_a_sentence(kind):
    """style:M4: but for metadata, of which a CRD may say nothing at all."""
    bare = [path for path, node in named(job_schema(kind)) if not node.get("description")]
    assert bare == [".metadata"]
    assert job_schema(kind)["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_state_is_the_last_condition(kind):
    """field-reports:FR-101 mpijob:W-36"""
    version = crd(kind)["spec"]["versions"][0]
    assert [(c["name"], c["jsonPath"]) for c in version["additionalPrinterColumns"]] == [
        ("State", ".status.conditions[-1:].type"),
        ("Age", ".metadata.creationTimestamp"),
    ]
    assert "status" in version["subresources"]
    assert version["schema"]["openAPIV3Schema"].get("required") is None


def test_an_ascend_job_has_no_enums_no_defaults_but_a_port_s_protocol():
    found = {
        path: node["default"]
        for path, node in nodes(job_schema(KINDS["AscendJob"]))
        if "default" in node
    }
    assert set(found.values()) == {"TCP"}
    assert all(path.endswith(".ports[].protocol") for path in found)
    assert not any("enum" in node for _, node in nodes(job_schema(KINDS["AscendJob"])))
    assert crd(KINDS["AscendJob"])["spec"]["names"]["shortNames"] == ["acjob"]


def test_a_torch_job_scales_by_its_workers():
    version = crd(KINDS["PyTorchJob"])["spec"]["versions"][0]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.pytorchReplicaSpecs.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }


def test_a_torch_job_is_not_suspended_unless_it_says_so_and_keeps_its_queue():
    policy = job_schema(KINDS["PyTorchJob"])["properties"]["spec"]["properties"]["runPolicy"]
    assert policy["properties"]["suspend"]["default"] is False
    queue = policy["properties"]["schedulingPolicy"]["properties"]["queue"]
    assert queue["x-kubernetes-validations"] == [
        {
            "rule": "self == oldSelf",
            "message": "spec.runPolicy.schedulingPolicy.queue is immutable",
        }
    ]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_the_original_took_is_taken_and_nothing_of_it_is_lost(path):
    obj = yaml.safe_load(path.read_text())
    schema = job_schema(KINDS[obj["kind"]])
    jsonschema.validate(obj, schema)
    assert pruned(obj["spec"], schema["properties"]["spec"]) == obj["spec"]


def pruned(value, schema):
    """What an API server keeps of a value."""
    if isinstance(value, list):
        return [pruned(item, schema.get("items") or {}) for item in value]
    if not isinstance(value, dict):
        return value
    known, more = schema.get("properties") or {}, schema.get("additionalProperties")
    kept = {}
    for key, inner in value.items():
        if key in known:
            kept[key] = pruned(inner, known[key])
        elif isinstance(more, dict):
            kept[key] = pruned(inner, more)
        elif schema.get(OPEN):
            kept[key] = inner
    return kept


NEWER = {
    "spec": {
        "os": {"name": "linux"},
        "hostUsers": False,
        "schedulingGates": [{"name": "a/b"}],
        "resourceClaims": [{"name": "c", "resourceClaimName": "d"}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "ascend",
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
                "resources": {"claims": [{"name": "c"}]},
                "livenessProbe": {"grpc": {"port": 1}},
                "volumeMounts": [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}],
            }
        ],
    }
}
"""Fields of a pod that the original's schema prunes."""


def test_fields_of_newer_pods_are_kept_and_a_container_still_needs_a_name():
    """ascendjob:W-43"""
    spec = job_schema(KINDS["AscendJob"])["properties"]["spec"]["properties"]
    template = spec["replicaSpecs"]["additionalProperties"]["properties"]["template"]
    assert pruned(NEWER, template) == NEWER
    jsonschema.validate(NEWER, template)
    for wrong in ({"spec": {}}, {"spec": {"containers": [{"image": "x"}]}}):
        with pytest.raises(jsonschema.ValidationError, match="is a required property"):
            jsonschema.validate(wrong, template)


def test_a_status_as_recorded_is_kept():
    want = yaml.safe_load((RECORDED / "ascendjob/01-sample-pytorch-2node.want.yaml").read_text())
    status = want["steps"][-1]["job"]["status"]
    schema = job_schema(KINDS["AscendJob"])["properties"]["status"]
    assert pruned(status, schema) == status


def test_conditions_can_have_two_writers():
    status = job_schema(KINDS["AscendJob"])["properties"]["status"]["properties"]
    assert status["conditions"]["x-kubernetes-list-type"] == "map"
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


class Either(Model):
    size: int | str
    """What no structural schema can say."""


class Bounded(Model):
    size: int = Field(default=3, gt=0)
    """At least one."""


def test_a_union_of_real_types_is_refused_when_the_manifests_are_made():
    with pytest.raises(TypeError, match=r"Either\.size: no structural schema"):
        model_schema(Either)


def test_an_exclusive_bound_is_a_bound_and_a_flag():
    size = model_schema(Bounded)["properties"]["size"]
    assert (size["minimum"], size["exclusiveMinimum"], size["default"]) == (0, True, 3)
