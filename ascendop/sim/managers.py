# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""managedFields: one set of fields per manager, moved along with every write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.fieldsets import Leaves, Path, changed_parts, leaves, of_v1, to_v1
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
        kept = [manager for manager, owned in self.sets.items() if owned]
        kept.sort(key=lambda m: (m.operation, self.times.get(m, ""), m.name, m.subresource))
        return [self._entry(manager) for manager in kept]

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


def read_managed(obj: Object) -> Managed:
    """The books that an object carries."""
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
        managed.sets[manager] = of_v1(entry.get("fieldsV1") or {})
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
    before, after = _differing(old, new, served)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    managed = read_managed(new)
    managed.take(changed | removed, but=manager)
    managed.give(manager, (managed.sets.get(manager, set()) | changed) - removed, now)
    write_managed(new, managed)


def _differing(old: Object | None, new: Object, served: Served) -> tuple[Leaves, Leaves]:
    if old is None:
        parts = [name for name in new if name != "status" or not served.has_status]
        return {}, leaves(new, served.shape, parts)
    parts = changed_parts(old, new)
    return leaves(old, served.shape, parts), leaves(new, served.shape, parts)
