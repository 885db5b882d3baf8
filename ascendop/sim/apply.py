# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Server-side apply: the fields somebody wants, merged, with everybody else's left alone."""

from __future__ import annotations

from typing import Any

import orjson

from ascendop.kube.resource import Object
from ascendop.sim.answers import Cause, RefusedError
from ascendop.sim.fieldsets import Path, applied, item_key, leaves, spoken
from ascendop.sim.managers import BEFORE, Managed, Manager, read_managed, write_managed
from ascendop.sim.registry import Served
from ascendop.sim.shapes import Shape


def apply(
    live: Object | None, wanted: Object, served: Served, manager: Manager, *, force: bool, now: str
) -> Object:
    """The object after an apply, with its books.

    live:    the object as it is, or None when apply creates it. Changed in place.
    Raises:  RefusedError(409) with one cause per field that somebody else set to another value.
    """
    wanted.get("metadata", {}).pop("managedFields", None)
    asked = applied(wanted, served.shape)
    if live is None:
        managed = Managed()
        managed.give(manager, asked, now)
        write_managed(wanted, managed)
        return wanted
    managed = read_managed(live)
    before = leaves(live, served.shape)
    if not managed.sets:
        managed.give(Manager(BEFORE, "Update", served.resource.api_version), before, now)
    merged: Object = _merge(live, wanted, served.shape)
    after = leaves(merged, served.shape)
    changed = {path for path in asked if before.get(path, before) != after.get(path, after)}
    _settle(managed, manager, changed, force=force)
    dropped = managed.sets.get(manager, set()) - asked.keys() - managed.others(manager)
    # an item before its fields: without its keys it would not be found
    for path in sorted(dropped, key=len):
        _remove(merged, served.shape, path, keep=asked.keys() | managed.others(manager))
    managed.give(manager, asked, now)
    write_managed(merged, managed)
    return merged


def _settle(managed: Managed, manager: Manager, changed: set[Path], *, force: bool) -> None:
    """Raise for fields that others own, or take them."""
    causes = [
        Cause("FieldManagerConflict", other.told(), spoken(path))
        for other, owned in managed.sets.items()
        if other != manager
        for path in sorted(owned & changed)
    ]
    if causes and not force:
        raise _conflicts(causes)
    managed.take(changed, but=manager)


def _conflicts(causes: list[Cause]) -> RefusedError:
    count = f"{len(causes)} conflict{'s' if len(causes) > 1 else ''}"
    if len(causes) == 1:
        told = f"{causes[0].message}: {causes[0].field}"
    else:
        by_manager: dict[str, list[str]] = {}
        for cause in causes:
            by_manager.setdefault(cause.message, []).append(cause.field)
        told = "\n".join(
            f"{message}:\n" + "\n".join(f"- {field}" for field in fields)
            for message, fields in sorted(by_manager.items())
        )
        told = told.replace("conflict with", "conflicts with")
    return RefusedError(
        409,
        "Conflict",
        f"Apply failed with {count}: {told}",
        {
            "causes": [
                {"reason": cause.reason, "message": cause.message, "field": cause.field}
                for cause in causes
            ]
        },
    )


def _merge(live: Any, wanted: Any, shape: Shape | None) -> Any:
    if shape is None or wanted is None:
        return wanted
    if isinstance(live, dict) and isinstance(wanted, dict) and not shape.atomic:
        for name, value in wanted.items():
            live[name] = _merge(live.get(name), value, shape.child(name) or _below(shape))
        return live
    if isinstance(live, list) and isinstance(wanted, list):
        return _merge_list(live, wanted, shape)
    return wanted


def _below(shape: Shape) -> Shape | None:
    return shape if shape.preserved else None


def _merge_list(live: list[Any], wanted: list[Any], shape: Shape) -> list[Any]:
    if shape.list_type == "set":
        return [*live, *(item for item in wanted if item not in live)]
    if shape.list_type != "map":
        return wanted
    places = {item_key(item, shape): index for index, item in enumerate(live)}
    for item in wanted:
        place = places.get(item_key(item, shape))
        if place is None:
            live.append(item)
        else:
            live[place] = _merge(live[place], item, shape.items)
    return live


def _remove(obj: Any, shape: Shape, path: Path, keep: set[Path]) -> None:
    """Take a field or an item away, unless something below it is still owned."""
    if any(other[: len(path)] == path for other in keep):
        return
    node, at = obj, shape
    for element in path[:-1]:
        node, at = _step(node, at, element)
        if node is None:
            return
    _drop(node, at, path[-1])


def _step(node: Any, shape: Shape, element: str) -> tuple[Any, Shape]:
    kind, _, rest = element.partition(":")
    if kind == "f" and isinstance(node, dict):
        return node.get(rest), shape.child(rest) or shape
    if kind == "k" and isinstance(node, list):
        found = next((item for item in node if item_key(item, shape) == element), None)
        return found, shape.items or shape
    return None, shape


def _drop(node: Any, shape: Shape, element: str) -> None:
    kind, _, rest = element.partition(":")
    if kind == "f" and isinstance(node, dict):
        node.pop(rest, None)
    elif kind == "k" and isinstance(node, list):
        node[:] = [item for item in node if item_key(item, shape) != element]
    elif kind == "v" and isinstance(node, list):
        node[:] = [item for item in node if _value_element(item) != element]


def _value_element(item: Any) -> str:
    return "v:" + orjson.dumps(item).decode()
