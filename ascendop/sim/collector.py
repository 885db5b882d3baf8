# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes because something else went: children of owners, contents of namespaces and kinds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ascendop.kube.resource import Object
from ascendop.sim import definitions
from ascendop.sim.deletes import FOREGROUND, ORPHAN, Deleter, Wish
from ascendop.sim.doors import finished
from ascendop.sim.storage import Change, NameKey, Row, Table
from ascendop.sim.world import World

Place = tuple[str, NameKey]
"""Table and key of one object."""
_BACKGROUND = Wish(propagation="Background")


class Collector:
    """Deletes, some time after a change, what the change left without a reason to be.

    Late:   a real collector takes about a second; whoever relies on less is wrong there too.
    Sure:   every change that could make something collectable is looked at, once.
    Works:  by timers of the running loop, so nobody has to run it.
    """

    def __init__(self, world: World, deleter: Deleter, *, delay_s: float) -> None:
        self._world = world
        self._deleter = deleter
        self._delay_s = delay_s
        self._live: dict[str, Place] = {}
        """Where the object of each UID is."""
        self._dependents: dict[str, dict[Place, None]] = {}
        """Which objects name a UID as an owner."""
        self._due: dict[Place, None] = {}
        """What is looked at when the timer rings."""
        self._timer: asyncio.TimerHandle | None = None
        world.storage.listeners.append(self._hear)

    def close(self) -> None:
        """Collect nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        self._due.clear()

    def _hear(self, table: Table, change: Change) -> None:
        place = (table.name, change.last.key)
        for owner in change.old.owners if change.old else ():
            if owners := self._dependents.get(owner):
                owners.pop(place, None)
        if change.old is not None:
            self._live.pop(change.old.uid, None)
        if change.new is None:
            self._gone(place, change.last)
            return
        self._live[change.new.uid] = place
        for owner in change.new.owners:
            self._dependents.setdefault(owner, {})[place] = None
        if change.new.deleting or (change.new.owners and not self._owned(change.new)):
            self._look_at(place)

    def _gone(self, place: Place, last: Row) -> None:
        """Look at children, at owners that wait for this one, and at what contained it."""
        for child in self._dependents.pop(last.uid, {}):
            self._look_at(child)
        for owner in last.owners:
            if owner in self._live:
                self._look_at(self._live[owner])
        table, (namespace, _) = place
        if namespace:
            self._look_at(("namespaces", ("", namespace)))
        if "." in table:
            self._look_at((definitions.TABLE, ("", table)))

    def _owned(self, row: Row) -> bool:
        """Whether every owner is alive, in the same namespace or in none."""
        return all(self._alive(owner, row) for owner in row.owners)

    def _alive(self, owner: str, row: Row) -> bool:
        place = self._live.get(owner)
        return place is not None and place[1][0] in ("", row.key[0])

    def _look_at(self, place: Place) -> None:
        if place[0] not in self._world.storage.tables or place in self._due:
            return
        self._due[place] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay_s, self._collect)

    def _collect(self) -> None:
        self._timer = None
        due, self._due = self._due, {}
        for table, key in due:
            row = self._world.row(table, key)
            if row is not None:
                self._judge(table, row)

    def _judge(self, table: str, row: Row) -> None:
        if row.deleting:
            self._let_go(table, row)
        elif row.owners:
            self._judge_child(table, row)

    def _judge_child(self, table: str, row: Row) -> None:
        alive = [owner for owner in row.owners if self._alive(owner, row)]
        if not alive:
            self._deleter.delete_row(table, row, Wish(uid=row.uid, propagation="Background"))
        elif len(alive) < len(row.owners):
            self._keep_owners(table, row, alive)

    def _let_go(self, table: str, row: Row) -> None:
        obj = row.obj
        held = obj["metadata"].get("finalizers") or []
        if table == "namespaces":
            self._empty_namespace(row, obj)
        elif definitions.FINALIZER in held:
            self._empty_definition(row, obj)
        elif ORPHAN in held:
            for child_table, child in self._children(row):
                kept = [owner for owner in child.owners if owner != row.uid]
                self._keep_owners(child_table, child, kept)
            self._release(table, row, obj, ORPHAN)
        elif FOREGROUND in held:
            self._foreground(table, row, obj)

    def _foreground(self, table: str, row: Row, obj: Object) -> None:
        blocked = False
        for child_table, child in self._children(row):
            if not child.deleting:
                self._deleter.delete_row(child_table, child, _BACKGROUND)
            blocked = blocked or self._blocks(child_table, child.key, row.uid)
        if not blocked:
            self._release(table, row, obj, FOREGROUND)

    def _blocks(self, table: str, key: NameKey, uid: str) -> bool:
        row = self._world.row(table, key)
        owners = row.obj["metadata"].get("ownerReferences") or () if row else ()
        return any(o.get("uid") == uid and o.get("blockOwnerDeletion") for o in owners)

    def _children(self, row: Row) -> Iterator[tuple[str, Row]]:
        for table, key in list(self._dependents.get(row.uid, ())):
            child = self._world.row(table, key)
            if child is not None:
                yield table, child

    def _keep_owners(self, table: str, row: Row, kept: list[str]) -> None:
        obj = row.obj
        owners = [o for o in obj["metadata"]["ownerReferences"] if o.get("uid") in kept]
        obj["metadata"]["ownerReferences"] = owners
        if not owners:
            del obj["metadata"]["ownerReferences"]
        self._world.storage.put(self._world.storage.table(table), row.key, obj)

    def _release(self, table: str, row: Row, obj: Object, finalizer: str) -> None:
        left = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
        obj["metadata"]["finalizers"] = left
        if not left:
            del obj["metadata"]["finalizers"]
        self._store(table, row, obj)

    def _empty_namespace(self, row: Row, obj: Object) -> None:
        namespace = row.key[1]
        if self._delete_all(namespace, list(self._world.storage.tables)):
            return
        obj["spec"]["finalizers"] = []
        self._store("namespaces", row, obj)

    def _empty_definition(self, row: Row, obj: Object) -> None:
        if not self._delete_all(None, [row.key[1]]):
            self._release(definitions.TABLE, row, obj, definitions.FINALIZER)

    def _delete_all(self, namespace: str | None, tables: list[str]) -> bool:
        """Whether anything is left afterwards."""
        left = False
        for name in tables:
            table = self._world.storage.tables[name]
            for row in list(table.scan(namespace)):
                if not row.deleting:
                    self._deleter.delete_row(name, row, _BACKGROUND)
            left = left or bool(table.count(namespace))
        return left

    def _store(self, table: str, row: Row, obj: Object) -> None:
        found = self._world.storage.table(table)
        if finished(obj):
            self._world.storage.remove(found, row, obj)
        else:
            self._world.storage.put(found, row.key, obj)
