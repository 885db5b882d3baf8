# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A number of workers on one queue: they live as long as this replica leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from ascendop.queue.workqueue import QueueShutDownError, WorkQueue

K = TypeVar("K", bound=Hashable)

NAME: Final = "worker"


class Workers(Generic[K]):
    """As many tasks as are wanted, also when that changes; never one task per key.

    Grows:    at once. Shrinks: idle workers end at once, the others with the key that they have.
    Loud:     what `handle` raises ends all of them; it is to raise for a lost lease only.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        handle: Callable[[K], Awaitable[None]],
        wanted: int,
        *,
        name: str = NAME,
    ) -> None:
        """`name` is that of the tasks."""
        self._queue = queue
        self._handle = handle
        self._wanted = wanted
        self._name = name
        self._group: asyncio.TaskGroup | None = None
        """None while they do not run."""
        self._all: set[asyncio.Task[None]] = set()
        self._idle: set[asyncio.Task[None]] = set()
        """Those of them that wait for a key."""

    def __len__(self) -> int:
        return len(self._all)

    def resize(self, wanted: int) -> None:
        """From now on so many."""
        self._wanted = wanted
        if self._group is None:
            return
        while len(self._all) < wanted:
            task = self._group.create_task(self._work(), name=self._name)
            self._all.add(task)
            task.add_done_callback(self._all.discard)
        for task in list(self._idle)[: len(self._all) - wanted]:
            self._dismiss(task)

    async def run(self, stop: asyncio.Event, grace_s: float) -> None:
        """Work until `stop` is set; keys that are being worked on then have `grace_s`."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.resize(self._wanted)
            try:
                await stop.wait()
                self._queue.shutdown()
                if self._all:
                    await asyncio.wait(self._all, timeout=grace_s)
            finally:
                self._group = None
            for task in self._all:  # they have had their time
                task.cancel()

    async def _work(self) -> None:
        me = asyncio.current_task()
        assert me is not None  # noqa: S101  a coroutine runs in a task
        while len(self._all) <= self._wanted:
            try:
                key = await self._next(me)
            except QueueShutDownError:
                return
            await self._handle(key)
            await asyncio.sleep(0)  # a pass without a write and a queue with keys pause nowhere
        self._all.discard(me)

    async def _next(self, me: asyncio.Task[None]) -> K:
        self._idle.add(me)
        try:
            return await self._queue.get()
        finally:
            self._idle.discard(me)

    def _dismiss(self, task: asyncio.Task[None]) -> None:
        """A worker that waits: the queue passes a key that it was woken for on to the next."""
        self._idle.discard(task)
        self._all.discard(task)
        task.cancel()
