# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The JSONPath of printer columns: fields, indexes, slices, and the filter that people write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

_TOKEN = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\\])+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<first>-?\d*):(?P<end>-?\d*)\]
      | \['(?P<quoted>(?:\\.|[^'])+)'\]
      | \[(?P<all>\*)\]
      | \[\?\(\s*@\.(?P<on>[^=\s]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\s*\)\]""",
    re.VERBOSE,
)
Step = tuple[str, str, str]
"""Kind, name, value."""


@cache
def parse_path(path: str) -> tuple[Step, ...]:
    """Raises ValueError for what is not understood; the column then stays empty."""
    text = path.strip().strip("{}")
    steps: list[Step] = []
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"JSONPath {path}: cannot read from {text[at:]!r}")
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def find(obj: Any, path: str) -> list[Any]:
    """Every value at a path, in order; empty when there is none or the path is not understood."""
    try:
        steps = parse_path(path)
    except ValueError:
        return []
    values = [obj]
    for step in steps:
        values = [below for value in values for below in _take(value, step)]
    return values


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return ("index", found["index"], "")
    if found["first"] is not None:
        return ("slice", found["first"], found["end"])
    if found["all"]:
        return ("all", "", "")
    if found["on"]:
        return ("where", found["on"], found["value"])
    name = found["field"] or found["quoted"]
    return ("field", re.sub(r"\\(.)", r"\1", name), "")


def _take(value: Any, step: Step) -> Iterator[Any]:
    kind, name, wanted = step
    if kind == "field":
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif not isinstance(value, list):
        return
    elif kind == "index":
        yield from value[int(name) :][:1]
    elif kind == "slice":
        yield from value[int(name or 0) : int(wanted) if wanted else None]
    elif kind == "all":
        yield from value
    else:
        yield from (i for i in value if isinstance(i, dict) and _text(i.get(name)) == wanted)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
