# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every reason code in the source, with where a user meets it: read from the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ascendop

ROOMS: Final = ("apply", "builder", "decorated", "gang", "kinds", "ranktable", "reconciler")


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """A code, and one place where it shows. <Kind> stands for any kind of job or object."""

    code: str
    shown: str
    module: str


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a call of a class or function holds its reason."""

    position: int
    shown: str
    type_at: int | None = None
    """Argument that says which condition or which type of Event."""
    otherwise: str = ""
    """The code of a call that names none."""


_CALLS: Final = {
    "Verdict": _Call(1, "condition {}, Event", type_at=0),
    "put_condition": _Call(2, "condition {}", type_at=1),
    "Waiting": _Call(0, "condition Created"),
    "Failure": _Call(5, "condition Created, Event (Warning)"),
    "EventNote": _Call(1, "Event ({})", type_at=0),
    "Problem": _Call(3, "Event (Warning)", otherwise="InvalidSpec"),
    "NotReady": _Call(0, "condition RankTableReady, Event (Warning), log at level debug"),
    "Standing": _Call(0, "condition RankTableReady, Event"),
}
_WORDS: Final = {
    "created": "condition Created",
    "invalid": "condition Failed",
    "step_failed": "condition Created",
    "pod_scheduler_event": "Event (Warning)",
    "restart_policy_event": "Event (Warning)",
    "job_scheduler_event": "Event (Warning)",
}


_Assigned = tuple[int, str, str]
"""Line, name, text."""


def reasons(package: Path = Path(ascendop.__file__).parent) -> list[Reason]:
    """All codes, sorted."""
    found: set[Reason] = set()
    for room in ROOMS:
        for file in sorted((package / room).rglob("*.py")):
            module = f"{room}/{file.relative_to(package / room).as_posix()}"
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found.update(
                _in_module(tree, module, [*_imported(tree, package), *_assigned(tree.body)])
            )
    return sorted(found)


def _imported(tree: ast.Module, package: Path) -> Iterator[_Assigned]:
    """Texts that other modules of the package have given names."""
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("ascendop."):
            continue
        file = package.joinpath(*(node.module or "").split(".")[1:]).with_suffix(".py")
        if not file.exists():
            continue
        there = _assigned(ast.parse(file.read_text(encoding="utf-8")).body)
        texts = {name: text for _, name, text in there}
        for alias in node.names:
            if alias.name in texts:
                yield node.lineno, alias.asname or alias.name, texts[alias.name]


def _in_module(tree: ast.Module, module: str, outside: Sequence[_Assigned]) -> Iterator[Reason]:
    for scope in ast.walk(tree):
        if isinstance(scope, ast.FunctionDef):
            yield from _in_scope(scope, [*outside, *_assigned(ast.walk(scope))], module)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _in_scope(node, outside, module)


def _in_scope(scope: ast.AST, assigned: Sequence[_Assigned], module: str) -> Iterator[Reason]:
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            known = {name: text for line, name, text in assigned if line <= node.lineno}
            yield from _in_call(node, node.func.id, known, module)


def _in_call(call: ast.Call, name: str, known: Mapping[str, str], module: str) -> Iterator[Reason]:
    if name == "Words":
        for keyword in call.keywords:
            for code in _codes_in(keyword, known):
                yield Reason(code, _WORDS[str(keyword.arg)], module)
    elif name in _CALLS:
        shape = _CALLS[name]
        argument = _argument(call, shape.position)
        code = _text(argument, known) if argument is not None else shape.otherwise
        kind = "" if shape.type_at is None else _text(_argument(call, shape.type_at), known)
        if code:
            yield Reason(code, shape.shown.format(kind or "of any type"), module)


def _argument(call: ast.Call, position: int) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((k.value for k in call.keywords if k.arg == "reason"), None)


def _codes_in(keyword: ast.keyword, known: Mapping[str, str]) -> Iterator[str]:
    if keyword.arg not in _WORDS:
        return
    match keyword.value:
        case ast.Tuple(elts=[first, *_]):
            values = [first]
        case ast.Dict(values=found):
            values = found
        case value:
            values = [value]
    yield from filter(None, (_text(value, known) for value in values))


def _assigned(nodes: Iterable[ast.AST]) -> list[_Assigned]:
    """Texts by the names they are given; of a pair its first, which is the code."""
    found = []
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=[first, *_])):
                found.append((node.lineno, name, _text(first, {})))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs = zip(names, values, strict=False)
                texts = ((getattr(n, "id", ""), _text(value, {})) for n, value in pairs)
                found += [(node.lineno, name, text) for name, text in texts]
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                found.append((node.lineno, name, _text(value, {})))
            case _:
                pass
    return sorted(found)


def _text(node: ast.expr | None, known: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, {}) or "<Kind>" for part in parts)
        case ast.BoolOp(values=[*_, otherwise]):
            return _text(otherwise, known)
        case ast.Name(id=name) | ast.Starred(value=ast.Name(id=name)):
            return known.get(name, "")
        case _:
            return ""
