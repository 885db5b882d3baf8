# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One request, one answer, or one stream: the protocol, and HTTP behind it."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from ascendop.kube.answer import AnswerReader, MalformedError
from ascendop.kube.config import Connection
from ascendop.kube.connections import (
    CONNECT_S,
    KEEPALIVE_S,
    ConnectError,
    Connections,
    Endpoint,
)
from ascendop.kube.credentials import Grant
from ascendop.kube.errors import TransportError
from ascendop.kube.message import message, target
from ascendop.kube.sockets import watchful_socket
from ascendop.kube.trust import Trust
from ascendop.telemetry.log import get_log

Pool = Literal["api", "watch", "lease"]
"""Which connections a request may use: a flood of job writes must not starve the lease."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. `path` and `query` are not escaped yet."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Accept and Content-Type; credentials are the transport's business."""
    body: bytes | None = None
    timeout_s: float = 30.0
    """Of the whole answer; of a stream, until its headers."""
    pool: Pool = "api"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True)
class Response:
    """What was answered, whole."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Stream(Protocol):
    """An answer whose body comes in pieces, in whatever pieces the network makes of it."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """The body; ends when the server ends it. Raises TransportError when it is cut."""
        ...

    async def read(self) -> bytes:
        """The rest of the body, for an answer that turned out to be an error."""
        ...


class Transport(Protocol):
    """Where requests go: an API server over HTTP, or the simulator in the same process.

    Raises TransportError when there is no answer; an answer of any status is a Response.
    """

    async def send(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]: ...

    async def close(self) -> None: ...


MAX_AGE_S = 300.0  # of api connections: after a rollout the load spreads again
BODY_LIMIT_BYTES = 512 << 20  # more is no answer but an accident, and it would be our memory

_UNAUTHORIZED = 401
_WHOLE_BYTES = 1 << 20  # a body up to this is written at once

_TROUBLES = (aiohttp.ClientError, OSError, ConnectError, MalformedError)
"""What may come instead of an answer; TimeoutError is an OSError."""

_log = get_log("ascendop.kube")


@dataclass(frozen=True, slots=True)
class _PoolShape:
    limit: int
    """Connections at most; 0 for any number."""
    buffer_bytes: int
    ages: bool


_POOLS: Final[Mapping[Pool, _PoolShape]] = {
    "api": _PoolShape(limit=32, buffer_bytes=256 << 10, ages=True),
    "lease": _PoolShape(limit=2, buffer_bytes=256 << 10, ages=True),
    "watch": _PoolShape(limit=0, buffer_bytes=1 << 20, ages=False),  # fewer wake-ups
}


@dataclass(slots=True)
class _Generation:
    """Connections of one pool, made in the same minutes and under the same certificates."""

    session: aiohttp.ClientSession
    """For streams, and for all that goes through a proxy or is compressed."""
    connections: Connections | None
    """For everything else; None where there is nothing else."""
    ends_at: float
    users: int = 0

    async def close(self) -> None:
        if self.connections is not None:
            self.connections.close()
        await self.session.close()


class HttpTransport:
    """HTTP/1.1 to one API server.

    Calls:        over connections of our own, which is what makes them cheap; aiohttp has the
                  streams, and everything on links with a proxy or compression.
    Pools:        watch, api and lease share no connection, so none can starve another.
    Connections:  are closed when they are old, so that load spreads after a server's rollout.
    Credentials:  go with each request; after a 401 they are renewed and the request is sent once
                  more. TLS files are looked at once a minute; new connections use what they say.
    Not:          redirects, cookies, environment variables, second tries of any other kind.
    """

    def __init__(self, connection: Connection, *, rng: Random, compressed: bool = False) -> None:
        """`compressed` asks for gzip: for slow links, at the price of CPU on both sides."""
        self._connection = connection
        self._rng = rng
        self._encoding = "gzip" if compressed else "identity"
        parts = urlsplit(connection.server)
        self.host = parts.netloc.rpartition("@")[2]
        """Of the server, with its port; also for metrics."""
        self._prefix = parts.path
        self._lean = not (compressed or connection.proxy or parts.username)
        self._pools: dict[Pool, _Generation] = {}
        self._retired: list[_Generation] = []  # no new request uses them; closed when idle
        tls = None if connection.server.startswith("http://") else connection.tls
        self._trust = None if tls is None else Trust(tls)
        self._closed = False

    def __repr__(self) -> str:
        return f"<HttpTransport {self.host}>"

    async def send(self, request: Request) -> Response:
        """The whole answer, of any status."""
        ends_at = asyncio.get_running_loop().time() + request.timeout_s
        grant = await self._prove(request.pool)
        response = await self._send_as(request, grant, ends_at)
        if response.status == _UNAUTHORIZED and await self._connection.credential.refused(grant):
            return await self._send_as(request, await self._prove(request.pool), ends_at)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """The answer as it comes; leaving closes the connection unless the answer ended."""
        grant = await self._prove(request.pool)
        async with self._stream_as(request, grant) as stream:
            refused = stream.status == _UNAUTHORIZED
            if not (refused and await self._connection.credential.refused(grant)):
                yield stream
                return
        async with self._stream_as(request, await self._prove(request.pool)) as stream:
            yield stream

    async def close(self) -> None:
        """Close every connection; requests in flight end with TransportError."""
        self._closed = True
        self._retired += self._pools.values()
        self._pools.clear()
        while self._retired:
            await self._retired.pop().close()

    async def maintain(self) -> None:
        """Renew what is due before a request has to wait for it. Runs until cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(5.0, 10.0))
            try:
                await self._prove("api")
            except TransportError as error:
                _log.warning("the connection cannot be refreshed", why=str(error))

    async def _send_as(self, request: Request, grant: Grant, ends_at: float) -> Response:
        left_s = ends_at - asyncio.get_running_loop().time()
        if left_s <= 0:  # credentials took their time, and a lease may have ended meanwhile
            raise TransportError(f"{request}: too late to be sent", sent=False)
        generation = self._enter(request.pool)
        try:
            if generation.connections is not None:
                return await self._call(generation.connections, request, grant, left_s)
            return await self._call_elsewhere(generation.session, request, grant, left_s)
        except _TROUBLES as error:
            raise _lost(request, error, self._connection.server) from _showable(error)
        finally:
            if self._retired:
                await self._leave(generation)
            else:
                generation.users -= 1

    async def _call(
        self, connections: Connections, request: Request, grant: Grant, left_s: float
    ) -> Response:
        """By connections of our own."""
        headers = {"Host": self.host, "Accept-Encoding": self._encoding, **request.headers}
        if grant.authorization:
            headers["Authorization"] = grant.authorization
        where = target(self._prefix + request.path, request.query)
        answer = AnswerReader(request.method, limit_bytes=BODY_LIMIT_BYTES)
        async with asyncio.timeout(left_s):
            await connections.ask(message(request.method, where, headers, request.body), answer)
        return Response(answer.status, answer.headers, answer.body)

    async def _call_elsewhere(
        self, session: aiohttp.ClientSession, request: Request, grant: Grant, left_s: float
    ) -> Response:
        """By aiohttp, which knows proxies and compression."""
        async with session.request(
            request.method,
            self._url(request),
            data=_payload(request.body),
            headers=self._headers(request, grant),
            timeout=_timeout(left_s),
            allow_redirects=False,
            proxy=self._connection.proxy,
            server_hostname=self._connection.tls.server_name,
        ) as answer:
            return Response(answer.status, _lowered(answer), await _body(answer, request))

    @asynccontextmanager
    async def _stream_as(self, request: Request, grant: Grant) -> AsyncIterator[Stream]:
        generation = self._enter(request.pool)
        try:
            answer = await self._begin(generation, request, grant)
            try:
                yield _HttpStream(request, answer, self._connection.server)
            finally:
                answer.close()  # a connection that still has something to say is of no use
        finally:
            await self._leave(generation)

    async def _begin(
        self, generation: _Generation, request: Request, grant: Grant
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(request.timeout_s):
                return await generation.session.request(
                    request.method,
                    self._url(request),
                    data=_payload(request.body),
                    headers=self._headers(request, grant),
                    timeout=_timeout(None),
                    allow_redirects=False,
                    proxy=self._connection.proxy,
                    server_hostname=self._connection.tls.server_name,
                )
        except _TROUBLES as error:
            raise _lost(request, error, self._connection.server) from _showable(error)

    def _enter(self, pool: Pool) -> _Generation:
        """The pool's connections of today, with one more user."""
        if self._closed:
            raise TransportError(f"the connection to {self.host} was closed", sent=False)
        now = asyncio.get_running_loop().time()
        generation = self._pools.get(pool)
        if generation is None or now >= generation.ends_at:
            if generation is not None:
                self._retired.append(generation)
            generation = self._pools[pool] = self._generation(_POOLS[pool], now)
        generation.users += 1
        return generation

    async def _leave(self, generation: _Generation) -> None:
        generation.users -= 1
        for old in [old for old in self._retired if not old.users]:
            self._retired.remove(old)
            await old.close()

    def _generation(self, shape: _PoolShape, now: float) -> _Generation:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._trust.context if self._trust else True,
                limit=shape.limit,
                keepalive_timeout=KEEPALIVE_S,
                socket_factory=watchful_socket,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": self._encoding},
            read_bufsize=shape.buffer_bytes,
            trust_env=False,
        )
        # Second tries are decided where preconditions are known; aiohttp would repeat any PUT.
        session._retry_connection = False  # noqa: SLF001
        age_s = MAX_AGE_S * self._rng.uniform(0.8, 1.2) if shape.ages else float("inf")
        connections = self._connections(shape) if self._lean and shape.limit else None
        return _Generation(session, connections, ends_at=now + age_s)

    def _connections(self, shape: _PoolShape) -> Connections:
        parts = urlsplit(self._connection.server)
        plain = parts.scheme == "http"
        endpoint = Endpoint(
            parts.hostname or "",
            parts.port or (80 if plain else 443),
            None if plain or self._trust is None else self._trust.context,
            self._connection.tls.server_name,
        )
        return Connections(endpoint, limit=shape.limit)

    def _headers(self, request: Request, grant: Grant) -> Mapping[str, str]:
        if not grant.authorization:
            return request.headers
        return {**request.headers, "Authorization": grant.authorization}

    def _url(self, request: Request) -> URL:
        where = target(request.path, request.query)
        return URL(self._connection.server + where, encoded=True)

    async def _prove(self, pool: Pool) -> Grant:
        """Credentials and TLS as they should be now."""
        grant = await self._connection.credential.current(waits=pool != "lease")
        trust = self._trust
        if trust is not None:
            now = asyncio.get_running_loop().time()
            if trust.is_due(now, grant.certificate) and await trust.renew(grant.certificate):
                for generation in self._pools.values():
                    generation.ends_at = now
        return grant


class _HttpStream:
    def __init__(self, request: Request, answer: aiohttp.ClientResponse, server: str) -> None:
        self._request = request
        self._answer = answer
        self._server = server
        self.status = answer.status
        self.headers = _lowered(answer)

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.content.iter_any():
                yield chunk
        except _TROUBLES as error:
            raise _lost(self._request, error, self._server) from _showable(error)

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._request.timeout_s):
                return await _body(self._answer, self._request)
        except _TROUBLES as error:
            raise _lost(self._request, error, self._server) from _showable(error)


def _timeout(total_s: float | None) -> aiohttp.ClientTimeout:
    # Not rounded up to whole seconds: the end of a lease bounds the time-out of a write.
    return aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_S, ceil_threshold=1e9)


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    if body is None or len(body) < _WHOLE_BYTES:
        return body
    return io.BytesIO(body)  # written in pieces, so that the loop is not held


def _lowered(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    lowered: dict[str, str] = {}
    for name, value in answer.headers.items():
        key = name.lower()
        lowered[key] = f"{lowered[key]}, {value}" if key in lowered else value
    return lowered


async def _body(answer: aiohttp.ClientResponse, request: Request) -> bytes:
    """The whole body, unless it is larger than any answer should be."""
    if answer.content_length is not None and answer.content_length <= BODY_LIMIT_BYTES:
        return await answer.read()
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT_BYTES:
            limit = f"{BODY_LIMIT_BYTES >> 20} MiB"
            raise TransportError(f"{request}: the answer is larger than {limit}", sent=True)
        chunks.append(chunk)
    return b"".join(chunks)


def _lost(request: Request, error: Exception, server: str) -> TransportError:
    """The one door through which errors of the HTTP library become ours."""
    match error:
        case ConnectError(cause=cause):
            what, sent = _unconnected(cause, server), False
        case aiohttp.ClientConnectorCertificateError():
            what, sent = _unconnected(error.certificate_error, server), False
        case aiohttp.ClientHttpProxyError():
            what, sent = f"the proxy refused the way to {server}: {error.status}", False
        case aiohttp.ClientProxyConnectionError():
            what, sent = f"cannot connect to the proxy: {_cause(error.os_error)}", False
        case aiohttp.ClientConnectorError():
            what, sent = _unconnected(error.os_error, server), False
        case aiohttp.ConnectionTimeoutError():
            what, sent = _unconnected(error, server), False
        case TimeoutError():
            what, sent = f"no answer from {server} within {request.timeout_s:g} s", True
        case _:
            what, sent = (
                f"the connection to {server} broke: {str(error) or type(error).__name__}",
                True,
            )
    return TransportError(f"{request}: {what}", sent=sent)


def _unconnected(cause: Exception, server: str) -> str:
    match cause:
        case TimeoutError():
            return f"cannot connect to {server} within {CONNECT_S:g} s"
        case ssl.CertificateError():
            return f"{server} is not trusted: {_doubt(cause)}"
        case _:
            return f"cannot connect to {server}: {_cause(cause)}"


def _doubt(error: ssl.CertificateError) -> str:
    said = getattr(error, "verify_message", "") or str(error)
    if "Key Identifier" in said or "Basic Constraints" in said:
        return f"{said}; its CA is older than RFC 5280: switch strict TLS off"
    return said


def _cause(error: Exception) -> str:
    return getattr(error, "strerror", "") or str(error) or type(error).__name__


def _showable(error: Exception) -> Exception | None:
    """The cause to chain; not those errors that carry the headers of a request."""
    return None if isinstance(error, aiohttp.ClientResponseError) else error
