# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The node side in one: nodes, a scheduler, devices, and pods as real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from ascendop.backoff import Backoff
from ascendop.clock import WallClock
from ascendop.kube.client import Client
from ascendop.sim.batch import BatchJobs
from ascendop.sim.logfolder import LogFolder
from ascendop.sim.loopback import Loopback
from ascendop.sim.netns import Machine, missing_for_namespaces
from ascendop.sim.nodes import NodeSpec, create_nodes
from ascendop.sim.processes import RESTART, SYSTEM_PATH, ProcessNodes
from ascendop.sim.sandbox import Place
from ascendop.sim.scheduler import Scheduler

TWO_NODES: Final = (NodeSpec(2, 8, "910B"),)


class LocalNode:
    """What `ascendop local` runs beside server and operator.

    Promise:  when `run` ends, or the process dies in whatever way, no process of a pod is left,
              no mount and no interface. Logs and what was written to volumes stay below `root`.
    Warns:    once, when pods cannot have networks of their own here.
    """

    def __init__(
        self,
        client: Client,
        *,
        root: Path,
        wall: WallClock,
        place: Place,
        token: str,
        path: str = SYSTEM_PATH,
        nodes: Sequence[NodeSpec] = TWO_NODES,
        host_paths: bool = False,
        restart: Backoff = RESTART,
    ) -> None:
        """token, path: see ProcessNodes."""
        self._client = client
        self._wall = wall
        self._place = place
        self._specs = nodes
        self._scheduler = Scheduler(client, wall=wall)
        self._batch = BatchJobs(client, wall=wall)
        self._processes = ProcessNodes(
            client,
            wall=wall,
            root=root,
            place=place,
            token=token,
            path=path,
            host_paths=host_paths,
            restart=restart,
        )
        self.ready = asyncio.Event()
        """Set when there are nodes that take pods."""

    @property
    def logs(self) -> LogFolder:
        """For `kubectl logs`: the server's source of logs."""
        return self._processes.logs

    @property
    def host_root(self) -> Path:
        """Where a hostPath of a pod lies on this machine."""
        return self._processes.host_root

    async def run(self) -> NoReturn:
        """Until cancelled. The place is opened and closed here."""
        try:
            await self._place.open()
            await create_nodes(self._client, *self._specs, wall=self._wall)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._processes.run())
                group.create_task(self._scheduler.run())
                group.create_task(self._batch.run())
                self.ready.set()
        finally:
            await self._place.close()
        raise AssertionError


async def choose_place(warn: Callable[[str], None]) -> Place:
    """Namespaces as root, else in a user namespace, else loopback addresses and one warning."""
    users = (False, True) if os.geteuid() == 0 else (True,)
    why = ""
    for user in users:
        why = await missing_for_namespaces(user=user)
        if not why:
            return Machine(user=user)
    warn(
        f"pods share this machine's network and files, since namespaces are not to be had ({why}): "
        "names in their environment are replaced by loopback addresses, and two pods cannot "
        "listen on one port of all addresses"
    )
    return Loopback()
