# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Lists: consistent pages of one snapshot, and which snapshot a resourceVersion asks for."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from ascendop.kube.resource import Resource
from ascendop.sim.answers import Cause, bad_request, expired, invalid, too_new, too_old
from ascendop.sim.registry import Served
from ascendop.sim.route import Call
from ascendop.sim.selectors import Selector, parse_selector
from ascendop.sim.storage import NameKey, Row, Storage, Table

OPTIONS = Resource("meta.k8s.io", "v1", "listoptions", "ListOptions")
_KEPT_SNAPSHOTS = 4
"""Pages of as many old lists go on without computing their snapshot again."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a list found, and where it goes on."""

    rows: Sequence[Row]
    meta: dict[str, object]


class Lister:
    """Answers lists.

    Consistent:  all pages of one list show one revision, however much is written meanwhile.
    Bounded:     a page of a revision that is no longer in the window is 410.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._snapshots: dict[tuple[str, int], Table] = {}
        self.lag: Callable[[], int] = lambda: 0
        """By how many revisions resourceVersion=0 looks into the past, as a lagging server does."""

    def page(self, call: Call, table: Table) -> Page:
        selector = selector_of(call)
        query = call.query
        limit = _number(query.get("limit", ""), "limit")
        if token := query.get("continue", ""):
            return self._next(call, table, selector, limit, token)
        version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
        _check_match(version, match)
        if version == "0":
            limit = 0  # as a server with a watch cache does
        snapshot, revision = self._snapshot(table, version, match)
        return _cut(snapshot, call.namespace, selector, limit, None, revision)

    def _next(self, call: Call, table: Table, selector: Selector, limit: int, token: str) -> Page:
        if call.query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, after = _decode(token)
        if revision < table.since:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
        return _cut(self._at(table, revision), call.namespace, selector, limit, after, revision)

    def _snapshot(self, table: Table, version: str, match: str) -> tuple[Table, int]:
        current = self._storage.revision
        asked = _number(version, "resourceVersion")
        if asked > current:
            raise too_new(asked, current)
        if match == "Exact" and asked:
            if asked < table.since:
                raise too_old(asked, table.since)
            return self._at(table, asked), asked
        if version == "0" and (lag := self.lag()):
            past = max(current - lag, table.since)
            return self._at(table, past), past
        return table, current

    def _at(self, table: Table, revision: int) -> Table:
        if not table.changes or table.changes[-1].revision <= revision:
            return table
        key = (table.name, revision)
        found = self._snapshots.get(key)
        if found is None:
            found = self._snapshots[key] = table.at(revision)
            if len(self._snapshots) > _KEPT_SNAPSHOTS:
                del self._snapshots[next(iter(self._snapshots))]
        return found


def selector_of(call: Call) -> Selector:
    """Labels, fields and, for a single object, its name."""
    fields = call.query.get("fieldSelector", "")
    if call.name:
        fields = f"{fields},metadata.name={call.name}".lstrip(",")
    return parse_selector(call.query.get("labelSelector", ""), fields, _known(call.served))


def _known(served: Served) -> Sequence[str]:
    return tuple(served.selectable)


def _cut(
    table: Table,
    namespace: str | None,
    selector: Selector,
    limit: int,
    after: NameKey | None,
    revision: int,
) -> Page:
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if selector.name is not None and namespace is not None:
        row = table.get((namespace, selector.name))
        return Page([row] if row and selector.matches(row) else [], meta)
    plain = not selector.labels and not selector.fields
    scan = table.scan(namespace, after)
    found = (row for row in scan) if plain else (row for row in scan if selector.matches(row))
    if not limit:
        return Page(list(found), meta)
    rows = list(islice(found, limit + 1))
    if len(rows) > limit:
        rows.pop()
        meta["continue"] = _encode(revision, rows[-1].key)
        if plain:
            meta["remainingItemCount"] = table.count(namespace, rows[-1].key)
    return Page(rows, meta)


def _check_match(version: str, match: str) -> None:
    why = ""
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and version == "0":
        why = "resourceVersionMatch Exact is forbidden for resourceVersion 0"
    elif match not in ("", "Exact", "NotOlderThan"):
        why = f"unsupported value {match}"
    if why:
        raise invalid(
            OPTIONS,
            "",
            [Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")],
        )


def _number(text: str, what: str) -> int:
    if not text:
        return 0
    if not text.isdigit():
        raise bad_request(f'invalid {what}: strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def _encode(revision: int, after: NameKey) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": after})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _decode(token: str) -> tuple[int, NameKey]:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(found["rv"]), (str(found["start"][0]), str(found["start"][1]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise bad_request("invalid continue token: continue key is not valid") from error
