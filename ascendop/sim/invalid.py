# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a custom object's values break of their schema: one cause each, in a real server's words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from ascendop.sim.answers import Cause
from ascendop.sim.shapes import Shape

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "number": (int, float),
}


def faults(value: Any, shape: Shape, path: str = "") -> Iterator[Cause]:
    """Every fault of a value and of what is below it; not into what has the wrong type.

    Not:  rules in CEL (x-kubernetes-validations). They are stored and shown, and never run.
    """
    if value is None and shape.nullable:
        return
    if not _fits(value, shape):
        yield _wrong_type(value, shape, path)
        return
    yield from _own(value, shape, path)
    if isinstance(value, dict):
        yield from _fields(value, shape, path)
    elif isinstance(value, list):
        yield from _items(value, shape, path)


def _fits(value: Any, shape: Shape) -> bool:
    if shape.int_or_string:
        return isinstance(value, int | str) and not isinstance(value, bool)
    if not shape.type:
        return True
    if shape.type == "integer":
        return _whole(value)
    if isinstance(value, bool):
        return shape.type == "boolean"
    return isinstance(value, _TYPES[shape.type])


def _whole(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())


def _wrong_type(value: Any, shape: Shape, path: str) -> Cause:
    found = _name_of(value)
    wanted = "integer,string" if shape.int_or_string else shape.type
    return Cause(
        "FieldValueTypeInvalid",
        f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"',
        path,
    )


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if _whole(value) else "number"
    if isinstance(value, dict | list):
        return "object" if isinstance(value, dict) else "array"
    return "string"


def _own(value: Any, shape: Shape, path: str) -> Iterator[Cause]:
    raw = shape.raw
    if "enum" in raw and value not in raw["enum"]:
        told = ", ".join(_told(item) for item in raw["enum"])
        yield Cause(
            "FieldValueNotSupported",
            f"Unsupported value: {_told(value)}: supported values: {told}",
            path,
        )
    for keyword, check in _CHECKS.items():
        if keyword in raw and (message := check(value, raw[keyword], raw)):
            yield _bad(message, value, path)
    for branch, wanted in (("allOf", all), ("anyOf", any), ("oneOf", _exactly_one)):
        if branch in raw:
            verdicts = [
                not any(True for _ in faults(value, Shape(part, strict=True), path))
                for part in raw[branch]
            ]
            if not wanted(verdicts):
                yield _bad(f"in body must validate {branch} of its schemas", value, path)
    if "not" in raw and not any(True for _ in faults(value, Shape(raw["not"], strict=True), path)):
        yield _bad("in body must not validate the schema (not)", value, path)


def _exactly_one(verdicts: list[bool]) -> bool:
    return sum(verdicts) == 1


def _bad(message: str, value: Any, path: str) -> Cause:
    if message.startswith("Too"):
        return Cause(
            "FieldValueTooLong" if "long" in message else "FieldValueTooMany", message, path
        )
    return Cause("FieldValueInvalid", f"Invalid value: {_told(value)}: {path} {message}", path)


def _told(value: Any) -> str:
    return orjson.dumps(value).decode()


def _fields(value: dict[str, Any], shape: Shape, path: str) -> Iterator[Cause]:
    for name in shape.raw.get("required") or ():
        if name not in value:
            where = _join(path, name)
            yield Cause("FieldValueRequired", "Required value", where)
    for name, item in value.items():
        below = shape.child(name)
        if below is not None and below.strict:
            yield from faults(item, below, _join(path, name))


def _items(value: list[Any], shape: Shape, path: str) -> Iterator[Cause]:
    if shape.items is not None:
        for index, item in enumerate(value):
            yield from faults(item, shape.items, f"{path}[{index}]")
    if shape.list_type in ("map", "set"):
        yield from _doubles(value, shape, path)


def _doubles(value: list[Any], shape: Shape, path: str) -> Iterator[Cause]:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        key = item
        if shape.list_type == "map":
            key = {name: item.get(name) for name in shape.keys} if isinstance(item, dict) else item
        encoded = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
        if encoded in seen:
            yield Cause("FieldValueDuplicate", f"Duplicate value: {_told(key)}", f"{path}[{index}]")
        seen.add(encoded)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_Check = Callable[[Any, Any, dict[str, Any]], str]


def _minimum(value: Any, bound: Any, raw: dict[str, Any]) -> str:
    if not _number(value):
        return ""
    if raw.get("exclusiveMinimum"):
        return "" if value > bound else f"in body should be greater than {bound}"
    return "" if value >= bound else f"in body should be greater than or equal to {bound}"


def _maximum(value: Any, bound: Any, raw: dict[str, Any]) -> str:
    if not _number(value):
        return ""
    if raw.get("exclusiveMaximum"):
        return "" if value < bound else f"in body should be less than {bound}"
    return "" if value <= bound else f"in body should be less than or equal to {bound}"


def _multiple_of(value: Any, step: Any, _: dict[str, Any]) -> str:
    if not _number(value) or math.isclose(value / step, round(value / step)):
        return ""
    return f"in body should be a multiple of {step}"


def _pattern(value: Any, pattern: str, _: dict[str, Any]) -> str:
    # Go's RE2 and Python's syntax agree on what CRDs use, but for \z
    if isinstance(value, str) and not re.search(pattern.replace("\\z", "\\Z"), value):
        return f"in body should match '{pattern}'"
    return ""


def _max_length(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, str) and len(value) > bound:
        return f"Too long: may not be more than {bound} bytes"
    return ""


def _min_length(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, str) and len(value) < bound:
        return f"in body should be at least {bound} chars long"
    return ""


def _max_items(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, list) and len(value) > bound:
        return f"Too many: {len(value)}: must have at most {bound} items"
    return ""


def _min_items(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, list) and len(value) < bound:
        return f"in body should have at least {bound} items"
    return ""


def _max_properties(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, dict) and len(value) > bound:
        return f"Too many: {len(value)}: must have at most {bound} items"
    return ""


def _min_properties(value: Any, bound: int, _: dict[str, Any]) -> str:
    if isinstance(value, dict) and len(value) < bound:
        return f"in body should have at least {bound} properties"
    return ""


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_CHECKS: dict[str, _Check] = {
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "maxLength": _max_length,
    "minLength": _min_length,
    "maxItems": _max_items,
    "minItems": _min_items,
    "maxProperties": _max_properties,
    "minProperties": _min_properties,
}
