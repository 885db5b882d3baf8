# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The wiring: the one file that knows every room, and the one TaskGroup that owns every task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final

from ascendop.api.kind import JobKind
from ascendop.api.observed import JobRow, PodView
from ascendop.apply.caches import Cache
from ascendop.apply.events import EventRecorder
from ascendop.apply.execute import Executor
from ascendop.apply.plan import EventNote
from ascendop.apply.series import Reference
from ascendop.apply.tables import Tables
from ascendop.builder import labels as keys
from ascendop.clock import WallClock
from ascendop.informer import rows
from ascendop.informer.change import Change
from ascendop.informer.informer import Informer, all_synced
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.gate import WriteGate
from ascendop.kube.resource import (
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SERVICES,
    Key,
    Resource,
    Scope,
)
from ascendop.leader.gate import AlwaysLeads
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.controller import Controller
from ascendop.reconciler.observe import OWNER, Observer, Stores
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.settings import Settings
from ascendop.telemetry.log import get_log

log = get_log(__name__)

AnyKind = JobKind[Any]
SWEPT: Final = -100  # priority of keys to which nothing happened
LOST_POD: Final = 10  # a job that lost a pod has waited for a person's machine, not for a scan
DELETED: Final = 50


def resource_of(kind: AnyKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


def kinds_of(settings: Settings) -> Mapping[str, AnyKind]:
    """The kinds to run. Raises UsageError for a name that is none."""
    return {
        name: kind
        for name, kind in load_kinds().items()
        if not settings.kinds or name in settings.kinds
    }


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this replica is."""

    name: str
    namespace: str


class Operator:
    """One replica: mirrors the cluster always, and acts while it leads.

    Warm:   a follower has filled caches and a filled queue; taking over costs no list.
    Clean:  `run` returns after the last write has ended and the lease was given back.
    Loud:   a task that dies takes the process with it.
    """

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        identity: Identity,
        wall: WallClock,
        rng: Random,
    ) -> None:
        """Must be called on the loop that will run it."""
        self._settings = settings
        self._kinds = kinds_of(settings)
        self._rng = rng
        self._elector = (
            self._make_elector(client, identity, wall) if settings.leader_elect else None
        )
        gate: WriteGate = self._elector.gate if self._elector else AlwaysLeads()
        self._reader = client.sibling("informer")
        writer = client.sibling("reconciler", gate=gate)
        self._queue: WorkQueue[Key] = WorkQueue("jobs", rng=rng, fair_by=_namespace_of)
        self._forms = _Forms()
        self._mirror()
        self._recorder = EventRecorder(
            client.sibling("events", gate=gate), instance=identity.name, wall=wall, rng=rng
        )
        self._tables = Tables(writer, wall, _table_root(settings))
        self._observer = Observer(self._kinds, self._stores(), wall, gangs=self._gangs())
        self._controller = Controller(
            queue=self._queue,
            observer=self._observer,
            executor=Executor(writer, self._caches(), settings.field_manager),
            tables=self._tables,
            recorder=_JobEvents(self._recorder),
            freshness=_AlwaysFresh(),
            metrics=_Uncounted(),
            log=get_log("ascendop.controller"),
        )

    # What is mirrored.

    def _mirror(self) -> None:
        ours = self._scopes(labels=keys.JOB_NAME)
        everywhere = (Scope(),)
        clusterd = Scope(
            self._settings.clusterd_namespace,
            fields=f"metadata.name={self._settings.clusterd_service}",
        )
        forms = self._forms
        self.pods = self._informer(PODS, forms.pods, ours, owned=True)
        self.services = self._informer(SERVICES, forms.services, ours, owned=True)
        self.groups = self._informer(POD_GROUPS, forms.groups, self._scopes(), owned=True)
        self.queues = self._informer(QUEUES, forms.queues, everywhere)
        self.priorities = self._informer(PRIORITY_CLASSES, forms.priorities, everywhere)
        self.clusterd = self._informer(SERVICES, forms.services, (clusterd,))
        self.jobs = {
            name: self._informer(resource_of(kind), forms.jobs, self._scopes())
            for name, kind in self._kinds.items()
        }
        for children in (self.pods, self.services, self.groups):
            children.handle(self._child_changed)
        for name, informer in self.jobs.items():
            informer.handle(self._job_handler(name))

    def _scopes(self, labels: str = "") -> tuple[Scope, ...]:
        names = self._settings.namespaces or (None,)
        return tuple(Scope(name, labels=labels) for name in names)

    def _informer(
        self, resource: Resource, form: Any, scopes: tuple[Scope, ...], *, owned: bool = False
    ) -> Informer[Any]:
        indexes = {OWNER: _owner_of} if owned else {}
        return Informer(self._reader, resource, form, rng=self._rng, scopes=scopes, indexes=indexes)

    def _stores(self) -> Stores:
        return Stores(
            jobs={name: informer.store for name, informer in self.jobs.items()},
            pods=self.pods.store,
            services=self.services.store,
            groups=self.groups.store,
            queues=self.queues.store,
            priorities=self.priorities.store,
            clusterd=self.clusterd.store,
            groups_served=self.groups.synced.is_set,
            queues_known=self.queues.synced.is_set,
        )

    def _caches(self) -> Mapping[Resource, Cache[Any]]:
        forms = self._forms
        found: dict[Resource, Cache[Any]] = {
            PODS: Cache(self.pods.store, forms.pods),
            SERVICES: Cache(self.services.store, forms.services),
            POD_GROUPS: Cache(self.groups.store, forms.groups),
        }
        for name, informer in self.jobs.items():
            found[resource_of(self._kinds[name])] = Cache(informer.store, forms.jobs)
        return found

    def _gangs(self) -> Mapping[str, bool]:
        on = self._settings.enable_gang_scheduling
        return {name: on and kind.gang_by_default for name, kind in self._kinds.items()}

    # What wakes a job.

    def _child_changed(self, change: Change[Any]) -> None:
        lost = isinstance(change.row, PodView) and change.new is None
        priority = SWEPT if change.initial or change.unchanged else LOST_POD if lost else 0
        for row in {id(row): row for row in (change.old, change.new) if row is not None}.values():
            if row.owner_kind in self._kinds:
                self._queue.add(
                    Key(row.owner_kind, row.namespace, row.owner_name), priority=priority
                )

    def _job_handler(self, kind: str):  # type: ignore[no-untyped-def]  # noqa: ANN202
        def changed(change: Change[JobRow]) -> None:
            row = change.row
            if change.new is None:
                self._observer.forget(row.uid)
                self._gone.put_nowait(row)
            low = change.initial or change.unchanged
            priority = SWEPT if low else DELETED if change.new is None else 0
            self._queue.add(Key(kind, row.namespace, row.name), priority=priority)

        return changed

    # Its life.

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set.

        Raises:  NotLeaderError when another replica took over; NotSyncedError; a bug of a task.
        """
        self._gone: asyncio.Queue[JobRow] = asyncio.Queue()
        async with self._running() as group:
            await self._synced()
            log.info("synced", jobs=sum(len(i.store) for i in self.jobs.values()))
            leading = group.create_task(self._contend(stop), name="leader")
            stopped = group.create_task(stop.wait(), name="stop")
            await asyncio.wait({leading, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                await leading  # its error is the process's
            await leading

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Informers and Events, for as long as the block lasts."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(informer.run(), name=f"informer {informer.resource.name}")
                for informer in self._informers()
            ]
            tasks.append(group.create_task(self._recorder.run(), name="events"))
            tasks.append(group.create_task(self._clear_tables(), name="tables"))
            try:
                yield group
                await self._recorder.flush()
            finally:
                for task in tasks:
                    task.cancel()

    def _informers(self) -> list[Informer[Any]]:
        return [
            self.pods,
            self.services,
            self.groups,
            self.queues,
            self.priorities,
            self.clusterd,
            *self.jobs.values(),
        ]

    async def _synced(self) -> None:
        await all_synced((self.pods, self.services), self._settings.cache_sync_timeout_s)

    async def _contend(self, stop: asyncio.Event) -> None:
        if self._elector is None:
            await self._lead(stop)
        else:
            elector = self._elector
            contest = asyncio.current_task()
            assert contest is not None  # noqa: S101  we are one
            await elector.run(lambda: self._lead(stop))

    async def _lead(self, stop: asyncio.Event) -> None:
        """Workers, until the end is asked for; then those that run may finish."""
        for kind, informer in self.jobs.items():
            for row in informer.store.rows():
                self._queue.add(Key(kind, row.namespace, row.name), priority=SWEPT)
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._controller.work(), name=f"worker {n}")
                for n in range(self._settings.workers)
            ]
            await stop.wait()
            self._queue.shutdown()
            _, running = await asyncio.wait(workers, timeout=self._settings.grace_s)
            for worker in running:
                worker.cancel()

    async def _clear_tables(self) -> None:
        """Files of jobs that are gone."""
        while True:
            row = await self._gone.get()
            await self._tables.forget(row.uid, row.namespace, row.name)

    def _make_elector(self, client: Client, identity: Identity, wall: WallClock) -> Elector:
        s = self._settings
        return Elector(
            client.sibling("elector", pool="lease"),
            namespace=s.lease_namespace or identity.namespace,
            name=s.lease_name,
            identity=identity.name,
            times=LeaseTimes(s.lease_s, s.renew_s, s.retry_s),
            wall=wall,
            rng=self._rng,
        )


class _Forms:
    """How each resource comes off the wire; one pool of strings each."""

    def __init__(self) -> None:
        self.pods = rows.pods_form()
        self.services = rows.services_form()
        self.groups = rows.groups_form()
        self.queues = rows.queues_form()
        self.priorities = rows.priorities_form()
        self.jobs = rows.jobs_form()


class _JobEvents:
    """Events about a job, under the name that the kind's users know."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def job_event(self, snapshot: AnySnapshot, note: EventNote) -> None:
        kind, row = snapshot.kind, snapshot.row
        about = Reference(kind.api_version, kind.kind, row.namespace, row.name, row.uid)
        pod = Reference("v1", "Pod", row.namespace, note.pod, note.pod_uid) if note.pod else None
        self._recorder.event(
            about,
            note.type,
            note.reason,
            note.note,
            note.action,
            related=pod,
            controller=kind.controller,
            outcome=note.outcome,
        )


class _AlwaysFresh:
    async def fresh(self, key: Key) -> None:
        pass


class _Uncounted:
    def began(self) -> None:
        pass

    def ended(self, result: str, seconds: float) -> None:
        pass


def _namespace_of(key: Key) -> str:
    return key.namespace


def _owner_of(row: Any) -> tuple[str, ...]:
    return (row.owner_uid,) if row.owner_uid else ()


def _table_root(settings: Settings) -> Path | None:
    return Path(settings.rank_table_dir) if settings.rank_table_dir else None
