# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods become servers of a rank table: who takes part, in which order, under which id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ascendop.api.observed import PodView
from ascendop.builder.integers import integer
from ascendop.builder.labels import BACKUP, DEVICES_910, DEVICES_NPU, POD_TYPE, RANK_INDEX
from ascendop.ranktable.devices import Device, DeviceAnnotationError, ServerConfig, parse_devices
from ascendop.ranktable.table import NotReady, TableJob

NAMED: Final = 5
"""Pods that a message names; it has to stay readable for a job of thousands."""
AT_PLUGIN: Final = "look at the device plug-in of that node, or delete the pod"


@dataclass(frozen=True, slots=True)
class Server:
    """One pod of the collective."""

    pod: PodView
    id: str
    """Host address while every pod has a host of its own, else UID of the pod."""
    host_ip: str
    first: int
    """Rank of its first device; the others follow."""
    devices: tuple[Device, ...]


def gather(job: TableJob, pods: Iterable[PodView]) -> tuple[Server, ...] | NotReady:
    """The servers of a job in rank order, or what is still missing.

    Only pods that ask for NPUs and are not being deleted count: a leader without NPUs neither
    delays the table nor shifts a rank (ascendjob.md W-5, W-49). A hot-switch backup stands in for
    its source as soon as that is going.
    """
    seats = _seats(pods)
    if isinstance(seats, NotReady):
        return seats
    missing = _missing(job, seats)
    if missing is not None:
        return missing
    try:
        configs = [_config(pod) for pod in seats]
    except DeviceAnnotationError as error:
        return NotReady("DevicesUnreadable", str(error), fault=True)
    return _twins(job, seats, configs) or _numbered(seats, configs)


def _seats(pods: Iterable[PodView]) -> list[PodView] | NotReady:
    """One pod per rank index, in that order."""
    taken: dict[int, PodView] = {}
    for pod in sorted((p for p in pods if p.npus and not p.deleting), key=_own_pods_first):
        text = pod.annotation(RANK_INDEX)
        index = integer(text)
        if index is None or index < 0:
            what = f"pod {pod.name}: {RANK_INDEX} is {text!r}, not a rank"
            return NotReady("RankUnknown", what, fault=bool(text))
        other = taken.setdefault(index, pod)
        if other is not pod and not _is_backup(pod):
            what = f"pods {other.name} and {pod.name} both have rank {index}"
            return NotReady("RankTwice", what, fault=True)
    return [taken[index] for index in sorted(taken)]


def _missing(job: TableJob, seats: Sequence[PodView]) -> NotReady | None:
    known = [pod for pod in seats if _devices_of(pod)]
    if not job.pods:
        return NotReady("NoNpus", "no role of the job asks for NPUs", withdraw=False)
    if len(seats) > job.pods:
        what = (
            f"{len(seats)} pods ask for NPUs, the job has {job.pods}; the surplus has to go first"
        )
        return NotReady("PodsSurplus", what, withdraw=False)
    if len(known) < job.pods:
        without = [pod for pod in seats if not _devices_of(pod)]
        absent = job.pods - len(seats)
        what = f"{len(known)} of {job.pods} pods have devices{_named(without, 'none yet')}"
        return NotReady("PodsMissing", what + (f"; {absent} do not exist" if absent > 0 else ""))
    without = [pod for pod in seats if not pod.ip]
    if without:
        what = f"{len(without)} of {job.pods} pods have no IP yet{_named(without)}"
        return NotReady("PodIpMissing", what)
    return None


def _named(pods: Sequence[PodView], what: str = "") -> str:
    """The first of these pods with their nodes, which is where somebody has to look."""
    if not pods:
        return ""
    names = ", ".join(f"{pod.name} ({place(pod)})" for pod in pods[:NAMED])
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"; {what}: {names}{more}" if what else f": {names}{more}"


def place(pod: PodView) -> str:
    """Where the pod is, for a message."""
    return f"on {pod.node}" if pod.node else "on no node"


def _config(pod: PodView) -> ServerConfig:
    try:
        config = parse_devices(_devices_of(pod))
    except DeviceAnnotationError as error:
        raise DeviceAnnotationError(f"{_whose(pod)}: {error}; {AT_PLUGIN}") from error
    if not config.devices:
        raise DeviceAnnotationError(f"{_whose(pod)}: no devices - at `$.devices`; {AT_PLUGIN}")
    return config


def _whose(pod: PodView) -> str:
    key = DEVICES_910 if pod.annotation(DEVICES_910) else DEVICES_NPU
    return f"pod {pod.name} ({place(pod)}): annotation {key}"


def _twins(
    job: TableJob, pods: Sequence[PodView], configs: Sequence[ServerConfig]
) -> NotReady | None:
    """A device that is given twice, in one pod or to two pods of a node: HCCL would hang."""
    given: dict[tuple[str, str], PodView] = {}
    for pod, config in zip(pods, configs, strict=True):
        ids = [device.device_id for device in config.devices]
        if len(set(ids)) < len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            what = f"{_whose(pod)} has device {twice} twice; {AT_PLUGIN}"
            return NotReady("DeviceTwice", what, fault=True)
        if job.shared_chips or not pod.node:
            continue
        for device in ids:
            other = given.setdefault((pod.node, device), pod)
            if other is not pod:
                pair = f"pods {other.name} and {pod.name} ({place(pod)})"
                what = f"{pair} both have device {device}; {AT_PLUGIN}"
                return NotReady("DeviceTwice", what, fault=True)
    return None


def _numbered(pods: Sequence[PodView], configs: Sequence[ServerConfig]) -> tuple[Server, ...]:
    # Counting through gives rank index x devices where all pods have the same number of devices,
    # as the contract has it, and neither holes nor twins where they have not (ascendjob.md W-24).
    firsts = accumulate((len(config.devices) for config in configs), initial=0)
    own_hosts = len({pod.node for pod in pods}) == len(pods)
    return tuple(
        Server(
            pod=pod,
            id=(own_hosts and config.host_ip) or config.server_id or pod.uid,
            host_ip=config.host_ip,
            first=first,
            devices=config.devices,
        )
        for pod, config, first in zip(pods, configs, firsts, strict=False)
    )


def _devices_of(pod: PodView) -> str:
    return pod.annotation(DEVICES_910) or pod.annotation(DEVICES_NPU)


def _is_backup(pod: PodView) -> bool:
    return pod.annotation(POD_TYPE) == BACKUP


def _own_pods_first(pod: PodView) -> tuple[bool, str]:
    return _is_backup(pod), pod.name
