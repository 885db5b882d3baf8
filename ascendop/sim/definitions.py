# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Custom kinds: a definition is checked, served, and takes its objects along when it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ascendop.kube.resource import CRDS, Object
from ascendop.sim.answers import Cause
from ascendop.sim.storage import Change, Table
from ascendop.sim.world import World

TABLE = CRDS.name
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def default_definition(crd: Object) -> None:
    """Names that follow from others, and the conversion that does nothing."""
    spec = crd.setdefault("spec", {})
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def definition_faults(crd: Object) -> Iterator[Cause]:
    """What keeps a definition from being one."""
    spec = crd["spec"]
    names = spec.get("names") or {}
    for path, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield Cause("FieldValueRequired", "Required value", path)
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    name = crd["metadata"].get("name", "")
    if name != wanted:
        yield Cause(
            "FieldValueInvalid",
            f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group',
            "metadata.name",
        )
    yield from _version_faults(spec.get("versions") or [])


def _version_faults(versions: list[dict[str, Any]]) -> Iterator[Cause]:
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield Cause(
            "FieldValueInvalid",
            "Invalid value: must have exactly one version marked as storage version",
            "spec.versions",
        )
    for index, version in enumerate(versions):
        if not version.get("name"):
            path = f"spec.versions[{index}].name"
            yield Cause("FieldValueRequired", "Required value", path)
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield Cause(
                "FieldValueRequired",
                "Required value: schemas are required",
                f"spec.versions[{index}].schema.openAPIV3Schema",
            )


def accept(crd: Object, now: str) -> None:
    """The status of a definition whose names are free."""
    spec = crd["spec"]
    status = crd.get("status") or {}
    stored = next((v["name"] for v in spec["versions"] if v.get("storage")), "")
    known = status.get("storedVersions") or []
    crd["status"] = {
        "acceptedNames": spec["names"],
        "conditions": status.get("conditions")
        or [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted", now
            ),
        ],
        "storedVersions": known if stored in known else [*known, stored],
    }


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


class Definitions:
    """Serves what the table of definitions says. Follows it by itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.storage.listeners.append(self._hear)

    def _hear(self, table: Table, change: Change) -> None:
        if table.name != TABLE:
            return
        name = change.last.key[1]
        if change.new is None:
            self._world.registry.undefine(change.last.obj)
            self._world.storage.drop(name)
            return
        crd = change.new.obj
        if change.old is None or change.old.obj["spec"] != crd["spec"]:
            self._world.registry.define(crd)
            # a new schema or version shows other objects: whoever watches must look again
            self._world.storage.hang_up(name)
        for served in self._world.registry:
            if served.table == name:
                self._world.table(served)
