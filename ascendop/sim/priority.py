# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A pod's priority, from its class; as the admission plugin Priority does it."""

from __future__ import annotations

from ascendop.kube.resource import PRIORITY_CLASSES, Object
from ascendop.sim.answers import forbidden
from ascendop.sim.registry import Served
from ascendop.sim.world import World

_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPT = "PreemptLowerPriority"


def resolve_priority(world: World, pod: Object, served: Served) -> None:
    """Write number and preemption policy. Raises RefusedError(403) for a missing class."""
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    value, policy = 0, _PREEMPT
    if name in _SYSTEM:
        value = _SYSTEM[name]
    elif name:
        row = world.row(PRIORITY_CLASSES.name, ("", name))
        if row is None:
            pod_name = pod["metadata"].get("name", "")
            raise forbidden(
                served.resource, pod_name, f"no PriorityClass with name {name} was found"
            )
        found = row.obj
        value, policy = found.get("value", 0), found.get("preemptionPolicy", _PREEMPT)
    elif found_default := _global_default(world):
        spec["priorityClassName"] = found_default["metadata"]["name"]
        value = found_default.get("value", 0)
        policy = found_default.get("preemptionPolicy", _PREEMPT)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _global_default(world: World) -> Object | None:
    table = world.storage.tables.get(PRIORITY_CLASSES.name)
    if table is None or not len(table):
        return None
    return next((obj for row in table.scan("") if (obj := row.obj).get("globalDefault")), None)
