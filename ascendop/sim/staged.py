# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Nodes whose pods move by stages: a small kwok, in whatever time the loop has."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Final, Literal, NoReturn

from ascendop.backoff import Backoff
from ascendop.clock import WallClock, rfc3339
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from ascendop.kube.resource import NODES, PODS, Object, Resource
from ascendop.sim.devices import DevicePlugin
from ascendop.sim.events import Teller
from ascendop.sim.gotemplate import Function
from ascendop.sim.nodes import internal_ip, ready_conditions
from ascendop.sim.stages import (
    Stage,
    draw,
    finalizers_after,
    load_stages,
    merge_status,
    quote,
    render_status,
    to_yaml,
)
from ascendop.sim.watching import Mirror, ObjectKey

PLAYERS: Final = 8  # writes in flight: a gang becomes Running together, a server is not flooded
RETRY: Final = Backoff(0.2, 10.0)
EARLY_S: Final = 0.001  # loops ring a timer up to their clock's resolution before its time
POD_NETWORK: Final = ipaddress.IPv4Network("10.244.0.0/16")
VERSION: Final = "ascendop"


@dataclass(slots=True)
class _Due:
    """A stage that was drawn for an object and waits for its time."""

    stage: Stage
    uid: str
    timer: asyncio.TimerHandle
    failures: int = 0


class StagedNodes:
    """Every node of the cluster, and the pods bound to them.

    Like kwok:  the same files give the same objects; a pod on no known node is left alone.
    Unlike:     a change that leaves the drawn stage matching does not start its delay anew, so
                an annotation written at the right moment cannot stretch a pod's life.
    Seeded:     same seed, same stages, same delays.
    """

    def __init__(
        self,
        client: Client,
        *,
        wall: WallClock,
        rng: Random,
        sets: Sequence[str] = ("",),
        stages: Callable[[Mapping[str, Function]], Sequence[Stage]] | None = None,
    ) -> None:
        """`stages` makes other stages from the template functions, instead of the named sets."""
        self._client = client
        self._wall = wall
        self._rng = rng
        self._teller = Teller(client, "kubelet", wall)
        self._nodes = Mirror(client, NODES)
        self._pods = Mirror(client, PODS)
        self._devices = DevicePlugin(client, pods=self._pods, nodes=self._nodes)
        functions = self._functions()
        self._stages = stages(functions) if stages else load_stages(*sets, functions=functions)
        self._waiting: dict[tuple[Resource, ObjectKey], _Due] = {}
        self._ready: asyncio.Queue[tuple[Resource, ObjectKey]] = asyncio.Queue()
        self._lost: set[str] = set()
        self._addresses: dict[str, str] = {}  # pod UID to podIP; freed with the pod
        self._addresses_in_turn = itertools.cycle(map(str, POD_NETWORK.hosts()))
        self._pods.on_change(lambda old, new: self._on_change(PODS, old, new))
        self._nodes.on_change(lambda old, new: self._on_change(NODES, old, new))
        self._nodes.on_change(self._on_node)

    async def run(self) -> NoReturn:
        """Play stages until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._nodes.run())
                await self._nodes.synced.wait()
                group.create_task(self._pods.run())
                group.create_task(self._devices.run())
                for _ in range(PLAYERS):
                    group.create_task(self._play())
        finally:
            for due in self._waiting.values():
                due.timer.cancel()
        raise AssertionError

    def lose(self, node: str) -> None:
        """From now on nobody acts for the node's pods: not even their deletion ends."""
        self._lost.add(node)
        for key, pod in self._pods.objects.items():
            if pod["spec"].get("nodeName") == node:
                self._cancel(PODS, key)

    def find(self, node: str) -> None:
        """The node is back, and does what it has missed."""
        self._lost.discard(node)
        for pod in list(self._pods.objects.values()):
            if pod["spec"].get("nodeName") == node:
                self._look(PODS, pod)

    # What comes next.

    def _on_change(self, resource: Resource, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._cancel(resource, _key(old))
            self._addresses.pop(old["metadata"]["uid"], None)
            self._teller.forget(old["metadata"]["uid"])
        elif new is not None:
            address = (new.get("status") or {}).get("podIP")
            if address and resource is PODS:
                self._addresses.setdefault(new["metadata"]["uid"], address)
            self._look(resource, new)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if old is None and new is not None:
            self.find(new["metadata"]["name"])

    def _look(self, resource: Resource, obj: Object) -> None:
        key, uid = _key(obj), obj["metadata"]["uid"]
        due = self._waiting.get((resource, key))
        if due is not None and due.uid == uid and due.stage.matches(obj):
            return
        self._cancel(resource, key)
        if not self._managed(resource, obj):
            return
        stage = draw(self._stages, obj, self._rng)
        if stage is not None:
            delay_s = stage.delay.draw_s(obj, self._wall(), self._rng)
            self._waiting[resource, key] = _Due(stage, uid, self._timer(resource, key, delay_s))

    def _managed(self, resource: Resource, obj: Object) -> bool:
        name = obj["spec"].get("nodeName") if resource is PODS else obj["metadata"]["name"]
        return ("", name or "") in self._nodes.objects and name not in self._lost

    def _timer(self, resource: Resource, key: ObjectKey, delay_s: float) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        return loop.call_later(delay_s, self._ready.put_nowait, (resource, key))

    def _cancel(self, resource: Resource, key: ObjectKey) -> None:
        due = self._waiting.pop((resource, key), None)
        if due is not None:
            due.timer.cancel()

    # Doing it.

    async def _play(self) -> NoReturn:
        while True:
            resource, key = await self._ready.get()
            due = self._waiting.get((resource, key))
            obj = (self._pods if resource is PODS else self._nodes).objects.get(key)
            now = asyncio.get_running_loop().time()
            if due is None or obj is None or due.timer.when() > now + EARLY_S:
                continue  # what rang was the timer of an earlier stage
            await self._play_one(resource, key, obj, due)

    async def _play_one(self, resource: Resource, key: ObjectKey, obj: Object, due: _Due) -> None:
        try:
            await self._apply(resource, obj, due.stage)
        except (NotFoundError, RejectedError):
            # The object has moved on; its next change is looked at.
            self._forget(resource, key, due)
        except (ApiError, TransportError):
            # A change that leaves the stage as it is has been looked at already, and is no reason
            # to draw anew: without another try nothing would ever happen to the object.
            if self._waiting.get((resource, key)) is not due:
                return
            due.timer = self._timer(resource, key, RETRY.after(due.failures))
            due.failures += 1
        else:
            self._forget(resource, key, due)

    def _forget(self, resource: Resource, key: ObjectKey, due: _Due) -> None:
        if self._waiting.get((resource, key)) is due:
            del self._waiting[resource, key]
            # The change that we made, or that overtook us, may have been mirrored already.
            obj = (self._pods if resource is PODS else self._nodes).objects.get(key)
            if obj is not None and not due.stage.matches(obj):
                self._look(resource, obj)

    async def _apply(self, resource: Resource, obj: Object, stage: Stage) -> None:
        meta = obj["metadata"]
        if event := stage.next.event:
            kind: Literal["Normal", "Warning"] = (
                "Warning" if event.get("type") == "Warning" else "Normal"
            )
            await self._teller.tell(obj, event["reason"], event.get("message", ""), kind=kind)
        if stage.next.finalizers:
            await self._write_finalizers(resource, obj, stage)
        if stage.next.delete:
            place = meta.get("namespace"), meta["name"]
            await self._client.delete(resource, *place, uid=meta["uid"], grace_s=0)
            return
        status = render_status(stage, obj)
        if status is not None:
            await self._write_status(resource, obj, status)

    async def _write_finalizers(self, resource: Resource, obj: Object, stage: Stage) -> None:
        meta = obj["metadata"]
        found = meta.get("finalizers") or []
        wanted = finalizers_after(stage, found)
        if wanted != found:
            body = {"metadata": {"uid": meta["uid"], "finalizers": wanted or None}}
            await self._client.patch(resource, meta.get("namespace"), meta["name"], body)

    async def _write_status(self, resource: Resource, obj: Object, status: Object) -> None:
        meta = obj["metadata"]
        body = {
            # Conditions are merged with what we saw: a version makes somebody else's write a
            # conflict instead of a loss.
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": merge_status(obj.get("status") or {}, status),
        }
        await self._client.patch(
            resource, meta.get("namespace"), meta["name"], body, subresource="status"
        )

    # What templates may call.

    def _functions(self) -> dict[str, Function]:
        def now() -> str:
            return rfc3339(self._wall())

        return {
            "Quote": quote,
            "YAML": to_yaml,
            "Now": now,
            "Version": lambda: VERSION,
            "NodeConditions": lambda: ready_conditions(now()),
            "NodeIP": lambda: "10.10.0.1",
            "NodeName": lambda: "",
            "NodePort": lambda: 0,
            "NodeIPWith": self._node_ip,
            "PodIPWith": self._pod_ip,
        }

    def _node_ip(self, name: str) -> str:
        return internal_ip(self._nodes.objects.get(("", name)))

    def _pod_ip(
        self,
        node: str,
        host_network: bool,  # noqa: FBT001  templates have no keywords
        uid: str,
        _name: str = "",
        _namespace: str = "",
    ) -> str:
        if host_network:
            return self._node_ip(node)
        if uid not in self._addresses:
            taken = self._addresses.values()
            # Around and around: an address is not given again at once to another pod.
            self._addresses[uid] = next(ip for ip in self._addresses_in_turn if ip not in taken)
        return self._addresses[uid]


def _key(obj: Object) -> ObjectKey:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
