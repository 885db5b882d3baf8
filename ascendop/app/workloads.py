# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank tables for workloads that others run: their caches, their queue, their workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final

from ascendop.api.observed import PodView
from ascendop.app.live import correct
from ascendop.app.mirror import AnyInformer, haste_of, says_the_same
from ascendop.apply.events import EventRecorder
from ascendop.apply.execute import Executor
from ascendop.apply.plan import EventNote
from ascendop.apply.series import Reference
from ascendop.apply.tables import Tables
from ascendop.decorated.controller import TableController, World
from ascendop.decorated.kinds import VOLCANO_JOB, WORKLOADS, WorkloadKind
from ascendop.decorated.members import Members, Place
from ascendop.decorated.rows import WorkloadRow, members_form, workloads_form
from ascendop.informer.audit import sweep
from ascendop.informer.capabilities import Capabilities, Presence
from ascendop.informer.change import Change
from ascendop.informer.discovery import Discovery
from ascendop.informer.gate import FreshnessGate
from ascendop.informer.handlers import LOW
from ascendop.informer.informer import Informer
from ascendop.kube.client import Client
from ascendop.kube.resource import PODS, Key, Resource, Scope
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.pace import Haste
from ascendop.reconciler.workers import Workers
from ascendop.settings import Settings
from ascendop.telemetry.log import get_log
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.phases import Tracer

NAME: Final = "workloads"
"""Of the queue and the controller, in metrics."""
PODS_NAME: Final = "workload pods"
WANTING: Final = "wanting"
"""Index of workloads that want a table by their namespace."""
UNSETTLED: Final = frozenset({Presence.UNKNOWN, Presence.STARTING})
LOOK_S: Final = 0.05
"""How often it is asked whether the optional kind is known to be there or not."""


class Workloads:
    """Deployments, StatefulSets and Volcano Jobs beside the jobs, and apart from them.

    Apart:    queue, workers and caches of their own: a job of the same name is never disturbed.
    Frugal:   a workload that wants no table is a row of four strings; pods are mirrored only in
              namespaces with a workload that wants one.
    Not:      anything that the jobs wait for: a cluster that serves none of the kinds, or does not
              let us read them, runs jobs all the same.
    """

    def __init__(
        self,
        reader: Client,
        writer: Client,
        settings: Settings,
        *,
        queue: WorkQueue[Key],
        tables: Tables,
        recorder: EventRecorder,
        job_with_table: Callable[[str, str], str],
        gone: Callable[[WorkloadRow], None],
        metrics: Metrics,
        rng: Random,
        tracer: Tracer | None = None,
    ) -> None:
        """Must be called on the loop that will run it.

        job_with_table:  kind of the job of this namespace and name that has a rank table, or "".
        gone:            told of every workload that wants no table any more.
        """
        self.queue = queue
        self._reader, self._writer, self._settings = reader, writer, settings
        self._metrics, self._rng = metrics, rng
        self._job_with_table, self._gone = job_with_table, gone
        self.informers: dict[str, Informer[WorkloadRow]] = {
            name: self._informer(kind) for name, kind in WORKLOADS.items()
        }
        counts = metrics.informer(PODS_NAME)
        self.members = Members(
            reader,
            rng=rng,
            observer=counts,
            changed=self._pod_changed,
            filled=self._place_filled,
        )
        metrics.before_scrape(lambda: counts.refresh(_figures(self.members.informers)))
        self._gate: FreshnessGate[bool] = FreshnessGate(
            self._correct_pods, partial(queue.add, priority=0), observer=counts
        )
        self._reconciles = metrics.controller(NAME, workers=settings.workers)
        self._controller = TableController(
            queue=queue,
            world=World(
                workloads={name: informer.store for name, informer in self.informers.items()},
                pods=lambda key: self.members.find(_place(key), key.name),
                rival=self._rival,
                executor=self._executor,
            ),
            tables=tables,
            recorder=WorkloadEvents(recorder),
            freshness=self._gate,
            metrics=self._reconciles,
            timeout_s=settings.reconcile_timeout_s,
            rng=rng,
            log=get_log("ascendop.workloads"),
            tracer=tracer,
        )
        self._workers = Workers(
            queue, self._controller.handle, settings.workers, name="worker of workloads"
        )
        self._capabilities = Capabilities(
            Discovery(reader.raw).served, reader, rng=rng, changed=lambda _name, _usable: None
        )
        self._capabilities.track(self._optional)

    def _informer(self, kind: WorkloadKind) -> Informer[WorkloadRow]:
        counts = self._metrics.informer(kind.name.lower() + "s")
        informer: Informer[WorkloadRow] = Informer(
            self._reader,
            kind.resource,
            workloads_form(kind),
            rng=self._rng,
            scopes=tuple(Scope(name) for name in self._settings.namespaces or (None,)),
            indexes={WANTING: _wanting_in},
            observer=counts,
        )
        informer.handle(partial(self._workload_changed, kind))
        self._metrics.before_scrape(lambda: counts.refresh(_figures([informer])))
        return informer

    @property
    def _optional(self) -> Informer[WorkloadRow]:
        """The one whose kind need not be served."""
        return self.informers[VOLCANO_JOB.name]

    @property
    def _always(self) -> list[Informer[WorkloadRow]]:
        """Those that every cluster serves."""
        return [found for found in self.informers.values() if found is not self._optional]

    # What others ask.

    async def known(self) -> None:
        """Wait until it is known of every workload whether it is there."""
        for informer in self._always:
            await informer.synced.wait()
        kind = self._optional.resource.name
        while self._capabilities.presence(kind) in UNSETTLED:  # noqa: ASYNC110  has no event
            await asyncio.sleep(LOOK_S)

    def has(self, namespace: str, name: str) -> bool:
        """Whether a workload of that name wants a table."""
        return next(self._wanting(WORKLOADS, namespace, name), None) is not None

    def keys(self) -> list[Key]:
        """Every workload that wants a table."""
        return [
            Key(kind, row.namespace, row.name)
            for kind, informer in self.informers.items()
            for row in informer.store.rows()
            if row.facts is not None
        ]

    def wake(self, namespace: str, name: str, *, priority: int = 0) -> None:
        """Every workload of that name: who has the table of the name may have changed."""
        for kind in self._wanting(WORKLOADS, namespace, name):
            self.queue.add(Key(kind, namespace, name), priority=priority)

    # Its life.

    def standing(self) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        """What a follower runs, too; none of it ever ends by itself."""
        every_s = self._settings.resync_h * 3600
        for informer in self._always:
            yield f"informer {informer.resource.name}", informer.run()
        yield "kinds of workloads", self._capabilities.run()
        yield "pods of workloads", self.members.run()
        yield "sweep of workloads", sweep(self.keys, self._add, rng=self._rng, every_s=every_s)

    async def lead(self, stop: asyncio.Event, grace_s: float) -> None:
        """Work until the end is asked for. Raises NotLeaderError."""
        self._gate.new_term()
        for key in self.keys():
            self._add(key, priority=LOW)
        await self._workers.run(stop, grace_s)

    def change(self, settings: Settings) -> None:
        """Take in settings of which only those differ that may change while we run."""
        self._controller.timeout_s = settings.reconcile_timeout_s
        self._workers.resize(settings.workers)
        self._reconciles.has_workers(settings.workers)

    def _add(self, key: Key, *, priority: int) -> None:
        self.queue.add(key, priority=priority)

    # What the caches tell.

    def _workload_changed(self, kind: WorkloadKind, change: Change[WorkloadRow]) -> None:
        old, new, row = change.old, change.new, change.row
        key = Key(kind.name, row.namespace, row.name)
        place = Place(kind.pod_label, row.namespace)
        wanted = old is not None and old.facts is not None
        wants = new is not None and new.facts is not None
        if wants:
            self.members.want(place, row.uid)
            if old is None and not change.initial:
                self._gate.trust(key)
            low = change.initial or change.unchanged
            if low or old is None or not says_the_same(old, new):
                self.queue.add(key, priority=LOW if low else 0)
        elif wanted:
            self.members.release(place, row.uid)
            self._gate.forget(key)
            self._gone(row)
        if wants != wanted:
            self.wake(row.namespace, row.name, priority=LOW)

    def _pod_changed(self, place: Place, change: Change[PodView]) -> None:
        old, new = change.old, change.new
        low = change.initial or change.unchanged
        if not low and old is not None and new is not None and says_the_same(old, new):
            return
        haste = Haste.NOW if low else haste_of(old, new)
        names = {found.job for found in (old, new) if found is not None and found.job}
        for name in sorted(names):
            for kind in self._wanting(_kinds_at(place), place.namespace, name):
                key = Key(kind, place.namespace, name)
                after_s = self._controller.rest_s(key, haste)
                self.queue.add(key, after_s, priority=LOW if low else 0)

    def _place_filled(self, place: Place) -> None:
        """Nothing was decided there until now."""
        for kind in _kinds_at(place):
            for row in self.informers[kind].store.by_index(WANTING, place.namespace):
                self.queue.add(Key(kind, row.namespace, row.name), priority=LOW)

    def _wanting(self, kinds: Iterable[str], namespace: str, name: str) -> Iterator[str]:
        """Of these kinds the ones that have a workload of that name which wants a table."""
        for kind in kinds:
            row = self.informers[kind].store.get(namespace, name)
            if row is not None and row.facts is not None:
                yield kind

    # What a pass needs.

    def _rival(self, key: Key) -> str:
        """A job first, then the kinds in the order of WORKLOADS."""
        job = self._job_with_table(key.namespace, key.name)
        if job:
            return job
        first = next(self._wanting(WORKLOADS, key.namespace, key.name), key.kind)
        return "" if first == key.kind else first

    def _executor(self, key: Key) -> Executor | None:
        cache = self.members.cache(_place(key))
        if cache is None:
            return None
        return Executor(
            self._writer, {PODS: cache}, self._settings.field_manager, noted=self._written
        )

    def _written(self, key: Key, _resource: Resource, version: str) -> None:
        informer = self.members.informer(_place(key))
        if informer is not None:
            self._gate.note(key, informer, version)

    async def _correct_pods(self, key: Key) -> bool:
        """Read the workload's pods and note in the cache what it does not know."""
        place = _place(key)
        scope = Scope(key.namespace, labels=f"{place.label}={key.name}")
        body = await self._reader.list_page(PODS, scope, limit=0)
        page = members_form(place.label).decode_list(body)
        informer = self.members.informer(place)
        if informer is not None:
            cached = self.members.find(place, key.name) or ()
            correct(informer.store, cached, page.rows, page.version)
        return True


class WorkloadEvents:
    """Implements the controller's Recorder."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def workload_event(self, key: Key, row: WorkloadRow, note: EventNote) -> None:
        resource = WORKLOADS[key.kind].resource
        about = Reference(resource.api_version, resource.kind, row.namespace, row.name, row.uid)
        self._recorder.event(about, note.type, note.reason, note.note, note.action)


def _wanting_in(row: WorkloadRow) -> tuple[str, ...]:
    return (row.namespace,) if row.facts is not None else ()


def _place(key: Key) -> Place:
    return Place(WORKLOADS[key.kind].pod_label, key.namespace)


def _kinds_at(place: Place) -> list[str]:
    return [name for name, kind in WORKLOADS.items() if kind.pod_label == place.label]


def _figures(informers: Iterable[AnyInformer]) -> dict[str, Any]:
    """Of several informers as of one: all objects, and the one that is worst off."""
    found = [informer.figures() for informer in informers]
    worst = max(found, key=lambda figures: figures.last_event_age_s, default=None)
    return {
        "objects": sum(figures.objects for figures in found),
        "position": min((figures.position for figures in found), default=0.0),
        "last_event_age_seconds": worst.last_event_age_s if worst else 0.0,
        **({"state": worst.state} if worst else {}),
    }
