# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One pass over a job: look, decide, write, say how it stands, and keep its rank table."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random  # noqa: TID251  the type of an argument
from typing import Final, Protocol
from weakref import WeakValueDictionary

from ascendop.api.model import Object
from ascendop.apply.execute import Executed, Executor
from ascendop.apply.plan import (
    Answer,
    Apply,
    Conclusion,
    Create,
    Delete,
    Done,
    EventNote,
    Plan,
    Question,
    Written,
)
from ascendop.apply.tables import Tables
from ascendop.errors import AscendopError, InvalidJobError
from ascendop.kube.errors import ConflictError, NotFoundError
from ascendop.kube.resource import Key
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.decide import decide
from ascendop.reconciler.finish import job_resource
from ascendop.reconciler.leftovers import told_in_time
from ascendop.reconciler.observe import Observer
from ascendop.reconciler.outcome import (
    Finished,
    Later,
    NoStatusError,
    Outcome,
    outcome_of_failures,
)
from ascendop.reconciler.pace import Haste, Pace
from ascendop.reconciler.passes import Passes, Reconciles
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.status import is_final, is_restarting, is_suspended, merge_patch
from ascendop.reconciler.table import told
from ascendop.telemetry.log import Log
from ascendop.telemetry.phases import Phases, Tracer

IN_PLACE: Final = 3
"""Conflicts over a status that are settled at once; more would be a war with another writer."""
JITTER_S: Final = (0.01, 0.05)
_AT_ONCE: Final = Finished(after_s=0.0)
SOON_S: Final = 1.0  # the cache will have in a moment what the server has


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


@dataclass(frozen=True, slots=True)
class _Pass:
    """One look at a job, and what it led to."""

    snapshot: AnySnapshot
    plan: Plan
    answer: Answer | None = None
    """To what had to be asked before anything could be decided."""


class Controller(Passes):
    """What workers do with the keys of one queue, for jobs of all kinds.

    Fresh:    every pass begins with a new snapshot, and ends with at most one status write.
    Calm:     a status is written four times a second at most; the first, an end, a sleep, a
              restart and a refusal do not wait. What is put off is said in the next pass, with its
              Events.
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
        rng: Random,
        log: Log,
        tracer: Tracer | None = None,
    ) -> None:
        super().__init__(
            queue, metrics=metrics, timeout_s=timeout_s, rng=rng, log=log, tracer=tracer
        )
        self._observer = observer
        self._executor = executor
        self._tables = tables
        self._recorder = recorder
        self._freshness = freshness
        self._pace: Pace[Key] = Pace()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Jobs of one rule make pods one after the other; kept as long as one of them does."""
        self._untold: dict[Key, tuple[str, tuple[Written, ...]]] = {}
        """What was done and not told yet, because the status was not written; with the UID."""

    def rest_s(self, key: Key, haste: Haste) -> float:
        """How long a pass may gather further changes before it begins."""
        return self._pace.rest_s(key, haste, asyncio.get_running_loop().time())

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one job."""
        phases = Phases(asyncio.get_running_loop().time, self._tracer)
        try:
            outcome = await self._reconcile(key, phases)
            if outcome == _AT_ONCE:
                # A turn in the queue may be long, and a gang waits for the rest.
                outcome = await self._reconcile(key, phases)
            return outcome
        finally:
            phases.finish(self._log)

    async def _reconcile(self, key: Key, phases: Phases) -> Outcome:
        with phases.phase("read"):
            found = await self._decided(key)
        if found is None:
            self._untold.pop(key, None)
            self._pace.forget(key)
            return Finished()
        if found.plan.question is None:
            return await self._carry_out(key, found, phases)
        async with self._turns.setdefault(found.plan.question.turn, asyncio.Lock()):
            return await self._answered(key, found.plan.question, phases)

    async def _answered(self, key: Key, question: Question, phases: Phases) -> Outcome:
        """As for any other job, once it is known what the rule says."""
        with phases.phase("read"):
            found = await self._decided(key, await self._executor.answer(question))
        if found is None or found.plan.question is not None:
            return Later(SOON_S)  # it was changed while it waited for its turn
        return await self._carry_out(key, found, phases)

    async def _carry_out(self, key: Key, found: _Pass, phases: Phases) -> Outcome:
        plan = found.plan
        if plan.absent is not None and await self._executor.exists(plan.absent):
            return Later(SOON_S)
        with phases.phase("withdraw"):
            await self._withdraw(found)
        with phases.phase("write"):
            executed = await self._executor.run(key, plan.steps)
        with phases.phase("status"):
            wait_s = await self._conclude(key, found, executed)
        if executed.trouble is not None:
            raise executed.trouble
        with phases.phase("table"):
            try:
                outcome = await self._outcome(found, executed.done)
            except AscendopError:
                # What there is to tell is told first; then the table is tried again.
                outcome = Finished(0.0 if self._has_table_news(found.snapshot) else wait_s)
                if outcome == Finished():
                    raise
        return _not_after(outcome, wait_s)

    async def _withdraw(self, found: _Pass) -> None:
        """A rank table that is wrong now is called so before a new pod can read it.

        Also that of the job that had the name before: the first pods of a job may read, too.
        Where that fails, the pods do not wait: it is tried again, and told, at the end of the pass.
        """
        table, row = found.plan.table, found.snapshot.row
        if table is not None and table.only_over_completed:
            with suppress(AscendopError):
                await self._tables.fulfil(row.namespace, row.uid, table)

    async def _decided(self, key: Key, answer: Answer | None = None) -> _Pass | None:
        """A plan that may be executed; None when there is no such job.

        Raises:  StaleCacheError when something is to be destroyed and the caches are behind.
        """
        found = self._look(key, answer)
        if found is not None and found.plan.destructive and await self._freshness.fresh(key):
            # The caches were not to be trusted; now they hold what the server said a moment ago.
            found = self._look(key, answer)
        return found

    def _look(self, key: Key, answer: Answer | None) -> _Pass | None:
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        snapshot = self._observer.snapshot(key)
        if snapshot is None:
            return None
        if answer is not None:
            snapshot = replace(snapshot, world=replace(snapshot.world, answer=answer))
        standing = self._tables.standing(snapshot.row.uid)
        if standing is not None:
            snapshot = replace(snapshot, table=standing)
        found = _Pass(snapshot, decide(snapshot), answer)
        now = loop.time()
        self._pace.decided(key, now, now - began_at)
        return found

    async def _conclude(self, key: Key, found: _Pass, executed: Executed) -> float | None:
        """Write how the job stands, and tell its Events. Seconds to wait if it was put off."""
        uid = found.snapshot.row.uid
        of, untold = self._untold.pop(key, ("", ()))
        done = executed.done
        if of == uid:
            done = replace(done, written=(*untold, *done.written))
        try:
            wait_s = await self._settle(key, found, done, executed.job_version)
        except NotFoundError:
            await self._demand_status(key, found.snapshot)
            return None  # deleted meanwhile; nobody is left to be told
        except AscendopError:
            self._untold[key] = (uid, done.written)
            raise
        if wait_s is not None:
            self._untold[key] = (uid, done.written)
        return wait_s

    async def _demand_status(self, key: Key, s: AnySnapshot) -> None:
        """Raises NoStatusError when the job is there and only its status cannot be written."""
        resource = job_resource(s)
        with suppress(NotFoundError):
            await self._executor.refresh(key, resource)
            now = self._observer.snapshot(key)
            if now is not None and now.row.uid == s.row.uid:
                raise NoStatusError(f"{resource.plural}.{resource.group}")

    async def _settle(self, key: Key, found: _Pass, done: Done, version: str) -> float | None:
        """As `_conclude`; who finds another writer's status decides again over that one."""
        for _ in range(IN_PLACE):
            try:
                return await self._say(key, found, done, version)
            except ConflictError:
                await asyncio.sleep(self._rng.uniform(*JITTER_S))
            await self._executor.refresh(key, job_resource(found.snapshot))
            again = await self._decided(key, found.answer)
            if again is None or again.snapshot.row.uid != found.snapshot.row.uid:
                return None
            found, version = again, ""
        return await self._say(key, found, done, version)

    async def _say(self, key: Key, found: _Pass, done: Done, version: str) -> float | None:
        s = found.snapshot
        conclusion = found.plan.conclude(told_in_time(done, s))
        if conclusion is None:
            return None
        patch = merge_patch(s.status, conclusion.status)
        if patch:
            now = asyncio.get_running_loop().time()
            urgent = not s.conditions or done.failures or _must_be_known(s.status, conclusion)
            if not urgent:
                counters = _is_progress(s, patch, conclusion)
                wait_s = self._pace.wait_s(key, now, counters=counters)
                if wait_s > 0:
                    return wait_s
            await self._executor.status(key, job_resource(s), version or s.row.version, patch)
            self._pace.wrote(key, now)
        if patch or done.written:
            self._write_down(done, conclusion.status)
        for note in conclusion.events:
            self._recorder.job_event(s, note)
        return None

    def _write_down(self, done: Done, status: Object) -> None:
        """One line for a pass that changed something."""
        did = Counter(type(written.write) for written in done.written)
        last = (status.get("conditions") or [{}])[-1]
        self._log.info(
            "reconciled",
            verdict=last.get("type", ""),
            reason=last.get("reason", ""),
            created=did[Create],
            deleted=did[Delete],
            applied=did[Apply],
            refused=len(done.failures),
        )

    def _has_table_news(self, s: AnySnapshot) -> bool:
        """Whether the next pass has something to tell of the rank table."""
        standing = self._tables.standing(s.row.uid)
        return standing != s.table and told(s.conditions, standing, s.now) != s.conditions

    async def _outcome(self, found: _Pass, done: Done) -> Outcome:
        plan, row = found.plan, found.snapshot.row
        if done.failures:
            return outcome_of_failures(done.failures)
        if plan.at_once:
            return _AT_ONCE
        again_s = plan.again_after_s
        if plan.table is not None:
            if (lacks := plan.table.lacks) is not None:
                self._log.debug("no rank table yet", why=f"{lacks.reason}: {lacks.message}")
            open_s = await self._tables.fulfil(row.namespace, row.uid, plan.table)
            if self._has_table_news(found.snapshot):
                return Finished(after_s=0.0)
            again_s = min((s for s in (again_s, open_s) if s is not None), default=None)
        return Finished(again_s)


def _must_be_known(before: Object, conclusion: Conclusion) -> bool:
    """An end, the begin or end of a sleep, the begin of a restart, what a rest depends on.

    Who decides next has to know of them; of a restart nothing can be seen any more in the next
    pass, when the failed pod is gone.
    """
    after = conclusion.status
    restarts = is_restarting(after) and not is_restarting(before)
    slept = is_suspended(after) != is_suspended(before)
    return conclusion.at_once or is_final(after) or slept or restarts


def _is_progress(s: AnySnapshot, patch: Object, conclusion: Conclusion) -> bool:
    """Pods of a gang start one after the other: not all run yet, and soon it is another number."""
    status = conclusion.status
    last = (status.get("conditions") or [{}])[-1]
    if patch.keys() - {"replicaStatuses", "conditions"} or last.get("type") != "Running":
        return False
    active = sum(counts.get("active", 0) for counts in status["replicaStatuses"].values())
    return not isinstance(s.job, InvalidJobError) and bool(active < s.job.total)


def _not_after(outcome: Outcome, wait_s: float | None) -> Outcome:
    """The outcome, with a look after `wait_s`: a status waits to be written."""
    if wait_s is None or not isinstance(outcome, Finished):
        return outcome
    return Finished(wait_s if outcome.after_s is None else min(wait_s, outcome.after_s))
