# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Patches: merge (RFC 7396), JSON (RFC 6902), and strategic merge for the kinds that know it."""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer

from ascendop.kube.resource import Object
from ascendop.sim.answers import bad_request, unprocessable
from ascendop.sim.shapes import Shape

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_REFUSED = "the server rejected our request due to an error in our request"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396; changes and returns the target where it is a map."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge(target.get(name), value)
    return target


def json_patch(target: Object, patch: Any) -> Object:
    """RFC 6902. Raises RefusedError: 422 when an operation does not apply, 400 when it is none."""
    if not isinstance(patch, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    try:
        changed: Any = jsonpatch.JsonPatch(patch).apply(target)
    except (
        jsonpatch.JsonPatchTestFailed,
        jsonpatch.JsonPatchConflict,
        jsonpointer.JsonPointerException,
        KeyError,
        TypeError,
    ) as error:
        raise unprocessable(_REFUSED) from error
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(str(error)) from error
    if not isinstance(changed, dict):
        raise unprocessable(_REFUSED)
    return changed


def strategic(target: Any, patch: Any, shape: Shape | None) -> Any:
    """Merge by the keys of the schema; changes and returns the target where it is a map."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "delete":
        return {}
    if directive == "replace" or not isinstance(target, dict):
        target = {}
    if "$retainKeys" in patch:
        target = {name: target[name] for name in patch["$retainKeys"] if name in target}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            target.pop(name, None)
        else:
            below = shape.child(name) if shape else None
            target[name] = _strategic_value(target.get(name), value, below)
    _directives(target, patch, shape)
    return target


def _strategic_value(old: Any, new: Any, shape: Shape | None) -> Any:
    if not isinstance(new, list):
        return strategic(old, new, shape)
    if shape is None or "merge" not in shape.patch_strategies:
        return new
    if not shape.merge_key:
        return [*(old or ()), *(item for item in new if item not in (old or ()))]
    return _merge_items(old or [], new, shape)


def _merge_items(old: list[Any], new: list[Any], shape: Shape) -> list[Any]:
    if not all(isinstance(item, dict) for item in (*old, *new)):
        raise bad_request(f"strategic merge: an item without its key {shape.merge_key}")
    if any(item.get("$patch") == "replace" for item in new):
        return [item for item in new if "$patch" not in item]
    key = shape.merge_key
    result = list(old)
    for item in new:
        at = next((i for i, was in enumerate(result) if was.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic({}, item, shape.items))
        else:
            result[at] = strategic(result[at], item, shape.items)
    return result


def _directives(target: dict[str, Any], patch: dict[str, Any], shape: Shape | None) -> None:
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            target[field] = [item for item in target.get(field) or () if item not in value]
        elif name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            below = shape.child(field) if shape else None
            if target.get(field):
                target[field] = _ordered(target[field], value, below)


def _ordered(items: list[Any], order: list[Any], shape: Shape | None) -> list[Any]:
    """In the order that the patch names; what it does not name goes behind."""
    key = shape.merge_key if shape else ""
    names = [part.get(key) if isinstance(part, dict) else part for part in order]

    def place(item: Any) -> int:
        name = item.get(key) if isinstance(item, dict) else item
        return names.index(name) if name in names else len(names)

    return sorted(items, key=place)
