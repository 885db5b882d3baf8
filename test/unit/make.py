# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs, their children and snapshots; only what matters is said. The fixture of ascendjob.md 12."""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ascendop.api.observed import (
    ContainerView,
    GroupView,
    JobRow,
    PodView,
    QueueView,
    ServiceView,
)
from ascendop.apply.plan import Apply, Create, Delete, Done, Written
from ascendop.errors import InvalidJobError
from ascendop.kinds import load_kinds
from ascendop.kube.resource import PODS
from ascendop.reconciler.decide import decide
from ascendop.reconciler.snapshot import Snapshot, World
from ascendop.reconciler.status import merge_patch
from ascendop.reconciler.validate import parse_job

KINDS = load_kinds()
ASCEND_910 = "huawei.com/Ascend910"
LEADER_IP = "10.96.0.10"
CLUSTERD_IP = "10.96.0.77"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def later(seconds):
    return NOW + timedelta(seconds=seconds)


# ── what a user writes ──


def container(name="ascend", *, npus=8, resource=ASCEND_910, image="train:1", **fields):
    """A container that asks for NPUs as requests and limits; npus=0 for none."""
    found = {"name": name, "image": image}
    if npus:
        amounts = {resource: npus}
        found["resources"] = {"requests": amounts, "limits": dict(amounts)}
    return found | fields


def replica(count=1, *containers, policy=None, spec=None, metadata=None, **fields):
    """One role; without containers one of the defaults, with `fields` on it."""
    template = {"spec": {"containers": list(containers or (container(**fields),)), **(spec or {})}}
    if metadata:
        template["metadata"] = metadata
    found = {"replicas": count, "template": template}
    return found | ({"restartPolicy": policy} if policy else {})


def job(
    framework="pytorch",
    *,
    name="j",
    labels=None,
    annotations=None,
    policy=None,
    spec=None,
    roles=None,
    **replicas,
):
    """An AscendJob; `Master=1, Worker=3` count pods, `Master=replica(…)` spells a role out."""
    replicas = roles or replicas or {"Master": 1, "Worker": 1}
    specs = {
        role: replica(found) if isinstance(found, int) else found
        for role, found in replicas.items()
    }
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {
            "name": name,
            "labels": ({"framework": framework} if framework else {}) | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"replicaSpecs": specs, "runPolicy": policy or {}} | (spec or {}),
    }


def torch_job(*, name="j", policy=None, spec=None, **replicas):
    """A PyTorchJob; roles likewise."""
    replicas = replicas or {"Master": 1, "Worker": 2}
    specs = {
        role: replica(found, container("pytorch", npus=0)) if isinstance(found, int) else found
        for role, found in replicas.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": specs, "runPolicy": policy or {}} | (spec or {}),
    }


def row(obj, **fields):
    """The job as it is cached."""
    meta = obj["metadata"]
    defaults = {
        "namespace": "ns",
        "name": meta["name"],
        "uid": "U",
        "version": "1",
        "generation": 1,
        "labels": tuple((meta.get("labels") or {}).items()),
        "annotations": tuple((meta.get("annotations") or {}).items()),
        "spec": json.dumps(obj["spec"]).encode() if obj.get("spec") is not None else b"",
    }
    return JobRow(**defaults | fields)


# ── what the cluster has ──


def pod(
    role="worker", index=0, phase="Running", *, exit_code=None, main="ascend", job="j", **fields
):
    """A pod of the job; with an exit code its main container has ended."""
    containers = ()
    if exit_code is not None:
        containers = (ContainerView(main, "terminated", False, 0, exit_code, "Error"),)
    defaults = {
        "namespace": "ns",
        "name": f"{job}-{role}-{index}",
        "uid": f"uid-{role}-{index}",
        "version": "1",
        "owner_uid": "U",
        "job": job,
        "role": role,
        "index": index,
        "attempt": 0,
        "phase": phase,
        "containers": containers,
    }
    return PodView(**defaults | fields)


def service(name="j-master-0", ip=LEADER_IP, **fields):
    defaults = {
        "namespace": "ns",
        "name": name,
        "uid": f"uid-{name}",
        "version": "1",
        "owner_uid": "U",
        "cluster_ip": ip,
        "ports": (("ascendjob-port", 2222),),
    }
    return ServiceView(**defaults | fields)


def group(phase="Inqueue", *, like=None, name="j-U", **fields):
    """The job's PodGroup; `like` is the object that it was made from."""
    meta = (like or {}).get("metadata") or {"name": name}
    defaults = {
        "namespace": "ns",
        "name": meta["name"],
        "uid": "uid-group",
        "version": "1",
        "owner_uid": "U",
        "labels": tuple((meta.get("labels") or {}).items()),
        "annotations": tuple((meta.get("annotations") or {}).items()),
        "spec": json.dumps((like or {}).get("spec") or {}).encode(),
        "phase": phase,
    }
    return GroupView(**defaults | fields)


def queue(name="default", state="Open"):
    return QueueView(namespace="", name=name, uid=f"uid-{name}", version="1", state=state)


def world(**fields):
    defaults = {
        "gang": True,
        "groups_served": True,
        "queues_known": True,
        "queue": queue(),
        "priorities": {},
        "priorities_known": True,
        "clusterd": CLUSTERD_IP,
    }
    return World(**defaults | fields)


def parsed(kind, found):
    try:
        return parse_job(kind, found)
    except InvalidJobError as error:
        return error


def snapshot(
    obj, *, pods=(), services=None, group=None, status=None, now=NOW, job_row=None, **of_world
):
    """A job at one moment. Unless said otherwise its gang is let in and its Service has an IP."""
    kind = KINDS[obj["kind"]]
    found = job_row or row(obj)
    job_ = parsed(kind, found)
    seen = Snapshot(
        kind=kind,
        row=found,
        job=job_,
        status=copy.deepcopy(status or {}),
        pods=tuple(sorted(pods, key=lambda p: (p.role, p.index, p.name))),
        services=(),
        group=None,
        world=world(**of_world),
        now=now,
    )
    if isinstance(job_, InvalidJobError):
        return seen
    if services is None:
        services = [service(s["metadata"]["name"]) for s in kind.services(job_)]
    seen = replace(seen, services=tuple(services))
    if group is None and seen.world.gang:
        group = "Inqueue"
    return replace(seen, group=made_group(seen, group) if isinstance(group, str) else group)


def made_group(seen, phase):
    """The PodGroup that the operator makes for this job, in a phase; an empty phase is one too."""
    found = next(iter(writes(decide(replace(seen, group=None)), Apply)), None)
    return globals()["group"](phase, like=found.object) if found else None


# ── what is decided ──


def writes(plan, type_=object, step=None):
    return [
        write
        for found in plan.steps
        for write in found.writes
        if isinstance(write, type_) and step in {None, found.name}
    ]


def created(plan, resource=PODS):
    """Objects to make, by name."""
    found = [w for w in writes(plan, Create | Apply) if w.resource == resource]
    return {write.name: write.object for write in found}


def deleted(plan, resource=PODS):
    return [write.name for write in writes(plan, Delete) if write.resource == resource]


def concluded(plan, *failures):
    """How the job stands when every write has worked, or these have failed."""
    failed = {id(failure.write) for failure in failures}
    done = [
        Written(step.name, write, f"uid-of-{write.name}")
        for step in plan.steps
        for write in step.writes
        if not failures or id(write) not in failed
    ]
    return plan.conclude(Done(written=tuple(done), failures=tuple(failures)))


def conditions(conclusion):
    return [(c["type"], c["status"], c["reason"]) for c in conclusion.status["conditions"]]


def env_of(pod_object, name="ascend"):
    """The environment of a container by name, a field of the pod in angle brackets."""
    spec = pod_object["spec"]
    found = next(c for c in spec["containers"] if c["name"] == name)
    return {entry["name"]: shown(entry) for entry in found.get("env", ())}


def shown(entry):
    if "value" in entry:
        return entry["value"]
    return f"<{entry['valueFrom']['fieldRef']['fieldPath']}>"


def unchanged(before, conclusion):
    """Whether a conclusion would write nothing."""
    return conclusion is None or not merge_patch(before, conclusion.status)
