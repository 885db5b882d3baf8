# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Admits gangs when they fit and binds their pods: a small Volcano, and a small kube-scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NoReturn

import msgspec

from ascendop.backoff import Backoff
from ascendop.clock import WallClock, rfc3339
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    ConflictError,
    ExistsError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from ascendop.kube.quantity import Quantity
from ascendop.kube.resource import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, Object
from ascendop.kube.transport import Request
from ascendop.sim.amounts import Amounts
from ascendop.sim.events import Teller
from ascendop.sim.placement import Decisions, World, decide, held_by_queue
from ascendop.sim.watching import Mirror

SETTLE_S: Final = 0.02  # what arrives together is decided together: a gang's pods come in a burst
RETRY: Final = Backoff(0.2, 10.0)
OVERTAKEN: Final = (NotFoundError, ConflictError, RejectedError)
"""The object is not what the cycle saw; the change that tells so starts the next cycle."""


class Scheduler:
    """Runs a cycle when something changed that could matter, and never otherwise.

    Gangs:   a PodGroup is Inqueue when its minResources fit what is free in the cluster, and its
             pods are bound together or not at all.
    Others:  pods without a group are bound one by one, whatever their schedulerName.
    Order:   priority, then age, then name.
    Not:     preemption, reclaim, affinity, shares between queues.
    """

    def __init__(self, client: Client, *, wall: WallClock) -> None:
        self._client = client
        self._wall = wall
        self._teller = Teller(client, "volcano", wall)
        self._assumed: dict[str, str] = {}
        self._due = asyncio.Event()
        self._nodes = Mirror(client, NODES)
        self._pods = Mirror(client, PODS)
        self._groups = Mirror(client, POD_GROUPS)
        self._queues = Mirror(client, QUEUES)
        self._priorities = Mirror(client, PRIORITY_CLASSES)
        self._mirrors = (
            self._nodes,
            self._pods,
            self._groups,
            self._queues,
            self._priorities,
        )
        self._pods.on_change(self._forget_seen)
        for mirror in self._mirrors:
            mirror.on_change(lambda _old, _new: self._due.set())

    async def run(self) -> NoReturn:
        """Schedule until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in self._mirrors:
                group.create_task(mirror.run())
            for mirror in self._mirrors:
                await mirror.synced.wait()
            await self._cycles()
        raise AssertionError

    async def _cycles(self) -> NoReturn:
        failures = 0
        self._due.set()
        while True:
            await self._due.wait()
            await asyncio.sleep(SETTLE_S if not failures else RETRY.after(failures))
            self._due.clear()
            try:
                if not await self._open_default_queue():
                    world = self._world()
                    await self._act(decide(world, now=rfc3339(self._wall())))
                    await self._say_held(held_by_queue(world))
                failures = 0
            except (ApiError, TransportError):
                failures += 1
                self._due.set()

    def _world(self) -> World:
        def by_name(mirror: Mirror) -> list[Object]:
            return [mirror.objects[key] for key in sorted(mirror.objects)]

        return World(
            nodes=by_name(self._nodes),
            pods=by_name(self._pods),
            groups=by_name(self._groups),
            queues={
                queue["metadata"]["name"]: (queue.get("status") or {}).get("state", "")
                for queue in by_name(self._queues)
            },
            priorities={
                each["metadata"]["name"]: int(each.get("value") or 0)
                for each in by_name(self._priorities)
            },
            assumed=self._assumed,
        )

    def _forget_seen(self, old: Object | None, new: Object | None) -> None:
        """A binding that the mirror shows, or whose pod is gone, is not assumed any more."""
        if new is not None and new["spec"].get("nodeName"):
            self._assumed.pop(new["metadata"]["uid"], None)
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._assumed.pop(old["metadata"]["uid"], None)
            self._teller.forget(old["metadata"]["uid"])

    async def _act(self, wants: Decisions) -> None:
        for pod, node in wants.bind:
            await self._bind(pod, node)
        for group, status in wants.status:
            await self._write_group(group, status)
        for group, why in wants.refused:
            await self._teller.tell(group, "Unschedulable", why, kind="Warning")
        for pod, why in wants.unschedulable:
            await self._mark_unschedulable(pod, why)

    async def _bind(self, pod: Object, node: str) -> None:
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        request = Request(
            "POST",
            PODS.path(meta["namespace"], meta["name"], "binding"),
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            body=msgspec.json.encode(binding),
        )
        self._assumed[meta["uid"]] = node
        try:
            await self._client.raw(request)
        except OVERTAKEN:
            self._assumed.pop(meta["uid"], None)  # gone, or bound by somebody else: a change tells
        except (ApiError, TransportError):
            self._assumed.pop(meta["uid"], None)
            raise
        else:
            message = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
            await self._teller.tell(pod, "Scheduled", message, kind="Normal")

    async def _write_group(self, group: Object, status: Object) -> None:
        meta = group["metadata"]
        body = {"metadata": {"uid": meta["uid"]}, "status": status}
        try:
            await self._client.patch(POD_GROUPS, meta["namespace"], meta["name"], body)
        except OVERTAKEN:
            return

    async def _say_held(self, held: Mapping[str, Amounts]) -> None:
        """What each queue's jobs hold, where that is not what the queue says already."""
        for name, amounts in held.items():
            queue = self._queues.objects.get(("", name), {})
            before = (queue.get("status") or {}).get("allocated") or {}
            after = {key: str(Quantity(nanos)) for key, nanos in sorted(amounts.items()) if nanos}
            if after == before:
                continue
            gone = dict.fromkeys(before.keys() - after.keys())
            body = {"status": {"allocated": {**after, **gone}}}
            try:
                await self._client.patch(QUEUES, None, name, body, subresource="status")
            except OVERTAKEN:
                continue

    async def _mark_unschedulable(self, pod: Object, why: str) -> None:
        meta, status = pod["metadata"], pod.get("status") or {}
        conditions: list[Object] = status.get("conditions") or []
        others = [c for c in conditions if c["type"] != "PodScheduled"]
        if any(c.get("reason") == "Unschedulable" and c.get("message") == why for c in conditions):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._wall()),
        }
        body = {"metadata": {"uid": meta["uid"]}, "status": {"conditions": [*others, condition]}}
        try:
            await self._client.patch(
                PODS, meta["namespace"], meta["name"], body, subresource="status"
            )
        except OVERTAKEN:
            return
        await self._teller.tell(pod, "FailedScheduling", why, kind="Warning")

    async def _open_default_queue(self) -> bool:
        """As Volcano's scheduler makes it and its controller opens it.

        Whether it wrote: then the cycle is left to the change that this makes.
        """
        queue = self._queues.objects.get(("", "default"))
        if queue is not None and (queue.get("status") or {}).get("state"):
            return False
        body = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "metadata": {"name": "default"},
            "spec": {"weight": 1, "reclaimable": True},
        }
        try:
            if queue is None:
                await self._client.create(QUEUES, body)
        except NotFoundError:
            return False  # no Volcano here: only pods without a group
        except ExistsError:
            pass
        opened = {"status": {"state": "Open"}}
        await self._client.patch(QUEUES, None, "default", opened, subresource="status")
        return True
