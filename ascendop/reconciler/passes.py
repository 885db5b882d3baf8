# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What workers do with the keys of one queue; errors become outcomes here and nowhere else."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random  # noqa: TID251  the type of an argument
from typing import Protocol

from ascendop.errors import AscendopError, NotLeaderError
from ascendop.kube.resource import Key
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.outcome import (
    Finished,
    GaveUp,
    Later,
    Outcome,
    TryAgain,
    outcome_of_error,
    write_down,
)
from ascendop.telemetry.log import Log, bound
from ascendop.telemetry.phases import Tracer


class Reconciles(Protocol):
    """Counts for the metrics that controller-runtime's users know."""

    def began(self) -> None: ...

    def ended(self, result: str, seconds: float) -> None: ...

    def gave_up(self) -> None: ...

    def met_a_bug(self) -> None: ...

    def timed_out(self) -> None: ...


class Passes(ABC):
    """Takes a key, makes a pass over what it names, and tells the queue how that went.

    Serial:    per key, by the queue; the trouble of one key is its own.
    Contained: whatever a pass raises becomes an outcome, but for a lost lease.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        *,
        metrics: Reconciles,
        timeout_s: float,
        rng: Random,
        log: Log,
        tracer: Tracer | None = None,
    ) -> None:
        self._queue = queue
        self._metrics = metrics
        self.timeout_s = timeout_s
        """Of one pass; may be changed at any time."""
        self._rng = rng
        self._log = log
        self._tracer = tracer

    @abstractmethod
    async def reconcile(self, key: Key) -> Outcome:
        """One pass."""

    async def handle(self, key: Key) -> None:
        """A key that the queue has handed out, until it is given back.

        Raises:  NotLeaderError when the lease is lost.
        """
        loop = asyncio.get_running_loop()
        began_at, result = loop.time(), "error"
        self._metrics.began()
        try:
            result = self._tell(key, await self.outcome_of(self.reconcile, key))
        finally:
            self._queue.done(key)
            self._metrics.ended(result, loop.time() - began_at)

    def _tell(self, key: Key, outcome: Outcome) -> str:
        """Tell the queue. The result, as the metrics call it."""
        match outcome:
            case Finished(after_s=None):
                self._queue.forget(key)
                return "success"
            case Finished(after_s=after_s):
                self._queue.forget(key)
                self._queue.add(key, after_s=after_s or 0.0, priority=None)
                return "requeue_after"
            case Later(after_s=after_s):
                self._queue.add(key, after_s=after_s, priority=None)
                return "requeue"
            case TryAgain(at_least_s=at_least_s, at_most_s=at_most_s):
                self._queue.retry(key, at_least_s=at_least_s, at_most_s=at_most_s)
                return "error"
            case GaveUp():
                self._queue.forget(key)
                self._metrics.gave_up()
                return "error"

    async def outcome_of(self, reconcile: Callable[[Key], Awaitable[Outcome]], key: Key) -> Outcome:
        """Errors become outcomes here and nowhere else. Raises NotLeaderError."""
        limit = asyncio.timeout(self.timeout_s)
        with self._described(key):
            try:
                async with limit:
                    return await reconcile(key)
            except NotLeaderError:
                raise
            except Exception as error:  # noqa: BLE001  a bug met by one job must not stop the others
                if isinstance(error, TimeoutError) and limit.expired():
                    self._metrics.timed_out()
                elif not isinstance(error, AscendopError):
                    self._metrics.met_a_bug()
                write_down(error, self._log, failures=self._queue.failures(key))
                return outcome_of_error(error)

    @contextmanager
    def _described(self, key: Key) -> Iterator[None]:
        """Every line that is written inside says which job and which pass it is about."""
        pass_id = f"{self._rng.getrandbits(32):08x}"
        with bound(kind=key.kind, namespace=key.namespace, job=key.name, reconcile=pass_id):
            if self._tracer is None:
                yield
            else:
                with self._tracer.reconcile(kind=key.kind, namespace=key.namespace, job=key.name):
                    yield
