# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How an answer shows objects: whole, or only their metadata; tables are in a file of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec
import orjson

from ascendop.sim.conversion import body_of
from ascendop.sim.registry import Served
from ascendop.sim.storage import Row

META_V1 = "meta.k8s.io/v1"
END_MARK = "k8s.io/initial-events-end"


class View(Protocol):
    """One way to show the objects of one resource."""

    def one(self, row: Row) -> bytes:
        """A single object."""
        ...

    def page(self, rows: Sequence[Row], meta: dict[str, object]) -> bytes:
        """A list; `meta` is its metadata."""
        ...

    def event(self, kind: str, row: Row) -> bytes:
        """One line of a watch."""
        ...

    def bookmark(self, revision: int, *, end: bool) -> bytes:
        """The line that says how far a watch is; `end` of the initial events."""
        ...


class Whole:
    """As stored, or as converted."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def one(self, row: Row) -> bytes:
        return body_of(row, self._served)

    def page(self, rows: Sequence[Row], meta: dict[str, object]) -> bytes:
        served = self._served
        return _list(
            served.list_kind,
            served.resource.api_version,
            meta,
            [body_of(row, served) for row in rows],
        )

    def event(self, kind: str, row: Row) -> bytes:
        return line(kind, body_of(row, self._served))

    def bookmark(self, revision: int, *, end: bool) -> bytes:
        resource = self._served.resource
        return line("BOOKMARK", _position(resource.kind, resource.api_version, revision, end=end))


class _Header(msgspec.Struct):
    metadata: msgspec.Raw


_HEADER = msgspec.json.Decoder(_Header)


class MetadataOnly:
    """PartialObjectMetadata: names, labels, owners, and nothing of what the kind is about."""

    def one(self, row: Row) -> bytes:
        # cut out, not decoded: the caller asked for less work, not for more
        metadata = bytes(_HEADER.decode(row.body).metadata)
        return b"".join((_PARTIAL, metadata, b"}"))

    def page(self, rows: Sequence[Row], meta: dict[str, object]) -> bytes:
        items = [self.one(row) for row in rows]
        return _list("PartialObjectMetadataList", META_V1, meta, items)

    def event(self, kind: str, row: Row) -> bytes:
        return line(kind, self.one(row))

    def bookmark(self, revision: int, *, end: bool) -> bytes:
        return line("BOOKMARK", _position("PartialObjectMetadata", META_V1, revision, end=end))


_PARTIAL = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


def error_line(status: dict[str, object]) -> bytes:
    """The last line of a watch that cannot go on."""
    return line("ERROR", orjson.dumps(status))


def line(kind: str, body: bytes) -> bytes:
    return b"".join((b'{"type":"', kind.encode(), b'","object":', body, b"}\n"))


def _list(kind: str, api_version: str, meta: dict[str, object], items: list[bytes]) -> bytes:
    head = orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": meta})
    return b"".join((head[:-1], b',"items":[', b",".join(items), b"]}"))


def _position(kind: str, api_version: str, revision: int, *, end: bool) -> bytes:
    meta: dict[str, object] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if end:
        meta["annotations"] = {END_MARK: "true"}
    return orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": meta})
