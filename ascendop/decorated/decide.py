# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a workload's rank table should be, and which of its pods still need a rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from ascendop.api.observed import PodView
from ascendop.apply.plan import EventNote, Patch, TableWish
from ascendop.builder.integers import integer
from ascendop.builder.labels import DEVICES_910, DEVICES_NPU, RANK_INDEX
from ascendop.builder.names import rank_table_config_map
from ascendop.decorated.kinds import WorkloadKind
from ascendop.decorated.rows import WorkloadRow
from ascendop.kube.resource import PODS
from ascendop.ranktable.build import initializing, rank_table
from ascendop.ranktable.choose import Version
from ascendop.ranktable.table import NotReady, Table, TableJob
from ascendop.ranktable.v2_0 import unknown_scaleout

ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done for one workload."""

    ranks: tuple[Patch, ...] = ()
    """Pods that get a rank; only when they all have one, the table can be decided."""
    table: TableWish | None = None
    """None to leave alone whatever stands there."""
    note: EventNote | None = None
    """What a user has to put right."""
    waits: str = ""
    """Why there is no table, with its code, for the log."""


def decide(
    kind: WorkloadKind, row: WorkloadRow, pods: Iterable[PodView], *, rival: str = ""
) -> Decision:
    """Pure: the same workload and pods, in any order, give the same decision.

    pods:   those that carry its name in the label, whosever they are.
    rival:  what else has this name, and with it the rank table of that name; empty for nothing.

    Law:    a rank that a pod has is never changed, and none is given that another pod has.
    Law:    one pod too many changes nothing: the table of those before stands until it is gone.
    Source: ascendjob.md 3.1, 6.3, 6.4.
    """
    facts = row.facts
    if facts is None or row.deleting:
        return Decision()
    members = allocated(kind, row, pods)
    if len(members) == facts.pods and (ranks := _gaps_filled(members)):
        return Decision(ranks=ranks)
    if rival:
        what = f"the rank table of this name belongs to the {rival} {row.name}; rename one of them"
        return Decision(note=_note("NameTaken", what), waits=f"NameTaken: {what}")
    found = _found(facts, members)
    if isinstance(found, Table):
        return Decision(table=_wish(row, found.content))
    return Decision(
        table=_withdrawal(row, facts.version, found) if found.withdraw else None,
        note=_note(found.reason, found.message) if found.fault else None,
        waits=f"{found.reason}: {found.message}",
    )


def allocated(kind: WorkloadKind, row: WorkloadRow, pods: Iterable[PodView]) -> list[PodView]:
    """The workload's own pods that ask for NPUs and have them, by name (W-49).

    Not:     pods that are going, or that have ended where another one is made in their place.
    """
    own = (pod for pod in pods if pod.npus and not pod.deleting)
    own = (pod for pod in own if kind.ended_pods_stay or pod.phase not in ENDED)
    known = (pod for pod in own if pod.annotation(DEVICES_910) or pod.annotation(DEVICES_NPU))
    return sorted(
        (pod for pod in known if kind.has(pod, row.name, row.uid)), key=lambda pod: pod.name
    )


def _found(facts: TableJob, members: Sequence[PodView]) -> Table | NotReady:
    unknown = unknown_scaleout(facts) if facts.version is Version.V2_0 else None
    if unknown is not None:
        return unknown
    have, wanted = len(members), facts.pods
    if have < wanted:
        return NotReady("PodsMissing", f"{have} of {wanted} pods have devices")
    if have > wanted:
        what = f"{have} pods have devices, the workload has {wanted}; the surplus has to go first"
        return NotReady("PodsSurplus", what, withdraw=False)
    return rank_table(facts, members)


def _gaps_filled(members: Sequence[PodView]) -> tuple[Patch, ...]:
    """A rank for every pod that has none: the smallest that are free, in the order of names."""
    without = [pod for pod in members if not pod.annotation(RANK_INDEX)]
    taken = {integer(pod.annotation(RANK_INDEX)) for pod in members}
    return tuple(_patch(pod, rank) for pod, rank in zip(without, _free(taken), strict=False))


def _free(taken: set[int | None]) -> Iterator[int]:
    return (rank for rank in count() if rank not in taken)


def _patch(pod: PodView, rank: int) -> Patch:
    # The version too: if somebody else has given it a rank meanwhile, that one stays.
    body = {"metadata": {"annotations": {RANK_INDEX: str(rank)}}}
    return Patch(PODS, pod.name, pod.uid, pod.version, body)


def _withdrawal(row: WorkloadRow, version: Version, found: NotReady) -> TableWish:
    return replace(_wish(row, initializing(version)), only_over_completed=True, lacks=found)


def _wish(row: WorkloadRow, content: str) -> TableWish:
    return TableWish(
        content,
        config_map=rank_table_config_map(row.name),
        directory=f"{row.namespace}.{row.name}" if row.wants_file else "",
        mounted=row.mounts_map,
    )


def _note(reason: str, message: str) -> EventNote:
    return EventNote("Warning", "NoRankTable", f"{reason}: {message}")
