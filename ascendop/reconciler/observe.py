# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Stores become a snapshot; raw objects stop here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ascendop.api.kind import JobKind, JobView
from ascendop.api.launch import NOWHERE, Place, Seen
from ascendop.api.observed import (
    GroupView,
    JobRow,
    LauncherView,
    PodView,
    PriorityView,
    QueueView,
    RetriesView,
    ServiceView,
    SharedView,
)
from ascendop.builder import labels as keys
from ascendop.builder.ascend_env import CLUSTERD_DOMAIN
from ascendop.builder.names import pod_group_name
from ascendop.builder.pod import pod_group_of
from ascendop.clock import WallClock
from ascendop.errors import InvalidJobError
from ascendop.gang.room import Room
from ascendop.gang.scaling import Peer, service_of
from ascendop.informer.store import Store
from ascendop.kube.resource import Key
from ascendop.reconciler.pods import slots
from ascendop.reconciler.snapshot import AnySnapshot, Launched, Snapshot, World
from ascendop.reconciler.validate import parse_job

OWNER: Final = "owner"
"""Index of children by the uid of their controller."""
SERVICE: Final = "service"
"""Index of jobs and PodGroups by the inference service that they are of; gang.scaling has it."""
_STATUS = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Stores:
    """The cluster, mirrored: what snapshots are taken of."""

    jobs: Mapping[str, Store[JobRow]]
    """By kind."""
    pods: Store[PodView]
    services: Store[ServiceView]
    groups: Store[GroupView]
    queues: Store[QueueView]
    priorities: Store[PriorityView]
    clusterd: Store[ServiceView]
    """At most the one Service of MindCluster's clusterd."""
    retries: Store[RetriesView]
    """At most the one ConfigMap of the NPU scheduler plug-in."""
    groups_served: Callable[[], bool]
    queues_known: Callable[[], bool]
    priorities_known: Callable[[], bool]
    room: Callable[[], Room | None]
    launchers: Store[LauncherView] | None = None
    """Jobs of batch/v1; None where no kind has a launcher."""
    launchers_ended: Mapping[str, LauncherView] = field(default_factory=dict)
    launchers_gone: Mapping[str, PodView] = field(default_factory=dict)
    """Those that had ended when they went, by uid of their owner."""
    shared: Mapping[str, Store[SharedView]] = field(default_factory=dict)
    """What pods of one job share, by kind."""
    launched_groups: Store[GroupView] | None = None
    """PodGroups of jobs with a launcher, where those are not Volcano's."""
    launched_groups_served: Callable[[], bool] = bool
    launched_known: Callable[[], bool] = bool


class Observer:
    """Takes snapshots. Costs what the job is large, never what the cluster is."""

    def __init__(
        self,
        kinds: Mapping[str, JobKind[Any]],
        stores: Stores,
        wall: WallClock,
        *,
        gangs: Mapping[str, bool],
        retry_grace_s: float = 0.0,
        stop_survivors: bool = False,
        place: Place = NOWHERE,
    ) -> None:
        """`gangs` says for each kind whether its pods start as a gang; the rest is World's."""
        self._kinds = kinds
        self._stores = stores
        self._wall = wall
        self._gangs = gangs
        self._retry_grace_s = retry_grace_s
        self._stop_survivors = stop_survivors
        self._place = place
        self._parsed: dict[str, tuple[object, JobView[Any] | InvalidJobError]] = {}
        """By uid, with what it was parsed from: again when the job changes, not when a pod does."""

    def snapshot(self, key: Key) -> AnySnapshot | None:
        """The job as it is known now; None when there is none."""
        kind, stores = self._kinds[key.kind], self._stores
        row = stores.jobs[key.kind].get(key.namespace, key.name)
        if row is None:
            return None
        job = self._parse(kind, row)
        pods = stores.pods.by_index(OWNER, row.uid)
        pods.sort(key=_by_slot)
        group = self._group(kind, row, job)
        return Snapshot(
            kind=kind,
            row=row,
            job=job,
            status=_STATUS.decode(row.status) if row.status else {},
            pods=tuple(pods),
            services=tuple(stores.services.by_index(OWNER, row.uid)),
            group=group,
            world=self._world(kind, row, job, group),
            now=self._wall(),
            held=self._held(kind, job, pods) if kind.launch is None else frozenset(),
            launched=self._launched(kind, row, job),
        )

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._parsed.pop(uid, None)

    def _parse(self, kind: JobKind[Any], row: JobRow) -> JobView[Any] | InvalidJobError:
        facts = (row.generation, row.labels, row.annotations)
        before = self._parsed.get(row.uid)
        if before is not None and before[0] == facts:
            return before[1]
        try:
            job: JobView[Any] | InvalidJobError = parse_job(kind, row)
        except InvalidJobError as error:
            job = error
        self._parsed[row.uid] = (facts, job)
        return job

    def _launched(
        self, kind: JobKind[Any], row: JobRow, job: JobView[Any] | InvalidJobError
    ) -> Launched:
        stores, launch = self._stores, kind.launch
        if launch is None or stores.launchers is None:
            return Launched()
        found = stores.launchers.get(row.namespace, launch.job_name(row.name))
        found = found or stores.launchers_ended.get(row.uid)
        group = self._groups(kind).get(row.namespace, row.name)
        return Launched(
            known=stores.launched_known(),
            job=found,
            pods=tuple(stores.pods.by_index(OWNER, found.uid)) if found else (),
            gone=stores.launchers_gone.get(found.uid) if found else None,
            shared=self._shared(kind, job) if isinstance(job, JobView) else {},
            alien_group=group is not None and group.owner_uid != row.uid,
        )

    def _shared(self, kind: JobKind[Any], job: JobView[Any]) -> Mapping[str, SharedView]:
        assert kind.launch is not None  # noqa: S101  asked before
        found = {}
        for wanted in kind.launch.shared(job, self._place, Seen()):
            what = wanted.object["kind"]
            row = self._stores.shared[what].get(job.namespace, wanted.object["metadata"]["name"])
            if row is not None:
                found[what] = row
        return found

    def _held(
        self, kind: JobKind[Any], job: JobView[Any] | InvalidJobError, pods: Sequence[PodView]
    ) -> frozenset[str]:
        if isinstance(job, InvalidJobError) or len(pods) >= job.total:
            return frozenset()
        names = {slot.name for slot in slots(kind, job)} - {pod.name for pod in pods}
        return frozenset(name for name in names if self._stores.pods.get(job.namespace, name))

    def _group(
        self, kind: JobKind[Any], row: JobRow, job: JobView[Any] | InvalidJobError
    ) -> GroupView | None:
        owned = self._groups(kind).by_index(OWNER, row.uid)
        if isinstance(job, InvalidJobError):
            return owned[0] if owned else None
        name = pod_group_of(kind, job)
        return next((group for group in owned if group.name == name), None)

    def _groups(self, kind: JobKind[Any]) -> Store[GroupView]:
        other = self._stores.launched_groups if kind.launch is not None else None
        return self._stores.groups if other is None else other

    def _served(self, kind: JobKind[Any]) -> bool:
        if kind.launch is not None and self._stores.launched_groups is not None:
            return self._stores.launched_groups_served()
        return self._stores.groups_served()

    def _world(
        self,
        kind: JobKind[Any],
        row: JobRow,
        job: JobView[Any] | InvalidJobError,
        group: GroupView | None,
    ) -> World:
        stores = self._stores
        runnable = job if isinstance(job, JobView) else None
        return World(
            gang=self._gangs[kind.kind],
            groups_served=self._served(kind),
            queues_known=stores.queues_known(),
            queue=self._queue(runnable, group) if runnable else None,
            priorities=self._priorities(runnable) if runnable else {},
            priorities_known=stores.priorities_known(),
            clusterd=self._clusterd(),
            retries_left=self._retries_left(runnable) if runnable else None,
            peers=tuple(self._peers(row)) if kind.scales_by_rule else (),
            retry_grace_s=self._retry_grace_s,
            stop_survivors=self._stop_survivors,
            room=stores.room(),
            place=self._place,
        )

    def _queue(self, job: JobView[Any], group: GroupView | None) -> QueueView | None:
        policy = job.run_policy.scheduling_policy
        name = (policy.queue if policy else None) or (group.queue if group else "")
        return self._stores.queues.get("", name) if name else None

    def _priorities(self, job: JobView[Any]) -> Mapping[str, int]:
        names = {str(r.pod_spec.get("priorityClassName") or "") for r in job.replicas.values()}
        rows = ((name, self._stores.priorities.get("", name)) for name in names if name)
        return {name: row.value for name, row in rows if row is not None}

    def _peers(self, row: JobRow) -> Iterator[Peer]:
        service = service_of(row.namespace, row.labels)
        for group in self._stores.groups.by_index(SERVICE, service) if service else ():
            if group.owner_uid != row.uid:
                yield Peer(
                    pod_group=group.name,
                    group=dict(group.labels).get(keys.SCALING_GROUP, ""),
                    runs=group.phase == "Running",
                    has_started=any(map(_holds_a_place, self._pods_of(group))),
                )

    def _pods_of(self, group: GroupView) -> Sequence[PodView]:
        return self._stores.pods.by_index(OWNER, group.owner_uid) if group.owner_uid else ()

    def _retries_left(self, job: JobView[Any]) -> int | None:
        group = f"{job.namespace}/{pod_group_name(job.name, job.uid)}"
        return next((found.of(group) for found in self._stores.retries.rows()), None)

    def _clusterd(self) -> str:
        found: Sequence[ServiceView] = self._stores.clusterd.rows()
        return next((s.cluster_ip for s in found if s.cluster_ip), CLUSTERD_DOMAIN)


def _holds_a_place(pod: PodView) -> bool:
    return not pod.deleting and pod.phase not in {"Succeeded", "Failed"}


def _by_slot(pod: PodView) -> tuple[str, int, str]:
    return pod.role, pod.index, pod.name
