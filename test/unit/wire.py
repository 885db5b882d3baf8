# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The wire to the simulator's server, with a look at every request, and bad luck to order."""

import asyncio
from contextlib import asynccontextmanager

import orjson

from ascendop.kube.errors import TransportError
from ascendop.sim.answers import RefusedError
from ascendop.sim.transport import SimTransport


class Wire:
    """A Transport. What was sent is in `sent`; hooks see each request on its way there and back.

    A hook is called with the request and may await. RefusedError answers it, TransportError breaks
    the connection; whatever a hook of `before` raises, the server has not seen the request.
    """

    def __init__(self, server, **options):
        self._inner = SimTransport(server, **options)
        self.sent = []
        self.before = []
        self.after = []
        self.watches = []

    async def send(self, request):
        self.sent.append(request)
        try:
            for hook in list(self.before):
                await hook(request)
            answer = await self._inner.send(request)
            for hook in list(self.after):
                await hook(request)
        except RefusedError as error:
            return error.response()
        return answer

    @asynccontextmanager
    async def stream(self, request):
        self.watches.append(request)
        for hook in list(self.before):
            await hook(request)
        async with self._inner.stream(request) as stream:
            yield stream

    async def close(self):
        await self._inner.close()

    def writes(self, plural="", *, since=0):
        """Method and path end of what was written, of one resource or of all."""
        return [
            (request.method, request.path.rsplit("/", 1)[-1])
            for request in self.sent[since:]
            if request.method not in {"GET", "HEAD"}
            and (not plural or f"/{plural}" in request.path)
        ]

    def bodies(self, method, plural):
        return [
            orjson.loads(request.body or b"{}")
            for request in self.sent
            if request.method == method and f"/{plural}" in request.path
        ]


def refuse(matches, error, *, times=None):
    """A hook that answers matching requests so, `times` times or for ever."""
    left = [times]

    async def hook(request):
        if not matches(request) or left[0] == 0:
            return
        if left[0] is not None:
            left[0] -= 1
        raise error

    return hook


def reset(matches, *, times=None):
    """A hook that breaks the connection; on the way back nobody knows that it worked."""
    return refuse(matches, TransportError("connection reset", sent=True), times=times)


def slow(matches, seconds):
    async def hook(request):
        if matches(request):
            await asyncio.sleep(seconds)

    return hook


def is_write(method, plural, name=""):
    def matches(request):
        last = request.path.rstrip("/").rsplit("/", 1)[-1]
        return (
            request.method == method
            and f"/{plural}" in request.path
            and (not name or last == name or orjson.loads(request.body)["metadata"]["name"] == name)
        )

    return matches
