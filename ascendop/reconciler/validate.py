# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job as written becomes a job that can run, or a list of everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from pydantic import ValidationError

from ascendop.api.job import ReplicaSpec
from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.observed import JobRow
from ascendop.builder.pod import with_default_port
from ascendop.builder.shape import shape_problems
from ascendop.errors import InvalidJobError, Problem

_DECODER = msgspec.json.Decoder(dict)


def parse_job(kind: JobKind[S], row: JobRow) -> JobView[S]:
    """The job with its defaults, as the kind's contract has them; nothing is written back.

    Raises:  InvalidJobError, with every mistake in it.
    """
    spec = _parse_spec(kind, row)
    named = kind.replicas(spec)
    if named is None:
        path = f"spec.{kind.replica_field}"
        raise InvalidJobError([
            Problem(path, "is missing", "name at least one replica type", "InvalidSpecs")
        ])  # fmt: skip
    shapes = tuple(shape_problems(f"spec.{kind.replica_field}", named, kind.run_policy(spec)))
    if shapes:
        raise InvalidJobError(shapes)  # the kind's own rules could not even read it
    labels = dict(row.labels)
    replicas = _canonical(kind, labels, named)
    problems = kind.validate(row, spec, replicas)
    if problems:
        raise InvalidJobError(problems)
    return JobView(
        kind=kind.kind,
        api_version=kind.api_version,
        namespace=row.namespace,
        name=row.name,
        uid=row.uid,
        generation=row.generation,
        labels=labels,
        annotations=dict(row.annotations),
        spec=spec,
        run_policy=kind.run_policy(spec),
        replicas=_defaulted(kind, labels, replicas),
    )


def _parse_spec(kind: JobKind[S], row: JobRow) -> S:
    if not row.spec and not kind.bare_spec:
        raise InvalidJobError([
            Problem("spec", "is missing", f"write the spec of the {kind.kind}", "InvalidSpecs")
        ])  # fmt: skip
    try:
        return kind.spec.model_validate(_DECODER.decode(row.spec or b"{}"))
    except ValidationError as error:
        raise InvalidJobError([
            Problem(
                ".".join(("spec", *(str(part) for part in found["loc"]))),
                f"{found['msg']}, but is {found['input']!r:.100}",
                reason="InvalidSpecs",
            )
            for found in error.errors(include_url=False)
        ]) from error  # fmt: skip


def _canonical(
    kind: JobKind[S], labels: Mapping[str, str], named: Mapping[str, ReplicaSpec]
) -> dict[str, ReplicaSpec]:
    """Roles under their canonical names, in rank order; unknown ones behind, by name."""
    roles = [role.name for role in kind.roles(labels)]
    by_lower = {role.lower(): role for role in roles}
    renamed = {by_lower.get(name.lower(), name): replica for name, replica in named.items()}
    order = [*(r for r in roles if r in renamed), *sorted(set(renamed) - set(roles))]
    return {role: renamed[role] for role in order}


def _defaulted(
    kind: JobKind[S], labels: Mapping[str, str], replicas: Mapping[str, ReplicaSpec]
) -> Mapping[str, ReplicaSpec]:
    leaders = {role.name for role in kind.roles(labels) if role.leader}
    return {
        role: replica.model_copy(
            update={
                "replicas": replica.count,
                "restart_policy": replica.restart_policy or kind.restart_policy,
                "template": replica.template
                if kind.port_on_leaders_only and role not in leaders
                else with_default_port(kind, replica.template),
            }
        )
        for role, replica in replicas.items()
    }
