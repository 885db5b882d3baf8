# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Take a key, reconcile, tell the queue; errors become outcomes here and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from traceback import format_exception
from typing import Final, Protocol

from ascendop.apply.execute import Executed, Executor
from ascendop.apply.files import SharedDirectoryError
from ascendop.apply.plan import Conclusion, EventNote, Plan
from ascendop.apply.tables import Tables, TooLargeError
from ascendop.errors import AscendopError, NotLeaderError, StaleCacheError
from ascendop.kube.errors import BusyError, ConflictError, ForbiddenError, NotFoundError
from ascendop.kube.resource import Key, Resource
from ascendop.queue.workqueue import QueueShutDownError, WorkQueue
from ascendop.reconciler.decide import decide
from ascendop.reconciler.observe import Observer
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.status import merge_patch
from ascendop.telemetry.log import Log, bound

BUG_PAUSE_S: Final = 60.0  # a bug repeats itself; a minute leaves room for the others, and the log
FORBIDDEN_PAUSE_S: Final = 30.0  # only an administrator helps
CONFLICT_S: Final = 0.02
STALE_S: Final = 1.0  # a key is woken when the cache has caught up; this is the insurance
TABLE_PAUSE_S: Final = 1.0
GATHER_S: Final = 0.02
"""A gang's pods change together: so long a pass waits for the rest of them."""
SHARE: Final = 3.0
"""Times as long as its last decision took, a job rests when nothing was lost: one of thousands of
pods leaves room for the others, and sees its pods start in tens of passes and not in thousands."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is open. With `after_s`, look again then."""

    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Something is open; the key's own back-off decides when, but not before `at_least_s`."""

    why: str
    at_least_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Later:
    """The cache is behind our own writes; look again when it has caught up. No failure."""

    after_s: float


Outcome = Finished | TryAgain | Later


class Recorder(Protocol):
    """Where Events go."""

    def job_event(self, snapshot: AnySnapshot, note: EventNote) -> None: ...


class Freshness(Protocol):
    """Whether the caches have seen our own last writes for a job."""

    async def fresh(self, key: Key) -> bool | None:
        """True when a live read has corrected the caches, so that all is to be decided anew.

        Raises:  StaleCacheError when a destructive decision must wait.
        """
        ...


class Reconciles(Protocol):
    """Counts for the metrics that controller-runtime's users know."""

    def began(self) -> None: ...

    def ended(self, result: str, seconds: float) -> None: ...

    def met_a_bug(self) -> None: ...

    def timed_out(self) -> None: ...


class Controller:
    """Workers over one queue of jobs of all kinds.

    Serial per job, by the queue; a job's trouble is its own. Every pass begins from a fresh
    snapshot and ends with at most one status write.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        observer: Observer,
        executor: Executor,
        tables: Tables,
        recorder: Recorder,
        freshness: Freshness,
        metrics: Reconciles,
        timeout_s: float,
        log: Log,
    ) -> None:
        self._queue = queue
        self._observer = observer
        self._executor = executor
        self._tables = tables
        self._recorder = recorder
        self._freshness = freshness
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._log = log
        self._took_s: dict[Key, float] = {}
        """What the decision of the last pass took."""

    async def work(self) -> None:
        """One worker, until the queue shuts down or the lease is lost."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDownError:
                return
            began = loop.time()
            self._metrics.began()
            result = "error"
            try:
                outcome = await self.outcome_of(self.reconcile, key)
                result = self._tell(key, outcome)
            finally:
                self._queue.done(key)
                self._metrics.ended(result, loop.time() - began)

    def rest_s(self, key: Key) -> float:
        """How long a pass for which nobody waits may gather further changes."""
        return max(GATHER_S, SHARE * self._took_s.get(key, 0.0))

    def _tell(self, key: Key, outcome: Outcome) -> str:
        match outcome:
            case Finished(after_s=None):
                self._queue.forget(key)
                return "success"
            case Finished(after_s=after_s):
                self._queue.forget(key)
                self._queue.add(key, after_s=after_s or 0.0)
                return "requeue_after"
            case Later(after_s=after_s):
                self._queue.add(key, after_s=after_s)
                return "requeue"
            case TryAgain(at_least_s=at_least_s):
                self._queue.retry(key, at_least_s=at_least_s)
                return "error"

    async def outcome_of(self, reconcile: Callable[[Key], Awaitable[Outcome]], key: Key) -> Outcome:
        """Errors become outcomes here and nowhere else."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await reconcile(key)
        except NotLeaderError:
            raise
        except Exception as error:  # noqa: BLE001  a bug met by one job must not stop the others
            with bound(kind=key.kind, namespace=key.namespace, job=key.name):
                self._count(error)
                _write_down(error, self._log)
                return _outcome_of(error)

    def _count(self, error: Exception) -> None:
        if isinstance(error, TimeoutError):
            self._metrics.timed_out()
        elif not isinstance(error, AscendopError):
            self._metrics.met_a_bug()

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one job."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            self._took_s.pop(key, None)
            return Finished()
        plan = decide(snapshot)
        self._took_s[key] = loop.time() - began
        if plan.destructive and await self._freshness.fresh(key):
            # The caches were not to be trusted; now they hold what the server said a moment ago.
            snapshot = self._observer.snapshot(key)
            if snapshot is None:
                return Finished()
            plan = decide(snapshot)
        if plan.absent is not None and await self._executor.exists(plan.absent):
            return Later(STALE_S)  # the cache will have it in a moment
        executed = await self._executor.run(key, plan.steps)
        conclusion = plan.conclude(executed.done)
        if conclusion is not None:
            await self._conclude(key, snapshot, conclusion)
        if executed.trouble is not None:
            raise executed.trouble
        return await self._outcome(snapshot, plan, executed)

    async def _conclude(self, key: Key, snapshot: AnySnapshot, conclusion: Conclusion) -> None:
        row = snapshot.row
        patch = merge_patch(snapshot.status, conclusion.status)
        if patch:
            version = self._observer.version_of(snapshot) or row.version
            try:
                await self._executor.status(key, _resource(snapshot), version, patch)
            except NotFoundError:
                return  # deleted meanwhile; nobody is left to be told
        for note in conclusion.events:
            self._recorder.job_event(snapshot, note)

    async def _outcome(self, snapshot: AnySnapshot, plan: Plan, executed: Executed) -> Outcome:
        if executed.done.failures:
            refused = not all(failure.waits for failure in executed.done.failures)
            return TryAgain(executed.done.failures[0].message, at_least_s=5.0 if refused else 1.0)
        if plan.at_once:
            return Finished(after_s=0.0)
        again_s = plan.again_after_s
        if plan.table is not None:
            row = snapshot.row
            open_s = await self._tables.fulfil(row.namespace, row.uid, plan.table)
            again_s = min((s for s in (again_s, open_s) if s is not None), default=None)
        return Finished(again_s)


def _resource(snapshot: AnySnapshot) -> Resource:
    kind = snapshot.kind
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


def _outcome_of(error: Exception) -> Outcome:
    """What the queue is told of an error."""
    match error:
        case StaleCacheError():
            return Later(STALE_S)
        case ConflictError():
            pause_s = CONFLICT_S
        case SharedDirectoryError() | TooLargeError():
            pause_s = TABLE_PAUSE_S
        case ForbiddenError():
            pause_s = FORBIDDEN_PAUSE_S
        case BusyError():
            pause_s = error.retry_after_s
        case AscendopError() | TimeoutError():
            pause_s = 0.0
        case _:
            pause_s = BUG_PAUSE_S
    return TryAgain(str(error) or repr(error), at_least_s=pause_s)


def _write_down(error: Exception, log: Log) -> None:
    """What the log is told of it: nothing of what goes by itself."""
    match error:
        case StaleCacheError() | BusyError():
            return
        case ConflictError():
            log.debug("conflict", err=str(error))
        case ForbiddenError():
            log.error("forbidden", err=str(error), audit_id=error.audit_id)
        case AscendopError():
            log.warning("not done", err=str(error))
        case TimeoutError():
            log.error("reconcile took too long")
        case _:
            log.error("bug", err=repr(error), traceback="".join(format_exception(error)))
