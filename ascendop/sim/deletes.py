# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Deletion: preconditions, grace, finalizers; what is left to the collector and to the node."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from ascendop.clock import rfc3339
from ascendop.kube.resource import Object
from ascendop.sim.answers import bad_request, conflict, not_found
from ascendop.sim.doors import finished
from ascendop.sim.route import Call
from ascendop.sim.storage import Row
from ascendop.sim.world import World

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_DEFAULT_GRACE_S = 30


@dataclass(frozen=True, slots=True)
class Wish:
    """How a deletion is asked for."""

    uid: str = ""
    version: str = ""
    grace_s: int | None = None
    propagation: str = ""
    dry: bool = False


def parse_wish(call: Call) -> Wish:
    """From the body, or from the query where there is no body. Raises RefusedError(400)."""
    options: dict[str, Any] = {}
    if call.request.body:
        try:
            options = orjson.loads(call.request.body) or {}
        except orjson.JSONDecodeError as error:
            raise bad_request(f"json parse error: {error}") from error
    known = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    propagation = options.get("propagationPolicy") or call.query.get("propagationPolicy", "")
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        raise bad_request(f"invalid propagationPolicy: {propagation}")
    return Wish(
        known.get("uid", ""),
        known.get("resourceVersion", ""),
        None if grace is None else int(grace),
        propagation,
        call.dry or bool(options.get("dryRun")),
    )


class Deleter:
    """Removes objects, or marks them for whoever has to let go first."""

    def __init__(self, world: World) -> None:
        self._world = world

    def delete(self, call: Call) -> Row:
        """One object: its last state if it is gone, its marked state if it is going."""
        row = self._world.table(call.served).get(call.key)
        if row is None:
            raise not_found(call.served.resource, call.name)
        return self.delete_row(call.served.table, row, parse_wish(call))

    def delete_row(self, table: str, row: Row, wish: Wish) -> Row:
        """The same for a row at hand; raises RefusedError(409) for a failed precondition."""
        self._check(table, row, wish)
        obj = row.obj
        meta = obj["metadata"]
        grace_s = _grace_s(table, obj, wish)
        if row.deleting and not _shorter(meta, grace_s):
            return row
        _mark_finalizers(meta, wish.propagation)
        if not row.deleting and "generation" in meta:
            meta["generation"] += 1
        moment = self._world.wall() + timedelta(seconds=grace_s)
        meta["deletionTimestamp"] = rfc3339(moment)
        meta["deletionGracePeriodSeconds"] = grace_s
        if table == "namespaces":
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
            meta.pop("deletionGracePeriodSeconds")
        found = self._world.storage.table(table)
        if wish.dry:
            return found.row_of(row.key, obj, row.revision)
        if finished(obj):
            return self._world.storage.remove(found, row, obj)
        return self._world.storage.put(found, row.key, obj)

    def _check(self, table: str, row: Row, wish: Wish) -> None:
        resource = self._world.registry.of_table(table).resource
        name = row.key[1]
        if wish.uid and wish.uid != row.uid:
            why = (
                f"the UID in the precondition ({wish.uid}) does not match the UID in record "
                f"({row.uid}). The object might have been deleted and then recreated"
            )
            raise conflict(resource, name, why, kind=resource.kind)
        if wish.version and wish.version != str(row.revision):
            why = (
                f"the ResourceVersion in the precondition ({wish.version}) does not match the "
                f"ResourceVersion in record ({row.revision}). The object might have been modified"
            )
            raise conflict(resource, name, why, kind=resource.kind)


def _grace_s(table: str, obj: Object, wish: Wish) -> int:
    """Only pods have somebody to wait for, and only while a node runs them."""
    if table != "pods":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    if wish.grace_s is not None:
        return max(wish.grace_s, 0)
    declared: int = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_S)
    return declared


def _shorter(meta: dict[str, Any], grace_s: int) -> bool:
    """A second deletion can only hurry the first."""
    return grace_s < (meta.get("deletionGracePeriodSeconds") or 0)


def _mark_finalizers(meta: dict[str, Any], propagation: str) -> None:
    finalizers = [f for f in meta.get("finalizers") or () if f not in (ORPHAN, FOREGROUND)]
    if propagation == "Foreground":
        finalizers.append(FOREGROUND)
    elif propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif not propagation:
        return
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
