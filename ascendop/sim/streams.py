# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Answers that are not a watch, as streams: a whole body at once, or a log as it is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from ascendop.kube.transport import Response


class WholeStream:
    """A finished answer."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.response.body:
            yield self.response.body

    async def read(self) -> bytes:
        return self.response.body

    def close(self) -> None:
        return


@dataclass(slots=True)
class TextStream:
    """A log."""

    source: AsyncGenerator[bytes, None]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/plain"})

    def chunks(self) -> AsyncGenerator[bytes, None]:
        return self.source

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.source])

    def close(self) -> None:
        return
