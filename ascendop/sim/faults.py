# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong between a client and its server: drawn from a seed, in fixed proportions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  the type; the dice are an argument

from ascendop.kube.errors import TransportError
from ascendop.kube.transport import Request, Response, Stream
from ascendop.sim.answers import busy

_REASONS = {
    429: ("TooManyRequests", "too many requests, please try again later"),
    500: ("InternalError", "Internal error occurred: drawn from the seed"),
    503: ("ServiceUnavailable", "the server is currently unable to handle the request"),
    504: ("Timeout", "Timeout: request did not complete within the allotted timeout"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How often what goes wrong: shares of requests, from 0 to 1, and times in seconds."""

    refuse: float = 0.0
    """Connection refused: nothing was sent."""
    reset_before: float = 0.0
    """Connection reset before the server read the request; the client cannot know."""
    reset_after: float = 0.0
    """Connection reset after the effect: it worked, and nobody says so."""
    hang: float = 0.0
    """No answer until the client gives up."""
    status: Mapping[int, float] = field(default_factory=dict)
    """Answers 429, 500, 503, 504 without an effect, each with its share."""
    retry_after_s: int = 1
    """With 429 and 503."""
    delay_s: float = 0.0
    """Every request takes between nothing and this."""
    cut: float = 0.0
    """Share of watch chunks behind which the connection breaks."""
    split: float = 0.0
    """Share of watch chunks that come in two pieces, cut anywhere, also within a line."""
    truncate: float = 0.0
    """Share of watch chunks of which only a part comes before the connection breaks."""
    lag_s: float = 0.0
    """Every watch chunk is late by between nothing and this."""


class Faults:
    """One connection's bad luck.

    Seeded:   the same dice and the same requests give the same faults.
    Switched: `enabled` may be set to False at any time: then the wire is perfect.
    spare:    says which requests nothing happens to, e.g. a test's own.
    """

    def __init__(
        self,
        plan: Plan,
        rng: Random,
        *,
        spare: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        self._plan = plan
        self._rng = rng
        self._spare = spare
        self.enabled = True

    async def before(self, request: Request) -> Response | None:
        """What happens on the way there: an error, a refusal as an answer, or nothing."""
        if self._lucky(request):
            return None
        plan = self._plan
        if plan.delay_s:
            await asyncio.sleep(self._rng.uniform(0, plan.delay_s))
        if self._drawn(plan.refuse):
            raise TransportError(f"{request}: connection refused", sent=False)
        if self._drawn(plan.reset_before):
            raise TransportError(f"{request}: connection reset", sent=True)
        if self._drawn(plan.hang):
            await asyncio.sleep(request.timeout_s * 2)
        for code, share in plan.status.items():
            if self._drawn(share):
                return self._answer(code)
        return None

    async def after(self, request: Request) -> None:
        """What happens on the way back."""
        if not self._lucky(request) and self._drawn(self._plan.reset_after):
            raise TransportError(f"{request}: connection reset", sent=True)

    def through(self, request: Request, stream: Stream) -> Stream:
        """The stream, with what happens to its chunks."""
        return _Shaky(stream, self._chunks(request, stream))

    async def _chunks(self, request: Request, stream: Stream) -> AsyncIterator[bytes]:
        plan = self._plan
        async for chunk in stream.chunks():
            if self._lucky(request):
                yield chunk
                continue
            if plan.lag_s:
                await asyncio.sleep(self._rng.uniform(0, plan.lag_s))
            if self._drawn(plan.truncate):
                yield chunk[: self._rng.randrange(len(chunk))]
                raise TransportError(f"{request}: connection reset within a line", sent=True)
            if self._drawn(plan.split):
                at = self._rng.randrange(len(chunk))
                yield chunk[:at]
                chunk = chunk[at:]  # noqa: PLW2901  the rest of it
            yield chunk
            if self._drawn(plan.cut):
                raise TransportError(f"{request}: connection reset", sent=True)

    def _lucky(self, request: Request) -> bool:
        return not self.enabled or self._spare(request)

    def _drawn(self, share: float) -> bool:
        return share > 0 and self._rng.random() < share

    def _answer(self, code: int) -> Response:
        reason, message = _REASONS[code]
        after_s = self._plan.retry_after_s if code in (429, 503) else 0
        return busy(code, reason, message, after_s).response()


class _Shaky:
    def __init__(self, inner: Stream, pieces: AsyncIterator[bytes]) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self.pieces = pieces

    def chunks(self) -> AsyncIterator[bytes]:
        return self.pieces

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.pieces])


class Perfect:
    """The wire on which nothing happens."""

    async def before(self, _: Request) -> Response | None:
        return None

    async def after(self, _: Request) -> None:
        return

    def through(self, _: Request, stream: Stream) -> Stream:
        return stream


NO_FAULTS = Perfect()
