# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What pods ask for and nodes have: resource maps as exact numbers, added and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ascendop.kube.quantity import NANO, Quantity
from ascendop.kube.resource import Object

Amounts = dict[str, int]
"""Resource name to billionths of its unit; what is absent is 0."""


def parse_amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Raises QuantityError."""
    return {name: Quantity.parse(value).nanos for name, value in (resources or {}).items()}


def whole(amounts: Amounts, name: str) -> int:
    """How many whole ones, as devices are counted."""
    return amounts.get(name, 0) // NANO


def total(parts: Iterable[Amounts]) -> Amounts:
    sums: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def minus(left: Amounts, right: Amounts) -> Amounts:
    """May be negative; has every key of both."""
    return {name: left.get(name, 0) - right.get(name, 0) for name in left.keys() | right.keys()}


def short_of(wanted: Amounts, free: Amounts) -> list[str]:
    """The resources of which more is wanted than free, by name."""
    return sorted(
        name for name, amount in wanted.items() if amount > 0 and amount > free.get(name, 0)
    )


def requests_of(pod: Object) -> Amounts:
    """What a scheduler counts: containers, at least the largest init step, overhead, one pod.

    A limit without a request is a request.
    """
    spec = pod["spec"]
    steps = spec.get("initContainers") or ()
    sidecars = [step for step in steps if step.get("restartPolicy") == "Always"]
    asked = total(_container(c) for c in [*(spec.get("containers") or ()), *sidecars])
    for step in steps:
        for name, amount in _container(step).items():
            asked[name] = max(asked.get(name, 0), amount)
    return total([asked, parse_amounts(spec.get("overhead")), {"pods": NANO}])


def _container(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return parse_amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
