# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The rank table is a function of the job and its pods; what was written before plays no part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ascendop.api.observed import PodView
from ascendop.ranktable.choose import Version
from ascendop.ranktable.servers import gather
from ascendop.ranktable.table import INITIALIZING, NotReady, Table, TableJob
from ascendop.ranktable.v1_0 import RankTable10, build_1_0
from ascendop.ranktable.v1_2 import RankTable12, build_1_2
from ascendop.ranktable.v2_0 import RankTable20, build_2_0

_BUILD: Final = {Version.V1_0: build_1_0, Version.V1_2: build_1_2, Version.V2_0: build_2_0}


def rank_table(job: TableJob, pods: Iterable[PodView]) -> Table | NotReady:
    """The table of a job whose pods are these, in any order.

    Law:     ranks are 0 to n-1, in the order of the pods' rank indices, then of their devices.
    Law:     the same pods give the same bytes.
    Not:     whether it has to be written; that is a comparison with what is there.
    """
    servers = gather(job, pods)
    if isinstance(servers, NotReady):
        return servers
    found = _BUILD[job.version](job, servers)
    return found if isinstance(found, NotReady) else Table(_text(found))


def initializing(version: Version) -> str:
    """What stands there while there is no table: the bare status, without old lists (W-27)."""
    match version:
        case Version.V1_0:
            return _text(RankTable10(status=INITIALIZING, version=version.value))
        case Version.V1_2:
            return _text(RankTable12(status=INITIALIZING, version=version.value, super_pod_list=[]))
        case Version.V2_0:
            return _text(RankTable20(status=INITIALIZING, version=version.value))


def _text(table: msgspec.Struct) -> str:
    return msgspec.json.encode(table).decode()
