# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Create, update and patch: from a body to a stored row, by the same gates as a real server's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import yaml

from ascendop.kube.resource import Object, Resource
from ascendop.sim import definitions, patches, protobuf
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
from ascendop.sim.clusterip import ClusterIps
from ascendop.sim.conversion import object_of, to_stored
from ascendop.sim.invalid import faults
from ascendop.sim.kindrules import CUSTOM, PLAIN, RULES, Rules, select_own_pods
from ascendop.sim.managers import Manager, track
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

_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""Metadata that no writer decides."""


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
        how = _content_type(call)
        if how == patches.APPLY:
            return self._apply(call)
        row = self._existing(call)
        changed = self._patched(call, row, how)
        check_identity(changed, call.served, call.namespace, call.name)
        return (*self._replace(call, row, changed), False)

    def _patched(self, call: Call, row: Row, how: str) -> Object:
        body = _parse_json(call)
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
        wanted, manager = _read_apply(call)
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
        new = _through_door(old, new, served, call.subresource)
        _keep_metadata(old, new)
        rules = rules_of(served)
        self._default(new, served, rules, old)
        self._admit(Admitted("update", served, call.subresource, new, old, call.user))
        found = [*change_faults(old, new)]
        if call.subresource != "status" or served.crd is not None:
            found += [*_faults(new, served, rules), *rules.change_faults(old, new)]
        self._check(new, served, found)
        if _same(old, new):
            return row, warnings
        if served.has_generation and _spec_changed(old, new):
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
        for name in (*_KEPT, "selfLink", "namespace"):
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


def manager_of(call: Call) -> Manager:
    """Who writes: the fieldManager, or the first word of the user agent."""
    agent = next((v for k, v in call.request.headers.items() if k.lower() == "user-agent"), "")
    name = call.query.get("fieldManager") or agent.partition("/")[0] or "unknown"
    return Manager(name, "Update", call.served.resource.api_version, call.subresource)


def finished(obj: Object) -> bool:
    """Whether nothing holds an object any more that was asked to go."""
    meta = obj["metadata"]
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and not (obj.get("kind") == "Namespace" and obj["spec"].get("finalizers"))
    )


def _read_apply(call: Call) -> tuple[Object, Manager]:
    """The configuration and its manager. Raises RefusedError: 400, or 422 without a manager."""
    try:
        wanted = yaml.load(call.request.body or b"", Loader=_YAML)  # noqa: S506  a safe loader
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(wanted, dict):
        raise bad_request("an apply configuration is an object")
    name = call.query.get("fieldManager", "")
    if not name:
        says = "Required value: is required for apply patch"
        raise invalid(_PATCH_OPTIONS, "", [Cause("FieldValueRequired", says, "fieldManager")])
    check_identity(wanted, call.served, call.namespace, call.name)
    return wanted, Manager(name, "Apply", call.served.resource.api_version, call.subresource)


def read_json(call: Call) -> Object:
    """The body as an object. Raises RefusedError(400)."""
    obj = _parse_json(call)
    if not isinstance(obj, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    return obj


def _parse_json(call: Call) -> Any:
    body = call.request.body or b""
    try:
        if body.startswith(protobuf.MAGIC):
            return protobuf.decode(body, call.served)
        if "yaml" in _content_type(call):
            return yaml.load(body, Loader=_YAML)  # noqa: S506  a safe loader
        return orjson.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(
            "the object provided is unrecognized (must be of type "
            f"{call.served.resource.kind}): couldn't get version/kind; json parse error: {error}"
        ) from error


def _content_type(call: Call) -> str:
    headers = call.request.headers
    found = next((v for k, v in headers.items() if k.lower() == "content-type"), "")
    return found.partition(";")[0].strip() or "application/json"


def _faults(obj: Object, served: Served, rules: Rules) -> Iterable[Cause]:
    if served.crd is not None:
        return faults(obj, served.shape)
    if served.table == definitions.TABLE:
        return definitions.definition_faults(obj)
    return rules.faults(obj)


def _through_door(old: Object, new: Object, served: Served, subresource: str) -> Object:
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


def _keep_metadata(old: Object, new: Object) -> None:
    was, meta = old["metadata"], new["metadata"]
    for name in (*_KEPT, "namespace", "name"):
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


def _same(old: Object, new: Object) -> bool:
    """Whether a write changes nothing: then it is not one."""
    return old == new


def _spec_changed(old: Object, new: Object) -> bool:
    ignored = ("metadata", "status", "apiVersion", "kind")
    return any(old.get(name) != new.get(name) for name in {**old, **new} if name not in ignored)


_PATCH_OPTIONS = Resource("meta.k8s.io", "v1", "patchoptions", "PatchOptions")
