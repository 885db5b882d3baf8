# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Node objects for a cluster that is not there: `2x8 910B` is two nodes of eight NPUs."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from ascendop.clock import WallClock, rfc3339
from ascendop.errors import UsageError
from ascendop.kube.client import Client
from ascendop.kube.errors import ExistsError
from ascendop.kube.resource import NODES, Object

GENERATION_LABEL: Final = "ascendop.io/npu-generation"
SUPER_POD_LABEL: Final = "ascendop.io/super-pod-id"
FIRST_ADDRESS: Final = ipaddress.IPv4Address("10.10.0.0")  # node 1 is 10.10.0.1


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of Ascend hardware, as its nodes and device plugin show it."""

    name: str
    resource: str
    accelerator_type: str
    """Value of the node label that nodeSelectors of jobs ask for."""
    device_prefix: str
    """What a device is called in the list annotation, before its number."""


GENERATIONS: Final = {
    g.name: g
    for g in (
        Generation("910", "huawei.com/Ascend910", "module", "Ascend910"),
        Generation("910B", "huawei.com/Ascend910", "module-910b-8", "Ascend910"),
        Generation("A3", "huawei.com/Ascend910", "module-a3-16-super-pod", "Ascend910"),
        Generation("A5", "huawei.com/npu", "850-Atlas-8p-8", "npu"),
    )
}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """Some equal nodes."""

    count: int
    npus: int = 0
    generation: str = "910B"
    cpu: str = "64"
    memory: str = "512Gi"
    pods: str = "110"
    super_pod_nodes: int = 2
    """How many neighbouring nodes make a super-pod; only A3 has them."""


_SPEC: Final = re.compile(r"(\d+)(?:x(\d+)(?:\s+(\w+))?)?")


def parse_nodes(text: str) -> NodeSpec:
    """Shape: `3` (no NPUs), `2x8` (910B), `2x16 A3`. Raises UsageError."""
    match = _SPEC.fullmatch(text.strip())
    names = ", ".join(GENERATIONS)
    if not match or (match[3] and match[3].upper() not in GENERATIONS):
        raise UsageError(
            f"{text!r} does not say which nodes; write for example '2x8 910B' for two nodes of "
            f"eight NPUs (generations: {names}), or '3' for three nodes without"
        )
    count, npus, generation = match.groups()
    if int(count) < 1:
        raise UsageError(f"{text!r} makes no node; write at least 1")
    return NodeSpec(int(count), int(npus or 0), (generation or "910B").upper())


def build_nodes(*specs: NodeSpec, now: str) -> list[Object]:
    """Names node-1, node-2, …, addresses 10.10.0.1, …, Ready from the start."""
    nodes: list[Object] = []
    for spec in specs:
        for within in range(spec.count):
            nodes.append(_node(spec, len(nodes) + 1, within, now))
    return nodes


def _node(spec: NodeSpec, number: int, within: int, now: str) -> Object:
    name = f"node-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "host-arch": "huawei-arm",
    }
    capacity = {"cpu": spec.cpu, "memory": spec.memory, "pods": spec.pods}
    if spec.npus:
        generation = GENERATIONS[spec.generation]
        labels["accelerator-type"] = generation.accelerator_type
        labels[GENERATION_LABEL] = generation.name
        capacity[generation.resource] = str(spec.npus)
        if generation.name == "A3":
            labels[SUPER_POD_LABEL] = str(within // spec.super_pod_nodes)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": [
                {"type": "InternalIP", "address": str(FIRST_ADDRESS + number)},
                {"type": "Hostname", "address": name},
            ],
            "conditions": ready_conditions(now),
        },
    }


def ready_conditions(now: str) -> list[Object]:
    """As a healthy kubelet posts them."""
    facts = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "sufficient PID available"),
        ("Ready", "True", "KubeletReady", "the node driver answers"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in facts
    ]


async def create_nodes(client: Client, *specs: NodeSpec, wall: WallClock) -> list[Object]:
    """Create them; a node that exists stays as it is."""
    nodes = build_nodes(*specs, now=rfc3339(wall()))
    for node in nodes:
        try:
            await client.create(NODES, node)
        except ExistsError:
            continue
    return nodes


def internal_ip(node: Object | None) -> str:
    """The node's own address, or 127.0.0.1 for a node that has none."""
    addresses = ((node or {}).get("status") or {}).get("addresses") or ()
    return next((a["address"] for a in addresses if a["type"] == "InternalIP"), "127.0.0.1")
