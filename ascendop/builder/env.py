# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Environment variables: the pieces that two kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ascendop.api.model import Object


def value(name: str, text: str | int) -> Object:
    """A literal; Kubernetes takes strings only."""
    return {"name": name, "value": str(text)}


def field(name: str, path: str) -> Object:
    """The downward API's field of the pod itself."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def annotation(name: str, key: str) -> Object:
    """An annotation of the pod itself, as it stands when the container starts."""
    return field(name, f"metadata.annotations['{key}']")


def names_of(env: Iterable[Object]) -> set[str]:
    return {str(entry.get("name")) for entry in env}


def without(env: Sequence[Object], names: set[str]) -> list[Object]:
    """Entries that the user has not set: for what we add beyond a contract, the user wins."""
    return [entry for entry in env if entry["name"] not in names]


def torchrun(address: str, port: str | int, nodes: int, node: int, processes: int) -> list[Object]:
    """What a bare `torchrun script.py` reads; without it every pod trains alone and exits 0."""
    return [
        value("PET_MASTER_ADDR", address),
        value("PET_MASTER_PORT", port),
        value("PET_NNODES", nodes),
        value("PET_NODE_RANK", node),
        value("PET_NPROC_PER_NODE", processes),
    ]
