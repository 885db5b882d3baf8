# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the device plug-in, or Volcano's Ascend plug-in, wrote on a pod about its NPUs."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

PODS: Final = 4096
"""Pods whose devices are kept in mind: a table is made anew for each pod that gets its own."""


class DeviceAnnotationError(ValueError):
    """The annotation is not of the shape of `parse_devices`; the message ends with the field."""


class RankAddr(msgspec.Struct, frozen=True, gc=False):
    """One address of a device on one layer of the network."""

    addr_type: str = ""
    addr: str = ""
    ports: tuple[str, ...] | None = None
    plane_id: str = ""


class Layer(msgspec.Struct, frozen=True, gc=False):
    """How a device is reached on one layer of the network. Copied into table 2.0 as it is."""

    net_layer: int = 0
    net_instance_id: str = ""
    net_type: str = ""
    net_attr: str = ""
    rank_addr_list: tuple[RankAddr, ...] | None = None


class Level(msgspec.Struct, frozen=True, gc=False):
    """The choices that a device has on one layer, by the type of its ports."""

    level: int
    info: dict[str, Layer]
    """By port type: UB, UBOE, UBG or ROCE."""


class Device(msgspec.Struct, frozen=True, gc=False):
    """One NPU."""

    device_id: str
    """Physical number on its host."""
    device_ip: str = ""
    """Empty or 127.0.0.1 where there is none; -1 when reading it failed."""
    super_device_id: str = ""
    levels: tuple[Level, ...] | None = msgspec.field(default=None, name="levelList")


class ServerConfig(msgspec.Struct, frozen=True, gc=False):
    """The NPUs of one pod, in rank order."""

    devices: tuple[Device, ...]
    server_id: str = ""
    """UID of the pod."""
    host_ip: str = ""


_DECODER = msgspec.json.Decoder(ServerConfig)


@lru_cache(PODS)
def parse_devices(annotation: str) -> ServerConfig:
    """Read the configuration annotation of a pod.

    Shape:   {"server_id": str, "host_ip": str, "devices": [{"device_id": str, "device_ip": str,
             "super_device_id": str, "levelList": [{"level": int, "info": {TYPE: {…}}}]}, …]}
    Order:   as written, which is rank order; unknown keys are passed over.
    Raises:  DeviceAnnotationError, with the path of the field, when `devices` or a `device_id` is
             absent or any value has another type.
    Source:  ascend.kubectl.kubernetes.io/ascend-910-configuration, ascendjob.md 6.2.
    """
    try:
        return _DECODER.decode(annotation)
    except msgspec.DecodeError as error:
        raise DeviceAnnotationError(str(error)) from error
