# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Objects as tables, for `kubectl get`; and which view an Accept header asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ascendop.sim.answers import not_acceptable
from ascendop.sim.columns import columns_of
from ascendop.sim.conversion import body_of
from ascendop.sim.registry import Served
from ascendop.sim.route import Call
from ascendop.sim.storage import Row
from ascendop.sim.views import META_V1, MetadataOnly, View, Whole, line
from ascendop.sim.world import World

_ACCEPTED = ("application/json", "*/*", "application/*", "application/yaml", "")


class Tables:
    """The columns of a kind, one row an object.

    Cells are computed from the stored version; the object beside them is what `include` says.
    """

    def __init__(self, served: Served, world: World, include: str) -> None:
        self._served = served
        self._world = world
        self._include = include
        self._columns = columns_of(served)
        self._headed = False

    def one(self, row: Row) -> bytes:
        return self.page([row], {"resourceVersion": str(row.revision)})

    def page(self, rows: Sequence[Row], meta: dict[str, object]) -> bytes:
        return orjson.dumps(self._table([self._row(row) for row in rows], meta))

    def event(self, kind: str, row: Row) -> bytes:
        table = self._table([self._row(row)], {"resourceVersion": str(row.revision)})
        if self._headed:
            table["columnDefinitions"] = None  # a real server sends them once per watch, too
        self._headed = True
        return line(kind, orjson.dumps(table))

    def bookmark(self, revision: int, *, end: bool) -> bytes:
        return Whole(self._served).bookmark(revision, end=end)

    def _table(self, rows: list[dict[str, Any]], meta: dict[str, object]) -> dict[str, Any]:
        return {
            "kind": "Table",
            "apiVersion": META_V1,
            "metadata": meta,
            "columnDefinitions": [column.definition() for column in self._columns],
            "rows": rows,
        }

    def _row(self, row: Row) -> dict[str, Any]:
        obj, now = row.obj, self._world.wall()
        shown: dict[str, Any] = {"cells": [column.cell(obj, now) for column in self._columns]}
        if self._include == "Object":
            shown["object"] = orjson.Fragment(body_of(row, self._served))
        elif self._include != "None":
            shown["object"] = orjson.Fragment(MetadataOnly().one(row))
        return shown


def view_of(call: Call, world: World) -> View:
    """The first view in the Accept header that there is. Raises RefusedError(406)."""
    headers = call.request.headers
    accept = next((v for k, v in headers.items() if k.lower() == "accept"), "")
    for wish in accept.split(","):
        kind, _, rest = wish.strip().partition(";")
        parameters = dict(part.strip().partition("=")[::2] for part in rest.split(";") if part)
        if kind not in _ACCEPTED:
            continue
        match parameters.get("as", ""):
            case "Table":
                return Tables(call.served, world, call.query.get("includeObject", "Metadata"))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return MetadataOnly()
            case "":
                return Whole(call.served)
            case _:
                continue
    raise not_acceptable(accept)
