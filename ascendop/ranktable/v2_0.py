# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank table 2.0: every rank, and how it is reached on every layer of the network.

Source: ascendjob.md 6.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ascendop.builder.integers import integer
from ascendop.ranktable.choose import Version
from ascendop.ranktable.devices import Device, Layer
from ascendop.ranktable.servers import Server
from ascendop.ranktable.table import COMPLETED, NotReady, TableJob

INNER: Final = (0, 1)  # inside the box and inside the super-pod: whatever the device has
OUTER: Final = {"ROCE": 3, "UBOE": 2, "UBG": 2}  # port type to layer, the preferred first
SCALEOUT: Final = {"": tuple(OUTER), "ROCE": ("ROCE",), "UBOE": ("UBOE", "UBG")}


class Rank(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    rank_id: int
    local_id: int
    device_id: int
    level_list: list[Layer] = []


class RankTable20(msgspec.Struct, kw_only=True, omit_defaults=True):
    status: str
    version: str
    rank_list: list[Rank] = []
    rank_count: int = 0


def build_2_0(job: TableJob, servers: Sequence[Server]) -> msgspec.Struct | NotReady:
    """The table, or NotReady when a device id is no number or the scale-out type unknown."""
    unknown = unknown_scaleout(job)
    if unknown is not None:
        return unknown
    outer = _outer_layer(job, servers)
    ranks = []
    for server in servers:
        for rank, device in enumerate(server.devices, server.first):
            number = integer(device.device_id)
            if number is None:
                what = f"pod {server.pod.name}: device_id {device.device_id!r} is not a number"
                return NotReady("DevicesUnreadable", what, fault=True)
            levels = _levels(device, *outer)
            ranks.append(Rank(rank_id=rank, local_id=number, device_id=number, level_list=levels))
    return RankTable20(
        status=COMPLETED,
        version=Version.V2_0.value,
        rank_list=ranks,
        rank_count=len(ranks),
    )


def unknown_scaleout(job: TableJob) -> NotReady | None:
    """Why no table will ever be made, whatever the pods have: the label names no network."""
    if job.scaleout in SCALEOUT:
        return None
    what = f"scaleout-type is {job.scaleout!r}; it may be ROCE, UBOE or absent"
    return NotReady("ScaleoutTypeUnknown", what, withdraw=False, fault=True)


def _outer_layer(job: TableJob, servers: Sequence[Server]) -> tuple[str, int | None]:
    """Port type and number of the layer between super-pods: one for the whole table.

    A port type that no device has is empty; its layer is then filled with an empty entry, if the
    job asked for it by label.
    """
    offered = {
        port
        for server in servers
        for device in server.devices
        for level in device.levels or ()
        for port in level.info
    }
    port = next((port for port in SCALEOUT[job.scaleout] if port in offered), "")
    return port, OUTER.get(port or job.scaleout)


def _levels(device: Device, port: str, outer: int | None) -> list[Layer]:
    infos = {level.level: level.info for level in device.levels or ()}
    layers = [infos[level][min(infos[level])] for level in INNER if infos.get(level)]
    if outer is not None:
        layers.append(infos.get(outer, {}).get(port) or _filler(outer))
    return layers


def _filler(level: int) -> Layer:
    return Layer(net_layer=level, net_instance_id="CLUSTER1", net_type="CLOS", rank_addr_list=())
