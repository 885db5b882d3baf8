# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What YAML can say and an API server cannot hear: dates, bytes, numbers beyond 64 bits."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Final

_INTEGERS: Final = range(-(2**63), 2**63)
_SHOWN: Final = 40  # characters of a text, so that a message stays a sentence


def unsayable(value: object, path: str = "") -> Iterator[str]:
    """Where something is not JSON, what it is and what to write. Raises RecursionError."""
    yield from _walk(value, path, frozenset())


def shown(value: object) -> str:
    """A value as a message speaks of it."""
    if isinstance(value, str) and value:
        return f"{value[:_SHOWN]!r}, a text"
    return _SPOKEN.get(type(value), "no JSON").format(str(value).lower())


_SPOKEN: Final[dict[type, str]] = {
    type(None): "missing",
    bool: "{}, a boolean",
    int: "{}, a number",
    float: "{}, a number",
    str: "empty",
    dict: "a map",
    list: "a list",
}


def _walk(value: object, path: str, above: frozenset[int]) -> Iterator[str]:
    match value:
        case dict() | list():
            yield from _within(value, path, above)
        case str() if any("\ud800" <= letter <= "\udfff" for letter in value):
            yield f"{path}: holds half a character; write the whole one"
        case int() if value not in _INTEGERS:
            yield f"{path}: is {value}, beyond 64 bits; write a smaller number"
        case float() if not isfinite(value):
            yield f"{path}: is {value}, which is no JSON number; write another one"
        case None | bool() | str() | int() | float():
            pass
        case _:
            yield f"{path}: is a {type(value).__name__}, which JSON does not have; write a text"


def _within(
    value: dict[object, object] | list[object], path: str, above: frozenset[int]
) -> Iterator[str]:
    if id(value) in above:
        yield f"{path}: contains itself, by an anchor; write it out"
        return
    above |= {id(value)}
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]", above)
        return
    for key, item in value.items():
        below = f"{path}.{key}" if path else str(key)
        if not isinstance(key, str):
            yield f"{below}: the key is {shown(key)}; write it in quotes"
        yield from _walk(item, below, above)
