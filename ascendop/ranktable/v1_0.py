# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank table 1.0: servers and their devices.

Source: ascendjob.md 6.6 and 6.7. The order of the fields is the order of the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ascendop.builder.labels import HARDWARE_TYPE
from ascendop.ranktable.choose import Version
from ascendop.ranktable.servers import Server, place
from ascendop.ranktable.table import COMPLETED, NotReady, TableJob

UNREADABLE: Final = "-1"  # what the device plug-in writes when it could not read an address


class DeviceEntry(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    device_id: str
    device_ip: str
    super_device_id: str = ""
    """Version 1.2 only."""
    rank_id: str


class ServerEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    device: list[DeviceEntry]
    hardware_type: str = ""
    """Inference jobs only."""
    server_id: str
    host_ip: str
    container_ip: str = ""


class RankTable10(msgspec.Struct, kw_only=True, omit_defaults=True):
    status: str
    server_list: list[ServerEntry] = []
    server_count: str = ""
    version: str


def build_1_0(job: TableJob, servers: Sequence[Server]) -> msgspec.Struct | NotReady:
    """The table, or NotReady when an address could not be read on its node."""
    unreadable = unreadable_address(servers)
    if unreadable is not None:
        return unreadable
    entries = [server_entry(job, server) for server in servers]
    return RankTable10(
        status=COMPLETED,
        server_list=entries,
        server_count=str(len(entries)),
        version=Version.V1_0.value,
    )


def server_entry(job: TableJob, server: Server) -> ServerEntry:
    return ServerEntry(
        device=[
            DeviceEntry(
                device_id=device.device_id,
                device_ip=device.device_ip,
                super_device_id=device.super_device_id if job.version is Version.V1_2 else "",
                rank_id=str(rank),
            )
            for rank, device in enumerate(server.devices, server.first)
        ],
        hardware_type=server.pod.annotation(HARDWARE_TYPE) if job.inference else "",
        server_id=server.id,
        host_ip=server.host_ip,
        container_ip=server.pod.ip,
    )


def unreadable_address(servers: Sequence[Server]) -> NotReady | None:
    for server in servers:
        for device in server.devices:
            if device.device_ip == UNREADABLE:
                pod = f"pod {server.pod.name} ({place(server.pod)})"
                what = f"{pod}: the device plug-in could not read the IP of {device.device_id}"
                fix = "give the device an address (hccn_tool), or delete the pod"
                return NotReady("DeviceIpUnreadable", f"{what}; {fix}", fault=True)
    return None
