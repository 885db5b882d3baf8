# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Writes that go out side by side: one that fails takes none of those along that were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from ascendop.kube.errors import TransportError

R = TypeVar("R")
T = TypeVar("T")

WIDEST: Final = 32  # writes of one job in flight; more only makes the API server's queue longer
LET_FINISH_S: Final = 1.0
"""For what was sent when another failed: cheaper than finding out later whether it worked."""


def slow_start(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """1, 2, 4 ... 16, and the rest: a template that always fails costs one request, not a thousand.

    The rest goes out as one, because between two batches everybody waits for the slowest.
    """
    width, start = 1, 0
    while start < len(items):
        end = start + width if width < WIDEST else len(items)
        yield items[start:end]
        start, width = end, 2 * width


async def side_by_side(works: Sequence[Callable[[], Awaitable[R]]]) -> list[R | Exception | None]:
    """How each ended, in the order of the works; 32 at a time, the next when one has ended.

    Stops:    after the first failure none is started any more; those end as None.
    Patient:  the ones that were started then have LET_FINISH_S; one that takes longer is
              cancelled and ends as a TransportError, because it may have worked.
    Raises:   CancelledError only, when the caller is cancelled, and everything with it.
    """
    if len(works) == 1:
        return [await _end_of(works[0])]
    lanes = _Lanes(works)
    return await lanes.run()


class _Lanes(Generic[R]):
    """As many works at a time as there are lanes, each taking the next when it has ended one."""

    def __init__(self, works: Sequence[Callable[[], Awaitable[R]]]) -> None:
        self._ends: list[R | Exception | None] = [None] * len(works)
        self._left = iter(enumerate(works))
        self._busy: dict[asyncio.Task[None] | None, int] = {}
        """At which work each lane is."""
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        """Set by the first failure."""

    async def run(self) -> list[R | Exception | None]:
        try:
            async with asyncio.TaskGroup() as group:
                width = min(WIDEST, len(self._ends))
                self._tasks = [group.create_task(self._lane()) for _ in range(width)]
        finally:
            if self._timer is not None:
                self._timer.cancel()
        for task in self._tasks:
            if task.cancelled():
                self._ends[self._busy[task]] = _cut_off()
        return self._ends

    async def _lane(self) -> None:
        me = asyncio.current_task()
        for index, work in self._left:
            self._busy[me] = index
            end = self._ends[index] = await _end_of(work)
            if isinstance(end, Exception) and self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(LET_FINISH_S, self._cut_off)
            if self._timer is not None:
                return

    def _cut_off(self) -> None:
        for task in self._tasks:
            task.cancel()


async def _end_of(work: Callable[[], Awaitable[R]]) -> R | Exception:
    try:
        return await work()
    except Exception as error:  # noqa: BLE001  the caller is told, after the siblings have ended
        return error


def _cut_off() -> TransportError:
    return TransportError(f"no answer within {LET_FINISH_S:g} s of a failure beside it", sent=True)
