# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Writes that go out side by side: one that fails takes none of those along that were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeVar

from ascendop.kube.errors import TransportError

R = TypeVar("R")
T = TypeVar("T")

WIDEST: Final = 32  # writes of one job in flight; more only makes the API server's queue longer
LET_FINISH_S: Final = 1.0
"""For what was sent when another failed: cheaper than finding out later whether it worked."""


def slow_start(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """1, 2, 4 ... 32 at a time: a template that always fails costs one request, not a thousand."""
    width, start = 1, 0
    while start < len(items):
        yield items[start : start + width]
        start, width = start + width, min(2 * width, WIDEST)


async def side_by_side(works: Sequence[Callable[[], Awaitable[R]]]) -> list[R | Exception]:
    """How each ended, in the order of the works.

    Patient:  after the first failure the others have LET_FINISH_S; one that takes longer is
              cancelled and ends as a TransportError, because it may have worked.
    Raises:   CancelledError only, when the caller is cancelled, and everything with it.
    """
    if len(works) == 1:
        return [await _end_of(works[0])]
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()

    async def one(work: Callable[[], Awaitable[R]]) -> R | Exception:
        end = await _end_of(work)
        if isinstance(end, Exception) and not timers:
            timers.append(loop.call_later(LET_FINISH_S, _cancel, tasks))
        return end

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(work)) for work in works]
    finally:
        for timer in timers:
            timer.cancel()
    return [_cut_off() if task.cancelled() else task.result() for task in tasks]


async def _end_of(work: Callable[[], Awaitable[R]]) -> R | Exception:
    try:
        return await work()
    except Exception as error:  # noqa: BLE001  the caller is told, after the siblings have ended
        return error


def _cancel(tasks: Sequence[asyncio.Task[R | Exception]]) -> None:
    for task in tasks:
        task.cancel()


def _cut_off() -> TransportError:
    return TransportError(f"no answer within {LET_FINISH_S:g} s of a failure beside it", sent=True)
