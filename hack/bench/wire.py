# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""As bare as a client can be: bytes out, bytes in, sixteen requests in flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final, Self, TypeVar

import aiohttp

IN_FLIGHT: Final = 16
JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_REFUSED: Final = 300
T = TypeVar("T")


class BenchError(Exception):
    """The measurement cannot be made; the message says why."""


class Wire:
    """Requests to one server, of which at most 16 are in flight. For an `async with` block."""

    def __init__(self, server: str, token: str, ca: Path, agent: str) -> None:
        self.server = server
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": agent, "Accept": JSON}
        self._tls = ssl.create_default_context(cafile=ca)
        self._turn = asyncio.Semaphore(IN_FLIGHT)

    async def __aenter__(self) -> Self:
        self.session = aiohttp.ClientSession(
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 20,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def send(
        self, method: str, path: str, body: bytes | None = None, content: str = JSON
    ) -> bytes:
        """The answer. Raises BenchError when it is a refusal: a loader has no second tries."""
        async with (
            self._turn,
            self.session.request(
                method, self.server + path, data=body, headers={"Content-Type": content}
            ) as answer,
        ):
            found = await answer.read()
            if answer.status >= _REFUSED:
                raise BenchError(f"{method} {path}: {answer.status} {found[:300]!r}")
            return found


async def all_of(work: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """The work for every item, side by side."""

    async def one(item: T) -> None:
        await work(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))
