# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The columns kubectl prints, per kind: name, what it holds, whether only `-o wide` shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ascendop.clock import parse_time
from ascendop.kube.resource import Object
from ascendop.sim import podcells
from ascendop.sim.ages import UNKNOWN, age, spell
from ascendop.sim.jsonpath import find
from ascendop.sim.registry import Served

Cell = Callable[[Object, datetime], Any]
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    wide: bool = False
    """Only with `-o wide`."""

    def definition(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": int(self.wide),
        }


def columns_of(served: Served) -> tuple[Column, ...]:
    """Of a built-in kind its own, of a custom one its printer columns, else name and age."""
    if served.crd is not None:
        return _custom(served)
    return _COLUMNS.get(served.table, (NAME, AGE))


def _name(obj: Object, _: datetime) -> Any:
    return obj["metadata"]["name"]


def _age(obj: Object, now: datetime) -> Any:
    return age(obj["metadata"].get("creationTimestamp"), now)


def _at(*path: str, default: Any = NONE) -> Cell:
    def cell(obj: Object, _: datetime) -> Any:
        value: Any = obj
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return cell


def _count(*parts: str) -> Cell:
    return lambda obj, _: sum(len(obj.get(part) or ()) for part in parts)


NAME = Column("Name", _name, format="name")
AGE = Column("Age", _age)


def _custom(served: Served) -> tuple[Column, ...]:
    if not served.columns:
        return (NAME, AGE)
    made = [
        Column(
            column["name"],
            _custom_cell(column["jsonPath"], column["type"]),
            column["type"],
            column.get("format", ""),
            wide=column.get("priority", 0) > 0,
        )
        for column in served.columns
    ]
    return (NAME, *made)


def _custom_cell(path: str, kind: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        found = find(obj, path)
        if not found:
            return UNKNOWN if kind == "date" else None
        if kind == "date":
            try:
                return age(found[0], now)
            except (TypeError, ValueError):
                return "<invalid>"
        if kind == "string" and not isinstance(found[0], str):
            return _spoken(found[0])
        return found[0]

    return cell


def _spoken(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _service_ports(obj: Object, _: datetime) -> Any:
    return ",".join(map(_port, (obj.get("spec") or {}).get("ports") or ())) or NONE


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port.get('protocol', 'TCP')}"


def _labels(*path: str) -> Cell:
    inner = _at(*path, default={})

    def cell(obj: Object, now: datetime) -> Any:
        labels: Mapping[str, str] = inner(obj, now)
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or NONE

    return cell


def _node_status(obj: Object, _: datetime) -> Any:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = next((c.get("status") for c in conditions if c.get("type") == "Ready"), None)
    word = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    cordoned = (obj.get("spec") or {}).get("unschedulable")
    return f"{word},SchedulingDisabled" if cordoned else word


def _node_roles(obj: Object, _: datetime) -> Any:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = sorted(key.removeprefix(prefix) for key in labels if key.startswith(prefix))
    return ",".join(roles) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, _: datetime) -> Any:
        addresses = (obj.get("status") or {}).get("addresses") or ()
        return next((a["address"] for a in addresses if a.get("type") == kind), NONE)

    return cell


def _event_seen(*names: str) -> Cell:
    def cell(obj: Object, now: datetime) -> Any:
        series = (obj.get("series") or {}).get("lastObservedTime")
        moments = (series if "lastTimestamp" in names else None, *(obj.get(n) for n in names))
        return age(next((m for m in moments if m), None), now)

    return cell


def _event_object(obj: Object, _: datetime) -> Any:
    about = obj.get("involvedObject") or {}
    name, kind = about.get("name", ""), about.get("kind", "").lower()
    return f"{kind}/{name}" if name else kind


def _event_count(obj: Object, _: datetime) -> Any:
    return obj.get("count") or (obj.get("series") or {}).get("count") or 1


def _event_source(obj: Object, _: datetime) -> Any:
    source = obj.get("source") or {}
    told = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host")
    return f"{told}, {host}" if host else told


def _batch_status(obj: Object, _: datetime) -> Any:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True":
            kind = condition.get("type")
            if kind in ("Complete", "Failed", "Suspended", "FailureTarget"):
                return {"FailureTarget": "Terminating"}.get(kind, kind)
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else "Running"


def _batch_completions(obj: Object, _: datetime) -> Any:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}"


def _batch_duration(obj: Object, now: datetime) -> Any:
    status = obj.get("status") or {}
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    until = parse_time(end) if end else now
    return spell((until - parse_time(start)).total_seconds())


def _template(part: str) -> Cell:
    def cell(obj: Object, _: datetime) -> Any:
        spec = ((obj.get("spec") or {}).get("template") or {}).get("spec") or {}
        return ",".join(c.get(part, "") for c in spec.get("containers") or ()) or NONE

    return cell


def _ready_of(ready: str, wanted: str) -> Cell:
    def cell(obj: Object, _: datetime) -> Any:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        return f"{status.get(ready, 0)}/{spec.get(wanted, 0)}"

    return cell


def _gates(obj: Object, _: datetime) -> Any:
    return str(len(obj["spec"].get("readinessGates") or ()) or NONE)


_SELECTOR = Column("Selector", _labels("spec", "selector", "matchLabels"), wide=True)
_CONTAINERS = Column("Containers", _template("name"), wide=True)
_IMAGES = Column("Images", _template("image"), wide=True)

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        Column("Ready", lambda pod, _: podcells.ready(pod)),
        Column("Status", lambda pod, _: podcells.word(pod)),
        Column("Restarts", podcells.restarts),
        AGE,
        Column("IP", _at("status", "podIP"), wide=True),
        Column("Node", _at("spec", "nodeName"), wide=True),
        Column("Nominated Node", _at("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", _gates, wide=True),
    ),
    "services": (
        NAME,
        Column("Type", _at("spec", "type")),
        Column("Cluster-IP", _at("spec", "clusterIP")),
        Column("External-IP", lambda _obj, _now: NONE),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", _labels("spec", "selector"), wide=True),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", _at("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status", "nodeInfo", "osImage", default=UNKNOWN), wide=True),
        Column(
            "Kernel-Version", _at("status", "nodeInfo", "kernelVersion", default=UNKNOWN), wide=True
        ),
        Column(
            "Container-Runtime",
            _at("status", "nodeInfo", "containerRuntimeVersion", default=UNKNOWN),
            wide=True,
        ),
    ),
    "events": (
        Column("Last Seen", _event_seen("lastTimestamp", "eventTime", "firstTimestamp")),
        Column("Type", _at("type")),
        Column("Reason", _at("reason")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject", "fieldPath", default=""), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", _at("message", default="")),
        Column("First Seen", _event_seen("firstTimestamp", "eventTime"), wide=True),
        Column("Count", _event_count, wide=True),
        Column("Name", _name, wide=True),
    ),
    "namespaces": (NAME, Column("Status", _at("status", "phase")), AGE),
    "configmaps": (NAME, Column("Data", _count("data", "binaryData")), AGE),
    "secrets": (NAME, Column("Type", _at("type")), Column("Data", _count("data")), AGE),
    "serviceaccounts": (NAME, Column("Secrets", _count("secrets")), AGE),
    "leases.coordination.k8s.io": (
        NAME,
        Column("Holder", _at("spec", "holderIdentity", default="")),
        AGE,
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", _at("metadata", "creationTimestamp"), format=""),
    ),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", _at("value", default=0)),
        Column("Global-Default", _at("globalDefault", default=False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", _at("preemptionPolicy", default="")),
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _batch_status),
        Column("Completions", _batch_completions),
        Column("Duration", _batch_duration),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", _ready_of("readyReplicas", "replicas")),
        Column("Up-to-date", _at("status", "updatedReplicas", default=0)),
        Column("Available", _at("status", "availableReplicas", default=0)),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "replicasets.apps": (
        NAME,
        Column("Desired", _at("spec", "replicas", default=0)),
        Column("Current", _at("status", "replicas", default=0)),
        Column("Ready", _at("status", "readyReplicas", default=0)),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        NAME,
        Column("Ready", _ready_of("readyReplicas", "replicas")),
        AGE,
        _CONTAINERS,
        _IMAGES,
    ),
}
