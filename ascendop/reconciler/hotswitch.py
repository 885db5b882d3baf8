# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Hot switch: a second pod for one that is sick, until it takes its place or is not wanted.

MindCluster's clusterd leads it through annotations of the pods, and every step of ours is read
off the pods as they are, so that a crash between two writes leaves nothing but a next step:

    source: needOperatorOpe=create       a backup is made, then the source is told its name
    source gone                          the backup loses its marks, and is the pod of the slot
    needOperatorOpe=delete, on any pod   it is deleted at once
    backup gone                          the source loses its marks, and goes on

Source: ascendjob.md 7.6, fault-tolerance.md 2.7.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ascendop.api.kind import JobKind, JobView, PodSlot, S
from ascendop.api.observed import PodView
from ascendop.apply.plan import Delete, Patch
from ascendop.builder import labels as keys
from ascendop.builder.names import backup_name
from ascendop.kube.resource import PODS
from ascendop.reconciler.pods import is_backup, slot_name, slots

_MARKS: Final = frozenset({keys.POD_TYPE, keys.OPERATOR_ACTION, keys.BACKUP_NAME})
"""Annotations without which there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A backup that somebody has asked for and that is not there yet."""

    source: PodView
    slot: PodSlot
    name: str


@dataclass(frozen=True, slots=True)
class HotSwitch:
    """How the pods of a job stand to each other, and what follows."""

    pods: tuple[PodView, ...]
    """Those that hold a slot: all but backups, and backups whose source is gone."""
    wanted: tuple[Wanted, ...] = ()
    asked_to_go: tuple[Delete, ...] = ()
    """Whatever else is wrong with the job."""
    marks: tuple[Patch, ...] = ()
    """Annotations that are to change; only after what they tell of has been counted."""
    unwanted: tuple[Delete, ...] = ()
    """Backups of pods that the job should not have, or that never learned of them."""
    took_over: frozenset[str] = frozenset()
    """Slots whose pod is gone, and whose backup has not lost its marks yet."""
    failed: frozenset[str] = frozenset()
    """Backups that are gone, and whose source has not lost its marks yet."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Pods that hold a slot under a name of their own, with the slot's."""

    @property
    def going_on(self) -> bool:
        """Whether there is anything for the count of generations to know."""
        return bool(self.wanted or self.took_over or self.failed or self.renamed)

    def slot(self, pod: PodView) -> str:
        """Name of the slot that a pod holds."""
        return self.renamed.get(pod.name, pod.name)


def hot_switch(kind: JobKind[S], job: JobView[S], pods: Sequence[PodView]) -> HotSwitch:
    """The switches of a job whose pods are these. Pure, and quiet when nothing is going on."""
    if not kind.hot_switch:
        return HotSwitch(tuple(pod for pod in pods if not is_backup(pod)))
    if not any(key in _MARKS for pod in pods for key, _ in pod.annotations):
        return HotSwitch(tuple(pods), renamed=_renamed(kind, job, pods))
    own = tuple(pod for pod in pods if not is_backup(pod))
    return _Look(kind, job, own, tuple(pod for pod in pods if is_backup(pod))).switch()


def pods_asked_to_go(kind: JobKind[S], pods: Sequence[PodView]) -> Iterator[Delete]:
    """Deletions that clusterd asks for; it may only ask for pods of ours (ascendjob.md W-3)."""
    for pod in pods if kind.hot_switch else ():
        if pod.annotation(keys.OPERATOR_ACTION) == keys.ASKED_TO_DELETE:
            told = not pod.deleting
            yield Delete(PODS, pod.name, pod.uid, pod.version, grace_s=0, told=told)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at the pods of a job in which something is going on."""

    kind: JobKind[Any]
    job: JobView[Any]
    own: tuple[PodView, ...]
    backups: tuple[PodView, ...]

    def switch(self) -> HotSwitch:
        chosen = self._chosen()
        heirs = self._heirs()
        asked = tuple(pods_asked_to_go(self.kind, (*self.own, *self.backups)))
        going = {write.uid for write in asked} | {p.uid for p in self.backups if p.deleting}
        needed = {*chosen.values(), *(heir.name for heir in heirs.values())}
        holders = tuple(sorted((*self.own, *heirs.values()), key=_by_slot))
        return HotSwitch(
            pods=holders,
            wanted=tuple(self._wanted(chosen)),
            asked_to_go=asked,
            marks=(
                *(_without(b, keys.POD_TYPE, keys.BACKUP_SOURCE) for b in heirs.values()),
                *self._answers(chosen),
            ),
            unwanted=tuple(
                Delete(PODS, backup.name, backup.uid, backup.version)
                for backup in self.backups
                if backup.annotation(keys.BACKUP_SOURCE)
                and backup.name not in needed
                and backup.uid not in going
            ),
            took_over=frozenset(heirs),
            failed=frozenset(self._failed()),
            renamed=_renamed(self.kind, self.job, holders),
        )

    def _heirs(self) -> Mapping[str, PodView]:
        """By slot, the backup whose source is gone, so that the slot is its own."""
        sources = {pod.name for pod in self.own}
        taken = {slot_name(pod) for pod in self.own}
        heirs: dict[str, PodView] = {}
        for backup in self.backups:
            source, slot = backup.annotation(keys.BACKUP_SOURCE), slot_name(backup)
            inherits = source and source not in sources and slot not in taken
            if inherits and self._has_slot(backup):
                heirs.setdefault(slot, backup)
        return heirs

    def _chosen(self) -> Mapping[str, str]:
        """By the name of its source, the one backup that is its backup; none that is going."""
        sources = {pod.name: pod for pod in self.own}
        chosen: dict[str, str] = {}
        for backup in self.backups:
            name = backup.annotation(keys.BACKUP_SOURCE)
            source = sources.get(name)
            if source is None or backup.deleting or not self._has_slot(backup):
                continue
            known = source.annotation(keys.BACKUP_NAME) == backup.name
            if known or (_asks(source) and name not in chosen):
                chosen[name] = backup.name
        return chosen

    def _wanted(self, chosen: Mapping[str, str]) -> Iterator[Wanted]:
        taken = {pod.name for pod in (*self.own, *self.backups)}
        for pod in self.own:
            slot = self._slot_of(pod) if _asks(pod) else None
            if slot is not None and pod.name not in chosen:
                name = backup_name(pod.name, pod.uid, taken)
                taken.add(name)
                yield Wanted(pod, slot, name)

    def _answers(self, chosen: Mapping[str, str]) -> Iterator[Patch]:
        """To sources: the name of a backup that is there, or that there is none any more."""
        there = {pod.name for pod in self.backups}
        for pod in self.own:
            if _asks(pod):
                if pod.name in chosen:
                    yield name_backup(pod, chosen[pod.name])
            elif (named := pod.annotation(keys.BACKUP_NAME)) and named not in there:
                yield _without(pod, keys.HOT_SWITCH, keys.BACKUP_NAME)

    def _failed(self) -> Iterator[str]:
        there = {pod.name for pod in self.backups}
        for pod in self.own:
            named = pod.annotation(keys.BACKUP_NAME)
            if named and named not in there:
                yield named

    def _has_slot(self, pod: PodView) -> bool:
        return self._slot_of(pod) is not None

    def _slot_of(self, pod: PodView) -> PodSlot | None:
        """The slot that a pod has by its labels; None for one that the job should not have."""
        found = slots(self.kind, self.job)
        return next((s for s in found if (s.role.lower(), s.index) == (pod.role, pod.index)), None)


def name_backup(source: PodView, name: str) -> Patch:
    """Tells the source the name of its backup: that what was asked for is done."""
    return _mark(source, {keys.OPERATOR_ACTION: None, keys.BACKUP_NAME: name})


def _without(pod: PodView, *marks: str) -> Patch:
    return _mark(pod, dict.fromkeys(marks))


def _mark(pod: PodView, annotations: Mapping[str, str | None]) -> Patch:
    body = {"metadata": {"annotations": dict(annotations)}}
    return Patch(PODS, pod.name, pod.uid, pod.version, body)


def _asks(pod: PodView) -> bool:
    asked = pod.annotation(keys.OPERATOR_ACTION) == keys.ASKED_FOR_BACKUP
    return asked and not pod.deleting


def _renamed(kind: JobKind[S], job: JobView[S], own: Sequence[PodView]) -> Mapping[str, str]:
    usual = job.once("slot names", lambda: frozenset(slot.name for slot in slots(kind, job)))
    return {pod.name: slot_name(pod) for pod in own if pod.name not in usual}


def _by_slot(pod: PodView) -> tuple[str, int, str]:
    return pod.role, pod.index, pod.name
