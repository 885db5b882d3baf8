# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One replica of the operator: its parts, and their life from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final

from ascendop.api.observed import JobRow
from ascendop.app.mirror import AnyKind, Listeners, Mirror, resource_of
from ascendop.apply.events import EventRecorder
from ascendop.apply.execute import Executor
from ascendop.apply.plan import EventNote
from ascendop.apply.series import Reference
from ascendop.apply.tables import Tables
from ascendop.backoff import Backoff
from ascendop.builder import labels as keys
from ascendop.clock import WallClock
from ascendop.errors import UsageError
from ascendop.informer.audit import Audit, sweep
from ascendop.informer.capabilities import Capabilities, Presence
from ascendop.informer.discovery import Discovery
from ascendop.informer.gate import FreshnessGate
from ascendop.informer.handlers import LOW
from ascendop.informer.informer import NotSyncedError, all_synced
from ascendop.informer.rows import pods_form
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.gate import WriteGate
from ascendop.kube.resource import PODS, Key, Resource, Scope
from ascendop.leader.gate import AlwaysLeads
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes
from ascendop.queue.limiter import TokenBucket
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.controller import Controller
from ascendop.reconciler.observe import OWNER, Observer
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.settings import Settings
from ascendop.telemetry.log import get_log
from ascendop.telemetry.metrics import Metrics

log = get_log(__name__)

FIRST_RETRY_S: Final = 0.005
LOOK_S: Final = 0.05
"""How often the start asks whether every optional kind is known to be there or not."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this replica is."""

    name: str
    namespace: str


def kinds_of(settings: Settings) -> Mapping[str, AnyKind]:
    """The kinds to run. Raises UsageError for a name that is none."""
    known = load_kinds()
    unknown = [name for name in settings.kinds if name not in known]
    if unknown:
        raise UsageError(f"--kinds: {unknown[0]} is no job kind; choose of {', '.join(known)}")
    return {name: kind for name, kind in known.items() if name in (settings.kinds or known)}


class Operator:
    """Mirrors the cluster always, and acts while it leads.

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
        metrics: Metrics | None = None,
    ) -> None:
        """Must be called on the loop that will run it."""
        self.metrics = metrics or Metrics()
        self.kinds = kinds_of(settings)
        self.synced = asyncio.Event()
        """Every cache that decisions need is filled."""
        self._settings = settings
        self._rng = rng
        self.elector = self._elect(client, identity, wall) if settings.leader_elect else None
        gate: WriteGate = self.elector.gate if self.elector else AlwaysLeads()
        self._reader = client.sibling("informer")
        writer = client.sibling("reconciler", gate=gate)
        self.queue = self._make_queue()
        self.mirror = Mirror(
            self._reader,
            settings,
            self.kinds,
            rng=rng,
            metrics=self.metrics,
            listeners=Listeners(self._wake, self._job_is_new, self._job_is_gone),
        )
        self.capabilities = Capabilities(
            Discovery(client.raw).served, self._reader, rng=rng, changed=self._kind_changed
        )
        for informer in self.mirror.optional:
            self.capabilities.track(informer)
        self._gate: FreshnessGate[bool] = FreshnessGate(
            self._read_live, partial(self.queue.add, priority=0)
        )
        self._recorder = EventRecorder(
            client.sibling("events", gate=gate),
            instance=identity.name,
            wall=wall,
            rng=rng,
            observer=self.metrics.events,
        )
        self._tables = Tables(writer, wall, _table_root(settings))
        self._gone: asyncio.Queue[JobRow] = asyncio.Queue()
        self._observer = Observer(
            self.kinds,
            self.mirror.stores(self.capabilities.has),
            wall,
            gangs={
                name: settings.enable_gang_scheduling and kind.gang_by_default
                for name, kind in self.kinds.items()
            },
        )
        self._controller = Controller(
            queue=self.queue,
            observer=self._observer,
            executor=Executor(
                writer, self.mirror.caches(), settings.field_manager, noted=self._written
            ),
            tables=self._tables,
            recorder=_JobEvents(self._recorder),
            freshness=self._gate,
            metrics=self.metrics.controller("jobs", workers=settings.workers),
            timeout_s=settings.reconcile_timeout_s,
            rng=rng,
            log=get_log("ascendop.controller"),
        )

    def _make_queue(self) -> WorkQueue[Key]:
        s, metrics = self._settings, self.metrics.queue("jobs")
        queue: WorkQueue[Key] = WorkQueue(
            "jobs",
            rng=self._rng,
            fair_by=_namespace_of,
            backoff=Backoff(FIRST_RETRY_S, s.retry_limit_s),
            bucket=TokenBucket(s.retries_per_s, s.retries_burst),
            observer=metrics,
        )
        self.metrics.before_scrape(lambda: metrics.refresh(queue))
        return queue

    def _elect(self, client: Client, identity: Identity, wall: WallClock) -> Elector:
        s = self._settings
        return Elector(
            client.sibling("elector", pool="lease"),
            namespace=s.lease_namespace or identity.namespace,
            name=s.lease_name,
            identity=identity.name,
            times=LeaseTimes(s.lease_s, s.renew_s, s.retry_s),
            wall=wall,
            rng=self._rng,
            observer=self.metrics.leader(s.lease_name),
        )

    # What the caches tell.

    def _wake(self, key: Key, *, priority: int, calm: bool = False) -> None:
        after_s = self._controller.rest_s(key) if calm else 0.0
        self.queue.add(key, after_s, priority=priority)

    def _job_is_new(self, key: Key) -> None:
        self._gate.trust(key)

    def _job_is_gone(self, key: Key, row: JobRow) -> None:
        self._gate.forget(key)
        self._observer.forget(row.uid)
        self._gone.put_nowait(row)

    def _kind_changed(self, name: str, usable: bool) -> None:  # noqa: FBT001  what `changed` takes
        """Volcano came or went: every job may now go on, or has to say why it does not."""
        if self.synced.is_set():
            log.info("kind came" if usable else "kind went", kind=name)
            for key in self.mirror.job_keys():
                self.queue.add(key, priority=LOW)

    def _written(self, key: Key, resource: Resource, version: str) -> None:
        informer = self.mirror.by_resource(resource)
        if informer is not None:
            self._gate.note(key, informer, version)

    async def _read_live(self, key: Key) -> bool:
        """Read a job's pods from the server and note them in the cache; True for having done so."""
        row = self.mirror.jobs[key.kind].store.get(key.namespace, key.name)
        if row is None:
            return True
        scope = Scope(key.namespace, labels=f"{keys.JOB_NAME}={key.name}")
        page = pods_form().decode_list(await self._reader.list_page(PODS, scope, limit=0))
        ours = [pod for pod in page.rows if pod.owner_uid == row.uid]
        found = {pod.uid for pod in ours}
        store = self.mirror.pods.store
        for pod in ours:
            store.note(pod)
        for pod in store.by_index(OWNER, row.uid):
            if pod.uid not in found:
                store.note_gone(pod.namespace, pod.name, pod.uid, page.version)
        return True

    # Its life.

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set.

        Raises:  NotLeaderError when another replica took over; NotSyncedError; a bug of a task.
        """
        async with self._running() as group:
            await self._sync()
            self.synced.set()
            log.info("synced", jobs=len(self.mirror.job_keys()))
            ended = group.create_task(stop.wait(), name="stop")
            leading = group.create_task(self._contend(stop), name="leader")
            await asyncio.wait({leading, ended}, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set() and not self.leads:
                leading.cancel()  # a follower has nothing to finish
            await asyncio.wait({leading})
            ended.cancel()
            if not leading.cancelled() and leading.exception() is not None:
                raise leading.exception() or AssertionError

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Everything that a follower runs, too, for as long as the block lasts."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work, name=name) for name, work in self._standing()]
            try:
                yield group
                await self._recorder.flush()
            finally:
                for task in tasks:
                    task.cancel()

    def _standing(self) -> list[tuple[str, Any]]:
        mirror = self.mirror
        return [
            *((f"informer {i.resource.name}", i.run()) for i in (*mirror.mandatory, *mirror.rest)),
            ("capabilities", self.capabilities.run()),
            ("events", self._recorder.run()),
            ("tables", self._clear_tables()),
            (
                "sweep",
                sweep(
                    self.mirror.job_keys,
                    self._wake,
                    rng=self._rng,
                    every_s=self._settings.resync_h * 3600,
                ),
            ),
            *(
                (f"audit {i.resource.name}", Audit(i, rng=self._rng).run())
                for i in (mirror.mandatory if self._settings.audit else ())
            ),
        ]

    async def _sync(self) -> None:
        """Caches filled, and of every optional kind known whether it is there."""
        within_s = self._settings.cache_sync_timeout_s
        await all_synced(self.mirror.mandatory, within_s)
        names = [informer.resource.name for informer in self.mirror.optional]
        unsettled = {Presence.UNKNOWN, Presence.STARTING}
        try:
            async with asyncio.timeout(within_s):
                while any(  # noqa: ASYNC110  a presence has no event
                    self.capabilities.presence(name) in unsettled for name in names
                ):
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            late = [n for n in names if self.capabilities.presence(n) in unsettled]
            raise NotSyncedError(f"not listed within {within_s:g} s: {', '.join(late)}") from None

    @property
    def leads(self) -> bool:
        """Whether this replica acts."""
        return self.elector is None or self.elector.leads

    async def _contend(self, stop: asyncio.Event) -> None:
        if self.elector is None:
            await self._lead(stop)
        else:
            await self.elector.run(lambda: self._lead(stop))

    async def _lead(self, stop: asyncio.Event) -> None:
        """Workers, until the end is asked for; those that run may then finish."""
        self._gate.new_term()
        for key in self.mirror.job_keys():
            self.queue.add(key, priority=LOW)
        swept = await self._tables.sweep(self._has_job)
        if swept:
            log.info("rank tables of jobs that are gone removed", tables=swept)
        async with asyncio.TaskGroup() as group:
            workers = [
                group.create_task(self._controller.work(), name=f"worker {number}")
                for number in range(self._settings.workers)
            ]
            await stop.wait()
            self.queue.shutdown()
            _, running = await asyncio.wait(workers, timeout=self._settings.grace_s)
            for worker in running:
                worker.cancel()

    def _has_job(self, namespace: str, name: str) -> bool:
        """Whether a table may still be somebody's; always, where we do not look."""
        if self._settings.namespaces and namespace not in self._settings.namespaces:
            return True
        return any(i.store.get(namespace, name) is not None for i in self.mirror.jobs.values())

    async def _clear_tables(self) -> None:
        """Files of jobs that are gone: the leader's business, and harmless twice."""
        while True:
            row = await self._gone.get()
            if self.leads:
                await self._tables.forget(row.uid, row.namespace, row.name)


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


def job_resources(settings: Settings) -> tuple[Resource, ...]:
    """The job kinds to run, as the API server knows them."""
    return tuple(resource_of(kind) for kind in kinds_of(settings).values())


def _namespace_of(key: Key) -> str:
    return key.namespace


def _table_root(settings: Settings) -> Path | None:
    return Path(settings.rank_table_dir) if settings.rank_table_dir else None
