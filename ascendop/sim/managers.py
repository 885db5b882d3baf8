# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""managedFields: one set of fields per manager, moved along with every write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.fieldsets import Path, changed_parts, leaves, of_v1, to_v1
from ascendop.sim.registry import Served

BEFORE = "before-first-apply"
"""Who owns what was written while nobody kept books."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Whose fields: a name, and by which door and verb it came."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def told(self) -> str:
        """As a conflict names it."""
        door = f' with subresource "{self.subresource}"' if self.subresource else ""
        return f'conflict with "{self.name}"{door} using {self.api_version}'


@dataclass(slots=True)
class Managed:
    """The books of one object."""

    sets: dict[Manager, set[Path]] = field(default_factory=dict)
    times: dict[Manager, str] = field(default_factory=dict)
    untouched: list[dict[str, Any]] = field(default_factory=list)
    """Entries that the write at hand does not concern; as they were read."""

    def give(self, manager: Manager, paths: Iterable[Path], now: str) -> None:
        """Its set from now on."""
        paths = set(paths)
        if self.sets.get(manager) != paths:
            self.sets[manager] = paths
            self.times[manager] = now

    def take(self, paths: set[Path], *, but: Manager) -> None:
        """Nobody else owns these any more."""
        for manager, owned in self.sets.items():
            if manager != but:
                owned.difference_update(paths)

    def others(self, manager: Manager) -> set[Path]:
        """What anybody else owns."""
        return {path for m, owned in self.sets.items() if m != manager for path in owned}

    def entries(self) -> list[dict[str, Any]]:
        """As metadata.managedFields: applied sets first, then by time."""
        kept = [self._entry(manager) for manager, owned in self.sets.items() if owned]
        return sorted([*self.untouched, *kept], key=_rank)

    def _entry(self, manager: Manager) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": self.times.get(manager),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_v1(self.sets[manager]),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        return entry


def _rank(entry: dict[str, Any]) -> tuple[str, ...]:
    names = ("operation", "time", "manager", "subresource")
    return tuple(entry.get(name) or "" for name in names)


def read_managed(
    obj: Object, *, about: Iterable[str] | None = None, by: Manager | None = None
) -> Managed:
    """The books that an object carries.

    about, by:  read the entries only that own one of these top-level fields, or are this manager's.
    """
    concerned = None if about is None else {f"f:{name}" for name in about}
    managed = Managed()
    for entry in obj["metadata"].get("managedFields") or ():
        if not entry:
            continue
        manager = Manager(
            entry.get("manager", ""),
            entry.get("operation", ""),
            entry.get("apiVersion", ""),
            entry.get("subresource", ""),
        )
        fields = entry.get("fieldsV1") or {}
        if concerned is not None and manager != by and concerned.isdisjoint(fields):
            managed.untouched.append(entry)
            continue
        managed.sets[manager] = of_v1(fields)
        managed.times[manager] = entry.get("time") or ""
    return managed


def write_managed(obj: Object, managed: Managed) -> None:
    entries = managed.entries()
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def track(old: Object | None, new: Object, served: Served, manager: Manager, now: str) -> None:
    """Book a write that is not an apply: what changed is its writer's."""
    if old is None:
        parts = [name for name in new if name != "status" or not served.has_status]
    else:
        parts = changed_parts(old, new)
    before = leaves(old, served.shape, parts) if old else {}
    after = leaves(new, served.shape, parts)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    managed = read_managed(new, about=parts, by=manager)
    managed.take(changed | removed, but=manager)
    managed.give(manager, (managed.sets.get(manager, set()) | changed) - removed, now)
    write_managed(new, managed)
