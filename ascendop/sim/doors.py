# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What each door of an object lets through: the object itself, its status, its finalizers."""

from __future__ import annotations

from ascendop.kube.resource import Object
from ascendop.sim.registry import Served

SERVERS_OWN = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""Metadata that no writer decides."""


def through_door(old: Object, new: Object, served: Served, subresource: str) -> Object:
    """What this door lets through: the front door no status, the status door nothing else."""
    if subresource == "status":
        return _status_only(old, new, served)
    if subresource == "finalize":
        return {**old, "spec": new.get("spec") or {}, "metadata": dict(old["metadata"])}
    if served.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    return new


def _status_only(old: Object, new: Object, served: Served) -> Object:
    kept = {**old, "status": new.get("status")}
    if new.get("status") is None:
        kept.pop("status")
    meta = dict(old["metadata"])
    # built-in kinds let these through here, custom ones do not
    for name in ("labels", "annotations", "finalizers") if served.crd is None else ():
        meta.pop(name, None)
        if name in new["metadata"]:
            meta[name] = new["metadata"][name]
    if "managedFields" in new["metadata"]:
        meta["managedFields"] = new["metadata"]["managedFields"]
    kept["metadata"] = meta
    return kept


def keep_metadata(old: Object, new: Object) -> None:
    was, meta = old["metadata"], new["metadata"]
    for name in (*SERVERS_OWN, "namespace", "name"):
        meta.pop(name, None)
        if name in was:
            meta[name] = was[name]
    fields = meta.get("managedFields")
    if fields is None:
        meta.pop("managedFields", None)
        if "managedFields" in was:
            meta["managedFields"] = was["managedFields"]
    elif fields == [{}]:
        del meta["managedFields"]
    meta["resourceVersion"] = was["resourceVersion"]


def spec_changed(old: Object, new: Object) -> bool:
    ignored = ("metadata", "status", "apiVersion", "kind")
    return any(old.get(name) != new.get(name) for name in {**old, **new} if name not in ignored)


def finished(obj: Object) -> bool:
    """Whether nothing holds an object any more that was asked to go."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not (obj.get("kind") == "Namespace" and obj["spec"].get("finalizers"))
    )
