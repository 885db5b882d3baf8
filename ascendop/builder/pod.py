# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One slot becomes one pod, for every kind."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Final

from ascendop.api.job import ReplicaSpec
from ascendop.api.kind import JobKind, JobView, PodSlot, S, Site
from ascendop.api.model import Object
from ascendop.builder import labels as keys
from ascendop.builder.names import pod_group_name

GANG_SCHEDULER: Final = "volcano"


def pod_group_of(kind: JobKind[S], job: JobView[S]) -> str:
    """Name of the job's PodGroup."""
    return pod_group_name(job.name, job.uid) if kind.gang.uid_in_name else job.name


def scheduler_of(kind: JobKind[S], job: JobView[S], replica: ReplicaSpec) -> str:
    """Who places the pods of a role, where they are a gang."""
    return str(replica.pod_spec.get("schedulerName") or kind.scheduler(job) or GANG_SCHEDULER)


def build_pod(kind: JobKind[S], job: JobView[S], slot: PodSlot, site: Site) -> Object:
    """The pod of a slot: the user's template, with what the contract of the kind puts over it."""
    template = slot.replica.template
    meta = template.get("metadata") or {}
    annotations = {**(meta.get("annotations") or {}), **kind.pod_annotations(job, slot)}
    if site.gang:
        annotations[keys.POD_GROUP] = pod_group_of(kind, job)
        annotations.setdefault(keys.TASK_SPEC, slot.role.lower())
    metadata: Object = {
        "name": slot.name,
        "namespace": job.namespace,
        "labels": {**(meta.get("labels") or {}), **kind.pod_labels(job, slot, site)},
        "ownerReferences": [job.owner],
    }
    if annotations:
        metadata["annotations"] = annotations
    if meta.get("finalizers"):
        metadata["finalizers"] = list(meta["finalizers"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _spec(kind, job, slot, site),
    }


def build_backup(
    kind: JobKind[S], job: JobView[S], slot: PodSlot, site: Site, source: str
) -> Object:
    """A second pod for a slot, under the slot's name, to stand in for the pod called `source`.

    Everything but the three annotations is what the slot's own pod has: index, rank, environment.
    The original takes index 0, and leaks the annotations into the template (ascendjob.md W-11).
    """
    pod = build_pod(kind, job, slot, site)
    pod["metadata"]["annotations"] = {
        **pod["metadata"].get("annotations", {}),
        keys.HOT_SWITCH: "true",
        keys.POD_TYPE: keys.BACKUP,
        keys.BACKUP_SOURCE: source,
    }
    return pod


def _spec(kind: JobKind[S], job: JobView[S], slot: PodSlot, site: Site) -> Object:
    # Shallow, but for what is changed below: a template may be large and there may be thousands.
    spec = dict(slot.replica.pod_spec)
    spec["containers"] = [
        _container(kind, job, slot, site, container) for container in slot.replica.containers
    ]
    waiting = kind.init_containers(job, slot)
    if waiting:
        spec["initContainers"] = [*(spec.get("initContainers") or ()), *waiting]
    policy = slot.replica.restart_policy or kind.restart_policy
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    if site.gang:
        # Per template: the original leaves the sibling of a template with its own scheduler
        # to the default scheduler, and the gang is torn (W-22).
        spec["schedulerName"] = scheduler_of(kind, job, slot.replica)
    return spec


def _container(
    kind: JobKind[S], job: JobView[S], slot: PodSlot, site: Site, container: Object
) -> Object:
    main = container.get("name") == kind.container
    if not (main or kind.env_everywhere):
        return container
    added = kind.env(job, slot, site)
    if not added:
        return container
    return {**container, "env": [*(container.get("env") or ()), *added]}


def with_default_port(kind: JobKind[S], template: Object) -> Object:
    """The template with the kind's port on its main container, where the user named none so."""
    containers = (template.get("spec") or {}).get("containers") or []
    main = next((c for c in containers if c.get("name") == kind.container), None)
    if main is None:
        main = containers[0] if containers else None
    if main is None or any(p.get("name") == kind.port_name for p in main.get("ports") or ()):
        return template
    port = {"name": kind.port_name, "containerPort": kind.port, "protocol": "TCP"}
    changed = copy.copy(template)
    changed["spec"] = {
        **template["spec"],
        "containers": [
            {**c, "ports": [*(c.get("ports") or ()), port]} if c is main else c for c in containers
        ],
    }
    return changed


def named_ports(container: Object | None, first: str = "") -> list[Object]:
    """Service ports for a container: one per named port, with its protocol.

    Once:  a Service takes a name once, and a number once per protocol, where a pod takes both
           twice; the port named `first` is the one that stays, for others rely on it.
    Not:   ports without a name, or without a number; the server tells what it thinks of those.
    """
    named = [p for p in (container or {}).get("ports") or () if p.get("name")]
    named.sort(key=lambda port: (port["name"] != first, str(port["name"])))
    found: dict[str, Object] = {}
    for port in named:
        name, number = str(port["name"]), port.get("containerPort")
        service = {"name": name, "port": number, "protocol": port.get("protocol") or "TCP"}
        there = [(p["port"], p["protocol"]) for p in found.values()]
        if number is not None and name not in found and (number, service["protocol"]) not in there:
            found[name] = service
    return [found[name] for name in sorted(found)]


def build_service(
    job: JobView[S], name: str, labels: Mapping[str, str], ports: list[Object], *, headless: bool
) -> Object:
    """A Service for one pod: its labels are its selector."""
    spec: Object = {"selector": dict(labels), "ports": ports}
    if headless:
        spec["clusterIP"] = "None"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": dict(labels),
            "ownerReferences": [job.owner],
        },
        "spec": spec,
    }
