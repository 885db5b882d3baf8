# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One integer revision over tables of encoded objects, and a window of what changed."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from ascendop.kube.resource import Object

NameKey = tuple[str, str]
"""Namespace (empty for objects without one) and name: the order of lists."""

WINDOW = 10_000
"""Changes kept per table: a watch may resume that far back. Far more than a test makes."""

_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """One object at one revision. Immutable, being bytes: whoever wants a dict gets a new one."""

    key: NameKey
    uid: str
    revision: int
    body: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """What field selectors may ask, beside name and namespace."""
    owners: tuple[str, ...]
    """UIDs of the owners, for the collector."""
    deleting: bool
    api_version: str
    """In which version it is stored."""

    @property
    def obj(self) -> Object:
        """A fresh copy: change it as you like."""
        decoded: Object = orjson.loads(self.body)
        return decoded


@dataclass(slots=True)
class Change:
    """One step of a table from one revision to the next."""

    revision: int
    old: Row | None
    new: Row | None
    """None when the object went; then `last` is its final state."""
    last: Row
    """What a watcher is shown: the new state, or the last one with the revision of its end."""

    def left(self) -> Row:
        """What a watcher is shown whose selector does not match any more: the state it knew."""
        if self.old is None or self.new is None:
            return self.last
        obj = self.old.obj
        obj["metadata"]["resourceVersion"] = str(self.revision)
        return replace(self.old, revision=self.revision, body=orjson.dumps(obj))


class Table:
    """All objects of one resource.

    Ordered:  pages follow namespace, then name, as etcd's keys do.
    Window:   `changes` reaches back to `since`; what is older can neither be watched nor paged.
    """

    def __init__(self, name: str, since: int, fields: Callable[[Object], dict[str, str]]) -> None:
        self.name = name
        self.since = since
        self.rows: dict[str, dict[str, Row]] = {}
        self.changes: deque[Change] = deque()
        self.listeners: dict[Callable[[Change | None], None], None] = {}
        """Everybody who watches; called inside the write, in order of arrival; None: it is over."""
        self._fields = fields
        self._names: dict[str, list[str]] = {}
        self._namespaces: list[str] = []

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.rows.values())

    def get(self, key: NameKey) -> Row | None:
        rows = self.rows.get(key[0])
        return rows.get(key[1]) if rows else None

    def scan(self, namespace: str | None, after: NameKey | None = None) -> Iterator[Row]:
        """In order, from behind `after`."""
        for space in self._spaces(namespace, after):
            names, rows = self._names[space], self.rows[space]
            start = bisect_right(names, after[1]) if after and space == after[0] else 0
            for index in range(start, len(names)):
                yield rows[names[index]]

    def count(self, namespace: str | None, after: NameKey | None = None) -> int:
        """How many there are, or are behind `after`."""
        if after is None:
            return len(self) if namespace is None else len(self.rows.get(namespace, ()))
        behind = 0
        for space in self._spaces(namespace, after):
            names = self._names[space]
            behind += len(names) - (bisect_right(names, after[1]) if space == after[0] else 0)
        return behind

    def at(self, revision: int) -> Table:
        """As it was: today's rows with the changes since then taken back."""
        past = Table(self.name, revision, self._fields)
        past.rows = {space: dict(rows) for space, rows in self.rows.items()}
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            space, name = change.last.key
            if change.old is None:
                past.rows[space].pop(name, None)
            else:
                past.rows.setdefault(space, {})[name] = change.old
        past._index()
        return past

    def row_of(self, key: NameKey, obj: Object, revision: int) -> Row:
        """Encode; `obj` gets its resourceVersion here."""
        meta = obj["metadata"]
        meta["resourceVersion"] = str(revision)
        owners = meta.get("ownerReferences")
        return Row(
            key=key,
            uid=meta.get("uid", ""),
            revision=revision,
            body=orjson.dumps(obj),
            labels=meta.get("labels") or _NOTHING,
            fields=self._fields(obj),
            owners=tuple(owner.get("uid", "") for owner in owners) if owners else (),
            deleting="deletionTimestamp" in meta,
            api_version=obj.get("apiVersion", ""),
        )

    def store(self, row: Row) -> Row | None:
        """Put it in its place; what stood there."""
        space, name = row.key
        rows = self.rows.get(space)
        if rows is None:
            rows = self.rows[space] = {}
            self._names[space] = []
            insort(self._namespaces, space)
        old = rows.get(name)
        if old is None:
            insort(self._names[space], name)
        rows[name] = row
        return old

    def remove(self, key: NameKey) -> None:
        space, name = key
        rows, names = self.rows[space], self._names[space]
        del rows[name]
        del names[bisect_right(names, name) - 1]
        if not rows:
            del self.rows[space], self._names[space]
            self._namespaces.remove(space)

    def forget(self, revision: int) -> None:
        """Compact: nothing up to this revision can be asked for any more."""
        while self.changes and self.changes[0].revision <= revision:
            self.changes.popleft()
        self.since = max(self.since, revision)

    def _spaces(self, namespace: str | None, after: NameKey | None) -> Iterable[str]:
        if namespace is not None:
            return (namespace,) if namespace in self.rows else ()
        return (space for space in list(self._namespaces) if not after or space >= after[0])

    def _index(self) -> None:
        self.rows = {space: rows for space, rows in self.rows.items() if rows}
        self._names = {space: sorted(rows) for space, rows in self.rows.items()}
        self._namespaces = sorted(self.rows)


class Storage:
    """Every table, and the one revision that orders all their changes.

    Atomic:  a write and the call of its listeners are one step without an await.
    Not:     persistent. A new Storage is a new cluster.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self.revision = 1
        self.tables: dict[str, Table] = {}
        self.listeners: list[Callable[[Table, Change], None]] = []
        """Told of every change of every table, after the table's own listeners."""
        self._window = window

    def table(self, name: str, fields: Callable[[Object], dict[str, str]] | None = None) -> Table:
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = Table(name, self.revision, fields or (lambda _: {}))
        return found

    def drop(self, name: str) -> None:
        """Forget a table, when its definition goes; its watches end."""
        self.hang_up(name)
        self.tables.pop(name, None)

    def hang_up(self, name: str) -> None:
        """End every watch of a table."""
        table = self.tables.get(name)
        for listener in () if table is None else list(table.listeners):
            listener(None)

    def put(self, table: Table, key: NameKey, obj: Object) -> Row:
        """Write at the next revision."""
        self.revision += 1
        row = table.row_of(key, obj, self.revision)
        old = table.store(row)
        self._tell(table, Change(self.revision, old, row, row))
        return row

    def remove(self, table: Table, row: Row, final: Object | None = None) -> Row:
        """Delete at the next revision; the final state carries it."""
        self.revision += 1
        last = table.row_of(row.key, final or row.obj, self.revision)
        table.remove(row.key)
        self._tell(table, Change(self.revision, row, None, last))
        return last

    def compact(self) -> None:
        """Forget every change so far: watches and pages of older revisions are answered 410."""
        for table in self.tables.values():
            table.forget(self.revision)

    def _tell(self, table: Table, change: Change) -> None:
        table.changes.append(change)
        if len(table.changes) > self._window:
            table.since = table.changes.popleft().revision
        for listener in list(table.listeners):
            listener(change)
        for everything in self.listeners:
            everything(table, change)


Verdict = Literal["ADDED", "MODIFIED", "DELETED"]


def fields_of(paths: Mapping[str, tuple[str, ...]]) -> Callable[[Object], dict[str, str]]:
    """A function that reads the selectable fields of an object; absent ones are empty."""

    def read(obj: Object) -> dict[str, str]:
        return {label: _text_at(obj, path) for label, path in paths.items()}

    return read


def _text_at(obj: Any, path: tuple[str, ...]) -> str:
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    if obj is None:
        return ""
    return str(obj).lower() if isinstance(obj, bool) else str(obj)
