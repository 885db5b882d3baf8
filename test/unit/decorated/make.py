# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Workloads and their pods, as users and Kubernetes write them; only what matters is said."""

import json

import orjson

from ascendop.decorated.kinds import DEPLOYMENT, STATEFUL_SET, VOLCANO_JOB
from ascendop.decorated.rows import members_form, workloads_form
from ascendop.kube.resource import CRDS, VOLCANO_JOBS, Resource

NS = "default"
DEVICES = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
RANK = "hccl/rankIndex"
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
MARK = {"ring-controller.atlas": "ascend-910b"}
VOLUME = {"name": "ranktable", "emptyDir": {}}
CRD = {
    "apiVersion": CRDS.api_version,
    "kind": CRDS.kind,
    "metadata": {"name": VOLCANO_JOBS.name},
    "spec": {
        "group": VOLCANO_JOBS.group,
        "scope": "Namespaced",
        "names": {
            "kind": "Job",
            "listKind": "JobList",
            "plural": "jobs",
            "singular": "job",
        },
        "versions": [
            {
                "name": VOLCANO_JOBS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}
"""Volcano's Job, without its schema."""


def pod_spec(npus=8, resource="huawei.com/Ascend910", *, volume=False, **fields):
    resources = {"requests": {resource: str(npus)}, "limits": {resource: str(npus)}} if npus else {}
    container = {"name": "ascend", "image": "serve:1", "resources": resources}
    volumes = {"volumes": [VOLUME]} if volume else {}
    return {"containers": [container], **volumes, **fields}


def template(name, annotations=None, **spec):
    meta = {"labels": {"deploy-name": name}, "annotations": annotations or {}}
    return {"metadata": meta, "spec": pod_spec(**spec)}


def _object(resource, name, spec, labels, annotations, namespace=NS):
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": labels,
            "annotations": annotations or {},
        },
        "spec": spec,
    }


def deployment(name="serve", replicas=2, *, labels=MARK, annotations=None, on_pods=None, **spec):
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": {"deploy-name": name}},
        "template": template(name, on_pods, **spec),
    }
    return _object(DEPLOYMENT.resource, name, body, labels, annotations)


def stateful_set(name="store", replicas=1, *, labels=None, annotations=None, **spec):
    body = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"deploy-name": name}},
        "template": template(name, **spec),
    }
    return _object(STATEFUL_SET.resource, name, body, labels or {}, annotations)


def volcano_job(name="train", tasks=(2,), *, labels=MARK, annotations=None, **spec):
    body = {
        "schedulerName": "volcano",
        "tasks": [
            {"name": f"t{number}", "replicas": replicas, "template": {"spec": pod_spec(**spec)}}
            for number, replicas in enumerate(tasks)
        ],
    }
    return _object(VOLCANO_JOB.resource, name, body, labels, annotations)


KINDS = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET, "Job": VOLCANO_JOB}


def owner(workload):
    """The controller of a workload's pods; one that was really made is under `owner`."""
    if "owner" in workload:
        return workload["owner"]
    name, uid = workload["metadata"]["name"], workload["metadata"].get("uid", "U")
    kind, api_version = workload["kind"], workload["apiVersion"]
    if kind == "Deployment":
        kind, name, uid = "ReplicaSet", f"{name}-5d8f7c9b6", f"rs-of-{uid}"
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def replica_set(deployment):
    """What the Deployment's controller would make."""
    meta = deployment["metadata"]
    name, up = f"{meta['name']}-5d8f7c9b6", {"kind": "Deployment", "controller": True}
    up |= {"apiVersion": "apps/v1", "name": meta["name"], "uid": meta["uid"]}
    body = {key: deployment["spec"][key] for key in ("replicas", "selector", "template")}
    found = _object(REPLICA_SETS, name, body, body["template"]["metadata"]["labels"], None)
    found["metadata"]["ownerReferences"] = [up]
    return found


def pod(workload, name, *, owners=None, npus=8, annotations=None, **spec):
    """A pod that the workload's controller makes."""
    found = KINDS[workload["kind"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": workload["metadata"]["namespace"],
            "name": name,
            "labels": {found.pod_label: workload["metadata"]["name"]},
            "annotations": annotations or {},
            "ownerReferences": [owner(workload)] if owners is None else owners,
        },
        "spec": pod_spec(npus, **spec),
    }


def devices(number, count=8, **fields):
    """What the device plug-in writes on the pod on that host."""
    found = [
        {
            "device_id": str(i),
            "device_ip": f"192.168.{number}.{i}",
            "super_device_id": str(100 * number + i),
        }
        | fields
        for i in range(count)
    ]
    host = f"10.10.0.{number}"
    return json.dumps({"server_id": f"uid-{number}", "host_ip": host, "devices": found})


def row(workload):
    """As it is cached."""
    meta = {"uid": "U", "resourceVersion": "1"} | workload["metadata"]
    form = workloads_form(KINDS[workload["kind"]])
    return form.decode_object(orjson.dumps(workload | {"metadata": meta}))


def member(workload, number, *, rank=None, config=devices, deleting=False, phase="Running", **of):
    """A pod as it is cached, on the host of that number, with devices unless told otherwise."""
    annotations = of.pop("annotations", {})
    if rank is not None:
        annotations |= {RANK: str(rank)}
    if config is not None:
        annotations |= {DEVICES: config(number) if callable(config) else config}
    found = pod(workload, of.pop("name", f"p-{number}"), annotations=annotations, **of)
    found["metadata"] |= {"uid": of.get("uid", f"uid-{number}"), "resourceVersion": str(number)}
    if deleting:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found["spec"]["nodeName"] = f"node-{number}"
    found["status"] = {"phase": phase, "podIP": f"10.244.0.{number}"}
    label = KINDS[workload["kind"]].pod_label
    return members_form(label).decode_object(orjson.dumps(found))
