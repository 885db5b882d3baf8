# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What every part of the server shares: the storage, what is served, the wall clock, the dice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  the type; the dice are an argument

from ascendop.clock import WallClock, rfc3339
from ascendop.kube.resource import Object
from ascendop.sim.registry import Registry, Served
from ascendop.sim.storage import NameKey, Row, Storage, Table

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels: a generated name should not say anything."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What an admission hook looks at: it may change `obj`, or refuse by raising RefusedError."""

    verb: str
    served: Served
    subresource: str
    obj: Object
    old: Object | None
    user: str


Admission = Callable[[Admitted], None]


@dataclass(slots=True)
class World:
    """One simulated cluster's state and its sources of time and chance."""

    wall: WallClock
    rng: Random
    storage: Storage = field(default_factory=Storage)
    registry: Registry = field(default_factory=Registry)
    admission: list[Admission] = field(default_factory=list)
    track_fields: bool = True
    """Whether writes other than apply keep managedFields too; costs a walk over the object."""

    def now(self) -> str:
        return rfc3339(self.wall())

    def uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def suffix(self) -> str:
        """For generateName."""
        return "".join(self.rng.choices(_SUFFIX, k=5))

    def table(self, served: Served) -> Table:
        return self.storage.table(served.table, served.fields)

    def row(self, table: str, key: NameKey) -> Row | None:
        found = self.storage.tables.get(table)
        return found.get(key) if found else None
