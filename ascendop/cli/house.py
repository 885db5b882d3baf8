# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A whole cluster in this process: server, nodes and operator, for local and simulate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  the type of an argument
from typing import Final

from ascendop.app.mirror import AnyKind, resource_of
from ascendop.app.operator import Identity, Operator
from ascendop.cli.files import Located
from ascendop.clock import WallClock
from ascendop.errors import UsageError
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, ExistsError, NotFoundError
from ascendop.kube.resource import CRDS, NAMESPACES, QUEUES, Object, Resource
from ascendop.kube.transport import Transport
from ascendop.schema.crd import crd
from ascendop.settings import Settings
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport
from ascendop.sim.volcano import build_definitions

FINAL: Final = ("Succeeded", "Failed")
SOON_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as a person wants to see it."""

    kind: str
    namespace: str
    name: str
    state: str
    """Type of the last condition that holds; empty before there is one."""
    reason: str
    message: str
    replicas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.state in FINAL

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class House:
    """One server with one operator on it. What runs the pods is brought by the caller."""

    def __init__(
        self, server: ApiServer, *, rng: Random, transport: Transport | None = None
    ) -> None:
        self.server = server
        self.client = Client(SimTransport(server), rng=rng)
        """For people and nodes: a perfect wire."""
        self._operator_client = Client(transport or SimTransport(server), rng=rng)
        self._rng = rng
        self.applied: list[tuple[Resource, Object]] = []
        self._kinds: Mapping[str, AnyKind] = {}

    @asynccontextmanager
    async def operator(self, settings: Settings, wall: WallClock) -> AsyncIterator[Operator]:
        """The operator, for as long as the block lasts, with every CRD it needs."""
        operator = Operator(
            self._operator_client,
            settings,
            identity=Identity("ascendop", "default"),
            wall=wall,
            rng=self._rng,
        )
        self._kinds = operator.kinds
        await self.install(build_definitions() if settings.enable_gang_scheduling else ())
        await self.install([crd(kind) for kind in operator.kinds.values()])
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(operator.run(stop), name="operator")
            await operator.synced.wait()
            try:
                yield operator
            finally:
                stop.set()

    async def install(self, crds: Sequence[Object]) -> None:
        for definition in crds:
            await self.client.create(CRDS, definition)

    async def gangs_may_wait(self) -> None:
        """Return when the default queue is there: the scheduler makes it when it starts."""
        while True:
            try:
                await self.client.get(QUEUES, None, "default")
            except NotFoundError:
                await asyncio.sleep(SOON_S)
            else:
                return

    async def apply(self, found: Iterable[Located]) -> None:
        """Create the objects of files, in their order; their namespaces, too.

        Raises:  UsageError, with a line for every object that the server refuses: its place in
                 the file, and the server's words.
        """
        mistakes = []
        for located in found:
            try:
                await self._apply(located)
            except UsageError as error:
                mistakes.append(str(error))
        if mistakes:
            raise UsageError("\n".join(mistakes))

    async def _apply(self, located: Located) -> None:
        obj = dict(located.object)
        try:
            resource = await self._resource(located)
            if resource.namespaced:
                namespace = str(obj["metadata"].get("namespace") or "default")
                obj["metadata"] = {**obj["metadata"], "namespace": namespace}
                await self._ensure_namespace(namespace)
            self.applied.append(
                (resource, await self.client.apply(resource, obj, manager="kubectl"))
            )
        except ApiError as error:
            raise UsageError(f"{located}: {error.message}") from error

    async def _ensure_namespace(self, name: str) -> None:
        try:
            await self.client.get(NAMESPACES, None, name)
        except NotFoundError:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                await self.client.create(NAMESPACES, body)
            except ExistsError:
                return

    async def _resource(self, located: Located) -> Resource:
        """Which resource a kind is, as the server knows it."""
        served = self.server.world.registry
        api_version, kind = str(located.object["apiVersion"]), located.kind
        for one in served:
            if one.resource.api_version == api_version and one.resource.kind == kind:
                return one.resource
        jobs = ", ".join(sorted(self._kinds))
        raise UsageError(
            f"{located}: {api_version} {kind} is not served here; job kinds are {jobs}"
        )

    async def jobs(self) -> list[JobState]:
        """Every job that was applied, as it is now; one that was deleted is not in it."""
        found = []
        job_kinds = {resource_of(kind): name for name, kind in self._kinds.items()}
        for resource, obj in self.applied:
            if resource not in job_kinds:
                continue
            meta = obj["metadata"]
            try:
                now = await self.client.get(resource, meta["namespace"], meta["name"])
            except NotFoundError:
                continue
            found.append(_state_of(job_kinds[resource], now))
        return found


def _state_of(kind: str, job: Object) -> JobState:
    status = job.get("status") or {}
    conditions = status.get("conditions") or ()
    last: Object = next((c for c in reversed(conditions) if c.get("status") == "True"), {})
    return JobState(
        kind=kind,
        namespace=job["metadata"]["namespace"],
        name=job["metadata"]["name"],
        state=str(last.get("type", "")),
        reason=str(last.get("reason", "")),
        message=str(last.get("message", "")),
        replicas=status.get("replicaStatuses") or {},
    )
