# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Who hears of changes: each in order, none because of another's fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from ascendop.informer.change import Change, T
from ascendop.informer.observer import InformerObserver
from ascendop.informer.slices import in_slices
from ascendop.telemetry.log import get_log

log = get_log(__name__)

K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

Handler = Callable[[Change[T]], None]

LOW = -100
"""Priority of keys that nothing may have happened to: first lists, relists, sweeps."""


class Add(Protocol[K_contra]):
    """`WorkQueue.add`."""

    def __call__(self, key: K_contra, *, priority: int) -> None: ...


class Registration(Generic[T]):
    """One handler. `synced` is set when it has been called for everything that was there."""

    def __init__(self, handler: Handler[T], observer: InformerObserver, name: str) -> None:
        self.synced = asyncio.Event()
        self._handler = handler
        self._observer = observer
        self._name = name
        self._held_back: list[Change[T]] | None = None
        """What happened while what was there is being replayed; None when it is told at once."""

    @property
    def live(self) -> bool:
        """Whether changes are told at once."""
        return self._held_back is None

    def tell(self, change: Change[T]) -> None:
        """Call the handler, now or after its replay."""
        if self._held_back is None:
            self._call(change)
        else:
            self._held_back.append(change)

    def hold_back(self) -> None:
        """From now on changes wait for `replay`."""
        self._held_back = []

    async def replay(self, rows: Sequence[T]) -> None:
        """Tell what was there when it was held back, then what happened since."""
        async for row in in_slices(rows):
            self._call(Change(None, row, initial=True))
        held_back, self._held_back = self._held_back or [], None
        for change in held_back:
            self._call(change)
        self.synced.set()

    def _call(self, change: Change[T]) -> None:
        try:
            self._handler(change)
        except Exception:
            self._observer.count("handler_errors_total")
            row = change.row
            log.exception(
                "handler failed",
                informer=self._name,
                namespace=row.namespace,
                name=row.name,
                version=row.version,
            )
