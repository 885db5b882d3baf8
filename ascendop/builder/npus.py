# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How many NPUs a template asks for, and by which name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ascendop.api.model import Object
from ascendop.builder.labels import ASCEND_910, NPU_PREFIX, WHOLE_CARDS
from ascendop.kube.quantity import Quantity


@dataclass(frozen=True, slots=True)
class NpuRequest:
    """What a container asks for, e.g. 8 of huawei.com/Ascend910."""

    name: str
    count: int


def npu_request(container: Object) -> NpuRequest | None:
    """The NPU request of a container, or None when it asks for none.

    Of several names the whole-card names come first, in the order of builder.labels.WHOLE_CARDS,
    then the alphabet decides: never the order in which somebody wrote them.
    Raises:  QuantityError, when an amount cannot be read.
    Source:  ascendjob.md 0.3; limits stand in for absent requests, as in every pod (5.10, W-23).
    """
    found = npu_requests(container)
    return min(found, key=_preference, default=None)


def npu_requests(container: Object) -> tuple[NpuRequest, ...]:
    """All NPU resources that a container asks for, by name; more than one is unusual."""
    asked = effective_requests(container)
    return tuple(
        NpuRequest(name, count)
        for name in sorted(asked)
        if NPU_PREFIX in name and (count := Quantity.parse(asked[name]).whole) > 0
    )


def pod_npus(pod_spec: Object) -> int:
    """All NPUs of a pod: the sum over its containers."""
    return sum(request.count for c in containers(pod_spec) for request in npu_requests(c))


def chips(pod_spec: Object, resource: str = ASCEND_910) -> int:
    """How many of one resource the first container asks for that asks for it at all; else 0."""
    counts = (
        request.count
        for container in containers(pod_spec)
        for request in npu_requests(container)
        if request.name == resource
    )
    return next(counts, 0)


def asks_for(pod_spec: Object, resource: str) -> bool:
    return any(resource in effective_requests(c) for c in containers(pod_spec))


def effective_requests(container: Object) -> dict[str, object]:
    """What the API server makes of the resources: per name the request, else the limit."""
    resources = _map(container.get("resources"))
    return {**_map(resources.get("limits")), **_map(resources.get("requests"))}


def containers(pod_spec: Object) -> Iterator[Object]:
    return (c for c in pod_spec.get("containers") or () if isinstance(c, dict))


def _preference(request: NpuRequest) -> tuple[int, str]:
    names = WHOLE_CARDS
    rank = names.index(request.name) if request.name in names else len(names)
    return rank, request.name


def _map(found: object) -> Mapping[str, object]:
    return found if isinstance(found, dict) else {}
