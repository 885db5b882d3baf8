# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Watches: what changed after a version, bookmarks, and the initial state as events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ascendop.sim.answers import Cause, RefusedError, busy, invalid, too_old
from ascendop.sim.lists import OPTIONS, selector_of
from ascendop.sim.route import Call
from ascendop.sim.selectors import Selector
from ascendop.sim.storage import Change, Row, Storage, Table, Verdict
from ascendop.sim.views import View, error_line

BACKLOG = 20_000
"""Changes a watcher may be behind before it is cut off: a reader that stopped, not a slow one."""
BATCH = 100
"""Lines per chunk at most, so that one chunk stays below a few hundred kilobytes."""
LONGEST_S = 1800
"""Without timeoutSeconds; a real server draws between this and twice as much."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a watch asked for, understood."""

    since: int | None
    """None for "from any state": begins with the objects."""
    initial: bool
    """WatchList: the objects, then the end mark."""
    bookmarks: bool
    timeout_s: float


def parse_wish(call: Call) -> Wish:
    """Raises RefusedError(422) for a combination that no server takes."""
    query = call.query
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    initial = call.says("sendInitialEvents")
    why = ""
    if initial and match != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not initial:
        why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if why:
        cause = Cause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")
        raise invalid(OPTIONS, "", [cause])
    since = int(version) if version.isdigit() and int(version) else None
    seconds = query.get("timeoutSeconds", "")
    return Wish(
        since,
        initial,
        call.says("allowWatchBookmarks"),
        float(seconds) if seconds.isdigit() and int(seconds) else LONGEST_S,
    )


class Watch:
    """One stream of lines. Listens from the moment it is made until it is closed.

    Complete:  every change after its start is shown once, in order, or the stream ends.
    """

    def __init__(
        self, call: Call, storage: Storage, table: Table, view: View, bookmark_s: float
    ) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._wish = parse_wish(call)
        self._selector = selector_of(call)
        self._namespace = call.namespace
        self._storage = storage
        self._table = table
        self._view = view
        self._bookmark_s = bookmark_s
        self._pending: deque[Change] = deque()
        self._start: list[Row] = []
        """The objects to begin with; rendered as they are sent, not all at once."""
        self._mark: bytes = b""
        """The line that ends them."""
        self._error: RefusedError | None = None
        self.ended = False
        self._wake = asyncio.Event()
        self._begin()
        table.listeners[self._hear] = None

    def close(self) -> None:
        """Stop listening."""
        self._table.listeners.pop(self._hear, None)
        self.ended = True
        self._wake.set()

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wish.timeout_s
        bookmark_at = loop.time() + self._bookmark_s
        try:
            for lines in self._opening():
                yield lines
            while not self._over() and loop.time() < deadline:
                if lines := self._drain():
                    yield lines
                    continue
                if loop.time() >= bookmark_at:
                    bookmark_at = loop.time() + self._bookmark_s
                    if self._wish.bookmarks:
                        yield self._view.bookmark(self._storage.revision, end=False)
                await self._rest(min(bookmark_at, deadline))
            if self._error:
                yield error_line(self._error.status())
            elif self._wish.bookmarks and not self.ended:
                yield self._view.bookmark(self._storage.revision, end=False)
        finally:
            self.close()

    def _begin(self) -> None:
        wish = self._wish
        if wish.since is None or wish.initial:
            rows = self._table.scan(self._namespace)
            self._start = [row for row in rows if self._selector.matches(row)]
            if wish.initial and wish.bookmarks:
                self._mark = self._view.bookmark(self._storage.revision, end=True)
        elif wish.since < self._table.since:
            self._error = too_old(wish.since, self._table.since)
        else:
            self._pending.extend(_after(self._table.changes, wish.since))

    def _opening(self) -> Iterator[bytes]:
        for first in range(0, len(self._start), BATCH):
            rows = self._start[first : first + BATCH]
            yield b"".join([self._view.event("ADDED", row) for row in rows])
        self._start.clear()
        if self._mark:
            yield self._mark

    def _over(self) -> bool:
        return not self._pending and (self.ended or self._error is not None)

    def _hear(self, change: Change | None) -> None:
        if change is None or len(self._pending) >= BACKLOG:
            self.ended = True
        elif self._wish.since is None or change.revision > self._wish.since:
            self._pending.append(change)
        self._wake.set()

    async def _rest(self, until: float) -> None:
        if self._pending or self.ended:
            return
        self._wake.clear()
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            return

    def _drain(self) -> bytes:
        lines: list[bytes] = []
        while self._pending and len(lines) < BATCH:
            change = self._pending.popleft()
            if verdict := self._judge(change):
                row = change.left() if verdict == "DELETED" else change.last
                lines.append(self._view.event(verdict, row))
        return b"".join(lines)

    def _judge(self, change: Change) -> Verdict | None:
        if self._namespace is not None and change.last.key[0] != self._namespace:
            return None
        return verdict_of(change, self._selector)

    def fail(self, code: int, reason: str, message: str) -> None:
        """End with an ERROR line, as a server in trouble does."""
        self._error = busy(code, reason, message)
        self._pending.clear()
        self._wake.set()


def verdict_of(change: Change, selector: Selector) -> Verdict | None:
    """What a watcher with this selector sees: entering it is ADDED, leaving it is DELETED."""
    was = _matches(change.old, selector)
    now = _matches(change.new, selector)
    if now:
        return "MODIFIED" if was else "ADDED"
    return "DELETED" if was else None


def _matches(row: Row | None, selector: Selector) -> bool:
    return row is not None and selector.matches(row)


def _after(changes: deque[Change], revision: int) -> Iterable[Change]:
    """The changes behind a revision; looks from the end, where watchers resume."""
    recent: list[Change] = []
    for change in reversed(changes):
        if change.revision <= revision:
            break
        recent.append(change)
    return reversed(recent)
