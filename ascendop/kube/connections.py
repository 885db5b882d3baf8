# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Connections to one server that are kept and used again, one request at a time on each.

Written for the one kind of request that an operator makes by the thousand: a small body out, a
small body back. It costs a third of what a general client needs for the same (design note 0008).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

from ascendop.kube.answer import AnswerReader, MalformedError
from ascendop.kube.sockets import watch_over

CONNECT_S: Final = 5.0
"""TCP and TLS; a healthy server takes milliseconds."""
KEEPALIVE_S: Final = 60.0
"""Idle for longer, a connection is not used again: an API server closes it after 90 s."""


class ConnectError(Exception):
    """There is no connection, so nothing was sent. `cause` says why: TimeoutError or OSError."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect to."""

    host: str
    port: int
    context: ssl.SSLContext | bool | None
    """True for one that trusts what the machine does; None for no TLS."""
    server_name: str | None = None
    """Expected in the server's certificate; the host when None."""


class Connections:
    """A number of connections to one endpoint.

    Bounded:  never more than `limit`; whoever comes then waits, first come, first served.
    Clean:    a request that is cancelled, or fails in any way, takes its connection along.
    Once:     nothing is ever sent a second time.
    """

    def __init__(self, endpoint: Endpoint, *, limit: int) -> None:
        self.closed = False
        self._endpoint = endpoint
        self._turns = asyncio.Semaphore(limit)
        self._open: set[_Line] = set()
        self._idle: list[_Line] = []
        """The one used last is used next: so the others grow old and go."""

    async def ask(self, message: bytes, answer: AnswerReader) -> None:
        """Send a whole request, and read its whole answer.

        Raises:  ConnectError, nothing was sent; OSError, MalformedError: it may have been.
        """
        async with self._turns:
            line = self._kept() or await self._connect()
            try:
                await line.ask(message, answer)
            except BaseException:
                line.abort()  # what comes on it now would be taken for the next answer
                raise
            if answer.keeps and not self.closed:
                line.idle_since = asyncio.get_running_loop().time()
                self._idle.append(line)
            else:
                line.abort()

    def close(self) -> None:
        """At once; requests in flight end with ConnectionAbortedError."""
        self.closed = True
        self._idle.clear()
        for line in list(self._open):
            line.abort()

    def _kept(self) -> _Line | None:
        oldest = asyncio.get_running_loop().time() - KEEPALIVE_S
        while self._idle:
            line = self._idle.pop()
            if line.usable and line.idle_since > oldest:
                return line
            line.abort()
        return None

    async def _connect(self) -> _Line:
        loop, where = asyncio.get_running_loop(), self._endpoint
        try:
            async with asyncio.timeout(CONNECT_S):
                _, line = await loop.create_connection(
                    lambda: _Line(self._open.discard),
                    where.host,
                    where.port,
                    ssl=where.context,
                    server_hostname=where.server_name if where.context else None,
                )
        except OSError as error:  # TimeoutError is one
            raise ConnectError(error) from error
        if self.closed:
            line.abort()
            raise ConnectError(ConnectionAbortedError("closed meanwhile"))
        self._open.add(line)
        return line


class _Line(asyncio.Protocol):
    """One connection, and the answer that is awaited on it."""

    def __init__(self, lost: Callable[[_Line], None]) -> None:
        self.idle_since = 0.0
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        """None when it is lost."""
        self._answer: AnswerReader | None = None
        self._whole: asyncio.Future[None] | None = None

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, message: bytes, answer: AnswerReader) -> asyncio.Future[None]:
        """Done when the answer is whole; its exception is what kept it from becoming so."""
        self._answer = answer
        self._whole = asyncio.get_running_loop().create_future()
        if self._transport is None:
            self._end(ConnectionResetError("the server has closed it"))
        else:
            self._transport.write(message)
        return self._whole

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        made: Any = transport.get_extra_info("socket")
        if made is not None:
            watch_over(made)

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.abort()  # nobody has asked
            return
        try:
            if self._answer.feed(data):
                self._end(None)
        except MalformedError as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost(self)
        if self._answer is None:
            return
        if exc is None and self._answer.end():
            self._end(None)
        else:
            self._end(exc or ConnectionResetError("closed before the answer was whole"))

    def _end(self, error: Exception | None) -> None:
        whole, self._answer, self._whole = self._whole, None, None
        if whole is None or whole.done():
            return
        if error is None:
            whole.set_result(None)
        else:
            whole.set_exception(error)
