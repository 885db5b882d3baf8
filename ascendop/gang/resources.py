# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a pod asks for, as the scheduler will count it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ascendop.api.model import Object
from ascendop.builder.npus import containers, effective_requests
from ascendop.kube.quantity import NANO, Quantity

Amounts = dict[str, Quantity]
"""By resource name."""

_INT64: Final = 2**63 - 1
MOST_BYTES: Final = Quantity(_INT64 * NANO)
MOST: Final = Quantity(_INT64 // 1000 * NANO)
"""vc-scheduler counts memory in bytes and all else in thousandths, both in 64 bits: a larger amount
turns negative there and ends the process, whoever's job it was. No cluster has as much."""
POD_LEVEL: Final = ("cpu", "memory", "hugepages-")  # names that a pod may ask for as a whole


def pod_request(pod_spec: Object) -> Amounts:
    """The request of one pod, as kube-scheduler and vc-scheduler compute it.

    Init:    the largest step of the start, if it is larger than the run; side-cars count in both.
    Raises:  QuantityError, when an amount cannot be read.
    Source:  scheduling.md SCH-66.
    """
    sidecars, peak = _start(pod_spec)
    run = total([sidecars, *(_request(c) for c in containers(pod_spec))])
    whole = {
        name: amount for name, amount in _request(pod_spec).items() if name.startswith(POD_LEVEL)
    }
    return total([{**largest([run, peak]), **whole}, amounts(pod_spec.get("overhead"))])


def _start(pod_spec: Object) -> tuple[Amounts, Amounts]:
    """Requests of the side-cars, and the largest that the pod needs in any step of its start."""
    sidecars: Amounts = {}
    peak: Amounts = {}
    for init in pod_spec.get("initContainers") or ():
        step = total([sidecars, _request(init)])
        peak = largest([peak, step])
        if init.get("restartPolicy") == "Always":
            sidecars = step
    return sidecars, peak


def _request(container: Object) -> Amounts:
    return amounts(effective_requests(container))


def amounts(found: object) -> Amounts:
    """A resource map of a manifest. Raises QuantityError."""
    if not isinstance(found, Mapping):
        return {}
    return {name: Quantity.parse(text) for name, text in found.items()}


def total(parts: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, Quantity()) + amount
    return found


def countable(found: Amounts) -> dict[str, str]:
    """As text, by name, and no more than the scheduler can count."""
    return {
        name: str(min(found[name], MOST_BYTES if name == "memory" else MOST))
        for name in sorted(found)
    }


def largest(parts: Iterable[Amounts]) -> Amounts:
    found: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = max(found.get(name, Quantity()), amount)
    return found
