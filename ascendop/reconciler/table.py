# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the rank table can stand, what it says, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from ascendop.api.job import Condition
from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import EventNote, TableWish
from ascendop.apply.standing import NOBODY_ASKS, Standing
from ascendop.builder.names import rank_table_config_map
from ascendop.ranktable.build import initializing, rank_table
from ascendop.ranktable.table import Table, TableJob
from ascendop.reconciler.status import Conditions
from ascendop.times import rfc3339

VOLUME: Final = "ranktable"  # a volume of this name, of whatever type, asks for the file
CONDITION: Final = "RankTableReady"


def table_wish(kind: JobKind[S], job: JobView[S], pods: Sequence[PodView]) -> TableWish | None:
    """The table that should stand for these pods; None to leave alone whatever stands there."""
    if not job.once("has_rank_table", lambda: kind.has_rank_table(job)):
        return None
    facts = job.once(
        TableJob, lambda: TableJob.of(job.replicas.values(), job.labels, job.annotations)
    )
    found = rank_table(facts, pods)
    place = rank_table_config_map(job.name)
    directory, mounted = job.once(
        VOLUME,
        lambda: (
            f"{job.namespace}.{job.name}" if _mounts_table(job) else "",
            any(place in mounted_maps(volume) for volume in _volumes(job)),
        ),
    )
    if isinstance(found, Table):
        return TableWish(found.content, place, directory, mounted=mounted)
    if not found.withdraw:
        return None
    return TableWish(
        initializing(facts.version),
        place,
        directory,
        only_over_completed=True,
        mounted=mounted,
        lacks=found,
    )


def told(conditions: Conditions, standing: Standing | None, now: datetime) -> Conditions:
    """The conditions with what is known of the table; themselves when there is nothing new.

    Calm:    a job whose table never was in trouble has no such condition: it looks as the contract
             has it.
    Aside:   the condition is put first, for the last one is what kubectl prints as State.
    """
    old = next((c for c in conditions if c.type == CONDITION), None)
    if standing == NOBODY_ASKS:
        return conditions if old is None else tuple(c for c in conditions if c != old)
    if standing is None or (standing.stands and (old is None or old.status == "True")):
        return conditions
    status, moment = ("True" if standing.stands else "False"), rfc3339(now)
    new = Condition(CONDITION, status, standing.reason, standing.message, moment, moment)
    if old is not None:
        if (old.status, old.reason, old.message) == (status, new.reason, new.message):
            return conditions
        if old.status == status:
            new = replace(new, last_transition_time=old.last_transition_time)
    return (new, *(c for c in conditions if c.type != CONDITION))


def table_notes(before: Conditions, after: Conditions) -> Iterator[EventNote]:
    """The Event for a change of the condition of the table."""
    old, new = ({c.type: c for c in found}.get(CONDITION) for found in (before, after))
    if new is not None and new != old:
        type_: Literal["Normal", "Warning"] = "Normal" if new.status == "True" else "Warning"
        yield EventNote(type_, new.reason, new.message, "WriteRankTable")


def _volumes(job: JobView[S]) -> Iterator[Object]:
    for replica in job.replicas.values():
        yield from _objects(replica.pod_spec.get("volumes"))


def _mounts_table(job: JobView[S]) -> bool:
    return any(volume.get("name") == VOLUME for volume in _volumes(job))


def mounted_maps(volume: Object) -> Iterator[str]:
    """Names of the ConfigMaps without which a pod with this volume does not start."""
    projected = volume.get("projected")
    sources = _objects(projected.get("sources")) if isinstance(projected, dict) else ()
    for source in (volume, *sources):
        found = source.get("configMap") or {}
        if isinstance(found, dict) and not found.get("optional"):
            yield str(found.get("name") or "")


def _objects(found: object) -> Iterator[Object]:
    """Those of a list: a template may hold anything, and it is the server that refuses it."""
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()
