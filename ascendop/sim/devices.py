# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Stands in for the Ascend device plugin: which NPUs of its node a pod got, as annotations."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from ascendop.backoff import Backoff
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, NotFoundError, TransportError
from ascendop.kube.resource import PODS, Object
from ascendop.sim.amounts import parse_amounts, requests_of, whole
from ascendop.sim.nodes import (
    FIRST_ADDRESS,
    GENERATION_LABEL,
    GENERATIONS,
    SUPER_POD_LABEL,
    Generation,
    internal_ip,
)
from ascendop.sim.watching import Mirror, ObjectKey

CONFIGURATION_910: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
CONFIGURATION_NPU: Final = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
REAL: Final = "huawei.com/AscendReal"
RETRY: Final = Backoff(0.1, 5.0)

# Addresses as the examples of the documents have them: node n is 192.168.(100 + n).x, and super
# devices are numbered in blocks of 65536 a node.
_DEVICE_NET: Final = ipaddress.IPv4Address("192.168.100.10")
_SUPER_DEVICE: Final = 37748736
_NO_SUPER_DEVICE: Final = "-2"


def asked_npus(pod: Object) -> tuple[str, int]:
    """Resource name and how many whole NPUs the pod asks for; ("", 0) for none."""
    asked = requests_of(pod)
    for resource in sorted({g.resource for g in GENERATIONS.values()}):
        if whole(asked, resource):
            return resource, whole(asked, resource)
    return "", 0


def has_devices(pod: Object) -> bool:
    """Whether the annotations are there, or not needed."""
    annotations = pod["metadata"].get("annotations") or {}
    return not asked_npus(pod)[1] or bool({CONFIGURATION_910, CONFIGURATION_NPU} & set(annotations))


def given_devices(pod: Object) -> set[int]:
    """Numbers of the NPUs that the pod has got; none before its annotations are there."""
    names = (pod["metadata"].get("annotations") or {}).get(REAL, "")
    return {int(name.rpartition("-")[2]) for name in names.split(",") if name}


def generation_of(node: Object, resource: str) -> Generation:
    """By our own label, else by `accelerator-type`, else the oldest that has the resource."""
    labels = node["metadata"].get("labels") or {}
    if labels.get(GENERATION_LABEL) in GENERATIONS:
        return GENERATIONS[labels[GENERATION_LABEL]]
    candidates = [g for g in GENERATIONS.values() if g.resource == resource]
    kind = labels.get("accelerator-type", "")
    return next((g for g in candidates if g.accelerator_type == kind), candidates[0])


def node_number(node: Object) -> int:
    """From its address: 10.10.0.3 is 3; any other address gives some number, always the same."""
    return (int(ipaddress.IPv4Address(internal_ip(node))) - int(FIRST_ADDRESS)) % 2**16


def build_annotations(pod: Object, node: Object, devices: Iterable[int]) -> dict[str, str]:
    """What device plugin and Volcano write on a pod that got these devices of this node.

    Shape:   the list (`Ascend910-0,Ascend910-1`) twice, and the configuration as JSON.
    Source:  annotations of the device plugin 6.0; 910 key unless the resource is huawei.com/npu.
    """
    resource, _ = asked_npus(pod)
    generation = generation_of(node, resource)
    numbers = sorted(devices)
    names = ",".join(f"{generation.device_prefix}-{number}" for number in numbers)
    key = CONFIGURATION_NPU if generation.name == "A5" else CONFIGURATION_910
    annotations = {
        generation.resource: names,
        REAL: names,
        key: json.dumps(configuration(pod, node, generation, numbers), separators=(",", ":")),
    }
    super_pod = (node["metadata"].get("labels") or {}).get(SUPER_POD_LABEL)
    if generation.name == "A3" and super_pod is not None:
        annotations["super-pod-id"] = super_pod
    return annotations


def configuration(
    pod: Object, node: Object, generation: Generation, numbers: list[int]
) -> dict[str, Any]:
    meta, host_ip = pod["metadata"], internal_ip(node)
    in_super_pod = generation.name == "A3"
    super_pod = int((node["metadata"].get("labels") or {}).get(SUPER_POD_LABEL, 0))
    return {
        "pod_name": meta["name"],
        "server_id": meta["uid"],
        "server_ip": host_ip,
        "host_ip": host_ip,
        "super_pod_id": super_pod if in_super_pod else -1,
        "rack_id": 0 if in_super_pod else -1,
        "server_index": str(node_number(node)) if in_super_pod else "-1",
        "devices": [_device(node_number(node), generation, number) for number in numbers],
    }


def _device(node: int, generation: Generation, number: int) -> dict[str, Any]:
    address = str(_DEVICE_NET + 256 * node + number)
    if generation.name == "A5":
        return {
            "device_id": str(number),
            "device_ip": address,
            "super_device_id": _NO_SUPER_DEVICE,
            "levelList": _levels(node, number, address),
        }
    in_super_pod = generation.name == "A3"
    super_device = str(_SUPER_DEVICE + 65536 * (node - 1) + number)
    return {
        "device_id": str(number),
        "device_ip": address,
        "super_device_id": super_device if in_super_pod else _NO_SUPER_DEVICE,
    }


def _levels(node: int, number: int, address: str) -> list[dict[str, Any]]:
    unified = {
        "net_layer": 0,
        "net_instance_id": str(node),
        "net_type": "TOPO_FILE_DESC",
        "net_attr": "",
        "rank_addr_list": [
            {
                "addr_type": "EID",
                "addr": f"{0xFF0000 + 256 * node + number:032x}",
                "ports": [f"0/{number}"],
                "plane_id": "0",
            }
        ],
    }
    scale_out = {
        "net_layer": 3,
        "net_instance_id": "CLUSTER1",
        "net_type": "CLOS",
        "net_attr": "",
        "rank_addr_list": [
            {"addr_type": "IP", "addr": address, "ports": [f"2/{number}"], "plane_id": "CLUSTER"}
        ],
    }
    return [{"level": 0, "info": {"UB": unified}}, {"level": 3, "info": {"ROCE": scale_out}}]


def devices_of(pod: Object) -> tuple[int, ...]:
    """The numbers that an annotated pod holds."""
    annotations = pod["metadata"].get("annotations") or {}
    text = annotations.get(CONFIGURATION_910) or annotations.get(CONFIGURATION_NPU)
    if not text:
        return ()
    return tuple(int(device["device_id"]) for device in json.loads(text)["devices"])


def choose(node: Object, resource: str, count: int, taken: Iterable[int]) -> tuple[int, ...] | None:
    """The lowest free numbers of the node, or None when there are not enough."""
    status = node.get("status") or {}
    size = whole(parse_amounts(status.get("allocatable")), resource)
    held = set(taken)
    free = [number for number in range(size) if number not in held]
    return tuple(free[:count]) if len(free) >= count else None


class DevicePlugin:
    """Annotates every bound pod that asks for NPUs, once, and frees them when the pod has ended.

    Memory:  the pods' annotations; a new DevicePlugin finds what an old one gave away.
    Not:     a scheduler. A pod on a node without enough free NPUs waits until one is freed.
    """

    def __init__(self, client: Client, *, pods: Mirror, nodes: Mirror) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._given: dict[str, tuple[int, ...]] = {}  # by pod UID: what the mirror may not show yet
        self._changed = asyncio.Event()
        pods.on_change(self._on_pod)
        nodes.on_change(lambda _old, _new: self._changed.set())

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        self._changed.set()
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._given.pop(old["metadata"]["uid"], None)

    async def run(self) -> NoReturn:
        """Annotate until cancelled; pods and nodes must be run by the caller."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._annotate()
                failures = 0
            except (ApiError, TransportError):
                await asyncio.sleep(RETRY.after(failures))
                failures += 1
                self._changed.set()

    async def _annotate(self) -> None:
        for key in sorted(self._pods.objects):
            pod = self._pods.objects.get(key)
            if pod is not None and _waits(pod) and pod["metadata"]["uid"] not in self._given:
                await self._give(key, pod)

    async def _give(self, key: ObjectKey, pod: Object) -> None:
        node = self._nodes.objects.get(("", pod["spec"]["nodeName"]))
        resource, count = asked_npus(pod)
        numbers = node and choose(node, resource, count, self._taken(pod["spec"]["nodeName"]))
        if not node or not numbers:
            return
        uid = pod["metadata"]["uid"]
        self._given[uid] = numbers
        body = {"metadata": {"uid": uid, "annotations": build_annotations(pod, node, numbers)}}
        try:
            await self._client.patch(PODS, *key, body)
        except NotFoundError:
            self._given.pop(uid, None)
        except BaseException:
            self._given.pop(uid, None)
            raise

    def _taken(self, node_name: str) -> set[int]:
        return {
            number
            for pod in self._pods.objects.values()
            if pod["spec"].get("nodeName") == node_name and not ended(pod)
            for number in devices_of(pod) or self._given.get(pod["metadata"]["uid"], ())
        }


def ended(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _waits(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not ended(pod) and not has_devices(pod)
