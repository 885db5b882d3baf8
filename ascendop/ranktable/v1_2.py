# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Rank table 1.2: version 1.0, and which servers share a super-pod.

Source: ascendjob.md 6.7, 8.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ascendop.builder.integers import integer
from ascendop.builder.labels import SUPER_POD_ID, SUPER_POD_RANK
from ascendop.builder.superpod import logic_super_pod
from ascendop.ranktable.choose import Version
from ascendop.ranktable.servers import Server
from ascendop.ranktable.table import COMPLETED, NotReady, TableJob
from ascendop.ranktable.v1_0 import ServerEntry, server_entry, unreadable_address


class Member(msgspec.Struct):
    server_id: str


class SuperPod(msgspec.Struct):
    super_pod_id: str
    server_list: list[Member]


class RankTable12(msgspec.Struct, kw_only=True, omit_defaults=True):
    status: str
    server_list: list[ServerEntry] = []
    server_count: str = ""
    version: str
    super_pod_list: list[SuperPod]


def build_1_2(job: TableJob, servers: Sequence[Server]) -> msgspec.Struct | NotReady:
    """The table, or NotReady when an address is unreadable or a super-pod unknown."""
    # Inside one super-pod devices talk without their addresses; between two they cannot.
    unreadable = unreadable_address(servers) if job.super_pods > 1 else None
    super_pods = unreadable or _super_pods(job, servers)
    if isinstance(super_pods, NotReady):
        return super_pods
    return RankTable12(
        status=COMPLETED,
        server_list=[server_entry(job, server) for server in servers],
        server_count=str(len(servers)),
        version=Version.V1_2.value,
        super_pod_list=super_pods,
    )


def _super_pods(job: TableJob, servers: Sequence[Server]) -> list[SuperPod] | NotReady:
    if job.soft_affinity:
        return _by_rank(servers)
    if job.inference:
        return _by_id(servers)
    per_pod = len(servers[0].devices)
    places = (logic_super_pod(k, job.block, per_pod) for k in range(len(servers)))
    return _grouped(servers, map(str, places))


def _by_rank(servers: Sequence[Server]) -> list[SuperPod] | NotReady:
    """As the scheduler ranked the super-pods: it has to have ranked them 0 to n-1."""
    for server in servers:
        text = server.pod.annotation(SUPER_POD_RANK)
        if integer(text) is None:
            what = f"pod {server.pod.name}: {SUPER_POD_RANK} is {text!r}, not a number"
            return NotReady("SuperPodUnknown", what)
    found = _grouped(servers, (str(integer(s.pod.annotation(SUPER_POD_RANK))) for s in servers))
    found.sort(key=lambda super_pod: int(super_pod.super_pod_id))
    ranks = [super_pod.super_pod_id for super_pod in found]
    if ranks != [str(rank) for rank in range(len(found))]:
        what = f"the ranks of the super-pods are {', '.join(ranks)}; wanted 0 to {len(found) - 1}"
        return NotReady("SuperPodUnknown", what)
    return found


def _by_id(servers: Sequence[Server]) -> list[SuperPod] | NotReady:
    for server in servers:
        if not server.pod.annotation(SUPER_POD_ID):
            what = f"pod {server.pod.name} has no annotation {SUPER_POD_ID} yet"
            return NotReady("SuperPodUnknown", what)
    return _grouped(servers, (server.pod.annotation(SUPER_POD_ID) for server in servers))


def _grouped(servers: Sequence[Server], ids: Iterable[str]) -> list[SuperPod]:
    """Groups in the order of their first rank, members in rank order."""
    groups: dict[str, SuperPod] = {}
    for server, name in zip(servers, ids, strict=True):
        groups.setdefault(name, SuperPod(name, [])).server_list.append(Member(server.id))
    return list(groups.values())
