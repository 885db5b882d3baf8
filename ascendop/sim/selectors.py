# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which objects a query means: label and field selectors, in their whole syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ascendop.sim.answers import bad_request
from ascendop.sim.storage import Row

Labels = Mapping[str, str]
_Test = Callable[[Labels], bool]

_SET = re.compile(r"^(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s=!,()]*)$")
_NUMBER = re.compile(r"^(?P<key>[^\s!=,()<>]+)\s*(?P<how>[<>])\s*(?P<value>-?\d+)$")
_EXISTS = re.compile(r"^(?P<no>!?)\s*(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)$")


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels and fields together; both empty means everything."""

    labels: tuple[_Test, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()
    """Label of the field, whether it must be equal, value."""

    def matches(self, row: Row) -> bool:
        if self.labels and not all(test(row.labels) for test in self.labels):
            return False
        return all((_field(row, label) == value) is equal for label, equal, value in self.fields)

    @property
    def name(self) -> str | None:
        """The one name that can match, when the fields say so."""
        return next(
            (value for label, equal, value in self.fields if equal and label == "metadata.name"),
            None,
        )


def parse_selector(labels: str, fields: str, known: Collection[str]) -> Selector:
    """Raises RefusedError(400) for bad syntax and for a field that this kind cannot select by."""
    if not labels and not fields:
        return EVERYTHING
    return Selector(
        tuple(_label(term) for term in _terms(labels)),
        tuple(_field_term(term, known) for term in fields.split(",") if term),
    )


def _field(row: Row, label: str) -> str:
    if label == "metadata.name":
        return row.key[1]
    if label == "metadata.namespace":
        return row.key[0]
    return row.fields.get(label, "")


def _terms(text: str) -> list[str]:
    """Cut at commas outside parentheses."""
    terms = re.split(r",(?![^()]*\))", text)
    return [term.strip() for term in terms if term.strip()]


def _label(term: str) -> _Test:
    if found := _SET.match(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _among(found["key"], values, inside=found["how"] == "in")
    if found := _EQUAL.match(term):
        return _among(found["key"], frozenset((found["value"],)), inside=found["how"] != "!=")
    if found := _NUMBER.match(term):
        return _beyond(found["key"], int(found["value"]), above=found["how"] == ">")
    if found := _EXISTS.match(term):
        return _exists(found["key"], wanted=not found["no"])
    raise bad_request(f"unable to parse requirement: found '{term}', expected: identifier")


def _among(key: str, values: frozenset[str], *, inside: bool) -> _Test:
    if inside:
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def _beyond(key: str, bound: int, *, above: bool) -> _Test:
    def test(labels: Labels) -> bool:
        text = labels.get(key, "")
        if not re.fullmatch(r"-?\d+", text):
            return False
        return int(text) > bound if above else int(text) < bound

    return test


def _exists(key: str, *, wanted: bool) -> _Test:
    return lambda labels: (key in labels) is wanted


def _field_term(term: str, known: Collection[str]) -> tuple[str, bool, str]:
    label, how, value = re.split(r"(!=|==|=)", term, maxsplit=1) if "=" in term else (term, "", "")
    if not how:
        raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
    if label not in ("metadata.name", "metadata.namespace") and label not in known:
        raise bad_request(f"field label not supported: {label}")
    return label, how != "!=", value


EVERYTHING = Selector()
