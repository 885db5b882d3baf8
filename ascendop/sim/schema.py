# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Objects against their shape: what does not belong goes, what is missing is filled in."""

from __future__ import annotations

import copy
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.answers import RefusedError, bad_request
from ascendop.sim.registry import Served
from ascendop.sim.shapes import MISSING, Shape

_JSON_NAMES = {dict: "object", list: "array", str: "string", bool: "bool", int: "number"}
_ZEROS: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def prune(obj: Object, served: Served, old: Object | None = None) -> list[str]:
    """Remove what the kind does not have; the paths that went, in order.

    old:    what is as it was stored was pruned then, and is not walked again.
    Raises RefusedError(400) for a value of a wrong type in a built-in kind, which a real server
    cannot even decode. In a custom kind that is the business of validation.
    """
    gone: list[str] = []
    changed = {name: obj[name] for name in obj if old is None or obj[name] != old.get(name)}
    names = set(changed)
    try:
        _prune(changed, served.shape, "", gone)
    except _UndecodableError as error:
        raise undecodable(served, str(error)) from error
    for name in names - changed.keys():
        del obj[name]
    return gone


def undecodable(served: Served, why: str) -> RefusedError:
    resource = served.resource
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {why}"
    )


def fill(obj: Object, served: Served, old: Object | None = None) -> None:
    """Write the defaults of the schema into an object; not again into what is as it was."""
    known = set() if old is None else {name for name in obj if obj[name] == old.get(name)}
    changed = {name: value for name, value in obj.items() if name not in known}
    _fill(changed, served.shape)
    obj.update(changed)


class _UndecodableError(Exception):
    """A value that a typed decoder would choke on."""


def _prune(value: Any, shape: Shape, path: str, gone: list[str]) -> None:
    if isinstance(value, dict):
        _prune_fields(value, shape, path, gone)
    elif isinstance(value, list) and shape.items is not None:
        for index, item in enumerate(value):
            if item is None and not shape.strict:
                # what a typed decoder makes of a null
                value[index] = _ZEROS.get(shape.items.type, dict)()
                continue
            _check_type(item, shape.items, path)
            _prune(item, shape.items, f"{path}[{index}]", gone)


def _prune_fields(value: dict[str, Any], shape: Shape, path: str, gone: list[str]) -> None:
    for name in list(value):
        below = shape.properties.get(name) or shape.values
        here = f"{path}.{name}" if path else name
        if below is None:
            if not shape.open:
                gone.append(here)
                del value[name]
            continue
        item = value[name]
        if (item is None and _drops_null(below)) or _drops_empty(item, below, name, shape):
            del value[name]
            continue
        if item.__class__ is dict or item.__class__ is list:
            _check_type(item, below, here)
            _prune(item, below, here, gone)
        else:
            _check_type(item, below, here)


def _drops_null(shape: Shape) -> bool:
    """A typed decoder does not see a null; a custom kind keeps it unless a default replaces it."""
    if not shape.strict:
        return bool(shape.type)
    return not shape.nullable and shape.default is not MISSING


def _drops_empty(item: Any, below: Shape, name: str, shape: Shape) -> bool:
    """A typed decoder does not tell an empty map or list from none; an empty struct it does."""
    if shape.strict or item not in ({}, []) or name in (shape.raw.get("required") or ()):
        return False
    return isinstance(item, list) or below.values is not None


def _check_type(value: Any, shape: Shape, path: str) -> None:
    if shape.strict or not shape.type or value is None:
        return
    wanted = _TYPES[shape.type]
    if isinstance(value, wanted) and (not isinstance(value, bool) or shape.type == "boolean"):
        return
    if shape.type == "string" and shape.int_or_string and isinstance(value, int):
        return
    found = _JSON_NAMES.get(type(value), "number")
    raise _UndecodableError(
        f"json: cannot unmarshal {found} into Go struct field {path} of type {shape.type}"
    )


def _fill(value: Any, shape: Shape) -> None:
    if isinstance(value, dict):
        _fill_fields(value, shape)
    elif isinstance(value, list) and shape.items is not None:
        for item in value:
            _fill(item, shape.items)


def _fill_fields(value: dict[str, Any], shape: Shape) -> None:
    if shape.defaulting:
        for name, below in shape.properties.items():
            # built-in kinds have `default: {}` for every struct; only custom ones mean it
            if below.default is not MISSING and name not in value and _means(below):
                value[name] = copy.deepcopy(below.default)
    for name, item in value.items():
        if item.__class__ is dict or item.__class__ is list:
            below_or_none = shape.child(name)
            if below_or_none is not None:
                _fill(item, below_or_none)


def _means(shape: Shape) -> bool:
    return shape.strict or shape.default not in ({}, "", 0)
