# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Reads the protobuf in which kubectl sends the built-in objects that it makes by itself."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import orjson

from ascendop.kube.resource import Object
from ascendop.sim.registry import Served
from ascendop.sim.shapes import builtins

MAGIC = b"k8s\x00"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_SIGN = 1 << 63
_KEPT_ZEROS = frozenset(
    ("replicas", "backoffLimit", "completions", "parallelism", "value", "gracePeriodSeconds",
     "terminationGracePeriodSeconds", "ttlSecondsAfterFinished", "revisionHistoryLimit",
     "enableServiceLinks", "automountServiceAccountToken", "controller", "blockOwnerDeletion")
)  # fmt: skip
"""Pointers in Go: their zero is said. Any other zero is only the absence of a value."""


class Field:
    """One field of a message: its name in JSON and its type."""

    def __init__(self, text: str, schema: dict[str, Any] | None) -> None:
        self.name, kind = text.split(" ")
        self.mapped = kind.startswith("%")
        self.repeated = kind.endswith("*")
        self.kind = kind.strip("%*")
        known = (schema or {}).get("properties")
        self.inlined = known is not None and self.name not in known
        """Go embeds it: in JSON its fields are the message's own."""


def decode(body: bytes, served: Served) -> Object:
    """The object in a request. Raises ValueError for bytes that are none, or for another kind."""
    envelope = dict(_parts(memoryview(body)[len(MAGIC) :]))
    about = {number: bytes(value).decode() for number, value in _parts(envelope.get(1, b""))}
    schema = next(
        (
            facts["schema"]
            for facts in builtins()["resources"]
            if facts["kind"] == about.get(2) and _api_version(facts) == about.get(1)
        ),
        _EVICTION if about.get(2) == "Eviction" else None,
    )
    if schema is None or schema not in builtins()["wire"]:
        raise ValueError(f"no {about.get(2)} of {about.get(1)} is read from protobuf")
    obj: Object = _message(memoryview(envelope.get(2, b"")), schema)
    obj["apiVersion"], obj["kind"] = about.get(1), about.get(2)
    if obj["kind"] == served.resource.kind:
        obj.pop("status", None)  # a struct that is never absent in Go
    return obj


_EVICTION = "io.k8s.api.policy.v1.Eviction"


def _api_version(facts: dict[str, Any]) -> str:
    return f"{facts['group']}/{facts['version']}" if facts["group"] else facts["version"]


@cache
def _fields(message: str) -> dict[int, Field]:
    schema = builtins()["schemas"].get(message)
    numbers = builtins()["wire"][message]
    return {int(number): Field(text, schema) for number, text in numbers.items()}


def _message(data: memoryview, message: str) -> Any:
    if special := _SPECIAL.get(message):
        return special(dict(_parts(data)))
    fields = _fields(message)
    made: dict[str, Any] = {}
    for number, raw in _parts(data):
        field = fields.get(number)
        if field is not None:
            _set(made, field, raw)
    return made


def _set(made: dict[str, Any], field: Field, raw: Any) -> None:
    if field.mapped:
        pair = dict(_parts(raw))
        key = bytes(pair.get(1, b"")).decode()
        made.setdefault(field.name, {})[key] = _value(pair.get(2, b""), field.kind)
        return
    value = _value(raw, field.kind)
    if field.inlined:
        made.update(value)
    elif field.repeated:
        made.setdefault(field.name, []).append(value)
    elif value or value == {} or (field.name in _KEPT_ZEROS and value is not None):
        made[field.name] = value


def _value(raw: Any, kind: str) -> Any:
    match kind:
        case "string":
            return bytes(raw).decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "bool":
            return bool(raw)
        case "int32" | "int64" | "uint32" | "uint64":
            return raw - (1 << 64) if raw >= _SIGN else raw
        case _:
            return _message(memoryview(raw), kind)


def _time(parts: dict[int, Any]) -> str | None:
    if not parts.get(1):
        return None
    return datetime.fromtimestamp(parts[1], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(parts: dict[int, Any]) -> str | None:
    if not parts.get(1):
        return None
    moment = datetime.fromtimestamp(parts[1] + parts.get(2, 0) / 1e9, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _int_or_string(parts: dict[int, Any]) -> int | str:
    if parts.get(1):
        return bytes(parts.get(3, b"")).decode()
    number = parts.get(2, 0)
    return int(number - (1 << 64) if number >= _SIGN else number)


def _quantity(parts: dict[int, Any]) -> str:
    return bytes(parts.get(1, b"0")).decode()


def _fields_v1(parts: dict[int, Any]) -> Any:
    return orjson.loads(parts.get(1, b"{}"))


_SPECIAL: dict[str, Callable[[dict[int, Any]], Any]] = {
    _QUANTITY: _quantity,
    _INT_OR_STRING: _int_or_string,
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _fields_v1,
}


def _parts(data: memoryview | bytes) -> Iterator[tuple[int, Any]]:
    """Number and raw value of every field: an int, or bytes."""
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = _varint(view, at)
        match tag & 7:
            case 0:
                value, at = _varint(view, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(view, at)
                if at + size > len(view):
                    raise ValueError("protobuf: a field is longer than its message")
                yield tag >> 3, view[at : at + size]
                at += size
            case wire:
                raise ValueError(f"protobuf: wire type {wire} is not used here")


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(view):
            raise ValueError("protobuf: the message ends within a number")
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the bit that says: more follows
            return value, at
        shift += 7
