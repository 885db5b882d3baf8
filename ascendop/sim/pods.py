# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The doors that only pods have: binding, eviction, logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.answers import bad_request, conflict, not_found
from ascendop.sim.bodies import read_json
from ascendop.sim.deletes import Deleter, Wish
from ascendop.sim.logs import LogSource
from ascendop.sim.route import Call
from ascendop.sim.storage import Row
from ascendop.sim.world import World


class Pods:
    """Puts pods on nodes, sends them away, shows what they wrote."""

    def __init__(self, world: World, deleter: Deleter) -> None:
        self._world = world
        self._deleter = deleter

    def bind(self, call: Call) -> Object:
        """Give a pod its node. Raises RefusedError(409) when it has one or is going."""
        row = self._row(call)
        binding = read_json(call)
        node = (binding.get("target") or {}).get("name", "")
        if not node:
            raise bad_request("Binding.target.name: Required value")
        pod = row.obj
        if row.deleting:
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
            raise conflict(call.served.resource, call.name, why, kind="pods/binding")
        if assigned := pod["spec"].get("nodeName"):
            why = f"pod {call.name} is already assigned to node {assigned!r}".replace("'", '"')
            raise conflict(call.served.resource, call.name, why, kind="pods/binding")
        pod["spec"]["nodeName"] = node
        annotations = (binding.get("metadata") or {}).get("annotations")
        if annotations:
            meta = pod["metadata"]
            meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
        status = pod.setdefault("status", {})
        others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": self._world.now(),
        }
        status["conditions"] = [*others, scheduled]
        if not call.dry:
            self._world.storage.put(self._world.table(call.served), row.key, pod)
        return _done(201)

    def evict(self, call: Call) -> Object:
        """Delete, politely. Disruption budgets are not looked at."""
        body = read_json(call)
        options = body.get("deleteOptions") or {}
        wish = Wish(
            uid=(options.get("preconditions") or {}).get("uid", ""),
            grace_s=options.get("gracePeriodSeconds"),
            dry=call.dry,
        )
        self._deleter.delete_row(call.served.table, self._row(call), wish)
        return _done(201)

    def log(self, call: Call, logs: LogSource | None) -> AsyncGenerator[bytes, None]:
        """What a container wrote. Raises RefusedError(400) for a container that has no log."""
        pod = self._row(call).obj
        container = _container(pod, call.query.get("container", ""), call.name)
        if logs is None:
            raise bad_request(
                f'container "{container}" in pod "{call.name}" is waiting to start: no node runs '
                "pods here"
            )
        tail = call.query.get("tailLines", "")
        return _told(
            logs.read(
                call.namespace or "",
                call.name,
                container,
                follow=call.says("follow"),
                tail=int(tail) if tail.isdigit() else None,
                previous=call.says("previous"),
            ),
        )

    def _row(self, call: Call) -> Row:
        row = self._world.table(call.served).get(call.key)
        if row is None:
            raise not_found(call.served.resource, call.name)
        return row


async def _told(source: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in source:
            yield chunk
    except LookupError as error:
        yield f"{error}\n".encode()


def _container(pod: Object, wanted: str, name: str) -> str:
    spec = pod["spec"]
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    names = [container["name"] for container in containers]
    if wanted in names:
        return wanted
    if wanted:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    if len(names) > 1:
        raise bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    only: str = names[0]
    return only


def _done(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code,
    }
