# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One replica of the operator: its parts, and their life from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final

from ascendop.api.kind import never
from ascendop.api.launch import SSH_KEYS, Place
from ascendop.api.observed import JobRow
from ascendop.app.causes import for_ever, primary
from ascendop.app.census import PHASES, Census
from ascendop.app.jobevents import JobEvents
from ascendop.app.live import correct_pods
from ascendop.app.mirror import AnyKind, Listeners, Mirror, resource_of
from ascendop.app.workloads import NAME as WORKLOADS
from ascendop.app.workloads import Workloads
from ascendop.apply.events import EventRecorder
from ascendop.apply.execute import Executor, Maker
from ascendop.apply.files import SharedDirectoryError
from ascendop.apply.lists import PodLists
from ascendop.apply.sshkeys import make_ssh_keys
from ascendop.apply.tables import Tables
from ascendop.backoff import Backoff
from ascendop.clock import WallClock
from ascendop.decorated.rows import WorkloadRow
from ascendop.errors import UsageError
from ascendop.informer.audit import Audit, sweep
from ascendop.informer.capabilities import Capabilities, Presence
from ascendop.informer.discovery import Discovery
from ascendop.informer.gate import FreshnessGate
from ascendop.informer.handlers import LOW
from ascendop.informer.informer import NotSyncedError, all_synced
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.gate import WriteGate
from ascendop.kube.resource import Key, Resource
from ascendop.leader.gate import AlwaysLeads
from ascendop.leader.lease import Elector
from ascendop.leader.record import LeaseTimes
from ascendop.queue.limiter import TokenBucket
from ascendop.queue.workqueue import WorkQueue
from ascendop.reconciler.controller import Controller
from ascendop.reconciler.observe import Observer
from ascendop.reconciler.pace import Haste
from ascendop.reconciler.totals import Totals
from ascendop.reconciler.workers import Workers
from ascendop.settings import Settings
from ascendop.telemetry.log import get_log
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.phases import Tracer

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
    Clean:  `run` returns after the last write has ended, Events are told, and the lease was given
            back, in this order; caches are kept up until then.
    Loud:   a part that ends by itself, with an error or without, ends `run`.
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
        tracer: Tracer | None = None,
        make_keys: Maker = make_ssh_keys,
    ) -> None:
        """Must be called on the loop that will run it. Raises UsageError for unknown kinds.

        make_keys:  makes the data of a Secret with ssh keys; the operating system's chance by
                    default.
        """
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
        self.queue = self._make_queue("jobs", rng)
        self.mirror = self._make_mirror()
        self.capabilities = self._make_capabilities()
        self._gate: FreshnessGate[bool] = FreshnessGate(
            partial(correct_pods, self._reader, self.mirror),
            partial(self.queue.add, priority=0),
            observer=self.mirror.pods.observer,
        )
        self._recorder = EventRecorder(
            client.sibling("events", gate=gate),
            instance=identity.name,
            wall=wall,
            rng=rng,
            observer=self.metrics.events,
            objects_wait=lambda: self.queue.has_ready,
        )
        self._tables = Tables(writer, wall, _table_root(settings))
        self._gone: asyncio.Queue[JobRow | WorkloadRow] = asyncio.Queue()
        self._observer = Observer(
            self.kinds,
            self.mirror.stores(self.capabilities.has),
            wall,
            gangs={
                name: bool(settings.mpi_gang_scheduler)
                if kind.launch is not None
                else settings.enable_gang_scheduling and kind.gang_by_default
                for name, kind in self.kinds.items()
            },
            retry_grace_s=settings.retry_grace_s,
            stop_survivors=settings.stop_survivors,
            place=Place(
                domain=settings.cluster_domain,
                gang=settings.mpi_gang_scheduler,
                names_early=settings.mpi_names_early,
                start_timeout_s=settings.mpi_start_timeout_s,
                deletes_expired=settings.mpi_delete_expired,
                deletes_keys=settings.mpi_delete_keys,
                apart_on_host_network=settings.mpi_spread_host_network,
                pokes_launcher=settings.mpi_poke_launcher,
                whole_requests=settings.mpi_whole_requests,
                discovers_slots=settings.mpi_discover_slots,
                strict=settings.mpi_strict_parity,
            ),
        )
        self._controller = Controller(
            queue=self.queue,
            observer=self._observer,
            executor=Executor(
                writer,
                self.mirror.caches(),
                settings.field_manager,
                noted=self._written,
                lists=PodLists(writer) if settings.pods_by_lists else None,
                makers={SSH_KEYS: make_keys},
            ),
            tables=self._tables,
            recorder=JobEvents(self._recorder, self._make_totals()),
            freshness=self._gate,
            metrics=(reconciles := self.metrics.controller("jobs", workers=settings.workers)),
            timeout_s=settings.reconcile_timeout_s,
            rng=rng,
            log=get_log("ascendop.controller"),
            tracer=tracer,
        )
        self._reconciles = reconciles
        self.workloads = self._make_workloads(writer, identity, tracer)
        self._workers = Workers(self.queue, self._controller.handle, settings.workers)
        self._acts = False
        """The leader's work has begun."""

    def _make_queue(self, name: str, rng: Random) -> WorkQueue[Key]:
        metrics = self.metrics.queue(name)
        backoff, bucket = _limits(self._settings)
        queue: WorkQueue[Key] = WorkQueue(
            name,
            rng=rng,
            fair_by=_namespace_of,
            backoff=backoff,
            bucket=bucket,
            observer=metrics,
        )
        self.metrics.before_scrape(lambda: metrics.refresh(queue))
        return queue

    def _make_mirror(self) -> Mirror:
        mirror = Mirror(
            self._reader,
            self._settings,
            self.kinds,
            rng=self._rng,
            metrics=self.metrics,
            listeners=Listeners(self._wake, self._job_is_new, self._job_is_gone),
        )
        for name, informer in mirror.jobs.items():
            census, metrics = Census(), self.metrics.jobs(name, PHASES)
            informer.handle(census)
            self.metrics.before_scrape(partial(metrics.refresh, census.counts))
        return mirror

    def _make_totals(self) -> Mapping[str, Totals]:
        found = {
            kind.kind: Totals(self.metrics, kind.kind, *kind.launch.metrics)
            for kind in self.kinds.values()
            if kind.launch is not None
        }

        def refresh() -> None:
            store = self.mirror.beside.jobs
            for totals in found.values():
                totals.refresh(store.rows() if store is not None else (), leads=self._acts)

        self.metrics.before_scrape(refresh)
        return found

    def _make_capabilities(self) -> Capabilities:
        serves = Discovery(self._reader.raw).served
        capabilities = Capabilities(serves, self._reader, rng=self._rng, changed=self._kind_changed)
        for informer in self.mirror.optional:
            capabilities.track(informer)
        return capabilities

    def _make_workloads(
        self, writer: Client, identity: Identity, tracer: Tracer | None
    ) -> Workloads | None:
        if not self._settings.workload_tables:
            return None
        # What they draw moves nothing for the jobs, and is another for each replica.
        rng = type(self._rng)(f"{WORKLOADS} {identity.name}")
        return Workloads(
            self._reader,
            writer,
            self._settings,
            queue=self._make_queue(WORKLOADS, rng),
            tables=self._tables,
            recorder=self._recorder,
            job_with_table=self._job_with_table,
            gone=self._gone.put_nowait,
            metrics=self.metrics,
            rng=rng,
            tracer=tracer,
        )

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

    def _wake(self, key: Key, *, priority: int, haste: Haste = Haste.NOW) -> None:
        self.queue.add(key, self._controller.rest_s(key, haste), priority=priority)

    def _job_is_new(self, key: Key) -> None:
        self._gate.trust(key)
        if self.workloads is not None:
            self.workloads.wake(key.namespace, key.name)

    def _job_is_gone(self, key: Key, row: JobRow) -> None:
        self._gate.forget(key)
        self._observer.forget(row.uid)
        self.mirror.beside.forget(row.uid)
        self._gone.put_nowait(row)
        if self.workloads is not None:
            self.workloads.wake(key.namespace, key.name)

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

    # Its life.

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, at whatever point of its life.

        Raises:  NotLeaderError when another replica took over; NotSyncedError; a bug of a part. Of
                 several errors the first; the others are notes on it.
        """
        try:
            await self._run(stop)
        except BaseExceptionGroup as group:
            raise primary(group) from group
        finally:
            self._tables.close()

    def change(self, settings: Settings) -> None:
        """Take in settings of which only those differ that may change while we run."""
        self._settings = settings
        self.queue.limit(*_limits(settings))
        self._controller.timeout_s = settings.reconcile_timeout_s
        self._workers.resize(settings.workers)
        self._reconciles.has_workers(settings.workers)
        if self.workloads is not None:
            self.workloads.queue.limit(*_limits(settings))
            self.workloads.change(settings)

    async def _run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            standing = [
                group.create_task(for_ever(name, work), name=name)
                for name, work in self._standing()
            ]
            life = group.create_task(self._live(stop), name="life")
            asked = group.create_task(stop.wait(), name="stop")
            await asyncio.wait({life, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not self._acts:
                life.cancel()  # who does not lead has nothing to finish
            await asyncio.wait({life})
            for task in (*standing, asked):
                task.cancel()

    async def _live(self, stop: asyncio.Event) -> None:
        await self._sync()
        self.synced.set()
        log.info("synced", jobs=len(self.mirror.job_keys()))
        if self.elector is None:
            await self._lead(stop)
        else:
            await self.elector.run(partial(self._lead, stop))

    def _standing(self) -> list[tuple[str, Coroutine[Any, Any, None]]]:
        """What a follower runs, too; none of it ever ends by itself."""
        mirror = self.mirror
        every_s = self._settings.resync_h * 3600
        audited = mirror.mandatory if self._settings.audit else ()
        return [
            *((f"informer {i.resource.name}", i.run()) for i in (*mirror.mandatory, *mirror.rest)),
            *((f"audit {i.resource.name}", Audit(i, rng=self._rng).run()) for i in audited),
            ("capabilities", self.capabilities.run()),
            ("events", self._recorder.run()),
            ("tables", self._clear_tables()),
            ("sweep", sweep(mirror.job_keys, self._wake, rng=self._rng, every_s=every_s)),
            *(self.workloads.standing() if self.workloads is not None else ()),
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

    async def _lead(self, stop: asyncio.Event) -> None:
        """Work until the end is asked for; keys that are being worked on may then be finished."""
        self._acts = True
        self._gate.new_term()
        for key in self.mirror.job_keys():
            self.queue.add(key, priority=LOW)
        grace_s = self._settings.grace_s
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep_tables(), name="sweep of tables")
            if self.workloads is not None:
                group.create_task(self.workloads.lead(stop, grace_s), name="workloads")
            await self._workers.run(stop, grace_s)
            sweeping.cancel()
        await self._recorder.flush()

    async def _sweep_tables(self) -> None:
        """Of jobs that went while nobody led; a share that is away is no reason not to lead.

        Only when everything is known that may have a table there.
        """
        if self.workloads is None:
            return
        await self.workloads.known()
        try:
            swept = await self._tables.sweep(self._has_table)
        except SharedDirectoryError as error:
            log.warning("rank tables not swept", err=str(error))
            return
        if swept:
            log.info("rank tables of jobs that are gone removed", tables=swept)

    def _has_table(self, namespace: str, name: str) -> bool:
        """Whether a table may still be somebody's; always, where we do not look."""
        if self._settings.namespaces and namespace not in self._settings.namespaces:
            return True
        if self.workloads is not None and self.workloads.has(namespace, name):
            return True
        return any(i.store.get(namespace, name) is not None for i in self.mirror.jobs.values())

    def _job_with_table(self, namespace: str, name: str) -> str:
        """Kind of the job that has the rank table of this name; empty for none."""
        for kind, informer in self.mirror.jobs.items():
            made = self.kinds[kind].has_rank_table is not never
            if made and informer.store.get(namespace, name) is not None:
                return kind
        return ""

    async def _clear_tables(self) -> None:
        """Files of whoever is gone: the leader's business, and harmless twice."""
        while True:
            row = await self._gone.get()
            if not self.leads:
                continue
            try:
                another = self._has_table(row.namespace, row.name)
                await self._tables.forget(row.uid, row.namespace, row.name, inherited=another)
            except SharedDirectoryError as error:  # the next leader's sweep takes it
                log.warning("rank table not removed", job=row.name, err=str(error))


def job_resources(settings: Settings) -> tuple[Resource, ...]:
    """The job kinds to run, as the API server knows them."""
    return tuple(resource_of(kind) for kind in kinds_of(settings).values())


def _namespace_of(key: Key) -> str:
    return key.namespace


def _limits(settings: Settings) -> tuple[Backoff, TokenBucket]:
    return (
        Backoff(FIRST_RETRY_S, settings.retry_limit_s),
        TokenBucket(settings.retries_per_s, settings.retries_burst),
    )


def _table_root(settings: Settings) -> Path | None:
    return Path(settings.rank_table_dir) if settings.rank_table_dir else None
