# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Logical super-pods: which pods share a fast fabric. Integer arithmetic, and the facts behind it.

Source: ascendjob.md 8.1 to 8.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ascendop.api.model import Object
from ascendop.builder.integers import integer
from ascendop.builder.labels import AFFINITY_CONFIG, SCHEDULE_POLICY, SP_BLOCK
from ascendop.builder.npus import chips

MULTILEVEL: Final = "multilevel"


def super_pod_block(annotations: Mapping[str, str], templates: Iterable[Object]) -> int:
    """Chips per logical super-pod; 0 when the job has none.

    templates:   the pod templates, leader first. The policy `multilevel` counts in pods; the first
                 template with huawei.com/Ascend910 says how many chips those have.
    """
    block = integer(annotations.get(SP_BLOCK, "")) or 0
    if block == 0 and annotations.get(SCHEDULE_POLICY) == MULTILEVEL:
        per_pod = next(filter(None, map(_chips, templates)), 0)
        return _level1(annotations.get(AFFINITY_CONFIG, "")) * per_pod
    return block


def logic_super_pod(position: int, block: int, per_pod: int) -> int:
    """The logical super-pod of the pod at that position, with so many chips per pod."""
    if block <= 0 or per_pod <= 0:
        return 0
    return position // max(1, block // per_pod)


def logical_super_pods(total_chips: int, block: int) -> int:
    """How many logical super-pods a job has; 0 when it has no block."""
    return total_chips // block if block > 0 else 0


def _chips(template: Object) -> int:
    return chips(template.get("spec") or {})


def _level1(affinity: str) -> int:
    """`level1` of level1=2,level2=4; 0 when any part of the text is not of that shape."""
    levels: dict[str, int] = {}
    for part in affinity.split(","):
        name, _, text = part.partition("=")
        pods = integer(text)
        if pods is None:
            return 0
        levels[name] = pods
    return levels.get("level1", 0)
