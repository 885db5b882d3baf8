# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The paths of kwok's stages: the part of jq that selectors use, and a clear no to the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from ascendop.errors import AscendopError

Step = Callable[[Any], Iterable[Any]]


class UnknownExpressionError(AscendopError):
    """An expression or template that this evaluator does not know; kwok itself may."""


class _NotIndexableError(Exception):
    """jq fails here; kwok then takes the whole expression for absent."""


_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<select>select\(\s*\.(?P<field>\w+)\s*==\s*"(?P<value>[^"]*)"\s*\))
      | (?P<pipe>\|)
      | \.?(?P<each>\[\s*\])
      | \.?\[\s*"(?P<key>[^"]*)"\s*\]
      | \.?\[\s*(?P<index>-?\d+)\s*\]
      | \.(?P<name>[A-Za-z_]\w*)
      | (?P<self>\.)(?=\s*(?:\||$))
    )""",
    re.VERBOSE,
)


class Query:
    """A compiled path.

    Shape:  .a.b  .a["x"]  .a[0]  .a.[]  .a[]  | select( .k == "v" )  |
    Raises: UnknownExpressionError for anything else.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _compile(text)

    def __repr__(self) -> str:
        return f"<Query {self.text}>"

    def values(self, data: Any) -> list[Any]:
        """What the path leads to, without nulls; empty where jq would fail."""
        found: list[Any] = [data]
        try:
            for step in self._steps:
                found = [value for each in found for value in step(each)]
        except _NotIndexableError:
            return []
        return [value for value in found if value is not None]


def _compile(text: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnknownExpressionError(
                f"{text!r}: {text[at:end]!r} is not known here; paths like "
                '.a["b"].[].c and select( .k == "v" ) are'
            )
        steps.extend(_step(match))
        at = match.end()
    if not steps and text.strip() != ".":
        raise UnknownExpressionError("an empty path leads nowhere")
    return steps


def _step(match: re.Match[str]) -> list[Step]:
    match match.lastgroup:
        case "value" | "select":
            return [_select(match["field"], match["value"])]
        case "each":
            return [_each]
        case "key" | "name":
            return [_field(match["key"] if match["key"] is not None else match["name"])]
        case "index":
            return [_item(int(match["index"]))]
        case _:
            return []


def _field(name: str) -> Step:
    def step(data: Any) -> Iterable[Any]:
        if data is None:
            return [None]
        if not isinstance(data, dict):
            raise _NotIndexableError
        return [data.get(name)]

    return step


def _item(index: int) -> Step:
    def step(data: Any) -> Iterable[Any]:
        if data is None:
            return [None]
        if not isinstance(data, list):
            raise _NotIndexableError
        return [data[index]] if -len(data) <= index < len(data) else [None]

    return step


def _each(data: Any) -> Iterable[Any]:
    if isinstance(data, dict):
        return list(data.values())
    if isinstance(data, list):
        return data
    raise _NotIndexableError


def _select(field: str, value: str) -> Step:
    def step(data: Any) -> Iterable[Any]:
        return [each for each in [data] if next(iter(_field(field)(each))) == value]

    return step
