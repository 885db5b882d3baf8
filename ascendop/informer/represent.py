# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How objects of a kind come off the wire: bytes into small rows, skipping what nobody reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ascendop.informer.change import Row, T
from ascendop.informer.metadata import Meta, MetaObject, MetaRow, meta_row
from ascendop.informer.pool import Pool
from ascendop.informer.wire import (
    INITIAL_END,
    OBJECT_TYPES,
    RAW_EVENT,
    RAW_LIST,
    STATUS_CODE,
    TYPES,
    BookmarkMeta,
    EventType,
    event_type,
    list_type,
)
from ascendop.kube.errors import ApiError, error_of

W = TypeVar("W")
R_co = TypeVar("R_co", covariant=True)


GONE = 410
INTERNAL = 500


class Event(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """One line of a watch."""

    type: EventType
    """`other` for types that a newer server may know."""
    row: R_co | None = None
    """Of ADDED, MODIFIED and DELETED; None if the object made no row."""
    version: str = ""
    """resourceVersion; also of a BOOKMARK."""
    error: ApiError | None = None
    """Of ERROR."""
    ends_initial: bool = False
    """A BOOKMARK that says: this was all there is."""


class Page(msgspec.Struct, Generic[R_co], frozen=True, gc=False):
    """One page of a list."""

    rows: list[R_co]
    continue_token: str
    """Empty on the last page."""
    version: str


class Parts(msgspec.Struct, frozen=True):
    """One page of a list, its objects not decoded yet."""

    items: list[msgspec.Raw]
    continue_token: str
    version: str


Troubled = Callable[[str, str, Exception], None]
"""Namespace and name of an object that could not be read whole, and why."""


class UndecodableError(Exception):
    """What the server sent is no JSON, or not of the shape this kind has."""


class Representation(Protocol[R_co]):
    """How one resource is decoded."""

    def decode_list(self, body: bytes) -> Page[R_co]:
        """A page. An object of the wrong shape becomes its bare row. Raises UndecodableError."""
        ...

    def split_list(self, body: bytes) -> Parts:
        """A page that is too large to be decoded in one go. Raises UndecodableError."""
        ...

    def decode_item(self, item: msgspec.Raw) -> R_co:
        """An object of such a page; one of the wrong shape becomes its bare row."""
        ...

    def decode_event(self, line: bytes, *, lenient: bool = False) -> Event[R_co]:
        """A line of a watch.

        lenient: an object of the wrong shape becomes its bare row, instead of UndecodableError.
        """
        ...

    def report_to(self, troubled: Troubled) -> None:
        """Whom to tell of objects that became bare rows."""
        ...

    def outgrown(self, rows: int) -> bool:
        """Whether `tidy` is worth its while, with `rows` live rows. Cheap."""
        ...

    async def tidy(self, rows: Sequence[Row]) -> None:
        """Forget what none of the live rows uses."""
        ...


class StructForm(Generic[W, T]):
    """A representation from a struct of the wire's shape and a function that makes it a row.

    wire:     a msgspec Struct of one object, with only the fields that are read, and defaults.
    row:      pure; gets strings through the pool, so that equal ones are one string in memory.
    bare:     the row of an object that has the wrong shape, from its metadata alone.
    troubled: called with the key and the trouble when `row` fails or an object has the wrong shape.
    """

    def __init__(
        self,
        wire: type[W],
        row: Callable[[W, Pool], T],
        bare: Callable[[Meta, Pool], T],
        *,
        pool: Pool | None = None,
        troubled: Troubled | None = None,
    ) -> None:
        self._row = row
        self._bare = bare
        self._pool = pool or Pool()
        self._troubled = troubled
        self._events = msgspec.json.Decoder(event_type(wire))  # type: ignore[arg-type]
        self._list = msgspec.json.Decoder(list_type(wire))  # type: ignore[arg-type]
        self._object: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire)

    def decode_list(self, body: bytes) -> Page[T]:
        try:
            page = self._list.decode(body)
        except msgspec.ValidationError:
            parts = self.split_list(body)  # one object has the wrong shape; keep the others whole
            rows = [self.decode_item(item) for item in parts.items]
            return Page(rows, parts.continue_token, parts.version)
        except msgspec.DecodeError as error:
            raise UndecodableError(f"a page of a list: {error}") from error
        rows = [self._make(item, None) for item in page.items or ()]
        return Page(rows, page.metadata.continue_ or "", page.metadata.resource_version)

    def split_list(self, body: bytes) -> Parts:
        try:
            page = RAW_LIST.decode(body)
        except msgspec.MsgspecError as error:
            raise UndecodableError(f"a page of a list: {error}") from error
        meta = page.metadata
        return Parts(page.items or [], meta.continue_ or "", meta.resource_version)

    def decode_item(self, item: msgspec.Raw) -> T:
        try:
            decoded = self._object.decode(item)
        except msgspec.ValidationError as error:
            return self._make_bare(item, error)
        return self._make(decoded, None)

    def decode_event(self, line: bytes, *, lenient: bool = False) -> Event[T]:
        try:
            event = self._events.decode(line)
        except msgspec.ValidationError as error:
            return self._decode_odd(line, error, lenient=lenient)
        except msgspec.DecodeError as error:
            raise UndecodableError(f"a line of a watch: {error}") from error
        kind: EventType = event.__struct_config__.tag
        if kind == "BOOKMARK":
            return _bookmark(event.object.metadata)
        if kind == "ERROR":
            return _error(event.object)
        row = self._make(event.object, line)
        return Event(kind, row, row.version)

    def decode_object(self, body: bytes) -> T:
        """One whole object: the answer to a write of our own. Raises UndecodableError."""
        try:
            return self._make(self._object.decode(body), None)
        except msgspec.DecodeError as error:
            raise UndecodableError(f"an object: {error}") from error

    def report_to(self, troubled: Troubled) -> None:
        self._troubled = troubled

    def outgrown(self, rows: int) -> bool:
        return self._pool.outgrown(rows)

    async def tidy(self, rows: Sequence[Row]) -> None:
        await self._pool.tidy(rows)

    def _make(self, item: W, line: bytes | None) -> T:
        try:
            return self._row(item, self._pool)
        except Exception as error:  # noqa: BLE001  one odd object must not hide all the others
            raw = msgspec.json.encode(item) if line is None else _object_of(line)
            return self._make_bare(raw, error)

    def _make_bare(self, raw: bytes | msgspec.Raw, error: Exception) -> T:
        try:
            meta = _META.decode(raw).metadata
        except msgspec.MsgspecError as worse:
            raise UndecodableError(f"an object without readable metadata: {worse}") from worse
        if self._troubled is not None:
            self._troubled(meta.namespace, meta.name, error)
        return self._bare(meta, self._pool)

    def _decode_odd(self, line: bytes, error: Exception, *, lenient: bool) -> Event[T]:
        """JSON and no event that we know: a type from the future, or an object of odd shape."""
        try:
            odd = RAW_EVENT.decode(line)
        except msgspec.MsgspecError:
            raise UndecodableError(f"a line of a watch: {error}") from error
        if odd.type not in TYPES:
            return Event("other")
        if not lenient or odd.type not in OBJECT_TYPES:
            raise UndecodableError(f"a line of a watch: {error}") from error
        row = self._make_bare(odd.object, error)
        return Event(odd.type, row, row.version)


def form_of_metadata(annotations: Collection[str] = ()) -> StructForm[MetaObject, MetaRow]:
    """The representation of a kind of which only the metadata matters.

    annotations: the ones that are kept; the others are not read by anybody.
    """
    kept = tuple(annotations)

    def bare(meta: Meta, pool: Pool) -> MetaRow:
        return meta_row(meta, pool, kept)

    return StructForm(MetaObject, lambda item, pool: bare(item.metadata, pool), bare)


_META = msgspec.json.Decoder(MetaObject)


def _bookmark(meta: BookmarkMeta) -> Event[Any]:
    ends = meta.annotations is not None and meta.annotations.get(INITIAL_END) == "true"
    return Event("BOOKMARK", None, meta.resource_version, ends_initial=ends)


def _error(status: msgspec.Raw) -> Event[Any]:
    try:
        said = STATUS_CODE.decode(status)
        code = said.code or (GONE if said.reason in ("Expired", "Gone") else INTERNAL)
    except msgspec.MsgspecError:
        code = INTERNAL
    return Event("ERROR", error=error_of(code, bytes(status), request="watch"))


def _object_of(line: bytes) -> msgspec.Raw:
    return RAW_EVENT.decode(line).object
