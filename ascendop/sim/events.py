# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the node side tells about an object, as an Event; never twice in a row the same."""

from __future__ import annotations

from typing import Literal

from ascendop.clock import WallClock, rfc3339
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, TransportError
from ascendop.kube.resource import CORE_EVENTS, Object


class Teller:
    """Writes Events of one component.

    Quiet:  the same sentence about the same object is told once, until another one was told.
    Mild:   an Event that cannot be written is dropped: nobody's work may fail for it.
    """

    def __init__(self, client: Client, component: str, wall: WallClock) -> None:
        self._client = client
        self._component = component
        self._wall = wall
        self._last: dict[str, tuple[str, str]] = {}
        self._count = 0

    async def tell(
        self, about: Object, reason: str, message: str, *, kind: Literal["Normal", "Warning"]
    ) -> None:
        meta = about["metadata"]
        uid = meta.get("uid", "")
        if self._last.get(uid) == (reason, message):
            return
        self._last[uid] = (reason, message)
        self._count += 1
        now = rfc3339(self._wall())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{uid[:8]}.{self._component}.{self._count}",
                "namespace": meta.get("namespace") or "default",
            },
            "involvedObject": {
                "apiVersion": about.get("apiVersion", "v1"),
                "kind": about.get("kind", "Pod"),
                "name": meta["name"],
                "namespace": meta.get("namespace", ""),
                "uid": uid,
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._client.create(CORE_EVENTS, event)
        except (ApiError, TransportError):
            return

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._last.pop(uid, None)
