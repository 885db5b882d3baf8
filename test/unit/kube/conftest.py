# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A server that answers by script, in virtual time, behind the transport protocol."""

import asyncio
from contextlib import asynccontextmanager
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest

from ascendop.kube.client import Client
from ascendop.kube.transport import Response


class Scripted:
    """Answers in the order of the script, then 200 for ever. An error in the script is raised."""

    def __init__(self, *script, takes_s=0.0):
        self.script = list(script)
        self.takes_s = takes_s
        self.seen = []
        self.seen_at = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def send(self, request):
        self.seen.append(request)
        self.seen_at.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.takes_s)
            answer = self.script.pop(0) if self.script else reply(200)
            if isinstance(answer, Exception):
                raise answer
            return answer(request) if callable(answer) else answer
        finally:
            self.in_flight -= 1

    @asynccontextmanager
    async def stream(self, request):
        answer = await self.send(request)
        yield Pieces(answer)

    async def close(self):
        self.script = None

    def client(self, **options):
        return Client(self, rng=Random(7), **options)


class Pieces:
    """A stream over a whole answer, or over an endless silence when the body is None."""

    def __init__(self, answer):
        self.status, self.headers, self.body = answer.status, answer.headers, answer.body

    async def chunks(self):
        if self.body is None:
            await asyncio.sleep(1e6)
        yield self.body

    async def read(self):
        return self.body


def reply(status, body=None, **headers):
    """An answer; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        body = {"kind": "Status", "code": status, "message": "no"} if status >= 300 else {}
    return Response(status, named, body if isinstance(body, bytes) else orjson.dumps(body))


@pytest.fixture
def scripted():
    return Scripted


@pytest.fixture(name="reply")
def _reply():
    return reply
