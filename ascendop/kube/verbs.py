# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs of the API as questions: method, path, query and body; nothing is sent here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from ascendop.kube.resource import Object, Resource, Scope
from ascendop.kube.retry import Repeat

Validation = Literal["Strict", "Warn", "Ignore"]
"""Of unknown fields: Strict for what we wrote ourselves, Warn for what users wrote."""
Propagation = Literal["Background", "Foreground", "Orphan"]
How = Literal["merge", "json"]
Patch = dict[str, Any] | list[dict[str, Any]]
"""A merge patch is an object, a JSON patch is a list of operations."""

_JSON: Final = "application/json"
_META: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
READ: Final[Mapping[str, str]] = {"Accept": _JSON}
_WRITE: Final[Mapping[str, str]] = {"Accept": _JSON, "Content-Type": _JSON}
_PATCH: Final[Mapping[str, Mapping[str, str]]] = {
    how: {"Accept": _JSON, "Content-Type": f"application/{name}"}
    for how, name in {
        "merge": "merge-patch+json",
        "json": "json-patch+json",
        "apply": "apply-patch+yaml",  # which JSON is
    }.items()
}
_PRECONDITIONS: Final = ("resourceVersion", "uid")
_TESTS: Final = frozenset(f"/metadata/{name}" for name in _PRECONDITIONS)


@dataclass(frozen=True, slots=True)
class Question:
    """One request as the API knows it; who asks, and how patiently, comes later."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=lambda: READ)
    body: bytes | None = None
    repeat: Repeat = Repeat.HARMLESS


def get(resource: Resource, namespace: str | None, name: str, subresource: str | None) -> Question:
    return Question("GET", resource.path(namespace, name, subresource))


def page(
    resource: Resource, scope: Scope, *, limit: int, token: str, version: str, match: str
) -> Question:
    """A resourceVersion beside a continue token would be refused, so the token goes alone."""
    query = _selectors(scope)
    pairs = {"limit": str(limit) if limit else "", "continue": token}
    if not token:
        pairs |= {"resourceVersion": version, "resourceVersionMatch": match}
    query |= {name: value for name, value in pairs.items() if value}
    headers = _headers(scope, "PartialObjectMetadataList")
    return Question("GET", resource.path(scope.namespace), query, headers)


def watch(
    resource: Resource, scope: Scope, *, version: str, initial: bool, timeout_s: int
) -> Question:
    query = _selectors(scope)
    query |= {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(timeout_s),
    }
    if version:
        query["resourceVersion"] = version
    if initial:
        query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    headers = _headers(scope, "PartialObjectMetadata")
    return Question("GET", resource.path(scope.namespace), query, headers)


def create(
    resource: Resource, obj: Object, *, dry_run: bool, validation: Validation | None
) -> Question:
    query = _validated(validation)
    if dry_run:
        query["dryRun"] = "All"
    path = resource.path(obj["metadata"].get("namespace"))
    repeat = Repeat.HARMLESS if dry_run else Repeat.ONLY_IF_UNDONE
    return Question("POST", path, query, _WRITE, orjson.dumps(obj), repeat)


def create_list(resource: Resource, namespace: str, objects: Sequence[Object]) -> Question:
    """An extension that openFuyao's API server has; the kind of the body is its own."""
    body = {"kind": f"{resource.kind}Lists", "apiVersion": resource.api_version, "items": objects}
    query = {"collectionCreate": "true"}
    path = resource.path(namespace)
    return Question("POST", path, query, _WRITE, orjson.dumps(body), Repeat.ONLY_IF_UNDONE)


def replace(
    resource: Resource, obj: Object, *, subresource: str | None, validation: Validation | None
) -> Question:
    path, query = _path_of(resource, obj, subresource), _validated(validation)
    return Question("PUT", path, query, _WRITE, orjson.dumps(obj), _repeat(obj))


def patch(
    path: str, body: Patch, *, how: How, validation: Validation | None, metadata_only: bool = False
) -> Question:
    query, headers = _validated(validation), _PATCH[how]
    if metadata_only:
        headers = {**headers, "Accept": _META.format("PartialObjectMetadata")}
    return Question("PATCH", path, query, headers, orjson.dumps(body), _repeat(body))


def apply(
    resource: Resource,
    obj: Object,
    *,
    manager: str,
    force: bool,
    subresource: str | None,
    validation: Validation | None,
) -> Question:
    query = _validated(validation)
    query |= {"fieldManager": manager, "force": "true" if force else "false"}
    path = _path_of(resource, obj, subresource)
    return Question("PATCH", path, query, _PATCH["apply"], orjson.dumps(obj), _repeat(obj))


def delete(
    path: str,
    *,
    uid: str | None,
    version: str | None,
    grace_s: int | None,
    propagation: Propagation | None,
) -> Question:
    conditions = {"uid": uid, "resourceVersion": version}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {k: v for k, v in conditions.items() if v} or None,
        "gracePeriodSeconds": grace_s,
        "propagationPolicy": propagation,
    }
    body = orjson.dumps({name: value for name, value in options.items() if value is not None})
    repeat = Repeat.HARMLESS if uid or version else Repeat.ONLY_IF_UNDONE
    return Question("DELETE", path, {}, _WRITE, body, repeat)


def _headers(scope: Scope, metadata_form: str) -> Mapping[str, str]:
    return {"Accept": _META.format(metadata_form)} if scope.metadata_only else READ


def _selectors(scope: Scope) -> dict[str, str]:
    pairs = (("labelSelector", scope.labels), ("fieldSelector", scope.fields))
    return {name: selector for name, selector in pairs if selector}


def _validated(validation: Validation | None) -> dict[str, str]:
    return {} if validation is None else {"fieldValidation": validation}


def _path_of(resource: Resource, obj: Object, subresource: str | None) -> str:
    meta = obj["metadata"]
    return resource.path(meta.get("namespace"), meta["name"], subresource)


def _repeat(body: Patch) -> Repeat:
    """Whether the body itself keeps a second write from doing harm."""
    if isinstance(body, list):
        guarded = any(op.get("op") == "test" and op.get("path") in _TESTS for op in body)
    else:
        meta = body.get("metadata") or {}
        guarded = any(meta.get(name) for name in _PRECONDITIONS)
    return Repeat.HARMLESS if guarded else Repeat.ONLY_IF_UNDONE
