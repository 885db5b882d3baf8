# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Per kind: defaults, what a new object starts with, what is demanded, what may not change."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim import podrules
from ascendop.sim.answers import Cause


def _nothing(_: Object) -> None:
    return


def _no_faults(_: Object) -> Iterable[Cause]:
    return ()


def _no_change_faults(_old: Object, _new: Object) -> Iterable[Cause]:
    return ()


def _no_status(obj: Object) -> None:
    obj.pop("status", None)


def _empty_status(obj: Object) -> None:
    obj["status"] = {}


@dataclass(frozen=True, slots=True)
class Rules:
    """How one built-in kind behaves beyond its schema."""

    default: Callable[[Object], None] = _nothing
    """On every write."""
    start: Callable[[Object], None] = _no_status
    """On create: the status that a new object has, whatever was sent."""
    faults: Callable[[Object], Iterable[Cause]] = _no_faults
    change_faults: Callable[[Object, Object], Iterable[Cause]] = _no_change_faults


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _start_service(service: Object) -> None:
    service["status"] = {"loadBalancer": {}}


def _service_faults(service: Object) -> Iterator[Cause]:
    spec = service["spec"]
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield Cause("FieldValueRequired", "Required value", "spec.ports")
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield Cause("FieldValueRequired", "Required value", f"spec.ports[{index}].name")
        if not 0 < (port.get("port") or 0) < 1 << 16:
            yield Cause(
                "FieldValueInvalid",
                f"Invalid value: {port.get('port', 0)}: must be between 1 and 65535, inclusive",
                f"spec.ports[{index}].port",
            )


def _service_change_faults(old: Object, new: Object) -> Iterator[Cause]:
    was, now = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if was and was != now and new["spec"]["type"] != "ExternalName":
        addresses = new["spec"].get("clusterIPs") or ()
        told = "[" + ", ".join(f'"{address}"' for address in addresses) + "]"
        yield Cause(
            "FieldValueInvalid",
            f"Invalid value: {told}: may not change once set",
            "spec.clusterIPs[0]",
        )


def _default_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    plain = secret.pop("stringData", None) or {}
    if plain:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _immutable(old: Object, new: Object) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    if not new.get("immutable"):
        yield Cause(
            "FieldValueForbidden",
            "Forbidden: field is immutable when `immutable` is set",
            "immutable",
        )
    for part in ("data", "binaryData"):
        if (old.get(part) or {}) != (new.get(part) or {}):
            yield Cause(
                "FieldValueForbidden",
                "Forbidden: field is immutable when `immutable` is set",
                part,
            )


def _secret_change_faults(old: Object, new: Object) -> Iterator[Cause]:
    yield from _immutable(old, new)
    if old.get("type") != new.get("type"):
        yield Cause(
            "FieldValueInvalid",
            f'Invalid value: "{new.get("type")}": field is immutable',
            "type",
        )


def _default_namespace(namespace: Object) -> None:
    meta = namespace["metadata"]
    if name := meta.get("name"):
        labels = meta.get("labels") or {}
        meta["labels"] = {**labels, "kubernetes.io/metadata.name": name}
    spec = namespace.setdefault("spec", {})
    if "deletionTimestamp" not in meta:
        spec.setdefault("finalizers", ["kubernetes"])


def _start_namespace(namespace: Object) -> None:
    namespace["status"] = {"phase": "Active"}


def _default_template(spec: dict[str, Any]) -> None:
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        podrules.default_pod_spec(template["spec"])


def _default_workload(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    _default_template(spec)


def _default_deployment(deployment: Object) -> None:
    _default_workload(deployment)
    spec = deployment["spec"]
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {"maxUnavailable": "25%", "maxSurge": "25%"})


def _default_statefulset(workload: Object) -> None:
    _default_workload(workload)
    spec = workload["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})


def _default_replicaset(workload: Object) -> None:
    spec = workload.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_template(spec)


def _workload_faults(workload: Object) -> Iterator[Cause]:
    spec = workload["spec"]
    if not spec.get("selector"):
        yield Cause("FieldValueRequired", "Required value", "spec.selector")
    template = spec.get("template") or {}
    yield from podrules.pod_spec_faults(template.get("spec") or {}, "spec.template.spec")


def _default_batch_job(job: Object) -> None:
    spec = job.setdefault("spec", {})
    for name, value in (("completions", 1), ("parallelism", 1), ("backoffLimit", 6)):
        spec.setdefault(name, value)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _default_template(spec)


def select_own_pods(job: Object) -> None:
    """Give a new batch Job the selector that only its own pods match, unless it brings one."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not isinstance(spec.get("template"), dict):
        return
    own = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    labels = {**own, **{f"batch.kubernetes.io/{name}": value for name, value in own.items()}}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    selected = {"batch.kubernetes.io/controller-uid": meta["uid"]}
    spec.setdefault("selector", {}).setdefault("matchLabels", {}).update(selected)


def _batch_job_faults(job: Object) -> Iterator[Cause]:
    template = job["spec"].get("template") or {}
    spec = template.get("spec") or {}
    yield from podrules.pod_spec_faults(spec, "spec.template.spec")
    if spec.get("restartPolicy") not in ("OnFailure", "Never"):
        yield Cause(
            "FieldValueRequired",
            'Required value: valid values: "OnFailure", "Never"',
            "spec.template.spec.restartPolicy",
        )


def _default_priority_class(priority: Object) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")
    priority.setdefault("value", 0)


def _priority_class_change_faults(old: Object, new: Object) -> Iterator[Cause]:
    if old.get("value") != new.get("value"):
        yield Cause("FieldValueForbidden", "Forbidden: may not be changed in an update.", "value")


RULES: dict[str, Rules] = {
    "pods": Rules(
        podrules.default_pod,
        podrules.start_pod,
        podrules.pod_faults,
        podrules.pod_change_faults,
    ),
    "services": Rules(_default_service, _start_service, _service_faults, _service_change_faults),
    "configmaps": Rules(start=_nothing, change_faults=_immutable),
    "secrets": Rules(_default_secret, _nothing, change_faults=_secret_change_faults),
    "namespaces": Rules(_default_namespace, _start_namespace),
    # a kubelet registers its node with its status
    "nodes": Rules(start=_nothing),
    "events": Rules(start=_nothing),
    "deployments.apps": Rules(_default_deployment, _empty_status, _workload_faults),
    "statefulsets.apps": Rules(_default_statefulset, _empty_status, _workload_faults),
    "replicasets.apps": Rules(_default_replicaset, _empty_status, _workload_faults),
    "jobs.batch": Rules(_default_batch_job, _empty_status, _batch_job_faults),
    "priorityclasses.scheduling.k8s.io": Rules(
        _default_priority_class, _nothing, change_faults=_priority_class_change_faults
    ),
}
PLAIN = Rules(start=_nothing)
"""Built-in kinds without a rule: the schema is all."""
CUSTOM = Rules()
"""Custom kinds: the schema, and a status that only its own door opens."""
