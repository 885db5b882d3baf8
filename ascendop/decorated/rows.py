# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Workloads and their pods as they are cached: what a rank table needs, and nothing else.

A cluster has many workloads and pods that have no rank table. They are rows of four strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from ascendop.api.job import ReplicaSpec
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.builder import labels as keys
from ascendop.builder.names import rank_table_config_map
from ascendop.builder.npus import pod_npus
from ascendop.decorated.kinds import WorkloadKind
from ascendop.informer.metadata import Meta
from ascendop.informer.pool import Pool
from ascendop.informer.represent import StructForm
from ascendop.informer.rows import Pod, Whole, Wire, pod_row
from ascendop.ranktable.table import TableJob
from ascendop.reconciler.table import VOLUME, mounted_maps

R = TypeVar("R", bound="WorkloadRow | PodView")
TABLE_ANNOTATIONS: Final = frozenset({
    keys.RANK_INDEX, keys.DEVICES_910, keys.DEVICES_NPU, keys.SUPER_POD_RANK, keys.SUPER_POD_ID,
    keys.HARDWARE_TYPE,
})  # fmt: skip
"""What a table is made of. A backup pod is the business of AscendJobs."""


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment, a StatefulSet or a Volcano Job."""

    namespace: str
    name: str
    uid: str
    version: str
    deleting: bool = False
    facts: TableJob | None = None
    """What its rank table depends on, as of this version; None when it wants none."""
    wants_file: bool = False
    """Whether a template has the volume of the shared directory."""
    mounts_map: bool = False
    """Whether its pods do not start without the ConfigMap of its table."""


class _Volume(Wire):
    name: str = ""


class _PodSpec(Wire):
    volumes: list[_Volume] | None = None


class _Template(Wire):
    spec: _PodSpec | None = None


class _Task(Wire):
    template: _Template | None = None


class _Spec(_Task):
    """Of any of the kinds: one template, or one in each task."""

    tasks: list[_Task] | None = None


class Workload(Whole):
    """A workload as the wire spells it."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


_SPEC: Final = msgspec.json.Decoder(_Spec)
_WHOLE: Final = msgspec.json.Decoder(Object)


def workload_row(kind: WorkloadKind, workload: Workload, pool: Pool) -> WorkloadRow:
    """The row, with the facts of a table if the workload wants one and asks for NPUs at all."""
    meta = workload.metadata
    wants_file = _has_volume(_SPEC.decode(workload.spec))
    marked = meta.labels is not None and keys.RING_CONTROLLER in meta.labels
    roles = kind.roles(_WHOLE.decode(workload.spec)) if marked or wants_file else ()
    return WorkloadRow(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        deleting=meta.deletion_timestamp is not None,
        facts=_facts(kind, meta, roles),
        wants_file=wants_file,
        mounts_map=rank_table_config_map(meta.name) in _maps(roles),
    )


def _has_volume(spec: _Spec) -> bool:
    return any(
        volume.name == VOLUME
        for owner in (spec, *(spec.tasks or ()))
        if owner.template is not None and owner.template.spec is not None
        for volume in owner.template.spec.volumes or ()
    )


def _maps(roles: Iterable[ReplicaSpec]) -> Iterator[str]:
    for role in roles:
        for volume in role.pod_spec.get("volumes") or ():
            yield from mounted_maps(volume)


def _facts(kind: WorkloadKind, meta: Meta, roles: Sequence[ReplicaSpec]) -> TableJob | None:
    if not any(pod_npus(role.pod_spec) for role in roles):
        return None
    annotations = dict(meta.annotations or {})
    if kind.template_annotations:
        annotations |= _annotations(role.template for role in roles)
    return TableJob.of(roles, meta.labels or {}, annotations)


def _annotations(templates: Iterable[Object]) -> dict[str, str]:
    return {
        key: value
        for template in templates
        for key, value in ((template.get("metadata") or {}).get("annotations") or {}).items()
    }


def workloads_form(kind: WorkloadKind) -> StructForm[Workload, WorkloadRow]:
    """How workloads of a kind are cached. One of odd shape is one that wants no table."""
    return StructForm(Workload, partial(workload_row, kind), partial(_bare, WorkloadRow))


def member_row(label: str, pod: Pod, pool: Pool) -> PodView:
    """A pod of some workload, its `job` the name in the label; bare if it has no NPUs."""
    whole = pod_row(pod, pool)
    if not whole.npus:
        return _bare(PodView, pod.metadata, pool)
    return PodView(
        namespace=whole.namespace,
        name=whole.name,
        uid=whole.uid,
        version=whole.version,
        owner_kind=whole.owner_kind,
        owner_name=whole.owner_name,
        owner_uid=whole.owner_uid,
        deleting=whole.deleting,
        job=pool((pod.metadata.labels or {}).get(label, "")),
        annotations=tuple(pair for pair in whole.annotations if pair[0] in TABLE_ANNOTATIONS),
        phase=whole.phase,
        ip=whole.ip,
        node=whole.node,
        npus=whole.npus,
    )


def members_form(label: str) -> StructForm[Pod, PodView]:
    """How pods that are found by a label are cached."""
    return StructForm(Pod, partial(member_row, label), partial(_bare, PodView))


def _bare(row: type[R], meta: Meta, pool: Pool) -> R:
    """What is known of an object that has no part in a table."""
    return row(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
    )
