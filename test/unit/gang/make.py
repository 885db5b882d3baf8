# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Gangs and stored PodGroups; only what matters is said."""

import json

from ascendop.api.job import SchedulingPolicy
from ascendop.api.observed import GroupView, QueueView
from ascendop.gang.podgroup import GangRole, GangSpec

OWNER = {
    "apiVersion": "mindxdl.gitee.com/v1",
    "kind": "AscendJob",
    "name": "j",
    "uid": "U",
    "controller": True,
    "blockOwnerDeletion": True,
}


def container(limits=None, **requests):
    """A container that asks for this; names of resources with a slash go into a dict."""
    found = {"requests": requests} if requests else {}
    return {"name": "ascend", "resources": found | ({"limits": limits} if limits else {})}


def template(*containers, priority_class="", task="", **spec):
    body = {"containers": list(containers)} | spec
    if priority_class:
        body["priorityClassName"] = priority_class
    metadata = {"annotations": {"volcano.sh/task-spec": task}} if task else {}
    return {"metadata": metadata, "spec": body}


def role(name, replicas, *containers, delayed=False, **fields):
    return GangRole(name, replicas, template(*containers, **fields), delayed=delayed)


def npus(count=8, **requests):
    return container(**{"huawei.com/Ascend910": count} | requests)


BIG = npus(8, cpu=24, memory="96Gi")  # R of scheduling.md 8


def gang(*roles, policy=None, **fields):
    defaults = {"namespace": "ns", "name": "j-U", "labels": {}, "annotations": {}, "owner": OWNER}
    found = SchedulingPolicy.model_validate(policy) if policy is not None else None
    return GangSpec(**defaults | fields, roles=roles, policy=found)


def master_and_workers(each=BIG, **fields):
    """C1 of scheduling.md 8.1: one Master, three Workers."""
    defaults = {"task_members": True}
    return gang(role("Master", 1, each), role("Worker", 3, each), **defaults | fields)


def stored(want, *, spec=None, labels=None, annotations=None, **fields):
    """The PodGroup as a watch shows it after `want` was applied, and these changes were made."""
    metadata = want["metadata"]
    defaults = {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": "group",
        "version": "1",
        "labels": tuple((metadata.get("labels", {}) | (labels or {})).items()),
        "annotations": tuple((metadata.get("annotations", {}) | (annotations or {})).items()),
        "spec": json.dumps({"queue": "default"} | want["spec"] | (spec or {})).encode(),
    }
    return GroupView(**defaults | fields)


def group(phase="", **fields):
    defaults = {"namespace": "ns", "name": "j-U", "uid": "group", "version": "1"}
    return GroupView(**defaults | fields, phase=phase)


def queue(state="Open"):
    return QueueView(namespace="", name="q", uid="queue", version="1", state=state)
