# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A kind's models become its CustomResourceDefinition.

A structural schema is less than JSON Schema: no references, no unions with null, no titles. What
pydantic writes is brought into that shape here, and what has no such shape is a TypeError when
the manifests are made, not a surprise in a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ascendop.api.kind import JobKind, S
from ascendop.api.model import Model, Object
from ascendop.api.status import JobStatus

COLUMNS: Final = (
    {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)
_ABOUT_KIND: Final = {
    "apiVersion": {"description": "Version of the schema of this object.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},  # the server refuses any further word about it
}
_DROPPED: Final = frozenset({"title", "default"})
_SCALARS: Final = (bool, int, str)


def crd(kind: JobKind[S]) -> Object:
    """The CustomResourceDefinition of a kind."""
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [dict(column) for column in COLUMNS],
        "schema": {"openAPIV3Schema": job_schema(kind)},
        "subresources": {"status": {}, **_scale(kind)},
    }
    names: Object = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def job_schema(kind: JobKind[S]) -> Object:
    """The structural schema of a job. `spec` may be absent, as in the originals."""
    spec = _ordered({**model_schema(kind.spec), "required": [kind.replica_field]})
    return {
        "description": f"{kind.kind} is a distributed training job.",
        "type": "object",
        "properties": {**_ABOUT_KIND, "spec": spec, "status": model_schema(JobStatus)},
    }


def model_schema(model: type[Model]) -> Object:
    """The structural schema of a model.

    Raises:  TypeError, for a union of two real types, which no structural schema can say.
    """
    whole = model.model_json_schema(by_alias=True)
    return _structural(whole, whole.get("$defs") or {}, model.__name__)


def _scale(kind: JobKind[S]) -> Object:
    if not kind.scale_role:
        return {}
    role = kind.scale_role
    return {
        "scale": {
            "specReplicasPath": f".spec.{kind.replica_field}.{role}.replicas",
            "statusReplicasPath": f".status.replicaStatuses.{role}.active",
            "labelSelectorPath": f".status.replicaStatuses.{role}.selector",
        }
    }


def _structural(node: Mapping[str, Any], defs: Mapping[str, Any], path: str) -> Object:
    node = _resolved(node, defs, path)
    found = {key: value for key, value in node.items() if key not in _DROPPED | {"$defs"}}
    if isinstance(node.get("default"), _SCALARS):
        found["default"] = node["default"]
    if "const" in found:
        found["enum"] = [found.pop("const")]
    for bound in ("minimum", "maximum"):
        exclusive = f"exclusive{bound.capitalize()}"
        if exclusive in found:
            found |= {bound: found[exclusive], exclusive: True}
    if "properties" in found:
        found["properties"] = {
            name: _structural(inner, defs, f"{path}.{name}")
            for name, inner in found["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _structural(found[key], defs, f"{path}[]")
    return _ordered(found)


def _ordered(node: Object) -> Object:
    return dict(sorted(node.items(), key=_position))


def _resolved(node: Mapping[str, Any], defs: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The node without references and without null; its own words win over the definition's."""
    while True:
        if "$ref" in node:
            name = str(node["$ref"]).rsplit("/", 1)[-1]
            node = {**defs[name], **{key: node[key] for key in node if key != "$ref"}}
        elif "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
            real = [option for option in node["anyOf"] if option.get("type") != "null"]
            if len(real) != 1:
                raise TypeError(f"{path}: no structural schema can be one of {len(real)} types")
            node = {**real[0], **{key: node[key] for key in node if key != "anyOf"}}
        else:
            return node


def _position(entry: tuple[str, object]) -> tuple[int, str]:
    """What a reader looks for first comes first; the children come last."""
    first = ("description", "type", "format", "default", "enum", "required")
    last = ("items", "additionalProperties", "properties")
    key = entry[0]
    if key in first:
        return first.index(key), key
    if key in last:
        return 50 + last.index(key), key
    return 20, key
