# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the store is what the server has: missed events become visible here, and are repaired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import replace
from random import Random  # noqa: TID251  a type only: the generator is an argument
from typing import Any, Final, TypeVar

from ascendop.errors import AscendopError
from ascendop.informer.change import ObjectKey
from ascendop.informer.handlers import LOW, Add
from ascendop.informer.informer import Informer
from ascendop.informer.represent import UndecodableError, form_of_metadata
from ascendop.informer.shard import Shard
from ascendop.informer.slices import in_slices
from ascendop.kube.resource import Scope
from ascendop.telemetry.log import get_log

log = get_log(__name__)

K = TypeVar("K", bound=Hashable)

AUDIT_S: Final = 1800.0
AUDIT_SPREAD: Final = 0.5
SWEEP_S: Final = 36_000.0
"""Everything is looked at again twice a day; nothing depends on it."""
SWEEP_SPREAD: Final = 0.1
PAGE: Final = 500
SAMPLES: Final = 3


class Audit:
    """Compares an informer's store with the server, now and then.

    Exact: at the version that the store has reached, so that what happened since is no difference.
    Cheap: metadata only. Off by default; for tests and canaries.
    """

    def __init__(self, informer: Informer[Any], *, rng: Random) -> None:
        self._informer = informer
        self._rng = rng
        self._form = form_of_metadata()

    async def run(self) -> None:
        """Until cancelled: every half hour or so, and when an own write was never confirmed."""
        while True:
            pause_s = AUDIT_S * self._rng.uniform(1 - AUDIT_SPREAD, 1 + AUDIT_SPREAD)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._informer.suspected.wait()
            self._informer.suspected.clear()
            try:
                await self.once()
            except (AscendopError, UndecodableError) as error:
                log.info("audit failed", kind=self._informer.resource.name, trouble=repr(error))

    async def once(self) -> list[ObjectKey]:
        """The keys that differ, after asking for a resync if there are any.

        Raises: ApiError, also when the server has forgotten our version; TransportError.
        """
        differing: list[ObjectKey] = []
        for scope in self._informer.scopes:
            shard = self._informer.store.shard_of(scope.namespace or "")
            if shard is not None and shard.position:
                differing += await self._compare(shard, scope)
        if differing:
            self._informer.observer.count("audit_differences_total", len(differing))
            log.error(
                "store differs from server",
                kind=self._informer.resource.name,
                objects=len(differing),
                samples=["/".join(key) for key in differing[:SAMPLES]],
            )
            self._informer.resync("audit")
        return differing

    async def _compare(self, shard: Shard[Any], scope: Scope) -> list[ObjectKey]:
        ours, position = shard.cached(), shard.position
        differing: list[ObjectKey] = []
        token = ""
        while True:
            page = self._form.decode_list(
                await self._informer.source.list_page(
                    self._informer.resource,
                    replace(scope, metadata_only=True),
                    limit=PAGE,
                    continue_token=token,
                    version="" if token else position,
                    match="" if token else "Exact",
                )
            )
            async for row in in_slices(page.rows):
                key = (row.namespace, row.name)
                mine = ours.pop(key, None)
                if mine is None or (mine.uid, mine.version) != (row.uid, row.version):
                    differing.append(key)
            if not (token := page.continue_token):
                return differing + list(ours)


async def sweep(
    keys: Callable[[], Iterable[K]], add: Add[K], *, rng: Random, every_s: float = SWEEP_S
) -> None:
    """Until cancelled: twice a day, or so, add every key at the lowest priority.

    Insurance against our own bugs; the watch needs none.
    """
    while True:
        await asyncio.sleep(every_s * rng.uniform(1 - SWEEP_SPREAD, 1 + SWEEP_SPREAD))
        async for key in in_slices(keys()):
            add(key, priority=LOW)
