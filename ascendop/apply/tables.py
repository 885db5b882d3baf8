# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables into the places that users provide: a ConfigMap, a shared directory, or both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ascendop.apply.files import (
    SharedDirectoryError,
    kept_tables,
    make_directory,
    read_table,
    remove_table,
    write_table,
)
from ascendop.apply.maps import Last, Map, TableMaps, digest_of, next_version, stands
from ascendop.apply.plan import TableWish
from ascendop.apply.standing import (
    LATE_S,
    NOBODY_ASKS,
    Standing,
    standing_of_error,
    standing_of_wait,
    standing_without_place,
    standing_written,
)
from ascendop.backoff import Backoff
from ascendop.clock import WallClock
from ascendop.errors import AscendopError
from ascendop.kube.client import Client

LOOK_AGAIN: Final = Backoff(30.0, 600.0)
"""For a ConfigMap that is not there: the user may make it later, and a thousand jobs without one
must not ask all the time."""
SHARE_S: Final = 10.0  # a file on a share that answers takes milliseconds
R = TypeVar("R")


@dataclass(slots=True)
class _Kept:
    """What this process knows of one job's table; forgetting it costs one read."""

    digest: bytes = b""
    """Of the wish that has been fulfilled everywhere."""
    map: Map = Map.ABSENT
    absent_since: float | None = None
    """Loop time at which the ConfigMap was last looked for in vain."""
    misses: int = 0
    """How often in a row."""
    waits_since: float | None = None
    """Loop time since which pods lack something."""
    last: Last | None = None
    """What it wrote into the ConfigMap last."""
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
        self._maps = TableMaps(client, wall, shares=root is not None)
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
        digest = digest_of(repr(wish))
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
        in_map, shares = kept.map is Map.FILLED, self._root is not None
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
        last, kept.last = kept.last, None
        kept.map, kept.last = await self._maps.write(last, namespace, wish)
        absent = kept.map is Map.ABSENT
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
        if stands(table, wish):
            return
        write_table(root, wish.directory, wish.content, next_version(version, self._wall()))


def _only_counts_on(kept: _Kept, found: Standing, wish: TableWish, now: float) -> bool:
    """Whether it is the same wait with other numbers, too soon to be said again."""
    waits = wish.lacks is not None and not wish.lacks.fault
    same = kept.standing is not None and kept.standing.reason == found.reason
    return waits and same and now - kept.said_at < LATE_S
