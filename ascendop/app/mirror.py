# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What of the cluster is mirrored, and which job each change wakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final, Protocol

import msgspec

from ascendop.api.kind import JobKind
from ascendop.api.observed import GroupView, JobRow, LauncherView, PodView, QueueView
from ascendop.app.beside import Beside, mirror_beside
from ascendop.app.room import RoomCount
from ascendop.apply.caches import Cache
from ascendop.builder import labels as keys
from ascendop.builder.names import RETRIES_CONFIG_MAP, VOLCANO_NAMESPACE
from ascendop.gang.room import Room
from ascendop.gang.scaling import Service, service_of
from ascendop.informer import rows
from ascendop.informer.change import Change, IndexFn
from ascendop.informer.handlers import LOW
from ascendop.informer.informer import Informer
from ascendop.informer.represent import StructForm
from ascendop.informer.source import Source
from ascendop.kube.resource import (
    CONFIGMAPS,
    COSCHEDULING_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SERVICES,
    Key,
    Resource,
    Scope,
)
from ascendop.reconciler.observe import OWNER, SERVICE, Stores
from ascendop.reconciler.pace import Haste
from ascendop.settings import Settings
from ascendop.telemetry.metrics import Metrics

AnyKind = JobKind[Any]
AnyInformer = Informer[Any]
LOST_POD: Final = 10
"""Priority of a job that lost a pod: its other pods hold devices and do nothing."""
DELETED: Final = 50


def resource_of(kind: AnyKind) -> Resource:
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


class Wake(Protocol):
    """The job is owed a pass."""

    def __call__(self, key: Key, *, priority: int, haste: Haste) -> None: ...


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who wants to hear of changes beyond the queue."""

    wake: Wake
    job_is_new: Callable[[Key], None]
    """A job that was made while we watched: nobody before us can have written for it."""
    job_is_gone: Callable[[Key, JobRow], None]


class Mirror:
    """The informers of one operator, and their stores.

    Scope:    children by the label that every child of ours has, so that foreign pods cost nothing.
    Mapping:  a child wakes the job that its controller reference names, whether that is cached or
              not; a child that changes its owner wakes both.
    """

    def __init__(
        self,
        source: Source,
        settings: Settings,
        kinds: Mapping[str, AnyKind],
        *,
        rng: Random,
        metrics: Metrics,
        listeners: Listeners,
    ) -> None:
        """Must be called on the loop that will run it."""
        self._source = source
        self._rng = rng
        self._metrics = metrics
        self._kinds = kinds
        self._to = listeners
        self._all: dict[AnyInformer, StructForm[Any, Any]] = {}
        self._room = RoomCount()
        names = settings.namespaces or (None,)
        theirs = tuple(Scope(name) for name in names)
        ours = tuple(Scope(name, labels=keys.JOB_NAME) for name in names)
        clusterd = Scope(
            settings.clusterd_namespace, fields=f"metadata.name={settings.clusterd_service}"
        )
        self.pods = self._informer(PODS, rows.pods_form(), ours, owned=True)
        self.services = self._informer(SERVICES, rows.services_form(), ours, owned=True)
        self.groups = self._informer(
            POD_GROUPS, rows.groups_form(), theirs, indexes={SERVICE: _service_of}, owned=True
        )
        self.queues = self._informer(QUEUES, rows.queues_form())
        self.priorities = self._informer(PRIORITY_CLASSES, rows.priorities_form())
        self.nodes = (
            self._informer(NODES, rows.nodes_form()) if settings.enable_gang_scheduling else None
        )
        """Only who makes gangs wants to know what there is room for."""
        self.clusterd = self._informer(SERVICES, rows.services_form(), (clusterd,), "clusterd")
        retries = Scope(VOLCANO_NAMESPACE, fields=f"metadata.name={RETRIES_CONFIG_MAP}")
        self.retries = self._informer(CONFIGMAPS, rows.retries_form(), (retries,), "retries")
        self.jobs = {
            name: self._informer(
                resource_of(kind),
                rows.jobs_form(),
                theirs,
                indexes={SERVICE: _service_of} if kind.scales_by_rule else None,
            )
            for name, kind in kinds.items()
        }
        self.beside = (
            mirror_beside(self._informer, names, settings.mpi_gang_scheduler, self._is_ours)
            if any(kind.launch is not None for kind in kinds.values())
            else Beside()
        )
        self._listen()

    def _informer(
        self,
        resource: Resource,
        form: StructForm[Any, Any],
        scopes: tuple[Scope, ...] = (Scope(),),
        name: str = "",
        *,
        indexes: Mapping[str, IndexFn[Any]] | None = None,
        owned: bool = False,
    ) -> AnyInformer:
        informer: AnyInformer = Informer(
            self._source,
            resource,
            form,
            rng=self._rng,
            scopes=scopes,
            indexes={**(indexes or {}), **({OWNER: _owner_of} if owned else {})},
            observer=(metrics := self._metrics.informer(name or resource.plural)),
        )
        self._metrics.before_scrape(lambda: metrics.refresh(_figures(informer)))
        self._all[informer] = form
        return informer

    @property
    def informers(self) -> tuple[AnyInformer, ...]:
        return tuple(self._all)

    @property
    def mandatory(self) -> tuple[AnyInformer, ...]:
        """Without these nothing can be decided."""
        return (self.pods, self.services)

    @property
    def optional(self) -> tuple[AnyInformer, ...]:
        """Kinds that may come and go while we run."""
        return (self.groups, *self._other_groups, self.queues, *self.jobs.values())

    @property
    def _other_groups(self) -> tuple[AnyInformer, ...]:
        return tuple(filter(None, [self.beside.groups]))

    @property
    def rest(self) -> tuple[AnyInformer, ...]:
        """Served by every cluster, but we may lack the right to read them, and do without."""
        found = (self.priorities, self.clusterd, self.retries, *filter(None, [self.nodes]))
        return (*found, *self.beside.all)

    def stores(self, has: Callable[[str], bool]) -> Stores:
        """What snapshots are taken of; `has` says whether an optional kind is usable."""
        return Stores(
            jobs={name: informer.store for name, informer in self.jobs.items()},
            pods=self.pods.store,
            services=self.services.store,
            groups=self.groups.store,
            queues=self.queues.store,
            priorities=self.priorities.store,
            clusterd=self.clusterd.store,
            retries=self.retries.store,
            groups_served=lambda: has(POD_GROUPS.name),
            queues_known=lambda: has(QUEUES.name),
            priorities_known=self.priorities.synced.is_set,
            room=self._room_now,
            launchers=self.beside.jobs,
            launchers_ended=self.beside.ended,
            launchers_gone=self.beside.gone,
            shared=self.beside.stores,
            launched_known=lambda: self.beside.known,
            launched_groups=self.beside.groups.store if self.beside.groups else None,
            launched_groups_served=lambda: has(COSCHEDULING_GROUPS.name),
        )

    def _room_now(self) -> Room | None:
        known = self.nodes is not None and self.nodes.synced.is_set()
        return self._room.room() if known else None

    def caches(self) -> Mapping[Resource, Cache[Any]]:
        """Where the answers to our own writes go."""
        return {i.resource: Cache(i.store, self._all[i]) for i in self._written}

    def by_resource(self, resource: Resource) -> AnyInformer | None:
        """The informer of a resource that we write."""
        return next((i for i in self._written if i.resource == resource), None)

    @property
    def _written(self) -> tuple[AnyInformer, ...]:
        return (*self._children, *self.jobs.values())

    @property
    def _children(self) -> tuple[AnyInformer, ...]:
        groups = (self.groups, *self._other_groups)
        return (self.pods, self.services, *groups, *self.beside.all)

    def job_keys(self) -> list[Key]:
        """Every job there is. Costs as much as there are."""
        return [
            Key(kind, row.namespace, row.name)
            for kind, informer in self.jobs.items()
            for row in informer.store.rows()
        ]

    # What wakes a job.

    def _listen(self) -> None:
        for children in self._children:
            children.handle(self._child_changed)
        if self.beside.launchers is not None:
            self.pods.handle(self.beside.pod_changed)
        self.groups.handle(self._peer_changed)
        for name, informer in self.jobs.items():
            informer.handle(self._job_handler(name))
        self.queues.handle(self._queue_changed)
        if self.nodes is not None:
            self.nodes.handle(self._room.node)
            self.queues.handle(self._room.queue)

    def _child_changed(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        low = change.initial or change.unchanged
        if not low and old is not None and new is not None and says_the_same(old, new):
            return
        lost = new is None and isinstance(old, PodView)
        priority = LOW if low else LOST_POD if lost else 0
        haste = Haste.NOW if low or new is None else haste_of(old, new)
        if new is not None:
            self._wake_owner(new, priority, _echo(haste) if change.ours else haste)
        if old is not None and (new is None or old.owner_uid != new.owner_uid):
            self._wake_owner(old, priority, haste)

    def _is_ours(self, launcher: LauncherView) -> bool:
        kind = self._kinds.get(launcher.owner_kind)
        if kind is None or kind.launch is None:
            return False
        job = self.jobs[kind.kind].store.get(launcher.namespace, launcher.owner_name)
        return job is not None and job.uid == launcher.owner_uid

    def _peer_changed(self, change: Change[GroupView]) -> None:
        """A job of an inference service started or ended: those that wait for it go on."""
        old, new = change.old, change.new
        if change.initial or (old is not None and new is not None and old.phase == new.phase):
            return
        service = service_of(change.row.namespace, change.row.labels)
        if service is None:
            return
        for name, kind in self._kinds.items():
            for job in (
                self.jobs[name].store.by_index(SERVICE, service) if kind.scales_by_rule else ()
            ):
                self._to.wake(Key(name, job.namespace, job.name), priority=0, haste=Haste.CALM)

    def _wake_owner(
        self,
        row: Any,  # noqa: ANN401  a child
        priority: int,
        haste: Haste,
    ) -> None:
        row = self.beside.launcher_of(row)
        if row.owner_kind in self._kinds:
            key = Key(row.owner_kind, row.namespace, row.owner_name)
            self._to.wake(key, priority=priority, haste=haste)

    def _queue_changed(self, change: Change[QueueView]) -> None:
        """A queue that opens, closes, comes or goes concerns the jobs that wait in it.

        Costs as much as there are PodGroups; people do it, and rarely.
        """
        old, new = change.old, change.new
        if change.initial or (old and old.state) == (new and new.state):
            return
        for group in self.groups.store.rows():
            if group.phase in {"", "Pending"} and group.queue == change.row.name:
                self._wake_owner(group, 0, Haste.CALM)

    def _job_handler(self, kind: str) -> Callable[[Change[JobRow]], None]:
        def changed(change: Change[JobRow]) -> None:
            key = Key(kind, change.row.namespace, change.row.name)
            if change.new is None:
                self._to.job_is_gone(key, change.row)
            elif change.old is None and not change.initial:
                self._to.job_is_new(key)
            low = change.initial or change.unchanged
            priority = LOW if low else DELETED if change.new is None else 0
            haste = Haste.NOW if low or not _is_status(change) else Haste.CALM
            self._to.wake(key, priority=priority, haste=_echo(haste) if change.ours else haste)

        return changed


def says_the_same(old: Any, new: Any) -> bool:  # noqa: ANN401  two rows of a kind
    """Only the version moved: somebody wrote what we do not read, a condition or a field."""
    return bool(msgspec.structs.replace(new, version=old.version) == old)


def haste_of(old: Any, new: Any) -> Haste:  # noqa: ANN401  two rows of a kind, one may be none
    """How urgent a change of a child is.

    A new child is most often one that we have just made; pods of a gang start and end together.
    A pod that failed is to be replaced, clusterd waits for what it asked for, and of all pods that
    get devices the last one completes the rank table. A PodGroup that is let in lets pods be made;
    how it fares from then on is told by its pods, too, a moment later.
    """
    match new:
        case GroupView():
            let_in = old is not None and new.phase != old.phase and old.phase in {"", "Pending"}
            return Haste.NOW if let_in else Haste.ECHO
        case _ if old is None:
            return Haste.CALM
        case PodView():
            if new.deleting or new.phase == "Failed" or new.annotation(keys.OPERATOR_ACTION):
                return Haste.NOW
            devices = (keys.DEVICES_910, keys.DEVICES_NPU)
            given = any(old.annotation(key) != new.annotation(key) for key in devices)
            return Haste.LIKELY if given else Haste.CALM
        case _:
            return Haste.NOW


def _echo(haste: Haste) -> Haste:
    """Of a write of our own that comes back."""
    return Haste.ECHO if haste is Haste.CALM else haste


def _is_status(change: Change[JobRow]) -> bool:
    """The job's owner changed nothing: most often it is our own status that comes back."""
    old, new = change.old, change.new
    if old is None or new is None:
        return False
    return (old.generation, old.deleting, old.labels, old.annotations) == (
        new.generation, new.deleting, new.labels, new.annotations,
    )  # fmt: skip


def _owner_of(row: Any) -> tuple[str, ...]:  # noqa: ANN401  a child of any kind
    return (row.owner_uid,) if row.owner_uid else ()


def _service_of(row: JobRow | GroupView) -> tuple[Service, ...]:
    service = service_of(row.namespace, row.labels)
    return () if service is None else (service,)


def _figures(informer: AnyInformer) -> dict[str, Any]:
    found = informer.figures()
    return {
        "objects": found.objects,
        "position": found.position,
        "last_event_age_seconds": found.last_event_age_s,
        "state": found.state,
    }
