# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables of workloads whose own controllers make their pods, on nodes that run them."""

import json

import pytest

from ascendop.builder.labels import RANK_INDEX
from ascendop.sim.devices import asked_npus, build_annotations, has_devices
from hack.admin import MERGE, path_of, wait_for

MARK = {"ring-controller.atlas": "ascend-910b"}
NPUS = {"huawei.com/Ascend910": "8"}
VOLUME = {"name": "ranktable", "emptyDir": {}}


class Workload:
    """One of them in a namespace; its pods get devices while somebody waits."""

    def __init__(self, admin, where, obj, label):
        self.admin, self.label = admin, label
        self.obj = obj
        self.name = obj["metadata"]["name"]
        obj["metadata"]["namespace"] = where
        meta = {"namespace": where, "name": f"rings-config-{self.name}"}
        self.config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        data = {"hccl.json": '{"status":"initializing"}'}
        admin.create(self.config_map | {"data": data})
        admin.create(obj)

    @property
    def pods(self):
        meta = {"namespace": self.obj["metadata"]["namespace"]}
        path = path_of({"apiVersion": "v1", "kind": "Pod", "metadata": meta}, collection=True)
        found = self.admin.request("GET", f"{path}?labelSelector={self.label}%3D{self.name}")
        pods = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in found["items"]]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    @property
    def ranks(self):
        found = {p["metadata"]["name"]: p["metadata"].get("annotations", {}) for p in self.pods}
        return {name: annotations.get(RANK_INDEX) for name, annotations in found.items()}

    @property
    def table(self):
        return json.loads(self.admin.request("GET", path_of(self.config_map))["data"]["hccl.json"])

    def give_devices(self):
        for pod in self.pods:
            name = pod["spec"].get("nodeName")
            if name and not has_devices(pod):
                node = self.admin.request("GET", f"/api/v1/nodes/{name}")
                annotations = build_annotations(pod, node, range(asked_npus(pod)[1]))
                body = {"metadata": {"annotations": annotations}}
                self.admin.request("PATCH", path_of(pod), body, MERGE)

    def patch(self, body):
        self.admin.request("PATCH", path_of(self.obj), body, MERGE)

    def wait_table(self):
        """Until it is completed, and made of these pods."""

        def there():
            self.give_devices()
            if self.table["status"] != "completed":
                return False
            addresses = {pod["status"].get("podIP") for pod in self.pods}
            return {s["container_ip"] for s in self.table["server_list"]} == addresses

        wait_for(f"the table of {self.name} is complete", there, 60)


@pytest.fixture
def cluster(full, namespace):
    where = namespace(full)
    with full.admin() as admin:
        yield admin, where


def template(name, label="deploy-name", **spec):
    container = {"name": "ascend", "image": "serve:1"}
    container["resources"] = {"requests": NPUS, "limits": NPUS}
    body = {"schedulerName": "volcano", "containers": [container], **spec}
    return {"metadata": {"labels": {label: name}}, "spec": body}


def apps(kind, name, replicas, labels=MARK, **spec):
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    selector = {"matchLabels": {"deploy-name": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": selector,
            "template": template(name, **spec),
            **more,
        },
    }


def test_x1_x2_a_deployment_keeps_ranks_and_table_through_a_rolling_update(cluster, full, operator):
    """ascendjob:X1 ascendjob:X2: its pods belong to a ReplicaSet, and one too many is there."""
    operator(full)
    serve = Workload(*cluster, apps("Deployment", "serve", 2), "deploy-name")
    serve.wait_table()
    before = serve.ranks
    assert sorted(before.values()) == ["0", "1"]
    annotations = {"metadata": {"annotations": {"again": "1"}}}
    serve.patch({"spec": {"template": annotations}})

    def replaced():
        serve.give_devices()
        return len(serve.pods) == 2 and not before.keys() & serve.ranks.keys()

    wait_for("the pods are other ones", replaced, 90)
    serve.wait_table()
    assert sorted(serve.ranks.values()) == ["0", "1"]


def test_x3_a_stateful_set_with_the_volume_has_a_file_as_long_as_it_lives(cluster, full, operator):
    """ascendjob:X3"""
    replica = operator(full)
    admin, where = cluster
    store = apps("StatefulSet", "store", 2, labels={}, volumes=[VOLUME])
    store = Workload(admin, where, store, "deploy-name")
    store.wait_table()
    folder = replica.rank_tables / f"{where}.store"
    wait_for("the file is the table", lambda: json.loads((folder / "hccl.json").read_text()))
    assert json.loads((folder / "hccl.json").read_text()) == store.table
    assert store.ranks == {"store-0": "0", "store-1": "1"}
    admin.request("DELETE", path_of(store.obj))
    wait_for("the directory is gone", lambda: not folder.exists())


def test_x4_a_volcano_job_has_a_table_of_the_pods_that_volcano_makes(cluster, full, operator):
    """ascendjob:X4: and one without the label has none."""
    operator(full)
    tasks = [
        {"name": name, "replicas": 1, "template": {"spec": template("", "x")["spec"]}}
        for name in ("a", "b")
    ]
    for task in tasks:
        task["template"]["spec"]["restartPolicy"] = "Never"

    def job(name, labels, tasks):
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"minAvailable": len(tasks), "schedulerName": "volcano", "queue": "default",
                     "tasks": tasks},
        }  # fmt: skip

    train = Workload(*cluster, job("train", MARK, tasks), "volcano.sh/job-name")
    plain = Workload(*cluster, job("plain", {}, tasks[:1]), "volcano.sh/job-name")
    train.wait_table()
    assert sorted(train.ranks.values()) == ["0", "1"]
    wait_for("the other one runs", lambda: plain.give_devices() or plain.pods)
    assert set(plain.ranks.values()) == {None}
    assert plain.table == {"status": "initializing"}
