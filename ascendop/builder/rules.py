# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Mistakes that every kind knows: roles, counts, containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ascendop.api.job import MAX_REPLICAS, ReplicaSpec
from ascendop.api.kind import Role
from ascendop.builder.names import HOST_NAME, MAX_NAME
from ascendop.errors import Problem


def name_problems(job: str) -> Iterator[Problem]:
    """Why no Service can have a name that begins with this one.

    Source:  kubeflow-v1-jobs.md 1.9, whose words are those of apimachinery.
    """
    head = f'Invalid value: "{job}": should match: '
    if not HOST_NAME.fullmatch(job):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
            "with an alphabetic character, and end with an alphanumeric character (e.g. "
            "'my-name',  or 'abc-123', regex used for validation is "
            f"'{HOST_NAME.pattern}')"
        )
        yield Problem("metadata.name", head + text)
    if len(job) > MAX_NAME:
        yield Problem("metadata.name", f"{head}must be no more than {MAX_NAME} characters")


def role_problems(
    field: str, replicas: Mapping[str, ReplicaSpec], roles: Sequence[Role], container: str
) -> Iterator[Problem]:
    """What is wrong with a replica map, in the words that Kubernetes uses for field errors.

    field:      path of the map, e.g. spec.pytorchReplicaSpecs.
    container:  name of the main container, which every role must have.
    """
    known = {role.name: role for role in roles}
    for name in sorted(replicas):
        path = f"{field}[{name}]"
        role = known.get(name)
        if role is None:
            names = ", ".join(f'"{known_name}"' for known_name in known)
            yield Problem(path, f'Unsupported value: "{name}": supported values: {names}')
            continue
        yield from _count_problems(path, replicas[name], role)
        yield from _container_problems(path, replicas[name], container)


def _count_problems(path: str, replica: ReplicaSpec, role: Role) -> Iterator[Problem]:
    count, most = replica.count, MAX_REPLICAS if role.most is None else role.most
    if most == role.least and count != most:
        yield Problem(f"{path}.replicas", f"Forbidden: must be {most}")
    elif count < role.least:
        yield Problem(f"{path}.replicas", f"Forbidden: must be at least {role.least}")
    elif count > most:
        yield Problem(f"{path}.replicas", f"Forbidden: must be at most {most}")


def _container_problems(path: str, replica: ReplicaSpec, container: str) -> Iterator[Problem]:
    where = f"{path}.template.spec.containers"
    if not replica.containers:
        yield Problem(where, "Required value: must be specified")
        return
    for index, found in enumerate(replica.containers):
        if not found.get("image"):
            yield Problem(f"{where}[{index}].image", "Required value: must be required")
    if replica.container(container) is None:
        text = f"Required value: must have at least one container with name {container}"
        yield Problem(where, text)
