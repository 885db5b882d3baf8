# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What proves who we are: kept, refreshed before it ends, and replaced when it is refused."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from ascendop.kube.errors import TransportError
from ascendop.kube.tls import ClientCertificate
from ascendop.telemetry.log import get_log

TOKEN_FILE_S = 60.0
"""How long what a token file said is believed; the kubelet rotates it long before it expires."""
REFRESH_AT = 0.8
"""Of a lifetime: early enough for several failures before the old one ends."""

_READ_S = 2.0  # a file system that takes longer hangs, and must not take the requests with it
_AFTER_FAILURE_S = 10.0
_AT_LEAST_S = 1.0  # a source whose proofs are expired or refused is not asked by every request

_log = get_log("ascendop.kube")


@dataclass(frozen=True, slots=True)
class Grant:
    """One proof: a header, a client certificate, or neither."""

    authorization: str = field(default="", repr=False)
    """The whole header; empty for none."""
    certificate: ClientCertificate | None = field(default=None, repr=False)
    refresh_after_s: float = math.inf


class CredentialError(Exception):
    """There is no proof to be had; the message says from whom and why, and never what."""


Fetch = Callable[[], Awaitable[Grant]]


class Credential:
    """The proof to use now.

    Lazy:      the first one is fetched by the first request.
    Patient:   a fetch that fails keeps the last good proof, until the server refuses it.
    One:       however many requests find it due or refused, one fetch runs.
    Not:       shown; neither repr, log nor error ever has the proof in it.
    """

    def __init__(self, fetch: Fetch | None = None, *, grant: Grant | None = None) -> None:
        """Without a fetch the grant is for ever; without a grant the first one is fetched."""
        self._fetch = fetch
        self._grant = grant if grant is not None or fetch is not None else Grant()
        self._due_at = -math.inf
        self._refused_at = -math.inf
        self._lock = asyncio.Lock()
        self._failure = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'held' if self._grant else 'not fetched yet'}>"

    async def current(self, *, waits: bool = True) -> Grant:
        """The proof for a request that starts now.

        waits:   whether this request may wait for a renewal; the next one that may will do it.
        Raises:  TransportError (nothing was sent) when there never was a proof to be had.
        """
        now = asyncio.get_running_loop().time()
        if self._grant is not None:
            if self._due_at == -math.inf:  # held from the start, and its time runs from now
                self._due_at = now + self._grant.refresh_after_s
            if now < self._due_at or self._lock.locked() or not waits:
                return self._grant
        async with self._lock:
            if asyncio.get_running_loop().time() >= self._due_at:
                await self._renew(self._fetch)
        return self._held()

    async def refused(self, grant: Grant) -> bool:
        """The server answered 401 to this proof: whether there is another one to try now."""
        if self._fetch is None:
            return False
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._grant == grant and now - self._refused_at >= _AT_LEAST_S:
                self._refused_at = now
                await self._renew(self._fetch)
        return self._grant != grant

    def _held(self) -> Grant:
        if self._grant is None:
            raise TransportError(f"no credentials: {self._failure}", sent=False)
        return self._grant

    async def _renew(self, fetch: Fetch | None) -> None:
        loop = asyncio.get_running_loop()
        if fetch is None:
            self._due_at = math.inf
            return
        try:
            self._grant = await fetch()
        except CredentialError as error:
            self._due_at = loop.time() + _AFTER_FAILURE_S
            self._failure = str(error)
            if self._grant is not None:  # else the request that needs one fails, and says so
                _log.warning("credentials were not renewed", why=self._failure)
        else:
            self._due_at = loop.time() + max(self._grant.refresh_after_s, _AT_LEAST_S)


def token_file(path: str) -> Fetch:
    """A bearer token in a file that somebody else keeps fresh."""

    async def fetch() -> Grant:
        try:
            async with asyncio.timeout(_READ_S):
                token = (await asyncio.to_thread(Path(path).read_text, encoding="ascii")).strip()
        except (OSError, UnicodeError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            raise CredentialError(f"token file {path}: {why}") from error
        if not token:
            raise CredentialError(f"token file {path} is empty")
        return Grant(f"Bearer {token}", refresh_after_s=TOKEN_FILE_S)

    return fetch
