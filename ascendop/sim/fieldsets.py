# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Who owns which field: paths of an object by its shape, and their form in managedFields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from ascendop.kube.resource import Object
from ascendop.sim.shapes import Shape

Path = tuple[str, ...]
"""Elements as managedFields writes them: `f:name`, `k:{"name":"x"}`, `v:"x"`."""
Leaves = dict[Path, Any]
"""Every owned path with its value."""
CONTAINER: Any = object()
"""The value of a map or keyed list as such: owned by who made it, not by who applies into it."""
ITEM: Any = object()
"""The value of an item of a keyed list as such."""

_OPEN = Shape({"x-kubernetes-preserve-unknown-fields": True}, strict=False)
_SYSTEM = frozenset(
    ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation",
     "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink")
)  # fmt: skip
"""Metadata that is nobody's."""


def leaves(obj: Object, shape: Shape, parts: Iterable[str] | None = None) -> Leaves:
    """What can be owned in an object; of the top-level `parts` only, if given."""
    found: Leaves = {}
    for name in obj if parts is None else parts:
        if name in ("apiVersion", "kind") or name not in obj:
            continue
        below = shape.child(name) or _OPEN
        if name == "metadata":
            meta = {k: v for k, v in obj[name].items() if k not in _SYSTEM}
            _walk_fields(meta, below, ("f:metadata",), found)
        else:
            _walk(obj[name], below, (f"f:{name}",), found)
    return found


def applied(obj: Object, shape: Shape) -> Leaves:
    """What an apply of this object owns."""
    return {p: value for p, value in leaves(obj, shape).items() if value is not CONTAINER}


def changed_parts(old: Object, new: Object) -> list[str]:
    """Top-level fields that differ: the walk can leave the others alone."""
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]


def to_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """As FieldsV1: a path is a leaf, or has a dot when something is below it."""
    root: dict[str, Any] = {}
    nodes: dict[Path, dict[str, Any]] = {(): root}
    own: set[Path] = set()
    # sorted, a path comes before everything below it
    for path in sorted(paths):
        above = path[:-1]
        node = nodes.get(above)
        if node is None:
            node = _descend(nodes, above)
        if above in own:
            node["."] = {}
        nodes[path] = node[path[-1]] = {}
        own.add(path)
    return root


def _descend(nodes: dict[Path, dict[str, Any]], path: Path) -> dict[str, Any]:
    node = nodes[()]
    for depth, element in enumerate(path, 1):
        node = nodes[path[:depth]] = node.setdefault(element, {})
    return node


def of_v1(fields: Mapping[str, Any]) -> set[Path]:
    """The paths that FieldsV1 names."""
    return set(_members(fields, ()))


def spoken(path: Path) -> str:
    """As a conflict names it: .spec.containers[name="a"].image."""
    return "".join(_spoken(element) for element in path)


def item_key(item: Any, shape: Shape) -> str | None:
    """The `k:` element of an item of a map-like list; None when a key is missing."""
    if not isinstance(item, dict):
        return None
    keys: dict[str, Any] = {}
    for name in sorted(shape.keys):
        value = item.get(name, _key_default(shape, name))
        if value is None:
            continue
        keys[name] = value
    return "k:" + orjson.dumps(keys).decode() if keys else None


def _key_default(shape: Shape, name: str) -> Any:
    below = shape.items.child(name) if shape.items else None
    default = below.raw.get("default") if below else None
    return default or None


def _walk(value: Any, shape: Shape, path: Path, found: Leaves) -> None:
    if isinstance(value, dict) and value and not shape.atomic:
        if shape.values is not None or (shape.open and not shape.properties):
            found[path] = CONTAINER
        _walk_fields(value, shape, path, found)
    elif isinstance(value, list) and value and shape.list_type in ("map", "set"):
        found[path] = CONTAINER
        _walk_items(value, shape, path, found)
    else:
        found[path] = value


def _walk_fields(value: dict[str, Any], shape: Shape, path: Path, found: Leaves) -> None:
    for name, item in value.items():
        _walk(item, shape.child(name) or _OPEN, (*path, f"f:{name}"), found)


def _walk_items(value: list[Any], shape: Shape, path: Path, found: Leaves) -> None:
    below = shape.items or _OPEN
    for item in value:
        if shape.list_type == "set":
            found[*path, "v:" + orjson.dumps(item).decode()] = item
            continue
        key = item_key(item, shape)
        if key is None:
            found[path] = value
            return
        here = (*path, key)
        found[here] = ITEM
        _walk_fields(item, below, here, found)


def _members(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    if not fields and path:
        yield path
    for element, below in fields.items():
        if element == ".":
            yield path
        else:
            yield from _members(below, (*path, element))


def _spoken(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = orjson.loads(rest)
        return "[" + ",".join(f"{k}={orjson.dumps(v).decode()}" for k, v in keys.items()) + "]"
    return f"[={rest}]"
