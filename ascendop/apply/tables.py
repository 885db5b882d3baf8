# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables into the places that users provide: a ConfigMap, a shared directory, or both."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ascendop.apply.files import (
    TABLE,
    VERSION,
    SharedDirectoryError,
    kept_tables,
    make_directory,
    read_table,
    remove_table,
    write_table,
)
from ascendop.apply.plan import TableWish
from ascendop.apply.standing import (
    LATE_S,
    NOBODY_ASKS,
    ForeignMapError,
    Standing,
    TooLargeError,
    standing_of_error,
    standing_of_wait,
    standing_without_place,
    standing_written,
)
from ascendop.backoff import Backoff
from ascendop.builder.integers import integer
from ascendop.builder.labels import RING_CONTROLLER
from ascendop.clock import WallClock
from ascendop.errors import AscendopError
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CONFIGMAPS, Object

MAX_TABLE: Final = 1_000_000  # bytes; a ConfigMap holds 1 MiB of data, other keys included
BARE: Final = '{"status":"initializing"}'
LOOK_AGAIN: Final = Backoff(30.0, 600.0)
"""For a ConfigMap that is not there: the user may make it later, and a thousand jobs without one
must not ask all the time."""
SHARE_S: Final = 10.0  # a file on a share that answers takes milliseconds
R = TypeVar("R")


class _Map(Enum):
    """What became of a job's ConfigMap at the last look."""

    ABSENT = auto()
    FILLED = auto()
    TOO_SMALL = auto()
    """For the table, which is in a file."""


@dataclass(slots=True)
class _Kept:
    """What this process knows of one job's table; forgetting it costs one read."""

    digest: bytes = b""
    """Of the wish that has been fulfilled everywhere."""
    map: _Map = _Map.ABSENT
    absent_since: float | None = None
    """Loop time at which the ConfigMap was last looked for in vain."""
    misses: int = 0
    """How often in a row."""
    waits_since: float | None = None
    """Loop time since which pods lack something."""
    standing: Standing | None = None
    """What the user should know; None while there is nothing to say."""
    said_at: float = 0.0
    """Loop time since which that is so."""

    @property
    def look_at(self) -> float | None:
        """Loop time of the next look; None when none is needed."""
        if self.absent_since is None:
            return None
        return self.absent_since + LOOK_AGAIN.after(self.misses - 1)


class Tables:
    """Keeps rank tables as they should be.

    Idle:     a table that stands costs nothing, not even a read.
    Honest:   the version changes if, and only if, the content does; it survives a restart.
    Retries:  a failed write raises, and the job comes back; a missing ConfigMap is asked for again.
    Bounded:  a share that hangs costs one thread, and one caller SHARE_S; the others are told.
    Open:     what keeps a table from its place is known afterwards, as `standing`.
    Not:      makes a ConfigMap; that is the user's, with the labels that clusterd looks for.
    """

    def __init__(self, client: Client, wall: WallClock, root: Path | None) -> None:
        self._client = client
        self._wall = wall
        self._root = root
        """None where this process has no shared directory."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rank-tables")
        """One: a write that hung and goes on must not meet a newer one of the same file."""
        self._busy: Callable[[], Any] | None = None
        """What the thread is doing."""
        self._hangs: Callable[[], Any] | None = None
        """What it was doing when somebody lost patience."""
        self._kept: dict[str, _Kept] = {}

    def standing(self, uid: str) -> Standing | None:
        """How the job's table stands, as of the last `fulfil`; None when there is nothing to say.

        Of a table without a place nothing is said: most jobs do without one.
        """
        kept = self._kept.get(uid)
        return None if kept is None else kept.standing

    async def fulfil(self, namespace: str, uid: str, wish: TableWish) -> float | None:
        """Write what differs. Seconds after which to look again, None when nothing is open.

        Raises:  ApiError, TransportError, SharedDirectoryError, TooLargeError.
        """
        kept = self._kept.setdefault(uid, _Kept())
        now = asyncio.get_running_loop().time()
        try:
            await self._write(kept, namespace, wish)
        except AscendopError as error:
            kept.standing = standing_of_error(error, namespace, wish) or kept.standing
            raise
        if wish.lacks is None:
            kept.waits_since = None
        elif kept.waits_since is None:
            kept.waits_since = now
        late_s = self._judge(kept, namespace, wish)
        look_s = None if kept.look_at is None else kept.look_at - now
        return min((s for s in (late_s, look_s) if s is not None), default=None)

    async def _write(self, kept: _Kept, namespace: str, wish: TableWish) -> None:
        digest = hashlib.blake2b(repr(wish).encode(), digest_size=16).digest()
        if kept.digest != digest:
            # The file first: it is what large clusters use, and it is seen at once.
            if self._root is not None and wish.directory:
                await self._off_loop(partial(self._write_file, self._root, wish))
            kept.misses = 0
            await self._look(kept, namespace, wish)
            kept.digest = digest
        elif kept.look_at is not None and asyncio.get_running_loop().time() >= kept.look_at:
            await self._look(kept, namespace, wish)

    def _judge(self, kept: _Kept, namespace: str, wish: TableWish) -> float | None:
        """Note what the user should know. Seconds after which there may be more to say."""
        in_map, shares = kept.map is _Map.FILLED, self._root is not None
        in_file = shares and bool(wish.directory) and not wish.mounted
        if not in_map and not in_file:
            kept.standing = standing_without_place(namespace, wish) or NOBODY_ASKS
            return None
        if kept.waits_since is None:
            if not wish.only_over_completed:
                kept.standing = standing_written(namespace, wish, in_map=in_map)
            return None
        now = asyncio.get_running_loop().time()
        waited_s = now - kept.waits_since
        found = standing_of_wait(wish, waited_s)
        if found is None or not _only_counts_on(kept, found, wish, now):
            kept.standing, kept.said_at = found, now
        return LATE_S - waited_s if waited_s < LATE_S else None

    async def _look(self, kept: _Kept, namespace: str, wish: TableWish) -> None:
        kept.map = await self._write_config_map(namespace, wish)
        absent = kept.map is _Map.ABSENT
        kept.absent_since = asyncio.get_running_loop().time() if absent else None
        kept.misses = kept.misses + 1 if absent else 0

    async def forget(self, uid: str, namespace: str, name: str, *, inherited: bool = False) -> None:
        """The job is gone, and its files with it. Raises SharedDirectoryError.

        inherited:  another job has its name by now, and with it the directory.
        """
        self._kept.pop(uid, None)
        if self._root is not None and not inherited:
            await self._off_loop(partial(remove_table, self._root, f"{namespace}.{name}"))

    async def sweep(self, alive: Callable[[str, str], bool]) -> int:
        """Remove tables of jobs that ended while nobody looked; how many there were.

        Raises:  SharedDirectoryError.
        """
        if self._root is None:
            return 0
        root = self._root
        found = await self._off_loop(lambda: list(kept_tables(root)))
        dead = [(namespace, name) for namespace, name in found if not alive(namespace, name)]
        for namespace, name in dead:
            await self._off_loop(partial(remove_table, root, f"{namespace}.{name}"))
        return len(dead)

    def close(self) -> None:
        """Wait for nothing: a share that hangs must not hold up the end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _off_loop(self, work: Callable[[], R]) -> R:
        """The share may be a slow or hanging NFS mount; the loop must not wait for it."""
        silent = f"{self._root}: no answer within {SHARE_S:g} s; is the share mounted and alive?"
        if self._hangs is not None and self._hangs is self._busy:
            raise SharedDirectoryError(silent)
        try:
            async with asyncio.timeout(SHARE_S):
                return await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._do, work
                )
        except TimeoutError:
            self._hangs = self._busy
            raise SharedDirectoryError(silent) from None

    def _do(self, work: Callable[[], R]) -> R:
        """In the thread."""
        self._busy = work
        try:
            return work()
        finally:
            self._busy = None

    def _write_file(self, root: Path, wish: TableWish) -> None:
        make_directory(root, wish.directory)
        table, version = read_table(root, wish.directory)
        if _stands(table, wish):
            return
        write_table(root, wish.directory, wish.content, self._next_version(version))

    async def _write_config_map(self, namespace: str, wish: TableWish) -> _Map:
        try:
            found = await self._client.get(CONFIGMAPS, namespace, wish.config_map)
        except NotFoundError:
            return _Map.ABSENT
        data: Object = found.get("data") or {}
        if _stands(str(data.get(TABLE) or ""), wish):
            return _Map.FILLED
        where = f"ConfigMap {namespace}/{wish.config_map}"
        if not _for_tables(found):
            raise ForeignMapError(
                f"{where} holds something else; give it the label {RING_CONTROLLER}, or the key "
                f'{TABLE} with {{"status":"initializing"}}, or rename the job'
            )
        if len(wish.content) <= MAX_TABLE:
            await self._patch(namespace, wish.config_map, found, wish.content)
            return _Map.FILLED
        if _completed(str(data.get(TABLE) or "")):  # an earlier one, and wrong by now
            await self._patch(namespace, wish.config_map, found, BARE)
        if self._root is None or not wish.directory or wish.mounted:
            raise TooLargeError(
                f"{where} holds {MAX_TABLE} bytes, the rank table has {len(wish.content)}; "
                "mount a shared directory by a volume named ranktable instead"
            )
        return _Map.TOO_SMALL

    async def _patch(self, namespace: str, name: str, found: Object, table: str) -> None:
        """A table and the next version, over exactly what was found."""
        version = self._next_version(str((found.get("data") or {}).get(VERSION) or ""))
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "data": {TABLE: table, VERSION: version}}
        await self._client.patch_bytes(CONFIGMAPS, namespace, name, body)

    def _next_version(self, before: str) -> str:
        """0 for the first table, then seconds since 1970: always another than the one before.

        Source:  ascendjob.md 6.8, whose value lags by one table and begins anew with the operator.
        """
        if not before:
            return "0"
        now = int(self._wall().timestamp())
        return str(max(now, (integer(before) or 0) + 1))


def _only_counts_on(kept: _Kept, found: Standing, wish: TableWish, now: float) -> bool:
    """Whether it is the same wait with other numbers, too soon to be said again."""
    waits = wish.lacks is not None and not wish.lacks.fault
    same = kept.standing is not None and kept.standing.reason == found.reason
    return waits and same and now - kept.said_at < LATE_S


def _stands(table: str, wish: TableWish) -> bool:
    """Whether nothing has to be written over this table."""
    if wish.only_over_completed:
        return not _completed(table)
    return table == wish.content


def _completed(table: str) -> bool:
    return _status(table) == "completed"


def _status(table: str) -> object:
    """What a rank table says of itself; None for what is no rank table."""
    try:
        found: Any = msgspec.json.decode(table)
    except msgspec.DecodeError:
        return None
    return found.get("status") if isinstance(found, dict) else None


def _for_tables(config_map: Object) -> bool:
    """Whether the user made it for a table: by its label, by a table in it, or all empty.

    One that was made for something else has its name by accident (field-reports:FR-070).
    """
    data: Object = config_map.get("data") or {}
    if RING_CONTROLLER in (config_map["metadata"].get("labels") or {}):
        return True
    return not data or (TABLE in data and (not data[TABLE] or _status(data[TABLE]) is not None))
