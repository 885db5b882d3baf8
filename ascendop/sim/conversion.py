# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Stored version to served one and back: Events have two groups, custom kinds versions."""

from __future__ import annotations

import orjson

from ascendop.kube.resource import Object
from ascendop.sim.registry import Served
from ascendop.sim.storage import Row

_EVENT = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""events.k8s.io/v1 → v1; what is not named here is called the same in both."""
_EVENT_BACK = {core: new for new, core in _EVENT.items()}


def body_of(row: Row, served: Served) -> bytes:
    """The object as this version shows it."""
    if row.api_version == served.resource.api_version:
        return row.body
    return orjson.dumps(from_stored(row.obj, served))


def object_of(row: Row, served: Served) -> Object:
    """The same as a dict of the caller's own."""
    return from_stored(row.obj, served)


def from_stored(obj: Object, served: Served) -> Object:
    if served.table == "events" and served.resource.group and obj.get("apiVersion") == "v1":
        obj = {_EVENT_BACK.get(name, name): value for name, value in obj.items()}
    obj["apiVersion"] = served.resource.api_version
    return obj


def to_stored(obj: Object, served: Served) -> Object:
    """As it is stored: Events as v1, custom objects in the definition's storage version."""
    if served.table == "events" and served.resource.group:
        obj = {_EVENT.get(name, name): value for name, value in obj.items()}
        obj["apiVersion"] = "v1"
    elif served.crd is not None:
        obj["apiVersion"] = f"{served.resource.group}/{storage_version(served)}"
    return obj


def storage_version(served: Served) -> str:
    """The one version of a custom kind that is written."""
    if served.crd is None:
        return served.resource.version
    return next(
        (version["name"] for version in served.crd["versions"] if version.get("storage")),
        served.resource.version,
    )
