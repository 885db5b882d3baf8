# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods become servers of a rank table: who takes part, in which order, under which id."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ascendop.api.observed import PodView
from ascendop.builder.integers import integer
from ascendop.builder.labels import BACKUP, DEVICES_910, DEVICES_NPU, POD_TYPE, RANK_INDEX
from ascendop.ranktable.devices import Device, DeviceAnnotationError, ServerConfig, parse_devices
from ascendop.ranktable.table import NotReady, TableJob


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
        return NotReady("DevicesUnreadable", str(error))
    return _numbered(seats, configs)


def _seats(pods: Iterable[PodView]) -> list[PodView] | NotReady:
    """One pod per rank index, in that order."""
    taken: dict[int, PodView] = {}
    for pod in sorted((p for p in pods if p.npus and not p.deleting), key=_own_pods_first):
        text = pod.annotation(RANK_INDEX)
        index = integer(text)
        if index is None or index < 0:
            return NotReady("RankUnknown", f"pod {pod.name}: {RANK_INDEX} is {text!r}, not a rank")
        other = taken.setdefault(index, pod)
        if other is not pod and not _is_backup(pod):
            return NotReady("RankTwice", f"pods {other.name} and {pod.name} both have rank {index}")
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
        return NotReady("PodsMissing", f"{len(known)} of {job.pods} pods have devices")
    without = [pod.name for pod in seats if not pod.ip]
    if without:
        what = f"{len(without)} of {job.pods} pods have no IP yet, {without[0]} the first"
        return NotReady("PodIpMissing", what)
    return None


def _config(pod: PodView) -> ServerConfig:
    try:
        config = parse_devices(_devices_of(pod))
    except DeviceAnnotationError as error:
        raise DeviceAnnotationError(f"pod {pod.name}: {error}") from error
    if not config.devices:
        raise DeviceAnnotationError(f"pod {pod.name}: no devices - at `$.devices`")
    return config


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
