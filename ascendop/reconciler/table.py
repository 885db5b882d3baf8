# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the rank table can stand, and what it says."""

from __future__ import annotations

from collections.abc import Sequence

from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.observed import PodView
from ascendop.apply.plan import TableWish
from ascendop.builder.names import rank_table_config_map
from ascendop.ranktable.build import initializing, rank_table
from ascendop.ranktable.table import Table, TableJob

VOLUME = "ranktable"  # a volume of this name, of whatever type, asks for the file


def table_wish(kind: JobKind[S], job: JobView[S], pods: Sequence[PodView]) -> TableWish | None:
    """The table that should stand for these pods; None to leave alone whatever stands there."""
    if not kind.has_rank_table(job):
        return None
    facts = job.once(
        TableJob, lambda: TableJob.of(job.replicas.values(), job.labels, job.annotations)
    )
    found = rank_table(facts, pods)
    directory = f"{job.namespace}.{job.name}" if _mounts_table(job) else ""
    place = rank_table_config_map(job.name)
    if isinstance(found, Table):
        return TableWish(found.content, place, directory)
    if not found.withdraw:
        return None
    return TableWish(
        initializing(facts.version),
        place,
        directory,
        only_over_completed=True,
        waits=f"{found.reason}: {found.message}",
    )


def _mounts_table(job: JobView[S]) -> bool:
    return any(
        volume.get("name") == VOLUME
        for replica in job.replicas.values()
        for volume in replica.pod_spec.get("volumes") or ()
    )
