# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A store that tells others: one kind of the cluster, mirrored, indexed and announced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Any, Generic

from ascendop.errors import AscendopError
from ascendop.informer.change import Change, IndexFn, T
from ascendop.informer.handlers import Handler, Registration
from ascendop.informer.observer import InformerObserver, NobodyCounts
from ascendop.informer.reflector import Audience, Reflector, State
from ascendop.informer.represent import Representation
from ascendop.informer.shard import Shard
from ascendop.informer.slices import in_slices
from ascendop.informer.source import Source, SyncPolicy
from ascendop.informer.store import Store
from ascendop.kube.resource import Resource, Scope
from ascendop.telemetry.log import get_log

log = get_log(__name__)

SYNC_TIMEOUT_S = 120.0
"""A first list of 100,000 pods takes 30 s; what is not there after four times that will not be."""
EVERYTHING = (Scope(),)


class NotSyncedError(AscendopError):
    """Some kinds could not be listed in time; the message names them, with what is wrong."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How an informer stands: for metrics, when they are scraped, and for people."""

    kind: str
    state: str
    """The worst of its reflectors'."""
    synced: bool
    objects: int
    written: int
    """Own writes that the watch has not confirmed yet."""
    position: float
    """The least of its reflectors', as a number; 0 when it is none."""
    last_event_age_s: float
    """Since the last event or bookmark of the quietest reflector; 0 before the first."""
    trouble: str


class Informer(Generic[T]):
    """The objects of one kind in one or several scopes, and who wants to hear of them.

    Moved first: handlers run after the store has moved, synchronously, in the order of the stream.
    In step:     a handler hears of every object that the store has, once before anything else: one
                 that comes late gets what is there as `initial` changes, then what happened since.
    Stubborn:    a trouble leaves the store as it is; only `clear` empties it.
    Restarting:  `run` may be called again after it was cancelled, for another version of the kind.
    """

    def __init__(
        self,
        source: Source,
        resource: Resource,
        form: Representation[T],
        *,
        rng: Random,
        scopes: Sequence[Scope] = EVERYTHING,
        indexes: Mapping[str, IndexFn[T]] | None = None,
        policy: SyncPolicy | None = None,
        observer: InformerObserver | None = None,
    ) -> None:
        """Must be called on the loop that will use it.

        scopes: one for all namespaces, or one per namespace; they differ in the namespace only.
        """
        self.resource = resource
        self.synced = asyncio.Event()
        """Set when all of it has been listed, and every handler that was there has heard it."""
        self.suspected = asyncio.Event()
        """Set when an own write was never confirmed: somebody should compare store and server."""
        self.state_changed: Callable[[], None] | None = None
        """Called when a reflector's state changes."""
        self.swapped: Callable[[int, int], None] | None = None
        """Called after a relist: how many objects it changed, and how many there are."""
        self._source, self._form, self._rng = source, form, rng
        self._policy = policy or SyncPolicy()
        self._observer: InformerObserver = observer or NobodyCounts()
        self._indexes: dict[str, IndexFn[T]] = dict(indexes or {})
        self._loop = asyncio.get_running_loop()
        self._scopes = {scope.namespace or "": scope for scope in scopes}
        self._shards: dict[str, Shard[T]] = {ns: self._new_shard() for ns in self._scopes}
        self._reflectors: dict[str, Reflector[T]] = {}
        self._group: asyncio.TaskGroup | None = None
        """While it runs."""
        self._registrations: tuple[Registration[T], ...] = ()
        self._late: asyncio.Queue[tuple[Registration[T], list[T]]] = asyncio.Queue()
        """Who came late, with what was there then."""
        self._expiry: asyncio.TimerHandle | None = None
        self.store: Store[T] = Store(self._shards, self._loop.time, self._arm_expiry)

    def handle(self, handler: Handler[T]) -> Registration[T]:
        """Tell this handler of every change from now on, and of what is there already."""
        registration = Registration(handler, self._observer, self.resource.name)
        there = [row for shard in self._shards.values() for row in shard.cached().values()]
        if there:
            registration.hold_back()
            self._late.put_nowait((registration, there))
        elif self.synced.is_set():
            registration.synced.set()
        self._registrations = (*self._registrations, registration)
        return registration

    async def run(self, resource: Resource | None = None) -> None:
        """Mirror the kind until cancelled, in the given version if it has several."""
        self.resource = resource or self.resource
        self._form.report_to(self._report_odd)
        try:
            async with asyncio.TaskGroup() as self._group:
                for namespace in self._scopes:
                    self._reflect(self._group, namespace)
                self._group.create_task(self._replay_to_latecomers())
        finally:
            self._group = None

    async def clear(self) -> None:
        """The kind is not served any more: empty the store, and tell handlers that all is gone.

        Only while it does not run.
        """
        self.synced.clear()
        self._reflectors.clear()
        for shard in self._shards.values():
            async for change in in_slices(shard.clear()):
                if change is not None:
                    self._tell(change)

    def resync(self, reason: str) -> None:
        """List everything again, soon."""
        for reflector in self._reflectors.values():
            reflector.resync(reason)

    @property
    def source(self) -> Source:
        return self._source

    @property
    def observer(self) -> InformerObserver:
        return self._observer

    @property
    def scopes(self) -> list[Scope]:
        return list(self._scopes.values())

    def states(self) -> list[State]:
        """Of its reflectors; empty before it runs."""
        return [reflector.state for reflector in self._reflectors.values()]

    def figures(self) -> Figures:
        """How it stands now."""
        now = self._loop.time()
        reflectors = self._reflectors.values()
        states = [reflector.state for reflector in reflectors] or [State.STARTING]
        heard = [r.last_event_at for r in reflectors if r.last_event_at is not None]
        return Figures(
            kind=self.resource.name,
            state=max(states, key=list(State).index).value,
            synced=self.synced.is_set(),
            objects=len(self.store),
            written=sum(shard.written for shard in self._shards.values()),
            position=float(min(shard.number or 0 for shard in self._shards.values())),
            last_event_age_s=now - min(heard) if heard else 0.0,
            trouble="; ".join(r.trouble for r in reflectors if r.trouble),
        )

    def _report_odd(self, namespace: str, name: str, error: Exception) -> None:
        """An object of odd shape is kept by its metadata alone."""
        self._observer.count("informer_transform_errors_total")
        log.warning(
            "object cannot be read whole",
            resource=self.resource.name,
            namespace=namespace,
            name=name,
            trouble=repr(error),
        )

    def _new_shard(self) -> Shard[T]:
        return Shard(self._indexes, self._observer)

    def _reflect(self, group: asyncio.TaskGroup, namespace: str) -> None:
        reflector = Reflector(
            self._source,
            self.resource,
            self._scopes[namespace],
            self._form,
            self._shards[namespace],
            Audience(
                self._tell, self._present, self._one_synced, self._swapped, self._state_changed
            ),
            rng=self._rng,
            policy=self._policy,
            observer=self._observer,
        )
        self._reflectors[namespace] = reflector
        group.create_task(reflector.run(), name=f"reflector {self.resource.name} {namespace}")

    def _tell(self, change: Change[T]) -> None:
        for registration in self._registrations:
            registration.tell(change)

    def _present(self) -> Callable[[Change[T]], None]:
        registrations = self._registrations

        def tell(change: Change[T]) -> None:
            for registration in registrations:
                registration.tell(change)

        return tell

    def _one_synced(self) -> None:
        if all(reflector.synced for reflector in self._reflectors.values()):
            self.synced.set()
            for registration in self._registrations:
                if registration.live:
                    registration.synced.set()

    def _swapped(self, changed: int) -> None:
        if self.swapped is not None:
            self.swapped(changed, len(self.store))

    def _state_changed(self) -> None:
        if self.state_changed is not None:
            self.state_changed()

    async def _replay_to_latecomers(self) -> None:
        while True:
            registration, there = await self._late.get()
            await registration.replay(there)

    def _arm_expiry(self) -> None:
        if self._expiry is not None:
            return
        dues = [due for s in self._shards.values() if (due := s.next_expiry()) is not None]
        if dues:
            self._expiry = self._loop.call_at(min(dues), self._expire)

    def _expire(self) -> None:
        self._expiry = None
        before = self.figures().written
        for shard in self._shards.values():
            for change in shard.expire(self._loop.time()):
                self._tell(change)
        if self.figures().written < before:
            self.suspected.set()
        self._arm_expiry()


async def all_synced(informers: Iterable[Informer[Any]], within_s: float = SYNC_TIMEOUT_S) -> None:
    """Wait until every informer is synced. Raises NotSyncedError with those that are not."""
    waiting = list(informers)
    try:
        async with asyncio.timeout(within_s):
            for informer in waiting:
                await informer.synced.wait()
    except TimeoutError:
        late = [i.figures() for i in waiting if not i.synced.is_set()]
        said = "; ".join(f"{f.kind} ({f.trouble or f.state})" for f in late)
        raise NotSyncedError(f"not listed within {within_s:g} s: {said}") from None
