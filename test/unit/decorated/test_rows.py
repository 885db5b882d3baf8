# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is kept of workloads and of pods: of those that want no table, next to nothing."""

import orjson
import pytest

from ascendop.decorated.kinds import DEPLOYMENT, VOLCANO_JOB
from ascendop.decorated.rows import WorkloadRow, members_form, workloads_form
from ascendop.ranktable.choose import Version

from . import make  # noqa: TID252  the standard library has a package called test

SERVE = make.deployment()


def bare(workload):
    name = workload["metadata"]["name"]
    return WorkloadRow(namespace=make.NS, name=name, uid="U", version="1")


@pytest.mark.parametrize(
    "workload",
    [
        make.deployment(labels={}),
        make.stateful_set(),
        make.volcano_job(labels={"volcano.sh/x": ""}),
        make.deployment(npus=0),
        make.deployment(labels={}, on_pods=make.MARK),
    ],
    ids=["no label", "no volume", "another label", "no NPUs", "the label on the pods alone"],
)
def test_x4_of_a_workload_that_wants_no_table_only_the_name_is_kept(workload):
    """W-38: however large it is."""
    assert make.row(workload) == bare(workload)


@pytest.mark.parametrize(
    "workload",
    [
        make.deployment(labels={"ring-controller.atlas": ""}),
        make.stateful_set(volume=True),
        make.volcano_job(labels={}, volume=True),
    ],
    ids=["the label with any value", "the volume", "the volume of a task"],
)
def test_x3_label_or_volume_asks_for_a_table(workload):
    assert make.row(workload).facts is not None


def test_t_is_the_sum_of_replicas_of_templates_with_npus():
    """W-49: and a task that says none has none, where a Deployment has one."""
    workload = make.volcano_job(tasks=(2, 3, 4))
    workload["spec"]["tasks"][1]["template"]["spec"] = make.pod_spec(0)
    del workload["spec"]["tasks"][2]["replicas"]
    assert make.row(workload).facts.pods == 2
    serve = make.deployment()
    del serve["spec"]["replicas"]
    assert make.row(serve).facts.pods == 1


def test_limits_stand_in_for_requests():
    """W-23: as the API server writes them into every pod."""
    workload = make.deployment()
    del workload["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert make.row(workload).facts.pods == 2


def test_x5_annotations_of_a_template_count_where_it_is_the_only_one():
    on_pods = {"sp-block": "16"}
    assert make.row(make.deployment(on_pods=on_pods)).facts.version is Version.V1_2
    policy = {"huawei.com/schedule_policy": "chip1-node2"}
    both = make.deployment(annotations=policy, on_pods={"huawei.com/schedule_policy": "multilevel"})
    assert make.row(both).facts.version is Version.V1_2
    job = make.volcano_job()
    job["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": on_pods}
    assert make.row(job).facts.version is Version.V1_0
    assert make.row(make.volcano_job(annotations=on_pods)).facts.version is Version.V1_2


@pytest.mark.parametrize(
    "spec",
    [
        {"template": {"spec": {"volumes": "none"}}},
        {"template": {"spec": {"volumes": [{"name": "ranktable"}], "containers": [7, {}]}}},
        {"tasks": [{"template": None, "replicas": "two"}]},
        {"tasks": None, "template": None},
        None,
    ],
)
@pytest.mark.parametrize("kind", [DEPLOYMENT, VOLCANO_JOB], ids=["Deployment", "VolcanoJob"])
def test_a_workload_of_odd_shape_is_one_that_wants_no_table(kind, spec):
    """And hides no other one."""
    meta = {"namespace": make.NS, "name": "odd", "uid": "U", "resourceVersion": "1"}
    meta["labels"] = make.MARK
    obj = {"metadata": meta, **({"spec": spec} if spec is not None else {})}
    assert workloads_form(kind).decode_object(orjson.dumps(obj)).facts is None


def test_a_pod_keeps_what_a_table_is_made_of_and_nothing_else():
    annotations = {"super-pod-rank": "1", "kubectl.kubernetes.io/x": "long", "podType": "backup"}
    pod = make.member(SERVE, 3, rank=1, annotations=annotations)
    assert (pod.job, pod.npus, pod.ip, pod.node) == ("serve", 8, "10.244.0.3", "node-3")
    assert [key for key, _ in pod.annotations] == ["super-pod-rank", make.RANK, make.DEVICES]
    assert pod.containers == ()


def test_of_a_pod_without_npus_only_the_name_is_kept():
    pod = make.member(SERVE, 3, rank=1, npus=0)
    assert (pod.job, pod.annotations, pod.node, pod.npus) == ("", (), "", 0)


def test_a_pod_of_odd_shape_is_one_without_npus():
    meta = {"namespace": make.NS, "name": "p", "uid": "u", "labels": {"deploy-name": "serve"}}
    body = orjson.dumps({"metadata": meta, "spec": {"containers": "none"}})
    row = members_form("deploy-name").decode_list(b'{"items": [' + body + b"]}").rows[0]
    assert (row.name, row.job, row.npus) == ("p", "", 0)
