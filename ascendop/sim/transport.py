# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The wire between a client and the simulator in the same process, in virtual or real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ascendop.kube.errors import TransportError
from ascendop.kube.transport import Request, Response, Stream
from ascendop.sim.faults import NO_FAULTS, Faults, Perfect
from ascendop.sim.server import ADMIN, ApiServer
from ascendop.sim.streams import WholeStream


class SimTransport:
    """A Transport to a server object.

    Yields:   once per request at least, so that other tasks run between two requests as they do
              over a network.
    Honest:   with faults, a TransportError says `sent` exactly when the request may have worked.
    """

    def __init__(
        self, server: ApiServer, *, user: str = ADMIN, faults: Faults | Perfect = NO_FAULTS
    ) -> None:
        self._server = server
        self._user = user
        self._faults = faults
        self._closed = False

    async def send(self, request: Request) -> Response:
        self._check()
        try:
            async with asyncio.timeout(request.timeout_s):
                await asyncio.sleep(0)
                early = await self._faults.before(request)
                if early is not None:
                    return early
                answer = await self._server.handle(request, user=self._user)
                await self._faults.after(request)
                return answer
        except TimeoutError as error:
            raise TransportError(f"{request}: timed out", sent=True) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self._check()
        try:
            async with asyncio.timeout(request.timeout_s):
                await asyncio.sleep(0)
                early = await self._faults.before(request)
        except TimeoutError as error:
            raise TransportError(f"{request}: timed out", sent=True) from error
        if early is not None:
            yield WholeStream(early)
            return
        answer = self._server.open(request, user=self._user)
        try:
            yield self._faults.through(request, answer)
        finally:
            answer.close()

    async def close(self) -> None:
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
