# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One call: asked at the gate, held back, sent, counted, and sent again where it may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random  # noqa: TID251  the type; the dice are an argument

from ascendop.kube.errors import ApiError, BusyError, TransportError, error_of
from ascendop.kube.gate import WriteGate
from ascendop.kube.limiter import WriteLimiter
from ascendop.kube.observer import NO_ANSWER, NobodyCounts, RequestObserver
from ascendop.kube.retry import ATTEMPTS, Repeat, may_repeat, pause_s
from ascendop.kube.transport import Request, Response, Stream, Transport
from ascendop.kube.warned import Warned

WRITES_IN_FLIGHT = 32
"""As many as the api pool has connections: more would only wait inside of it, out of sight."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})
_NOT_OK = 300  # a redirect is a no: the body may be lost, or the token sent elsewhere
_NOT_NOW = 429


@dataclass(slots=True)
class Traffic:
    """What all clients of one process share: the wire, and how much of it may be used at once."""

    transport: Transport
    host: str = ""
    """For metrics only."""
    limiter: WriteLimiter = field(default_factory=WriteLimiter)
    observer: RequestObserver = field(default_factory=NobodyCounts)
    warned: Warned = field(default_factory=Warned)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(WRITES_IN_FLIGHT))


@dataclass(frozen=True, slots=True)
class Caller:
    """Sends requests; raises ApiError for a no and TransportError for silence.

    Bounded:  the request's time-out is that of the whole call, all attempts and pauses included.
    Careful:  no request that may have worked is sent twice, unless twice is harmless.
    Cheap:    the first attempt is a bare try; policy begins after a failure.
    """

    traffic: Traffic
    rng: Random
    gate: WriteGate | None = None
    attempts: int = ATTEMPTS

    async def send(self, request: Request, repeat: Repeat) -> Response:
        """The answer, of a status below 300."""
        give_up_at = asyncio.get_running_loop().time() + request.timeout_s
        try:
            return await self._attempt(request)
        except (BusyError, TransportError) as error:
            failed = error
        return await self._insist(request, repeat, failed, give_up_at)

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        """The answer as it comes. One attempt: who reads a stream has to begin again anyway."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        code = NO_ANSWER
        try:
            async with self.traffic.transport.stream(request) as stream:
                code = str(stream.status)
                self._count(request, code, loop.time() - asked_at)
                if stream.status >= _NOT_OK:
                    raise self._refusal(request, stream.status, stream.headers, await stream.read())
                self._listen(request, stream.headers)
                yield stream
        except TransportError:
            if code is NO_ANSWER:
                self._count(request, code, loop.time() - asked_at)
            raise

    async def _insist(
        self,
        request: Request,
        repeat: Repeat,
        failed: ApiError | TransportError,
        give_up_at: float,
    ) -> Response:
        loop = asyncio.get_running_loop()
        for failures in range(1, self.attempts):
            wait_s = pause_s(failed, failures, self.rng)
            if not may_repeat(failed, repeat) or loop.time() + wait_s >= give_up_at:
                break
            await asyncio.sleep(wait_s)
            self.traffic.observer.retried(request.method, self.traffic.host, _code(failed))
            try:
                return await self._attempt(within(request, give_up_at - loop.time()))
            except (BusyError, TransportError) as error:
                failed = error
        raise failed

    async def _attempt(self, request: Request) -> Response:
        if request.method in READS:
            return await self._exchange(request)
        if request.pool == "lease":  # a flood of job writes must not starve the lease
            return await self._exchange(self._gated(request))
        await self._turn(request)
        async with self.traffic.slots:
            return await self._exchange(self._gated(request))

    def _gated(self, request: Request) -> Request:
        return request if self.gate is None else within(request, self.gate.check())

    async def _turn(self, request: Request) -> None:
        limiter, now = self.traffic.limiter, asyncio.get_running_loop().time()
        delay_s = limiter.delay_s(now)
        if delay_s >= request.timeout_s:
            raise BusyError(
                _NOT_NOW,
                f"held back by ourselves for {delay_s:.0f} s, as the server asked",
                reason="TooManyRequests",
                retry_after_s=delay_s,
                request=str(request),
            )
        wait_s = limiter.take(now)
        if wait_s > 0:
            await asyncio.sleep(wait_s)
            self.traffic.observer.throttled(request.method, self.traffic.host, wait_s)

    async def _exchange(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        try:
            response = await self.traffic.transport.send(request)
        except TransportError:
            self._count(request, NO_ANSWER, loop.time() - asked_at)
            raise
        self._count(request, str(response.status), loop.time() - asked_at)
        if response.status >= _NOT_OK:
            raise self._refusal(request, response.status, response.headers, response.body)
        self._listen(request, response.headers)
        return response

    def _count(self, request: Request, code: str, seconds: float) -> None:
        self.traffic.observer.observed(request.method, self.traffic.host, code, seconds)

    def _listen(self, request: Request, headers: Mapping[str, str]) -> None:
        warning = headers.get("warning")
        if warning is not None:
            self.traffic.warned.hear(warning, str(request))

    def _refusal(
        self, request: Request, status: int, headers: Mapping[str, str], body: bytes
    ) -> ApiError:
        error = error_of(
            status,
            body,
            retry_after_s=_seconds(headers.get("retry-after", "")),
            audit_id=headers.get("audit-id", ""),
            flow_schema=headers.get("x-kubernetes-pf-flowschema-uid", ""),
            priority_level=headers.get("x-kubernetes-pf-prioritylevel-uid", ""),
            request=str(request),
        )
        if status == _NOT_NOW and request.pool == "api":
            now = asyncio.get_running_loop().time()
            self.traffic.limiter.complain(now, error.retry_after_s)
        return error


def within(request: Request, limit_s: float) -> Request:
    """The same request, given up after `limit_s` at the latest, by us and by the server."""
    if limit_s >= request.timeout_s:
        return request
    limit_s = max(limit_s, 0.001)
    query = request.query
    if "timeout" in query:
        query = {**query, "timeout": duration(limit_s)}
    return replace(request, timeout_s=limit_s, query=query)


def duration(seconds: float) -> str:
    """As the server parses it, e.g. 30s or 7250ms."""
    whole_ms = max(1, int(seconds * 1000))
    return f"{whole_ms // 1000}s" if whole_ms % 1000 == 0 else f"{whole_ms}ms"


def _seconds(retry_after: str) -> float:
    """Of a Retry-After header; the form with a date comes from proxies and counts as one second."""
    if not retry_after:
        return 0.0
    return float(retry_after) if retry_after.isdecimal() else 1.0


def _code(failed: ApiError | TransportError) -> str:
    return str(failed.status) if isinstance(failed, ApiError) else NO_ANSWER
