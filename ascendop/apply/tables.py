# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables into the places that users provide: a ConfigMap, a shared directory, or both."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
from ascendop.backoff import Backoff
from ascendop.builder.integers import integer
from ascendop.clock import WallClock
from ascendop.errors import AscendopError
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CONFIGMAPS, Object

MAX_TABLE: Final = 1_000_000  # bytes; a ConfigMap holds 1 MiB of data, other keys included
LOOK_AGAIN: Final = Backoff(30.0, 600.0)
"""For a ConfigMap that is not there: the user may make it later, and a thousand jobs without one
must not ask all the time."""
SHARE_S: Final = 10.0  # a file on a share that answers takes milliseconds
R = TypeVar("R")


class TooLargeError(AscendopError):
    """The table does not fit into a ConfigMap."""


@dataclass(slots=True)
class _Kept:
    """What this process knows of one job's table; forgetting it costs one read."""

    digest: bytes = b""
    """Of the wish that has been fulfilled everywhere."""
    absent_since: float | None = None
    """Loop time at which the ConfigMap was last looked for in vain."""
    misses: int = 0
    """How often in a row."""

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
    Bounded:  a share that hangs costs one thread, and each caller SHARE_S.
    Not:      makes a ConfigMap; that is the user's, with the labels that clusterd looks for.
    """

    def __init__(self, client: Client, wall: WallClock, root: Path | None) -> None:
        self._client = client
        self._wall = wall
        self._root = root
        """None where this process has no shared directory."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rank-tables")
        """One: a write that hung and goes on must not meet a newer one of the same file."""
        self._kept: dict[str, _Kept] = {}

    async def fulfil(self, namespace: str, uid: str, wish: TableWish) -> float | None:
        """Write what differs. Seconds after which to look again, None when nothing is open.

        Raises:  ApiError, TransportError, SharedDirectoryError, TooLargeError.
        """
        kept = self._kept.setdefault(uid, _Kept())
        digest = hashlib.blake2b(repr(wish).encode(), digest_size=16).digest()
        if kept.digest != digest:
            # The file first: it is what large clusters use, and it is seen at once.
            if self._root is not None and wish.directory:
                await self._off_loop(partial(self._write_file, self._root, wish))
            kept.misses = 0
            await self._look(kept, namespace, wish)
            kept.digest = digest
        now = asyncio.get_running_loop().time()
        if kept.look_at is not None and now >= kept.look_at:
            await self._look(kept, namespace, wish)
        return None if kept.look_at is None else kept.look_at - now

    async def _look(self, kept: _Kept, namespace: str, wish: TableWish) -> None:
        found = await self._write_config_map(namespace, wish)
        kept.absent_since = None if found else asyncio.get_running_loop().time()
        kept.misses = 0 if found else kept.misses + 1

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
        try:
            async with asyncio.timeout(SHARE_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except TimeoutError:
            raise SharedDirectoryError(
                f"{self._root}: no answer within {SHARE_S:g} s; is the share mounted and alive?"
            ) from None

    def _write_file(self, root: Path, wish: TableWish) -> None:
        make_directory(root, wish.directory)
        table, version = read_table(root, wish.directory)
        if _stands(table, wish):
            return
        write_table(root, wish.directory, wish.content, self._next_version(version))

    async def _write_config_map(self, namespace: str, wish: TableWish) -> bool:
        """Whether there is a ConfigMap."""
        try:
            found = await self._client.get(CONFIGMAPS, namespace, wish.config_map)
        except NotFoundError:
            return False
        data: Object = found.get("data") or {}
        if _stands(str(data.get(TABLE) or ""), wish):
            return True
        if len(wish.content) > MAX_TABLE:
            raise TooLargeError(
                f"the rank table has {len(wish.content)} bytes, a ConfigMap holds {MAX_TABLE}; "
                "mount a shared directory by a volume named ranktable instead"
            )
        version = self._next_version(str(data.get(VERSION) or ""))
        meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "data": {TABLE: wish.content, VERSION: version}}
        await self._client.patch_bytes(CONFIGMAPS, namespace, wish.config_map, body)
        return True

    def _next_version(self, before: str) -> str:
        """0 for the first table, then seconds since 1970: always another than the one before.

        Source:  ascendjob.md 6.8, whose value lags by one table and begins anew with the operator.
        """
        if not before:
            return "0"
        now = int(self._wall().timestamp())
        return str(max(now, (integer(before) or 0) + 1))


def _stands(table: str, wish: TableWish) -> bool:
    """Whether nothing has to be written over this table."""
    if wish.only_over_completed:
        return not _completed(table)
    return table == wish.content


def _completed(table: str) -> bool:
    try:
        found: Any = msgspec.json.decode(table)
    except msgspec.DecodeError:
        return False
    return isinstance(found, dict) and found.get("status") == "completed"
