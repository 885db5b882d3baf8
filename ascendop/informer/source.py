# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where an informer's objects come from: two questions that the wire answers."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ascendop.kube.resource import Resource, Scope
from ascendop.kube.transport import Stream


class Source(Protocol):
    """Lists and watches. `ascendop.kube.client.Client` is one. Raises ApiError, TransportError."""

    async def list_page(
        self,
        resource: Resource,
        scope: Scope,
        *,
        limit: int,
        continue_token: str = "",
        version: str = "",
        match: str = "",
    ) -> bytes:
        """One page of a list, as JSON. `limit` 0 asks for everything at once."""
        ...

    def watch(
        self, resource: Resource, scope: Scope, *, version: str, initial: bool, timeout_s: int
    ) -> AbstractAsyncContextManager[Stream]:
        """What happens after `version`, with bookmarks, one JSON document a line.

        initial: begin with everything there is, not older than `version` (a WatchList).
        """
        ...


@dataclass(frozen=True, slots=True)
class SyncPolicy:
    """How a kind is mirrored. The defaults suit every kind."""

    page_limit: int = 500
    """Objects per page: 3 MB of pods, decoded in 8 ms."""
    watch_list: bool = True
    """Try to get the initial state by WATCH. Off for servers older than 1.32."""
    any_age: bool = False
    """Let the fallback LIST be answered from any server's cache, however old. Only for kinds from
    whose absence nothing follows: the past may lack what the present has."""
    start_spread_s: float = 0.5
    """Informers that start together begin within this time, not in one moment."""
    body_limit_bytes: int = 512 * 1024 * 1024
    """The largest answer that is worth decoding; a server may ignore `limit`."""
