# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is served: the built-in resources, and what definitions of custom ones add."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ascendop.kube.resource import Object, Resource
from ascendop.sim.shapes import Shape, builtin, builtins, custom
from ascendop.sim.storage import fields_of

ALL_VERBS = frozenset(
    ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
)
_READ_WRITE = frozenset(("get", "patch", "update"))

_EVENT_FIELDS = {
    label: tuple(label.split("."))
    for label in (
        *(f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion")),
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "type",
    )
}
_SELECTABLE: dict[str, dict[str, tuple[str, ...]]] = {
    "pods": {
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
    "events": {**_EVENT_FIELDS, "source": ("source", "component")},
    "namespaces": {"status.phase": ("status", "phase")},
    "nodes": {"spec.unschedulable": ("spec", "unschedulable")},
    "secrets": {"type": ("type",)},
    "services": {"spec.clusterIP": ("spec", "clusterIP"), "spec.type": ("spec", "type")},
    "jobs.batch": {"status.successful": ("status", "succeeded")},
    "replicasets.apps": {"status.replicas": ("status", "replicas")},
}
_WITH_GENERATION = {
    "pods", "deployments.apps", "replicasets.apps", "statefulsets.apps", "jobs.batch",
    "customresourcedefinitions.apiextensions.k8s.io", "poddisruptionbudgets.policy",
    "priorityclasses.scheduling.k8s.io",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Served:
    """One resource at one version, and how it behaves."""

    resource: Resource
    singular: str
    table: str
    """Where its objects are: two versions, and both groups of Events, share one."""
    shape: Shape
    verbs: frozenset[str] = ALL_VERBS
    subresources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    selectable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_generation: bool = False
    crd: Mapping[str, Any] | None = None
    """`spec` of the definition of a custom resource."""
    columns: tuple[Mapping[str, Any], ...] = ()
    """additionalPrinterColumns of a custom resource."""
    scale: Mapping[str, str] | None = None
    """Paths of the scale subresource."""

    @property
    def fields(self) -> Callable[[Object], dict[str, str]]:
        return fields_of(self.selectable)

    @property
    def has_status(self) -> bool:
        """Whether status has its own door, so that the front door must not touch it."""
        return "status" in self.subresources

    @property
    def list_kind(self) -> str:
        if self.crd is not None:
            kind: str = self.crd["names"].get("listKind") or f"{self.resource.kind}List"
            return kind
        return f"{self.resource.kind}List"


class Registry:
    """Every served resource, by group, version and plural; in the order of discovery."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str, str], Served] = {}
        for facts in builtins()["resources"]:
            self._add(_builtin(facts))

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def of_table(self, table: str) -> Served:
        """Any version of what is in a table."""
        return next(served for served in self if served.table == table)

    def define(self, crd: Object) -> None:
        """Serve what a definition says; replaces what it said before."""
        self.undefine(crd)
        for version in crd["spec"]["versions"]:
            if version.get("served"):
                self._add(_custom(crd["spec"], version))

    def undefine(self, crd: Object) -> None:
        table = crd["metadata"]["name"]
        self._served = {k: v for k, v in self._served.items() if v.table != table or v.crd is None}

    def _add(self, served: Served) -> None:
        r = served.resource
        self._served[r.group, r.version, r.plural] = served


def _builtin(facts: dict[str, Any]) -> Served:
    resource = Resource(
        facts["group"],
        facts["version"],
        facts["plural"],
        facts["kind"],
        namespaced=facts["namespaced"],
    )
    table = "events" if resource.plural == "events" else resource.name
    return Served(
        resource,
        facts["singular"],
        table,
        builtin(facts["schema"]),
        frozenset(facts["verbs"]),
        {name: frozenset(verbs) for name, verbs in facts["subresources"].items()},
        tuple(facts["shortNames"]),
        tuple(facts["categories"]),
        _SELECTABLE.get(table, {}),
        has_generation=table in _WITH_GENERATION,
        scale=_BUILTIN_SCALE if "scale" in facts["subresources"] else None,
    )


_BUILTIN_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


def _custom(spec: Mapping[str, Any], version: Mapping[str, Any]) -> Served:
    names = spec["names"]
    resource = Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )
    subresources = version.get("subresources") or {}
    return Served(
        resource,
        names.get("singular") or names["kind"].lower(),
        resource.name,
        custom((version.get("schema") or {}).get("openAPIV3Schema") or {}),
        ALL_VERBS,
        {name: _READ_WRITE for name in ("status", "scale") if name in subresources},
        tuple(names.get("shortNames") or ()),
        tuple(names.get("categories") or ()),
        {
            entry["jsonPath"].lstrip("."): tuple(entry["jsonPath"].lstrip(".").split("."))
            for entry in version.get("selectableFields") or ()
        },
        has_generation=True,
        crd=spec,
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        scale=subresources.get("scale"),
    )
