# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Create, update and patch: from a body to a stored row, by the same gates as a real server's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim import definitions, patches
from ascendop.sim.answers import (
    Cause,
    RefusedError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
    unsupported_media_type,
)
from ascendop.sim.apply import apply
from ascendop.sim.bodies import content_type, manager_of, parse_json, read_apply, read_json
from ascendop.sim.clusterip import ClusterIps
from ascendop.sim.conversion import object_of, to_stored
from ascendop.sim.doors import SERVERS_OWN, finished, keep_metadata, spec_changed, through_door
from ascendop.sim.invalid import faults
from ascendop.sim.kindrules import CUSTOM, PLAIN, RULES, Rules, select_own_pods
from ascendop.sim.managers import track
from ascendop.sim.priority import resolve_priority
from ascendop.sim.registry import Served
from ascendop.sim.route import Call
from ascendop.sim.scale import change_scale
from ascendop.sim.schema import fill, prune, undecodable
from ascendop.sim.storage import Row
from ascendop.sim.validate import (
    change_faults,
    check_identity,
    check_version,
    metadata_faults,
)
from ascendop.sim.world import Admitted, World


class Writer:
    """Turns bodies into rows.

    Atomic:  from the read of the old row to the write of the new one there is no await.
    """

    def __init__(self, world: World, addresses: ClusterIps) -> None:
        self._world = world
        self._addresses = addresses

    def create(self, call: Call) -> tuple[Row, list[str]]:
        """The new row, and the warnings of its request."""
        obj = read_json(call)
        check_identity(obj, call.served, call.namespace, "")
        return self.create_object(call, obj)

    def create_object(
        self, call: Call, obj: Object, *, applied: bool = False
    ) -> tuple[Row, list[str]]:
        """Every gate of a create, for a body that is already read."""
        world, served = self._world, call.served
        if obj["metadata"].get("resourceVersion"):
            raise RefusedError(
                500, "", "resourceVersion should not be set on objects to be created"
            )
        namespace = self._open_namespace(call, obj)
        warnings = self._shaped(call, obj)
        self._name(obj["metadata"], namespace)
        obj = to_stored(obj, served)
        rules = rules_of(served)
        rules.start(obj)
        self._default(obj, served, rules)
        self._admit(Admitted("create", served, "", obj, None, call.user))
        self._check(obj, served, [*metadata_faults(obj, served), *_faults(obj, served, rules)])
        key = (namespace, obj["metadata"]["name"])
        table = world.table(served)
        if table.get(key) is not None:
            raise already_exists(served.resource, key[1])
        if world.track_fields and not applied:
            track(None, obj, served, manager_of(call), world.now())
        self._born(obj, served)
        if call.dry:
            return table.row_of(key, obj, 0), warnings
        return world.storage.put(table, key, obj), warnings

    def update(self, call: Call) -> tuple[Row, list[str]]:
        """PUT."""
        row = self._existing(call)
        obj = read_json(call)
        if call.subresource == "scale":
            old = object_of(row, call.served)
            return self._replace(call, row, change_scale(old, obj, call.served))
        check_identity(obj, call.served, call.namespace, call.name)
        if call.served.crd is not None and not obj["metadata"].get("resourceVersion"):
            cause = Cause(
                "FieldValueInvalid",
                "Invalid value: 0: must be specified for an update",
                "metadata.resourceVersion",
            )
            raise invalid(call.served.resource, call.name, [cause])
        return self._replace(call, row, obj)

    def patch(self, call: Call) -> tuple[Row, list[str], bool]:
        """PATCH of any kind; whether it created the object."""
        how = content_type(call)
        if how == patches.APPLY:
            return self._apply(call)
        row = self._existing(call)
        changed = self._patched(call, row, how)
        check_identity(changed, call.served, call.namespace, call.name)
        return (*self._replace(call, row, changed), False)

    def _patched(self, call: Call, row: Row, how: str) -> Object:
        body = parse_json(call)
        served = call.served
        if call.subresource == "scale":
            from_scale: Object = {"spec": {}, "metadata": {}}
            scale = patches.merge(from_scale, body) if how != patches.JSON_PATCH else None
            if scale is None:
                raise unsupported_media_type(how, patches.MERGE)
            return change_scale(object_of(row, served), scale, served)
        if how == patches.JSON_PATCH:
            return patches.json_patch(object_of(row, served), body)
        if not isinstance(body, dict):
            raise bad_request("a patch is an object")
        if how == patches.MERGE:
            merged: Object = patches.merge(object_of(row, served), body)
            return merged
        if how == patches.STRATEGIC and served.crd is None:
            patched: Object = patches.strategic(object_of(row, served), body, served.shape)
            return patched
        raise unsupported_media_type(how, f"{patches.JSON_PATCH}, {patches.MERGE}")

    def _apply(self, call: Call) -> tuple[Row, list[str], bool]:
        wanted, manager = read_apply(call)
        row = self._world.table(call.served).get(call.key)
        now, force = self._world.now(), call.says("force")
        warnings = self._shaped(call, wanted)
        if row is None:
            if call.subresource:
                raise not_found(call.served.resource, call.name)
            wanted["metadata"]["name"] = call.name
            created = apply(None, wanted, call.served, manager, force=force, now=now)
            row, _ = self.create_object(call, created, applied=True)
            return row, warnings, True
        check_version(wanted["metadata"], row, call.served.resource, patched=True)
        live = object_of(row, call.served)
        version = live["metadata"]["resourceVersion"]
        merged = apply(live, wanted, call.served, manager, force=force, now=now)
        merged["metadata"]["resourceVersion"] = version
        replaced, _ = self._replace(call, row, merged, applied=True)
        return replaced, warnings, False

    def _replace(
        self, call: Call, row: Row, obj: Object, *, applied: bool = False
    ) -> tuple[Row, list[str]]:
        """Every gate of a change."""
        world, served = self._world, call.served
        old = row.obj
        warnings = self._shaped(call, obj, old)
        patched = call.verb == "patch"
        check_version(obj["metadata"], row, served.resource, patched=patched)
        new = to_stored(obj, served)
        new = through_door(old, new, served, call.subresource)
        keep_metadata(old, new)
        rules = rules_of(served)
        self._default(new, served, rules, old)
        self._admit(Admitted("update", served, call.subresource, new, old, call.user))
        found = [*change_faults(old, new)]
        if call.subresource != "status" or served.crd is not None:
            found += [*_faults(new, served, rules), *rules.change_faults(old, new)]
        self._check(new, served, found)
        if old == new:
            return row, warnings
        if served.has_generation and spec_changed(old, new):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if world.track_fields and not applied:
            track(old, new, served, manager_of(call), world.now())
        table = world.table(served)
        if call.dry:
            return table.row_of(row.key, new, row.revision), warnings
        if finished(new):
            return world.storage.remove(table, row, new), warnings
        return world.storage.put(table, row.key, new), warnings

    def _existing(self, call: Call) -> Row:
        row = self._world.table(call.served).get(call.key)
        if row is None:
            raise not_found(call.served.resource, call.name)
        return row

    def _open_namespace(self, call: Call, obj: Object) -> str:
        """The namespace to create in. Raises RefusedError: 404 without one, 403 while it ends."""
        if not call.served.resource.namespaced:
            return ""
        namespace = call.namespace or ""
        row = self._world.row("namespaces", ("", namespace))
        if row is None:
            raise not_found(self._world.registry.of_table("namespaces").resource, namespace)
        if row.deleting:
            name = obj["metadata"].get("name", "")
            why = (
                f"unable to create new content in namespace {namespace} "
                "because it is being terminated"
            )
            cause = Cause(
                "NamespaceTerminating",
                f"namespace {namespace} is being terminated",
                "metadata.namespace",
            )
            raise forbidden(call.served.resource, name, why, causes=[cause])
        return namespace

    def _name(self, meta: dict[str, Any], namespace: str) -> None:
        """Where a new object is, and nothing that only the server knows."""
        for name in (*SERVERS_OWN, "selfLink", "namespace"):
            meta.pop(name, None)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + self._world.suffix()
        if namespace:
            meta["namespace"] = namespace

    def _shaped(self, call: Call, obj: Object, old: Object | None = None) -> list[str]:
        """Prune; the unknown fields as warnings, or an error where the caller is strict."""
        unknown = prune(obj, call.served, old)
        if not unknown:
            return []
        how = call.query.get("fieldValidation", "Warn")
        told = [f'unknown field "{path}"' for path in unknown]
        if how == "Strict":
            raise undecodable(call.served, f"strict decoding error: {', '.join(told)}")
        return told if how == "Warn" else []

    def _default(
        self, obj: Object, served: Served, rules: Rules, old: Object | None = None
    ) -> None:
        fill(obj, served, old)
        rules.default(obj)
        if served.table == definitions.TABLE:
            definitions.default_definition(obj)

    def _born(self, obj: Object, served: Served) -> None:
        """What only the server gives: identity, time, and what comes out of a pool."""
        world, meta = self._world, obj["metadata"]
        meta["uid"] = world.uid()
        meta["creationTimestamp"] = world.now()
        if served.has_generation:
            meta["generation"] = 1
        if served.table == "services":
            self._addresses.assign(obj, served)
        elif served.table == "pods":
            resolve_priority(world, obj, served)
        elif served.table == "jobs.batch":
            select_own_pods(obj)
        elif served.table == definitions.TABLE:
            meta.setdefault("finalizers", []).append(definitions.FINALIZER)
            definitions.accept(obj, world.now())

    def _admit(self, admitted: Admitted) -> None:
        for hook in self._world.admission:
            hook(admitted)

    def _check(self, obj: Object, served: Served, causes: Iterable[Cause]) -> None:
        if found := list(causes):
            raise invalid(served.resource, obj["metadata"].get("name", ""), found)


def rules_of(served: Served) -> Rules:
    if served.crd is not None:
        return CUSTOM if served.has_status else PLAIN
    return RULES.get(served.table, PLAIN)


def _faults(obj: Object, served: Served, rules: Rules) -> Iterable[Cause]:
    if served.crd is not None:
        return faults(obj, served.shape)
    if served.table == definitions.TABLE:
        return definitions.definition_faults(obj)
    return rules.faults(obj)
