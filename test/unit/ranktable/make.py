# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods with devices, and the jobs they belong to; only what matters is said."""

import json

from ascendop.api.observed import PodView
from ascendop.ranktable.choose import Version
from ascendop.ranktable.table import TableJob

NPU = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
ASCEND_910 = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


def job(**facts):
    return TableJob(**{"version": Version.V1_0, "pods": 2} | facts)


def devices(rank, count=2, **fields):
    """`count` devices of the host with that number; `fields` go on each device."""
    return [
        {
            "device_id": str(i),
            "device_ip": f"192.168.{rank}.{i}",
            "super_device_id": str(100 * rank + i),
        }
        | fields
        for i in range(count)
    ]


def config(rank, found=None, **fields):
    """The device annotation of the pod with that rank."""
    host = f"10.10.0.{rank}"
    body = {"pod_name": f"w-{rank}", "server_id": f"uid-{rank}", "server_ip": host, "host_ip": host}
    return json.dumps(body | {"devices": devices(rank) if found is None else found} | fields)


def pod(rank, *, annotation=ASCEND_910, config=config, **fields):
    """A pod of rank `rank` on a node of its own, with two devices; config=None: none known yet."""
    extra = fields.pop("annotations", {})
    annotations = {"hccl/rankIndex": str(rank)}
    if config is not None:
        annotations[annotation] = config(rank) if callable(config) else config
    defaults = {
        "namespace": "ns",
        "name": f"w-{rank}",
        "uid": f"uid-{rank}",
        "version": "1",
        "npus": 2,
        "ip": f"10.244.0.{rank}",
        "node": f"node-{rank}",
    }
    return PodView(**defaults | fields, annotations=tuple((annotations | extra).items()))


def layer(number, name="n", **fields):
    body = {"net_layer": number, "net_instance_id": name, "net_type": "CLOS", "net_attr": ""}
    address = {"addr_type": "EID", "addr": "00f1", "ports": ["0/0"], "plane_id": "0"}
    return body | {"rank_addr_list": [address]} | fields


def levels(*ports):
    """levelList of a device that has these (level, port type) pairs."""
    return [{"level": level, "info": {port: layer(level, port)}} for level, port in ports]
