# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Kinds that need not be there: they come, go and change version while we run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Any, Final

from ascendop.backoff import Backoff
from ascendop.informer.discovery import Served, preferred
from ascendop.informer.informer import Informer
from ascendop.informer.metadata import MetaRow
from ascendop.informer.reflector import State
from ascendop.informer.represent import form_of_metadata
from ascendop.informer.source import Source
from ascendop.kube.resource import CRDS, Resource, Scope
from ascendop.telemetry.log import get_log

log = get_log(__name__)

POLL_S: Final = 60.0
"""Without the right to watch CRDs discovery is polled; who installs one waits that long."""
POLL_SPREAD: Final = 0.2
INSURANCE_S: Final = 600.0
"""A kind may be served without a CRD, by a server of its own; that has no event."""
SETTLE: Final = Backoff(1.0, 30.0)
"""Discovery follows a CRD by seconds: until the two agree it is asked again."""
OVERDUE_S: Final = 120.0

Serves = Callable[[Collection[str]], Awaitable[Served]]
"""`Discovery.served`."""


class Presence(Enum):
    """Where an optional kind is in its life."""

    UNKNOWN = "unknown"
    """Discovery has not answered yet."""
    ABSENT = "absent"
    STARTING = "starting"
    """It is served, and being listed."""
    SYNCED = "synced"
    STOPPING = "stopping"
    """It is gone; those who knew its objects are being told."""


@dataclass(slots=True)
class _Kind:
    """One optional kind."""

    informer: Informer[Any]
    versions: tuple[Resource, ...]
    """Those we can read, the preferred first."""
    crd: Informer[MetaRow] | None
    """Its CRD, alone; None where CRDs are not watched."""
    presence: Presence = Presence.UNKNOWN
    since: float = 0.0
    """Loop time at which `presence` became what it is."""
    serving: Resource | None = None
    """The version that is mirrored; None while none is."""
    mirror: asyncio.Task[None] | None = None
    look: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when discovery should be asked again."""
    looks: int = 0
    """In a row that did not settle things."""

    @property
    def name(self) -> str:
        return self.versions[0].name

    @property
    def watched(self) -> bool:
        """Whether the watch on its CRD tells when it comes and goes."""
        return self.crd is not None and self.crd.synced.is_set() and not self.refused

    @property
    def refused(self) -> bool:
        return self.crd is not None and State.DENIED in self.crd.states()


class Capabilities:
    """What this cluster can do beyond Kubernetes, by name: `podgroups.scheduling.volcano.sh`.

    Patient:  an informer starts only when discovery lists its resource, and a 404 is waited out.
    Complete: when a kind goes, its objects are told to handlers as inferred deletes, the store is
              empty, and `changed` says so; nothing of it is kept.
    Shared:   the informer object stays the same through all of it; handlers register once.
    """

    def __init__(
        self,
        serves: Serves,
        source: Source | None,
        *,
        rng: Random,
        changed: Callable[[str, bool], None],
    ) -> None:
        """Must be called on the loop that will use it.

        source:  to watch CRDs with; None where we have no right to, then discovery is polled.
        changed: called with the name when a kind has become usable, or is not any more.
        """
        self._serves = serves
        self._source = source
        self._rng = rng
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._kinds: dict[str, _Kind] = {}
        self._group: asyncio.TaskGroup | None = None

    def track(self, informer: Informer[Any], versions: Sequence[Resource] = ()) -> None:
        """Run this informer while its kind is served, in the first of `versions` that is.

        Before `run` only.
        """
        kind = _Kind(informer, tuple(versions) or (informer.resource,), None)
        if self._source is not None:
            kind.crd = self._watch_crd(self._source, kind)
        informer.state_changed = lambda: self._on_state(kind)
        self._kinds[kind.name] = kind

    def has(self, name: str) -> bool:
        """Whether the kind is served and its objects are known."""
        kind = self._kinds.get(name)
        return kind is not None and kind.presence is Presence.SYNCED

    def presence(self, name: str) -> Presence:
        """Raises KeyError for a kind that is not tracked."""
        return self._kinds[name].presence

    def overdue(self) -> list[str]:
        """Kinds that are served and could not be listed for two minutes; for a warning."""
        now = self._loop.time()
        return [
            kind.name
            for kind in self._kinds.values()
            if kind.presence is Presence.STARTING and now - kind.since > OVERDUE_S
        ]

    async def run(self) -> None:
        """Until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for kind in self._kinds.values():
                    self._group.create_task(self._tend(kind), name=f"tend {kind.name}")
                    if kind.crd is not None:
                        self._group.create_task(kind.crd.run(), name=f"crd of {kind.name}")
        finally:
            self._group = None

    def _watch_crd(self, source: Source, kind: _Kind) -> Informer[MetaRow]:
        scope = Scope(fields=f"metadata.name={kind.name}", metadata_only=True)
        crd: Informer[MetaRow] = Informer(
            source, CRDS, form_of_metadata(), rng=self._rng, scopes=(scope,)
        )

        def look() -> None:
            kind.looks = 0
            kind.look.set()

        crd.handle(lambda _change: look())
        crd.state_changed = look
        return crd

    def _on_state(self, kind: _Kind) -> None:
        """A kind that answers 404 may have been deleted, with or without an event."""
        if State.ABSENT in kind.informer.states():
            kind.looks = 0
            kind.look.set()

    async def _tend(self, kind: _Kind) -> None:
        while True:
            kind.look.clear()
            try:
                served = await self._serves({resource.group for resource in kind.versions})
            except Exception as error:  # noqa: BLE001  what is there goes on; ask again later
                log.warning("discovery failed", kind=kind.name, trouble=repr(error))
                await self._pause(kind, SETTLE.after(kind.looks))
                continue
            wanted = preferred(kind.versions, served)
            if wanted != kind.serving or kind.presence is Presence.UNKNOWN:
                await self._become(kind, wanted)
            await self._pause(kind, self._next_look_s(kind))

    async def _pause(self, kind: _Kind, pause_s: float) -> None:
        """Until something hints at a change, or the time is up."""
        kind.looks += 1
        spread_s = pause_s * self._rng.uniform(1 - POLL_SPREAD, 1 + POLL_SPREAD)
        with suppress(TimeoutError):
            async with asyncio.timeout(spread_s):
                await kind.look.wait()

    def _next_look_s(self, kind: _Kind) -> float:
        if not kind.watched or kind.crd is None:
            return POLL_S
        if bool(len(kind.crd.store)) == (kind.serving is not None):
            return INSURANCE_S
        return SETTLE.after(kind.looks)

    async def _become(self, kind: _Kind, wanted: Resource | None) -> None:
        """Stop what is mirrored, start what is served."""
        if kind.mirror is not None:
            await self._stop(kind, kind.mirror)
        kind.serving = wanted
        if wanted is None:
            self._enter(kind, Presence.ABSENT)
        elif self._group is not None:
            self._enter(kind, Presence.STARTING)
            kind.mirror = self._group.create_task(
                self._mirror(kind, wanted), name=f"mirror {kind.name}"
            )

    async def _mirror(self, kind: _Kind, resource: Resource) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(kind.informer.run(resource))
            await kind.informer.synced.wait()
            self._enter(kind, Presence.SYNCED)
            self._changed(kind.name, True)  # noqa: FBT003  what `changed` takes

    async def _stop(self, kind: _Kind, mirror: asyncio.Task[None]) -> None:
        was_usable = kind.presence is Presence.SYNCED
        self._enter(kind, Presence.STOPPING)
        mirror.cancel()
        await asyncio.wait({mirror})
        kind.mirror = None
        await kind.informer.clear()
        if was_usable:
            self._changed(kind.name, False)  # noqa: FBT003  what `changed` takes

    def _enter(self, kind: _Kind, presence: Presence) -> None:
        if presence is not kind.presence:
            log.info("optional kind", kind=kind.name, presence=presence.value)
            kind.presence = presence
            kind.since = self._loop.time()
