# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which version of the rank table a job needs, and the fact that decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ascendop.api.model import Object
from ascendop.builder.labels import NPU_A5, SCHEDULE_POLICY, SP_BLOCK
from ascendop.builder.npus import asks_for

SUPER_POD_POLICIES: Final = frozenset({"chip2-node16-sp", "chip2-node8-sp", "multilevel"})
SUPER_POD_NODES: Final = frozenset({"module-a3-16-super-pod", "module-a3-8-super-pod"})
NODE_TYPE: Final = "accelerator-type"


class Version(StrEnum):
    """The layouts that HCCL and MindIE read."""

    V1_0 = "1.0"
    """Servers and their devices."""
    V1_2 = "1.2"
    """The same, grouped into super-pods."""
    V2_0 = "2.0"
    """Ranks and their addresses on every layer of the network."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A version, and why that one."""

    version: Version
    because: str


def choose_version(templates: Iterable[Object], annotations: Mapping[str, str]) -> Choice:
    """The first fact that speaks decides.

    Trap:    a schedule policy that is not one of super-pods wins over sp-block and node type.
    Source:  ascendjob.md 6.1. Decided anew each time, so that an edit of the job counts (W-29).
    """
    specs = [spec for t in templates if isinstance(spec := t.get("spec"), dict)]
    if any(asks_for(spec, NPU_A5) for spec in specs):
        return Choice(Version.V2_0, f"a container asks for {NPU_A5}")
    if (policy := annotations.get(SCHEDULE_POLICY)) is not None:
        version = Version.V1_2 if policy in SUPER_POD_POLICIES else Version.V1_0
        return Choice(version, f"{SCHEDULE_POLICY} is {policy!r}")
    if SP_BLOCK in annotations:
        return Choice(Version.V1_2, f"the job has the annotation {SP_BLOCK}")
    for node in map(_node_type, specs):
        if node in SUPER_POD_NODES:
            return Choice(Version.V1_2, f"nodeSelector {NODE_TYPE} is {node!r}")
    return Choice(Version.V1_0, "nothing asks for super-pods")


def _node_type(spec: Object) -> str:
    return str((spec.get("nodeSelector") or {}).get(NODE_TYPE, ""))
