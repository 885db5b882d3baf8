# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""OpenAPI documents: what `kubectl explain`, `apply` and `edit` ask before they trust a server."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from ascendop.sim.registry import Registry, Served
from ascendop.sim.shapes import builtins

Doc = dict[str, Any]
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_VALIDATION = {
    "name": "fieldValidation",
    "in": "query",
    "schema": {"type": "string", "uniqueItems": True},
}
_DRY_RUN = {"name": "dryRun", "in": "query", "schema": {"type": "string", "uniqueItems": True}}


def index(registry: Registry) -> Doc:
    """/openapi/v3: one document per group and version."""
    paths: Doc = {}
    for root, members in _groups(registry).items():
        digest = hashlib.sha256(orjson.dumps([_stamp(served) for served in members])).hexdigest()
        paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest[:32].upper()}"}
    return {"paths": paths}


def document(registry: Registry, root: str) -> Doc | None:
    """/openapi/v3/<root>: schemas and paths of one group and version."""
    members = _groups(registry).get(root)
    if members is None:
        return None
    schemas: Doc = {}
    paths: Doc = {}
    for served in members:
        name, schema = _schema(served)
        schemas[name] = schema
        _paths(served, name, paths)
    _close(schemas)
    return {
        "openapi": "3.0.0",
        "info": {"title": "ascendop simulator", "version": "v1.34.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def swagger(registry: Registry) -> Doc:
    """/openapi/v2: everything at once, in the older dialect."""
    definitions: Doc = dict(builtins()["schemas"])
    paths: Doc = {}
    for served in registry:
        name, schema = _schema(served)
        definitions[name] = schema
        _paths(served, name, paths)
    text = orjson.dumps({"definitions": definitions, "paths": paths})
    turned: Doc = orjson.loads(text.replace(b"#/components/schemas/", b"#/definitions/"))
    return {"swagger": "2.0", "info": {"title": "ascendop simulator", "version": "v1"}, **turned}


def _groups(registry: Registry) -> dict[str, list[Served]]:
    groups: dict[str, list[Served]] = {}
    for served in registry:
        resource = served.resource
        root = f"{'apis' if resource.group else 'api'}/{resource.api_version}"
        groups.setdefault(root, []).append(served)
    return groups


def _stamp(served: Served) -> Any:
    return served.shape.raw if served.crd else served.table


def _schema(served: Served) -> tuple[str, Doc]:
    resource = served.resource
    gvk = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
    if served.crd is None:
        facts = next(
            f
            for f in builtins()["resources"]
            if (f["group"], f["version"], f["plural"])
            == (resource.group, resource.version, resource.plural)
        )
        name = facts["schema"]
        schema: Doc = builtins()["schemas"][name]
        return name, {**schema, "x-kubernetes-group-version-kind": gvk}
    reverse = ".".join(reversed(resource.group.split(".")))
    schema = copy.deepcopy(served.shape.raw)
    properties = schema.setdefault("properties", {})
    properties.setdefault("apiVersion", {"type": "string"})
    properties.setdefault("kind", {"type": "string"})
    properties["metadata"] = {"allOf": [{"$ref": f"#/components/schemas/{_META}"}]}
    schema["x-kubernetes-group-version-kind"] = gvk
    return f"{reverse}.{resource.version}.{resource.kind}", schema


def _paths(served: Served, name: str, paths: Doc) -> None:
    """As much of the paths as says: this kind can be written, and its fields are validated."""
    resource = served.resource
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    space = "{namespace}" if resource.namespaced else None
    collection, member = resource.path(space), resource.path(space, "{name}")
    reference = {"$ref": f"#/components/schemas/{name}"}

    def operation(action: str, *, writes: bool) -> Doc:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "parameters": [_VALIDATION, _DRY_RUN] if writes else [],
            "responses": {"200": {"content": {"application/json": {"schema": reference}}}},
        }

    paths[collection] = {
        "get": operation("list", writes=False),
        "post": operation("post", writes=True),
    }
    paths[member] = {
        "get": operation("get", writes=False),
        "put": operation("put", writes=True),
        "patch": operation("patch", writes=True),
        "delete": operation("delete", writes=False),
    }


def _close(schemas: Doc) -> None:
    """Add every type that is referred to."""
    todo = list(schemas.values())
    while todo:
        for name in _references(todo.pop()):
            if name not in schemas and name in builtins()["schemas"]:
                schemas[name] = builtins()["schemas"][name]
                todo.append(schemas[name])


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
