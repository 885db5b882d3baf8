# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The part of Go's text/template that stages use: parsed once, rendered with given functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ascendop.sim.jq import UnknownExpressionError

Function = Callable[..., Any]

_ACTION: Final = re.compile(r"\{\{(-(?=\s))?(.*?)((?<=\s)-)?\}\}", re.DOTALL)
_WORD: Final = re.compile(
    r"""\s*(?:
        (?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<variable>\$\w*(?:\.\w+)*)
      | (?P<assign>:=|=)
      | (?P<field>\.[\w.]*)
      | (?P<name>\w+)
      | (?P<sign>[()|,])
    )""",
    re.VERBOSE,
)


class Template:
    """A parsed template.

    Knows:   fields, variables, literals, pipes, parentheses; if, else if, else, range, with, end;
             := and =; comments; {{- and -}}. Functions are given when it is rendered.
    Lenient: a field of nothing is nothing, as in Go for a map that lacks the key.
    Raises:  UnknownExpressionError, with the line, for what it does not know.
    """

    def __init__(self, text: str, functions: Mapping[str, Function]) -> None:
        self._functions = {**_BUILTIN, **functions}
        self._nodes = _Parser(text, frozenset(self._functions)).parse()

    def render(self, data: Any) -> str:
        scope = _Scope({"$": data}, self._functions)
        return "".join(_render(self._nodes, data, scope))


# What a template is made of.


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal, or a path from dot or from a variable."""

    literal: Any = None
    root: str = ""
    """Empty for a literal, "." for dot, else the variable's name with its $."""
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[_Operand, ...]


_Operand = _Value | _Call


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


@dataclass(frozen=True, slots=True)
class _Print:
    what: _Operand


@dataclass(frozen=True, slots=True)
class _Assign:
    names: tuple[str, ...]
    what: _Operand
    declares: bool


@dataclass(slots=True)
class _Block:
    """if, with or range, and what stands in it."""

    kind: str
    names: tuple[str, ...]
    what: _Operand
    body: list[_Node] = field(default_factory=list)
    otherwise: list[_Node] = field(default_factory=list)


_Node = _Text | _Print | _Assign | _Block


# Rendering.


@dataclass(slots=True)
class _Scope:
    variables: dict[str, Any]
    functions: Mapping[str, Function]
    outer: _Scope | None = None

    def inner(self) -> _Scope:
        return _Scope({}, self.functions, self)

    def holder(self, name: str) -> _Scope:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope
            scope = scope.outer
        raise UnknownExpressionError(f"the template never sets {name}")


def _render(nodes: Sequence[_Node], dot: Any, scope: _Scope) -> Iterator[str]:
    for node in nodes:
        match node:
            case _Text():
                yield node.text
            case _Print():
                yield _printed(_evaluate(node.what, dot, scope))
            case _Assign():
                value = _evaluate(node.what, dot, scope)
                target = scope if node.declares else scope.holder(node.names[0])
                target.variables[node.names[0]] = value
            case _Block():
                yield from _render_block(node, dot, scope)


def _render_block(block: _Block, dot: Any, scope: _Scope) -> Iterator[str]:
    value = _evaluate(block.what, dot, scope)
    if not _true(value):
        yield from _render(block.otherwise, dot, scope.inner())
    elif block.kind == "range":
        items = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            inner = scope.inner()
            # One name takes the item, two take key and item.
            inner.variables.update(zip(block.names[::-1], (item, key), strict=False))
            yield from _render(block.body, item, inner)
    else:
        inner = scope.inner()
        inner.variables.update(dict.fromkeys(block.names, value))
        yield from _render(block.body, value if block.kind == "with" else dot, inner)


def _evaluate(what: _Operand, dot: Any, scope: _Scope) -> Any:
    if isinstance(what, _Call):
        function = scope.functions[what.name]
        return function(*(_evaluate(argument, dot, scope) for argument in what.arguments))
    if not what.root:
        return what.literal
    value = dot if what.root == "." else scope.holder(what.root).variables[what.root]
    for name in what.path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _true(value: Any) -> bool:
    return value is not None and value is not False and value not in (0, "", [], {})


def _printed(value: Any) -> str:
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# Parsing.


class _Parser:
    def __init__(self, text: str, known: frozenset[str]) -> None:
        self._known = known
        self._parts = list(_parts(text))
        self._at = 0
        self._line = 1

    def parse(self) -> list[_Node]:
        nodes, ended_by = self._nodes()
        if ended_by:
            self._fail(f"{ended_by} without a block")
        return nodes

    def _nodes(self) -> tuple[list[_Node], str]:
        """The nodes up to `end` or `else …`, and that word."""
        nodes: list[_Node] = []
        while self._at < len(self._parts):
            line, is_action, text = self._parts[self._at]
            self._line = line
            self._at += 1
            if not is_action:
                nodes.append(_Text(text))
            elif text.startswith("/*"):
                continue
            elif text.split()[:1] in (["end"], ["else"]):
                return nodes, text
            else:
                nodes.append(self._node(text))
        return nodes, ""

    def _node(self, text: str) -> _Node:
        word, _, rest = text.partition(" ")
        if word in {"if", "with", "range"}:
            return self._block(word, rest)
        if word in {"define", "template", "block", "break", "continue"}:
            self._fail(f"{word!r} is not known here")
        names, operator, what = self._pipeline(text)
        if not operator:
            return _Print(what)
        return _Assign(names, what, declares=operator == ":=")

    def _block(self, kind: str, text: str) -> _Block:
        line = self._line
        names, _, what = self._pipeline(text)
        block = _Block(kind, names, what)
        block.body, ended_by = self._nodes()
        if ended_by.startswith("else "):
            word, _, rest = ended_by.removeprefix("else ").strip().partition(" ")
            if word not in {"if", "with"}:
                self._fail(f"{ended_by!r} is not known here")
            block.otherwise = [self._block(word, rest)]
            return block
        if ended_by == "else":
            block.otherwise, ended_by = self._nodes()
        if ended_by != "end":
            self._line = line
            self._fail(f"this {kind} has no end")
        return block

    def _pipeline(self, text: str) -> tuple[tuple[str, ...], str, _Operand]:
        """Names that are set, := or = or "", and the value."""
        words = self._words(text)
        operator = next((word for kind, word in words if kind == "assign"), "")
        names: list[str] = []
        if operator:
            split = [kind for kind, _ in words].index("assign")
            names = [word for kind, word in words[:split] if kind == "variable"]
            words = words[split + 1 :]
        what, rest = self._pipes(words)
        if rest:
            self._fail(f"{rest[0][1]!r} is one word too many in {text!r}")
        return tuple(names), operator, what

    def _pipes(self, words: _Words) -> tuple[_Operand, _Words]:
        """Commands joined by |; each gets the one before as its last argument."""
        what, words = self._command(words, ())
        while words and words[0][1] == "|":
            what, words = self._command(words[1:], (what,))
        return what, words

    def _command(self, words: _Words, piped: tuple[_Operand, ...]) -> tuple[_Operand, _Words]:
        operands: list[_Operand] = []
        name = ""
        if words and words[0][0] == "name" and words[0][1] not in _LITERALS:
            name, words = words[0][1], words[1:]
            if name not in self._known:
                self._fail(f"function {name!r} is not known here")
        while words and words[0][1] not in {"|", ")"}:
            operand, words = self._operand(words)
            operands.append(operand)
        if name:
            return _Call(name, (*operands, *piped)), words
        if len(operands) != 1 or piped:
            self._fail("a value is no function: it takes no arguments")
        return operands[0], words

    def _operand(self, words: _Words) -> tuple[_Operand, _Words]:
        (kind, word), rest = words[0], words[1:]
        if word == "(":
            what, rest = self._pipes(rest)
            if not rest or rest[0][1] != ")":
                self._fail("a parenthesis is not closed")
            return what, rest[1:]
        if kind == "name" and word in self._known:
            return _Call(word, ()), rest
        value = _value(kind, word)
        if value is None:
            self._fail(f"{word!r} is not known here")
        return value, rest

    def _words(self, text: str) -> _Words:
        words: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _WORD.match(text, at)
            if match is None or match.lastgroup is None:
                self._fail(f"{text[at:end]!r} is not known here")
            words.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return words

    def _fail(self, what: str) -> NoReturn:
        raise UnknownExpressionError(f"line {self._line} of the template: {what}")


_Words = Sequence[tuple[str, str]]
_LITERALS: Final[Mapping[str, Any]] = {"true": True, "false": False, "nil": None}


def _parts(text: str) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is an action, and the text or what stands in the braces."""
    at, line = 0, 1
    trims = False
    for match in _ACTION.finditer(text):
        before = text[at : match.start()]
        if trims:
            before = before.lstrip()
        if match[1]:
            before = before.rstrip()
        yield line, False, before
        line += text.count("\n", at, match.start())
        yield line, True, match[2].strip()
        line += match[0].count("\n")
        trims = bool(match[3])
        at = match.end()
    yield line, False, text[at:].lstrip() if trims else text[at:]


def _value(kind: str, word: str) -> _Value | None:
    match kind:
        case "string":
            return _Value(word[1:-1] if word[0] == "`" else _unquote(word))
        case "number":
            return _Value(float(word) if "." in word else int(word))
        case "field":
            return _Value(root=".", path=_path(word))
        case "variable":
            root, _, path = word.partition(".")
            return _Value(root=root, path=_path(path))
        case "name" if word in _LITERALS:
            return _Value(_LITERALS[word])
        case _:
            return None


def _path(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(".") if name)


def _unquote(text: str) -> str:
    return text[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")


# Functions that Go has by itself.


def _index(data: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(data, list):
            data = data[key] if 0 <= key < len(data) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data


def _or(*values: Any) -> Any:
    return next((value for value in values if _true(value)), values[-1])


def _and(*values: Any) -> Any:
    return next((value for value in values if not _true(value)), values[-1])


def _printf(shape: str, *values: Any) -> str:
    texts = tuple(_printed(value) for value in values)
    return re.sub(r"%[vsdq]", "%s", shape) % texts


_BUILTIN: Final[Mapping[str, Function]] = {
    "and": _and,
    "dict": lambda *pairs: dict(zip(pairs[::2], pairs[1::2], strict=True)),
    "eq": lambda first, *others: first in others,
    "index": _index,
    "len": lambda value: len(value or ()),
    "ne": lambda left, right: left != right,
    "not": lambda value: not _true(value),
    "or": _or,
    "printf": _printf,
}
