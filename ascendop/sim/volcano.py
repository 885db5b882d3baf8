# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Volcano's two kinds that an operator meets, as definitions for a server that has no Volcano."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, ExistsError
from ascendop.kube.resource import CRDS, POD_GROUPS, QUEUES, Object, Resource, Scope

SERVED_S: Final = 10.0
POLL_S: Final = 0.05
_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def build_definitions() -> list[Object]:
    """PodGroup and Queue of scheduling.volcano.sh/v1beta1.

    Source:  fields, bounds, defaults and columns of Volcano 1.14; PodGroup has no /status.
    """
    return [
        _definition(POD_GROUPS, ["pg", "podgroup-v1beta1"], _pod_group(), _POD_GROUP_COLUMNS, {}),
        _definition(QUEUES, ["q", "queue-v1beta1"], _queue(), _QUEUE_COLUMNS, {"status": {}}),
    ]


async def install(client: Client) -> None:
    """Create what is missing and wait until it is served."""
    for definition in build_definitions():
        try:
            await client.create(CRDS, definition)
        except ExistsError:
            continue
    async with asyncio.timeout(SERVED_S):
        for resource in (POD_GROUPS, QUEUES):
            while not await _served(client, resource):  # noqa: ASYNC110  over the network
                await asyncio.sleep(POLL_S)


async def _served(client: Client, resource: Resource) -> bool:
    try:
        await client.list_page(resource, Scope(), limit=1)
    except ApiError:
        return False
    return True


def _definition(
    resource: Resource,
    short_names: list[str],
    properties: Object,
    columns: list[Object],
    subresources: Object,
) -> Object:
    return {
        "apiVersion": CRDS.api_version,
        "kind": CRDS.kind,
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": short_names,
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": _object_of(properties)}
                    },
                    "subresources": subresources,
                }
            ],
        },
    }


def _object_of(properties: Object) -> Object:
    head: Object = {"apiVersion": _text(), "kind": _text(), "metadata": {"type": "object"}}
    return {**head, **{name: _fields(**fields) for name, fields in properties.items()}}


def _fields(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


def _text(**more: Any) -> Object:
    return {"type": "string", **more}


def _count(least: int = 0, **more: Any) -> Object:
    return {"type": "integer", "format": "int32", "minimum": least, **more}


def _name(**more: Any) -> Object:
    return _text(maxLength=253, pattern=_NAME, **more)


def _open() -> Object:
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _resources() -> Object:
    amount = {"anyOf": [{"type": "integer"}, _text()], "x-kubernetes-int-or-string": True}
    return {"type": "object", "additionalProperties": amount}


def _list_of(item: Object) -> Object:
    return {"type": "array", "items": item}


def _topology() -> Object:
    return _fields(
        mode=_text(enum=["hard", "soft"], default="hard"),
        highestTierAllowed={"type": "integer", "minimum": 0},
        highestTierName=_text(maxLength=253),
    )


def _pod_group() -> Object:
    condition = _fields(
        type=_text(),
        status=_text(),
        reason=_text(),
        message=_text(),
        transitionID=_text(),
        lastTransitionTime=_text(format="date-time"),
    )
    sub_group = _fields(
        name=_text(maxLength=253),
        labelSelector=_open(),
        matchLabelKeys=_list_of(_text()),
        subGroupSize=_count(1, default=1),
        minSubGroups=_count(default=0),
        networkTopology=_topology(),
    )
    return {
        "spec": {
            "minMember": _count(),
            "minTaskMember": {
                "type": "object",
                "additionalProperties": {"type": "integer", "format": "int32"},
            },
            "queue": _name(default="default"),
            "priorityClassName": _text(maxLength=253),
            "minResources": _resources(),
            "networkTopology": _topology(),
            "subGroupPolicy": _list_of(sub_group),
        },
        "status": {
            "phase": _text(enum=["Pending", "Running", "Unknown", "Inqueue", "Completed"]),
            "conditions": _list_of(condition),
            "running": _count(),
            "succeeded": _count(),
            "failed": _count(),
        },
    }


def _queue() -> Object:
    return {
        "spec": {
            "weight": _count(1, maximum=65535, default=1),
            "capability": _resources(),
            "deserved": _resources(),
            "guarantee": _fields(resource=_resources()),
            "reclaimable": {"type": "boolean"},
            "parent": _name(),
            "priority": _count(),
            "type": _text(maxLength=253),
            "dequeueStrategy": _text(enum=["fifo", "traverse"], default="traverse"),
            "affinity": _open(),
            "extendClusters": _list_of(_open()),
        },
        "status": {
            "state": _text(enum=["Open", "Closed", "Closing", "Unknown"]),
            "allocated": _resources(),
            "reservation": _open(),
            "pending": _count(),
            "inqueue": _count(),
            "running": _count(),
            "unknown": _count(),
            "completed": _count(),
        },
    }


_POD_GROUP_COLUMNS: Final[list[Object]] = [
    {"name": "STATUS", "type": "string", "jsonPath": ".status.phase"},
    {"name": "minMember", "type": "integer", "jsonPath": ".spec.minMember"},
    {"name": "RUNNINGS", "type": "integer", "jsonPath": ".status.running"},
    {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "QUEUE", "type": "string", "jsonPath": ".spec.queue", "priority": 1},
]
_QUEUE_COLUMNS: Final[list[Object]] = [
    {"name": "PARENT", "type": "string", "jsonPath": ".spec.parent"}
]
