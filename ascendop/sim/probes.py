# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a container is up, ready and alive, asked again and again while it runs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from ascendop.kube.resource import Object
from ascendop.sim.sandbox import Running, Sandbox

_SCRIPT: Final = str(Path(__file__).with_name("probe.py"))


@dataclass(frozen=True, slots=True)
class Prober:
    """The probes of one running container."""

    container: Object
    env: Mapping[str, str]
    sandbox: Sandbox
    running: Running
    ready: Callable[[bool], None]
    """Told when the answer changes; without a readiness probe once, at the start."""
    started: Callable[[], None]
    dead: Callable[[str], None]
    """Told once, with the reason, when the container is to be killed."""

    async def run(self) -> None:
        """Probe until cancelled."""
        startup = self.container.get("startupProbe")
        if startup and not await self._until_up(startup):
            self.dead("Startup probe failed")
            return
        self.started()
        async with asyncio.TaskGroup() as group:
            if readiness := self.container.get("readinessProbe"):
                group.create_task(self._keep(readiness, self.ready))
            else:
                self.ready(True)  # noqa: FBT003  the answer itself
            if liveness := self.container.get("livenessProbe"):
                group.create_task(self._keep(liveness, self._alive))

    def _alive(self, answer: bool) -> None:  # noqa: FBT001  the answer itself
        if not answer:
            self.dead("Liveness probe failed")

    async def _until_up(self, probe: Object) -> bool:
        await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
        for _ in range(int(probe.get("failureThreshold") or 3)):
            if await self._ask(probe):
                return True
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))
        return False

    async def _keep(self, probe: Object, tell: Callable[[bool], None]) -> NoReturn:
        """Tell when the answer has been another one often enough."""
        needed = {
            True: int(probe.get("successThreshold") or 1),
            False: int(probe.get("failureThreshold") or 3),
        }
        told: bool | None = None
        last, in_a_row = False, 0
        await asyncio.sleep(float(probe.get("initialDelaySeconds") or 0))
        while True:
            answer = await self._ask(probe)
            in_a_row = in_a_row + 1 if answer is last else 1
            last = answer
            if answer is not told and in_a_row >= needed[answer]:
                told = answer
                tell(answer)
            await asyncio.sleep(float(probe.get("periodSeconds") or 10))

    async def _ask(self, probe: Object) -> bool:
        patience_s = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(patience_s + 1.0):  # a process has to start, too
                return await self._answer(probe, patience_s) == 0
        except TimeoutError:
            return False

    async def _answer(self, probe: Object, patience_s: float) -> int:
        if "exec" in probe:
            return await self.running.run_beside(probe["exec"].get("command") or [], self.env)
        for kind in ("tcpSocket", "httpGet"):
            if kind in probe:
                words = self._words(kind, probe[kind], patience_s)
                argv = [sys.executable, "-I", "-S", _SCRIPT, *words]
                return await self.sandbox.run_beside(argv, self.env)
        return 0  # gRPC: not asked, and so not in the way

    def _words(self, kind: str, target: Object, patience_s: float) -> list[str]:
        host = target.get("host") or self.sandbox.address
        port = str(self._port(target["port"]))
        if kind == "tcpSocket":
            return ["tcp", host, port, str(patience_s)]
        scheme, path = target.get("scheme") or "HTTP", target.get("path") or "/"
        return ["http", scheme, host, port, path, str(patience_s)]

    def _port(self, port: int | str) -> int | str:
        for named in self.container.get("ports") or ():
            if named.get("name") == port:
                return int(named["containerPort"])
        return port
