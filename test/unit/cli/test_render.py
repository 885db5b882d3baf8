# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop render`, as a person calls it."""

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from ascendop.cli.main import main

from .. import make  # noqa: TID252  the standard library has a package called test

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def typed(capsys, monkeypatch):
    """Type a command; exit code, output and complaints."""

    def type_(*arguments, stdin=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(["render", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return type_


def text_of(*objects):
    return yaml.safe_dump_all(objects)


def test_everything_is_printed_in_the_order_in_which_it_is_made(typed):
    code, out, err = typed("-", stdin=text_of(make.job(Master=1, Worker=2)))
    made = [(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(out)]
    assert (code, err) == (0, "")
    assert made == [
        ("PodGroup", "j-JOB_UID"), ("Service", "j-master-0"),
        ("Pod", "j-master-0"), ("Pod", "j-worker-0"), ("Pod", "j-worker-1"),
    ]  # fmt: skip


@pytest.mark.parametrize("example", sorted(EXAMPLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_each_object_is_printed_once(typed, example):
    code, out, _ = typed(str(example))
    made = [(o["kind"], o["metadata"]["name"]) for o in yaml.safe_load_all(out)]
    assert code == 0 and len(made) == len(set(made)) >= 2


def test_what_only_a_server_knows_is_a_placeholder(typed):
    _, out, _ = typed("-", stdin=text_of(make.job()))
    pod = next(o for o in yaml.safe_load_all(out) if o["kind"] == "Pod")
    assert make.env_of(pod)["MASTER_ADDR"] == "CLUSTER_IP(j-master-0)"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "JOB_UID"


def test_the_same_file_prints_the_same_bytes(typed):
    stdin = text_of(make.job(), make.torch_job(name="t"))
    assert typed("-", stdin=stdin) == typed("-", stdin=stdin)


def test_json_is_one_list(typed):
    _, out, _ = typed("-", "-o", "json", stdin=text_of(make.job()))
    found = json.loads(out)
    assert found["kind"] == "List"
    assert [o["kind"] for o in found["items"]] == ["PodGroup", "Service", "Pod", "Pod"]


def test_a_gang_can_be_switched_off_and_on(typed):
    kinds = lambda out: {o["kind"] for o in yaml.safe_load_all(out)}  # noqa: E731
    assert "PodGroup" not in kinds(typed("-", "--no-gang", stdin=text_of(make.job()))[1])
    assert "PodGroup" not in kinds(typed("-", stdin=text_of(make.torch_job()))[1])
    assert "PodGroup" in kinds(typed("-", "--gang", stdin=text_of(make.torch_job()))[1])


def test_a_namespace_is_given_to_jobs_that_name_none(typed):
    named = make.job(name="k")
    named["metadata"]["namespace"] = "own"
    _, out, _ = typed("-n", "team", "-", stdin=text_of(make.job(), named))
    found = [o["metadata"]["namespace"] for o in yaml.safe_load_all(out)]
    assert found == ["team"] * 4 + ["own"] * 4


def test_objects_that_jobs_stand_beside_are_passed_over(typed):
    beside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rings-config-j"}}
    code, out, _ = typed("-", stdin=text_of(beside, make.job()))
    assert code == 0
    assert "ConfigMap" not in {o["kind"] for o in yaml.safe_load_all(out)}


def test_a_priority_class_in_the_files_orders_the_gang(typed):
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 10,
    }
    few = make.replica(1, npus=8)
    many = make.replica(1, npus=16, spec={"priorityClassName": "high"})
    obj = make.job(policy={"schedulingPolicy": {"minAvailable": 1}}, Master=few, Worker=many)
    asked = []
    for stdin in (text_of(obj), text_of(high, obj)):
        group = next(yaml.safe_load_all(typed("-", stdin=stdin)[1]))
        asked.append(group["spec"]["minResources"]["huawei.com/Ascend910"])
    assert asked == ["8", "16"]


def test_what_the_operator_would_warn_of_goes_to_standard_error(typed):
    obj = make.job(Master=make.replica(1, spec={"restartPolicy": "Always"}))
    code, out, err = typed("-", stdin=text_of(obj))
    assert code == 0
    assert "Restart policy" not in out
    assert err == (
        "warning: standard input, document 1: AscendJob default/j: Restart policy in pod template "
        "will be overwritten by restart policy in replica spec (SettedPodTemplateRestartPolicy)\n"
    )


KNOWN = (
    "write one of AscendJob (mindxdl.gitee.com/v1), MPIJob (kubeflow.org/v2beta1), "
    "PyTorchJob (kubeflow.org/v1)"
)


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(
            make.job() | {"kind": "AscendJobb"},
            f"kind: AscendJobb of mindxdl.gitee.com/v1 is unknown; {KNOWN}",
            id="a kind of our group that is none",
        ),
        pytest.param(
            make.job() | {"apiVersion": "mindxdl.gitee.com/v2"},
            f"kind: AscendJob of mindxdl.gitee.com/v2 is unknown; {KNOWN}",
            id="a version that is not served",
        ),
        pytest.param(
            make.job() | {"apiVersion": "example.com/v1", "kind": "Thing"},
            f"kind: Thing of example.com/v1 is unknown; {KNOWN}",
            id="a kind of nobody's",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
            f"there is no job; {KNOWN}",
            id="no job at all",
        ),
        pytest.param(
            make.job(framework="mempool"),
            "AscendJob default/j: metadata.labels.framework: framework label is mempool, "
            "please set label framework as one of <pytorch,mindspore,tensorflow>",
            id="a job that cannot run",
        ),
        pytest.param(
            make.job(Master=make.replica("one")),
            "AscendJob default/j: spec.replicaSpecs.Master.replicas: ",
            id="a field of the wrong type",
        ),
        pytest.param(
            make.job(Master=make.replica(1, npus=0, resources={"limits": {"cpu": "many"}})),
            "resources.limits.cpu is 'many', no amount; write it like 8, 500m or 16Gi",
            id="an amount that is none",
        ),
    ],
)
def test_a_wrong_job_is_one_sentence_and_exit_code_two(typed, obj, want):
    code, out, err = typed("-", stdin=text_of(obj))
    lines = err.splitlines()
    assert (code, out, len(lines)) == (2, "", 1)
    assert lines[0].startswith("ascendop: standard input, document 1: ")
    assert want in lines[0]


def test_every_mistake_of_every_job_is_a_line(typed):
    wrong = make.job(framework="mempool", labels={"scaleout-type": "ib"})
    code, _, err = typed("-", stdin=text_of(wrong, make.job(), wrong))
    assert code == 2
    assert [line.split(": ")[1].removeprefix("standard ") for line in err.splitlines()[:1]]
    assert len(err.splitlines()) == 4


def test_a_suspended_job_makes_nothing(typed):
    code, out, _ = typed("-", stdin=text_of(make.job(policy={"suspend": True})))
    assert (code, out) == (0, "")
