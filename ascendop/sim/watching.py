# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One resource, mirrored: list, then watch, then again; all that the node side reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, NoReturn

import msgspec

from ascendop.backoff import Backoff
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, GoneError, NotFoundError, TransportError, error_of
from ascendop.kube.resource import Object, Resource, Scope

ObjectKey = tuple[str, str]
"""Namespace (empty for what has none) and name."""

Handler = Callable[[Object | None, Object | None], None]
"""Called with the object before and after; None where there was, or is, none."""

PAUSE: Final = Backoff(0.2, 10.0)  # a server that restarts is found again within seconds
WATCH_S: Final = 3600  # a watch that ends costs one request; an hour keeps virtual days cheap
PAGE: Final = 500


def key_of(obj: Object) -> ObjectKey:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


class Mirror:
    """The objects of one resource, as the server last told.

    Order:   `objects` moves first, then the handlers run, in the order they were added.
    Patient: a resource that the server does not serve (a CRD not there yet) is an empty one; it is
             asked for again, less and less often.
    Not:     the operator's informer. No indexes, no sync gates beyond `synced`.
    """

    def __init__(self, client: Client, resource: Resource, scope: Scope | None = None) -> None:
        self._client = client
        self.resource = resource
        self._scope = scope or Scope()
        self._handlers: list[Handler] = []
        self.objects: dict[ObjectKey, Object] = {}
        self.synced = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Mirror of {self.resource.name}: {len(self.objects)}>"

    def on_change(self, handler: Handler) -> None:
        self._handlers.append(handler)

    async def run(self) -> NoReturn:
        """Mirror until cancelled."""
        failures = 0
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list()
                async for seen in self._watch(version):
                    version, failures = seen, 0
            except NotFoundError:
                version = ""
                self._replace({})
            except GoneError:
                version = ""
            except (ApiError, TransportError):
                pass
            await asyncio.sleep(PAUSE.after(failures))
            failures += 1

    async def _list(self) -> str:
        found: dict[ObjectKey, Object] = {}
        token = ""
        while True:
            page = msgspec.json.decode(
                await self._client.list_page(
                    self.resource, self._scope, limit=PAGE, continue_token=token
                )
            )
            for obj in page.get("items") or ():
                obj.setdefault("apiVersion", self.resource.api_version)
                obj.setdefault("kind", self.resource.kind)
                found[key_of(obj)] = obj
            token = page["metadata"].get("continue") or ""
            if not token:
                self._replace(found)
                return str(page["metadata"].get("resourceVersion") or "")

    async def _watch(self, version: str) -> AsyncIterator[str]:
        async with self._client.watch(
            self.resource, self._scope, version=version, initial=False, timeout_s=WATCH_S
        ) as stream:
            rest = b""
            async for chunk in stream.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        version = self._take(msgspec.json.decode(line))
                        yield version

    def _take(self, event: Object) -> str:
        obj = event["object"]
        if event["type"] == "ERROR":
            raise error_of(int(obj.get("code") or 500), msgspec.json.encode(obj))
        if event["type"] == "DELETED":
            self._set(key_of(obj), None)
        elif event["type"] != "BOOKMARK":
            self._set(key_of(obj), obj)
        return str(obj["metadata"]["resourceVersion"])

    def _replace(self, found: dict[ObjectKey, Object]) -> None:
        for key in [key for key in self.objects if key not in found]:
            self._set(key, None)
        for key, obj in found.items():
            self._set(key, obj)
        self.synced.set()

    def _set(self, key: ObjectKey, new: Object | None) -> None:
        old = self.objects.get(key)
        if new is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = new
        if old != new:
            for handler in self._handlers:
                handler(old, new)
