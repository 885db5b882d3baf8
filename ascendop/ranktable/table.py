# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes into a rank table, and what comes out: a table, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ascendop.api.job import ReplicaSpec
from ascendop.builder.labels import (
    INFERENCE_APP,
    INFERENCE_JOB,
    NPU_CORE,
    SCALEOUT_TYPE,
    SOFT_SHARE,
    SUPER_POD_AFFINITY,
)
from ascendop.builder.npus import asks_for, chips, pod_npus
from ascendop.builder.superpod import logical_super_pods, super_pod_block
from ascendop.ranktable.choose import Version, choose_version

COMPLETED: Final = "completed"
INITIALIZING: Final = "initializing"


@dataclass(frozen=True, slots=True)
class TableJob:
    """The facts of a job that its rank table depends on."""

    version: Version
    pods: int
    """Pods that ask for NPUs; the others are not in the table."""
    block: int = 0
    """Chips per logical super-pod; 0 for no super-pods."""
    super_pods: int = 0
    """Logical super-pods of the whole job."""
    soft_affinity: bool = False
    """The scheduler decides which pods share a super-pod."""
    inference: bool = False
    shared_chips: bool = False
    """Two pods may have one chip: soft sharing, or slices of chips."""
    scaleout: str = ""
    """ROCE, UBOE, or empty to take what the devices offer; version 2.0 only."""

    @classmethod
    def of(
        cls,
        replicas: Iterable[ReplicaSpec],
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
    ) -> TableJob:
        """The facts of a job with these replicas, leader first.

        Raises:  QuantityError, when a template asks for an amount that cannot be read.
        """
        roles = tuple(replicas)
        templates = [role.template for role in roles]
        block = super_pod_block(annotations, templates)
        return cls(
            version=choose_version(templates, annotations).version,
            pods=sum(role.count for role in roles if pod_npus(role.pod_spec)),
            block=block,
            super_pods=logical_super_pods(sum(r.count * chips(r.pod_spec) for r in roles), block),
            soft_affinity=labels.get(SUPER_POD_AFFINITY) == "soft",
            inference=INFERENCE_JOB in labels and INFERENCE_APP in labels,
            shared_chips=all(key in labels for key in SOFT_SHARE)
            or any(asks_for(role.pod_spec, NPU_CORE) for role in roles),
            scaleout=labels.get(SCALEOUT_TYPE, "").strip().upper(),
        )


@dataclass(frozen=True, slots=True)
class Table:
    """A finished rank table."""

    content: str
    """Compact JSON, keys in the order of the contract: what hccl.json holds."""
    status: Literal["completed"] = COMPLETED


@dataclass(frozen=True, slots=True)
class NotReady:
    """There is no table, and why."""

    reason: str
    """CamelCase code."""
    message: str
    withdraw: bool = True
    """A table written before is wrong now: say `initializing`. Else leave what is there."""
    fault: bool = False
    """Time does not help, somebody's hand does; else it may be on its way."""
