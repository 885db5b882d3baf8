# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One pass over a workload: ranks for its pods, then its rank table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random  # noqa: TID251  the type of an argument
from typing import Final, Protocol

from ascendop.api.observed import PodView
from ascendop.apply.execute import Executor
from ascendop.apply.plan import EventNote, Step, TableWish
from ascendop.apply.standing import MISSING, Standing, standing_of_error
from ascendop.apply.tables import Tables
from ascendop.decorated.decide import Decision, decide
from ascendop.decorated.kinds import WORKLOADS
from ascendop.decorated.rows import WorkloadRow
from ascendop.errors import AscendopError
from ascendop.informer.store import Store
from ascendop.kube.resource import Key
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.controller import Freshness
from ascendop.reconciler.outcome import Finished, Outcome, outcome_of_failures
from ascendop.reconciler.pace import Haste, Pace
from ascendop.reconciler.passes import Passes, Reconciles
from ascendop.telemetry.log import Log
from ascendop.telemetry.phases import Tracer

AT_ONCE: Final = 0.0


class Recorder(Protocol):
    """Where Events go."""

    def workload_event(self, key: Key, row: WorkloadRow, note: EventNote) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    """What a pass looks at."""

    workloads: Mapping[str, Store[WorkloadRow]]
    """By kind."""
    pods: Callable[[Key], list[PodView] | None]
    """Those that carry the workload's name; None while they are not known."""
    rival: Callable[[Key], str]
    """Kind of what else has the name, and its table; empty for nothing."""
    executor: Callable[[Key], Executor | None]
    """Who writes on the workload's pods; None when nobody mirrors them any more."""


class TableController(Passes):
    """What workers do with the keys of workloads that others run.

    Small:    writes ranks on pods, and the table; never the workload.
    Ranks:    are given on caches that have seen our own last ones, and in a new term on a live
              read, so that neither a crash nor a change of leaders gives one twice.
    Brief:    a user is told of what is wrong when it begins or changes, once.
    """

    def __init__(
        self,
        *,
        queue: WorkQueue[Key],
        world: World,
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
        self._world = world
        self._tables = tables
        self._recorder = recorder
        self._freshness = freshness
        self._pace: Pace[Key] = Pace()
        self._told: dict[Key, tuple[str, str]] = {}
        """Uid and text of what its user was told last, while it is still so."""

    def rest_s(self, key: Key, haste: Haste) -> float:
        """How long a pass may gather further changes before it begins."""
        return self._pace.rest_s(key, haste, asyncio.get_running_loop().time())

    async def reconcile(self, key: Key) -> Outcome:
        """One pass over one workload."""
        row = self._world.workloads[key.kind].get(key.namespace, key.name)
        if row is None or row.facts is None:
            self._told.pop(key, None)
            self._pace.forget(key)
            return Finished()
        decision = self._decided(key, row)
        if decision is not None and decision.ranks and await self._freshness.fresh(key):
            decision = self._decided(key, row)
        if decision is None:
            return Finished()  # the pods wake it when they are known
        if decision.ranks:
            return await self._rank(key, decision)
        if self._world.rival(key):
            # Another's table stands there: what we wrote before says nothing any more.
            await self._tables.forget(row.uid, row.namespace, row.name, inherited=True)
        if decision.waits:
            self._log.debug("no rank table yet", why=decision.waits)
        if decision.table is None:
            self._say(key, row, decision.note)
            return Finished()
        again_s = await self._keep(key, row, decision.table)
        self._say(key, row, decision.note or self._without_place(row))
        return Finished(again_s)

    def _decided(self, key: Key, row: WorkloadRow) -> Decision | None:
        """None while its pods are not known."""
        pods = self._world.pods(key)
        if pods is None:
            return None
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        found = decide(WORKLOADS[key.kind], row, pods, rival=self._world.rival(key))
        now = loop.time()
        self._pace.decided(key, now, now - began_at)
        return found

    async def _rank(self, key: Key, decision: Decision) -> Outcome:
        """Write ranks; the table is decided when the answers are in the cache."""
        executor = self._world.executor(key)
        if executor is None:
            return Finished()
        executed = await executor.run(key, (Step("ranks", decision.ranks),))
        if executed.trouble is not None:
            raise executed.trouble
        if executed.done.failures:
            return outcome_of_failures(executed.done.failures)
        self._log.info("ranks given", pods=len(executed.done.written))
        return Finished(AT_ONCE)

    async def _keep(self, key: Key, row: WorkloadRow, wish: TableWish) -> float | None:
        try:
            return await self._tables.fulfil(row.namespace, row.uid, wish)
        except AscendopError as error:
            trouble = standing_of_error(error, row.namespace, wish)
            if trouble is not None:
                self._say(key, row, _warning(trouble))
            raise

    def _without_place(self, row: WorkloadRow) -> EventNote | None:
        """What its user has to hear where the table is asked for, and there is no place for it."""
        standing = self._tables.standing(row.uid)
        return _warning(standing) if standing and standing.reason == MISSING else None

    def _say(self, key: Key, row: WorkloadRow, note: EventNote | None) -> None:
        if note is None:
            self._told.pop(key, None)
            return
        saying = row.uid, note.note
        if self._told.get(key) != saying:
            self._told[key] = saying
            self._recorder.workload_event(key, row, note)


def _warning(standing: Standing) -> EventNote:
    return EventNote("Warning", "NoRankTable", f"{standing.reason}: {standing.message}")
