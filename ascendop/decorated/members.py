# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods of workloads with a rank table: mirrored where such workloads are, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random  # noqa: TID251  the type of an argument
from typing import Final, NamedTuple

from ascendop.api.observed import PodView
from ascendop.apply.caches import Cache
from ascendop.decorated.rows import members_form
from ascendop.informer.change import Change
from ascendop.informer.informer import Informer
from ascendop.informer.observer import InformerObserver
from ascendop.informer.source import Source
from ascendop.kube.resource import PODS, Scope

NAME: Final = "name"
"""Index of pods by the name of the workload in their label."""


class Place(NamedTuple):
    """Where pods are looked for: those with a label, in a namespace."""

    label: str
    namespace: str


Changed = Callable[[Place, Change[PodView]], None]
"""Told of every change of a pod that is mirrored."""


@dataclass(slots=True)
class _Mirrored:
    """The pods of one place."""

    informer: Informer[PodView]
    cache: Cache[PodView]
    users: set[str] = field(default_factory=set)
    """Uids of the workloads for whose sake."""
    task: asyncio.Task[None] | None = None


class Members:
    """Mirrors the pods of every place that somebody wants.

    Frugal:  a place without a workload that wants a table costs no watch and no memory; one with a
             thousand of them costs one watch.
    Patient: `find` says None until a place is known as a whole; `filled` says when it is.
    """

    def __init__(
        self,
        source: Source,
        *,
        rng: Random,
        observer: InformerObserver,
        changed: Changed,
        filled: Callable[[Place], None],
    ) -> None:
        """Must be called on the loop that will run it."""
        self._source = source
        self._rng = rng
        self._observer = observer
        self._changed = changed
        self._filled = filled
        self._places: dict[Place, _Mirrored] = {}
        self._group: asyncio.TaskGroup | None = None
        """While it runs."""

    def want(self, place: Place, uid: str) -> None:
        """A workload there needs its pods."""
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = self._mirrored(place)
            self._start(place, found)
        found.users.add(uid)

    def release(self, place: Place, uid: str) -> None:
        """It does not any more; the last one takes the mirror with it."""
        found = self._places.get(place)
        if found is None:
            return
        found.users.discard(uid)
        if not found.users:
            del self._places[place]
            if found.task is not None:
                found.task.cancel()

    def find(self, place: Place, name: str) -> list[PodView] | None:
        """Pods whose label names this workload; None while the place is not known."""
        found = self._places.get(place)
        if found is None or not found.informer.synced.is_set():
            return None
        return found.informer.store.by_index(NAME, name)

    def cache(self, place: Place) -> Cache[PodView] | None:
        """Where the answers to our own writes go; None for a place that nobody wants."""
        found = self._places.get(place)
        return None if found is None else found.cache

    def informer(self, place: Place) -> Informer[PodView] | None:
        """Who mirrors a place; None for one that nobody wants."""
        found = self._places.get(place)
        return None if found is None else found.informer

    @property
    def informers(self) -> list[Informer[PodView]]:
        """Those of all places."""
        return [found.informer for found in self._places.values()]

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for place, found in self._places.items():
                    self._start(place, found)
                await asyncio.Event().wait()
        finally:
            self._group = None

    def _mirrored(self, place: Place) -> _Mirrored:
        form = members_form(place.label)
        informer: Informer[PodView] = Informer(
            self._source,
            PODS,
            form,
            rng=self._rng,
            scopes=(Scope(place.namespace, labels=place.label),),
            indexes={NAME: _name_of},
            observer=self._observer,
        )
        informer.handle(partial(self._changed, place))
        return _Mirrored(informer, Cache(informer.store, form))

    def _start(self, place: Place, found: _Mirrored) -> None:
        if self._group is not None:
            name = f"pods by {place.label} in {place.namespace}"
            found.task = self._group.create_task(self._mirror(place, found), name=name)

    async def _mirror(self, place: Place, found: _Mirrored) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(found.informer.run())
            await found.informer.synced.wait()
            self._filled(place)


def _name_of(pod: PodView) -> tuple[str, ...]:
    return (pod.job,) if pod.job else ()
