# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A rank table in the ConfigMap that the user made for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

import msgspec

from ascendop.apply.files import TABLE, VERSION
from ascendop.apply.plan import TableWish
from ascendop.apply.standing import ForeignMapError, TooLargeError
from ascendop.builder.integers import integer
from ascendop.builder.labels import RING_CONTROLLER
from ascendop.clock import WallClock
from ascendop.kube.client import Client
from ascendop.kube.errors import ConflictError, NotFoundError
from ascendop.kube.resource import CONFIGMAPS, Object

MAX_TABLE: Final = 1_000_000  # bytes; a ConfigMap holds 1 MiB of data, other keys included
BARE: Final = '{"status":"initializing"}'


class Map(Enum):
    """What became of a job's ConfigMap at the last look."""

    ABSENT = auto()
    FILLED = auto()
    TOO_SMALL = auto()
    """For the table, which is in a file."""


@dataclass(frozen=True, slots=True)
class Last:
    """A ConfigMap as we left it: while nobody has changed it, it need not be read again."""

    resource_version: str
    version: str
    """Of the table."""
    digest: bytes
    """Of the table."""


class TableMaps:
    """Fills ConfigMaps.

    Exact:    a write is over what was seen, or nothing is written.
    Brief:    what we left there ourselves is not read again.
    """

    def __init__(self, client: Client, wall: WallClock, *, shares: bool) -> None:
        """`shares`: there is a directory for the tables that are too large."""
        self._client = client
        self._wall = wall
        self._shares = shares

    async def write(
        self, last: Last | None, namespace: str, wish: TableWish
    ) -> tuple[Map, Last | None]:
        """What became of it, and what was left there.

        Raises:  ApiError, TransportError, TooLargeError.
        """
        if last is not None and (left := await self._write_over_ours(last, namespace, wish)):
            return Map.FILLED, left
        return await self._look(namespace, wish)

    async def _write_over_ours(self, last: Last, namespace: str, wish: TableWish) -> Last | None:
        """None when it cannot be done without a look."""
        if wish.only_over_completed or len(wish.content) > MAX_TABLE:
            return None
        if last.digest == digest_of(wish.content):
            return None  # perhaps nothing is to be written: who knows what stands there
        try:
            return await self._patch(
                namespace, wish.config_map, last.resource_version, wish.content, last.version
            )
        except (ConflictError, NotFoundError):
            return None

    async def _look(self, namespace: str, wish: TableWish) -> tuple[Map, Last | None]:
        try:
            found = await self._client.get(CONFIGMAPS, namespace, wish.config_map)
        except NotFoundError:
            return Map.ABSENT, None
        data: Object = found.get("data") or {}
        table, version = str(data.get(TABLE) or ""), str(data.get(VERSION) or "")
        at = found["metadata"]["resourceVersion"]
        ours = _for_tables(found)
        if stands(table, wish):
            return Map.FILLED, Last(at, version, digest_of(table)) if ours else None
        where = f"ConfigMap {namespace}/{wish.config_map}"
        if not ours:
            raise ForeignMapError(
                f"{where} holds something else; give it the label {RING_CONTROLLER}, or the key "
                f'{TABLE} with {{"status":"initializing"}}, or rename the job'
            )
        if len(wish.content) <= MAX_TABLE:
            last = await self._patch(namespace, wish.config_map, at, wish.content, version)
            return Map.FILLED, last
        if is_completed(table):  # an earlier one, and wrong by now
            await self._patch(namespace, wish.config_map, at, BARE, version)
        if not self._shares or not wish.directory or wish.mounted:
            raise TooLargeError(
                f"{where} holds {MAX_TABLE} bytes, the rank table has {len(wish.content)}; "
                "mount a shared directory by a volume named ranktable instead"
            )
        return Map.TOO_SMALL, None

    async def _patch(self, namespace: str, name: str, at: str, table: str, before: str) -> Last:
        """A table, and the version after `before`, over exactly what stood there `at`."""
        version = next_version(before, self._wall())
        body = {"metadata": {"resourceVersion": at}, "data": {TABLE: table, VERSION: version}}
        answer = await self._client.patch_bytes(
            CONFIGMAPS, namespace, name, body, metadata_only=True
        )
        now_at = msgspec.json.decode(answer, type=_Answer).metadata.resource_version
        return Last(now_at, version, digest_of(table))


def next_version(before: str, now: datetime) -> str:
    """0 for the first table, then seconds since 1970: always another than the one before.

    Source:  ascendjob.md 6.8, whose value lags by one table and begins anew with the operator.
    """
    if not before:
        return "0"
    return str(max(int(now.timestamp()), (integer(before) or 0) + 1))


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Answer(msgspec.Struct):
    metadata: _Metadata


def digest_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def stands(table: str, wish: TableWish) -> bool:
    """Whether nothing has to be written over this table."""
    if wish.only_over_completed:
        return not is_completed(table)
    return table == wish.content


def is_completed(table: str) -> bool:
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
