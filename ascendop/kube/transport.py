# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One request, one answer, or one stream: the protocol, and HTTP behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

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
