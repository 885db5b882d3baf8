# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs of the API, for any resource; dicts or bytes out, one class of error per reaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Any, Literal

import orjson

from ascendop.kube.agent import user_agent as default_user_agent
from ascendop.kube.call import Caller, Traffic, duration
from ascendop.kube.errors import GoneError, TransportError
from ascendop.kube.gate import WriteGate
from ascendop.kube.observer import NobodyCounts, RequestObserver
from ascendop.kube.resource import Object, Resource, Scope
from ascendop.kube.retry import ATTEMPTS, Repeat
from ascendop.kube.transport import Pool, Request, Response, Stream, Transport

Validation = Literal["Strict", "Warn", "Ignore"]
"""Of unknown fields: Strict for what we wrote ourselves, Warn for what users wrote."""
Propagation = Literal["Background", "Foreground", "Orphan"]
Objects = list[Object]
"""What `Client.list` returns; inside the class the word list is taken."""
Patch = dict[str, Any] | list[dict[str, Any]]
"""A merge patch is an object, a JSON patch is a list of operations."""

CALL_S = 30.0
LIST_S = 60.0  # a page of 500 pods from a busy server
HEADERS_S = 10.0  # of a watch: TLS and the first line of the answer
OVERDUE_S = 30.0  # a watch that its server did not end in time is half-open, not healthy
PAGE = 500

_JSON = "application/json"
_META = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
_ONE = {"Accept": _JSON}
_MERGE = {"Accept": _JSON, "Content-Type": "application/merge-patch+json"}
_JSON_PATCH = {"Accept": _JSON, "Content-Type": "application/json-patch+json"}
_APPLY = {"Accept": _JSON, "Content-Type": "application/apply-patch+yaml"}
_BODY = {"Accept": _JSON, "Content-Type": _JSON}
_EXPIRED_TWICE = 2


class Client:
    """An API server's verbs.

    Raises:    ApiError (one class per reaction) for a no, TransportError for silence,
               NotLeaderError where the gate is closed.
    Repeated:  what is harmless twice, at most 4 times within the call's time-out; a create only
               when it certainly did nothing. `watch` and `list_page` are sent once: their
               caller is a loop that backs off by itself, and two layers would multiply.
    Not:       typed, cached, or validating; and nothing here knows what a pod is.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        rng: Random,
        user_agent: str = "",
        gate: WriteGate | None = None,
        observer: RequestObserver | None = None,
        host: str = "",
        pool: Pool = "api",
        timeout_s: float = CALL_S,
        attempts: int = ATTEMPTS,
        traffic: Traffic | None = None,
        traceparent: Callable[[], str] | None = None,
    ) -> None:
        """`traffic` is what this client shares with others; without one it has its own.

        pool:         "lease" for the elector: own connections, no limiter.
        traceparent:  the W3C header of the running span, empty for none.
        """
        self._traffic = traffic or Traffic(
            transport, host=host, observer=observer or NobodyCounts()
        )
        self._caller = Caller(self._traffic, rng, gate, attempts)
        self._agent = user_agent or default_user_agent()
        self._pool: Pool = pool
        self._timeout_s = timeout_s
        self._traceparent = traceparent

    def sibling(
        self,
        component: str,
        *,
        gate: WriteGate | None = None,
        pool: Pool = "api",
        timeout_s: float = CALL_S,
        attempts: int = ATTEMPTS,
    ) -> Client:
        """A client for another part of the process: same wire and limits, own name and gate."""
        return Client(
            self._traffic.transport,
            rng=self._caller.rng,
            user_agent=default_user_agent(component),
            gate=gate,
            pool=pool,
            timeout_s=timeout_s,
            attempts=attempts,
            traffic=self._traffic,
            traceparent=self._traceparent,
        )

    async def aclose(self) -> None:
        """Close the wire, for every client that shares it."""
        await self._traffic.transport.close()

    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        subresource: str | None = None,
    ) -> Object:
        """The object as the server has it now."""
        return _object(await self.get_bytes(resource, namespace, name, subresource=subresource))

    async def get_bytes(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        subresource: str | None = None,
    ) -> bytes:
        path = resource.path(namespace, name, subresource)
        return await self._call("GET", path, {}, _ONE, None, Repeat.HARMLESS)

    async def list(self, resource: Resource, scope: Scope | None = None) -> Objects:
        """All objects in scope, of one consistent snapshot; each says its kind.

        A snapshot that expires between two pages is begun anew, twice; then it is asked for whole.
        """
        scope = scope or Scope()
        for limit in (*[PAGE] * (1 + _EXPIRED_TWICE), 0):
            try:
                return await self._all_pages(resource, scope, limit)
            except GoneError:
                if limit == 0:
                    raise
        raise AssertionError("the last round returns or raises")

    async def _all_pages(self, resource: Resource, scope: Scope, limit: int) -> Objects:
        found: Objects = []
        token = ""
        while True:
            request = self._list_request(resource, scope, limit, token, "", "")
            page = _object((await self._caller.send(request, Repeat.HARMLESS)).body)
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                found.append(item)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

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
        """One page of a list, undecoded. Sent once.

        limit:    0 for everything at once.
        version:  resourceVersion; not sent beside a continue token, which the server would refuse.
        match:    resourceVersionMatch.
        """
        request = self._list_request(resource, scope, limit, continue_token, version, match)
        once = Caller(self._traffic, self._caller.rng, attempts=1)
        return (await once.send(request, Repeat.HARMLESS)).body

    @asynccontextmanager
    async def watch(
        self, resource: Resource, scope: Scope, *, version: str, initial: bool, timeout_s: int
    ) -> AsyncIterator[Stream]:
        """What changes in scope after `version`, as raw chunks of lines. Sent once.

        initial:    begin with the objects themselves (WatchList); then an empty version is legal.
        timeout_s:  after which the server ends the stream. 30 s later it counts as half-open:
                    TransportError.
        """
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
            **_selectors(scope),
        }
        if version:
            query["resourceVersion"] = version
        if initial:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        headers = {"Accept": _META.format("PartialObjectMetadata")} if scope.metadata_only else _ONE
        request = self._request("GET", resource.path(scope.namespace), query, headers, None)
        request = replace(request, pool="watch", timeout_s=HEADERS_S)
        overdue = asyncio.timeout(timeout_s + OVERDUE_S)
        try:
            async with overdue, self._caller.open(request) as stream:
                yield stream
        except TimeoutError as error:
            if not overdue.expired():
                raise
            raise TransportError(f"{request}: the server never ended it", sent=True) from error

    async def create(
        self,
        resource: Resource,
        obj: Object,
        *,
        dry_run: bool = False,
        validation: Validation | None = None,
    ) -> Object:
        """The object as the server stored it. ExistsError when the name is taken."""
        body = await self.create_bytes(resource, obj, dry_run=dry_run, validation=validation)
        return _object(body)

    async def create_bytes(
        self,
        resource: Resource,
        obj: Object,
        *,
        dry_run: bool = False,
        validation: Validation | None = None,
    ) -> bytes:
        path = resource.path(obj["metadata"].get("namespace"))
        query = _options(dry_run=dry_run, validation=validation)
        repeat = Repeat.HARMLESS if dry_run else Repeat.ONLY_IF_UNDONE
        return await self._call("POST", path, query, _BODY, orjson.dumps(obj), repeat)

    async def replace(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> Object:
        """PUT; with metadata.resourceVersion it is a ConflictError if somebody wrote meanwhile."""
        return _object(
            await self.replace_bytes(resource, obj, subresource=subresource, validation=validation)
        )

    async def replace_bytes(
        self,
        resource: Resource,
        obj: Object,
        *,
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> bytes:
        path = _path_of(resource, obj, subresource)
        query = _options(validation=validation)
        return await self._call("PUT", path, query, _BODY, orjson.dumps(obj), _repeat(obj))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Patch,
        *,
        how: Literal["merge", "json"] = "merge",
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> Object:
        """Change what `body` names; the object after it."""
        return _object(
            await self.patch_bytes(
                resource,
                namespace,
                name,
                body,
                how=how,
                subresource=subresource,
                validation=validation,
            )
        )

    async def patch_bytes(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Patch,
        *,
        how: Literal["merge", "json"] = "merge",
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> bytes:
        path = resource.path(namespace, name, subresource)
        headers = _MERGE if how == "merge" else _JSON_PATCH
        query = _options(validation=validation)
        return await self._call("PATCH", path, query, headers, orjson.dumps(body), _repeat(body))

    async def apply(
        self,
        resource: Resource,
        obj: Object,
        *,
        manager: str = "ascendop",
        force: bool = True,
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> Object:
        """Server-side apply: own exactly the fields in `obj`."""
        return _object(
            await self.apply_bytes(
                resource,
                obj,
                manager=manager,
                force=force,
                subresource=subresource,
                validation=validation,
            )
        )

    async def apply_bytes(
        self,
        resource: Resource,
        obj: Object,
        *,
        manager: str = "ascendop",
        force: bool = True,
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> bytes:
        path = _path_of(resource, obj, subresource)
        query = _options(validation=validation)
        query |= {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._call("PATCH", path, query, _APPLY, orjson.dumps(obj), _repeat(obj))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: int | None = None,
        propagation: Propagation | None = "Background",
    ) -> Object | None:
        """The object with its deletionTimestamp while it ends, or None when it is gone.

        ConflictError when uid or version are not those of the object that is there.
        """
        body = await self.delete_bytes(
            resource,
            namespace,
            name,
            uid=uid,
            version=version,
            grace_s=grace_s,
            propagation=propagation,
        )
        answer = _object(body)
        return None if answer.get("kind") == "Status" else answer

    async def delete_bytes(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace_s: int | None = None,
        propagation: Propagation | None = "Background",
    ) -> bytes:
        """As `delete`; a Status where the object is gone."""
        conditions = {"uid": uid, "resourceVersion": version}
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid or version:
            options["preconditions"] = {k: v for k, v in conditions.items() if v}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        repeat = Repeat.HARMLESS if uid or version else Repeat.ONLY_IF_UNDONE
        path = resource.path(namespace, name)
        return await self._call("DELETE", path, {}, _BODY, orjson.dumps(options), repeat)

    async def raw(self, request: Request) -> Response:
        """Anything else: discovery, tables, logs. Errors and repeats as everywhere."""
        safe = request.method in {"GET", "HEAD", "OPTIONS"}
        repeat = Repeat.HARMLESS if safe else Repeat.ONLY_IF_UNDONE
        return await self._caller.send(self._signed(request), repeat)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Anything else whose answer has no foreseeable end: logs that are followed."""
        return self._caller.open(self._signed(request))

    async def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        repeat: Repeat,
    ) -> bytes:
        query["timeout"] = duration(self._timeout_s)  # so that both sides give up together
        request = self._request(method, path, query, headers, body)
        return (await self._caller.send(request, repeat)).body

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Request:
        sent = {**headers, "User-Agent": self._agent}
        if self._traceparent is not None and (span := self._traceparent()):
            sent["traceparent"] = span
        return Request(method, path, query, sent, body, self._timeout_s, self._pool)

    def _signed(self, request: Request) -> Request:
        return replace(request, headers={"User-Agent": self._agent, **request.headers})

    def _list_request(
        self, resource: Resource, scope: Scope, limit: int, token: str, version: str, match: str
    ) -> Request:
        query = {"timeout": duration(LIST_S), **_selectors(scope)}
        if limit:
            query["limit"] = str(limit)
        if token:
            query["continue"] = token
        else:
            query |= {k: v for k, v in _versions(version, match) if v}
        meta_only = scope.metadata_only
        headers = {"Accept": _META.format("PartialObjectMetadataList")} if meta_only else _ONE
        request = self._request("GET", resource.path(scope.namespace), query, headers, None)
        return replace(request, timeout_s=LIST_S)


def _versions(version: str, match: str) -> tuple[tuple[str, str], ...]:
    return ("resourceVersion", version), ("resourceVersionMatch", match)


def _selectors(scope: Scope) -> dict[str, str]:
    pairs = (("labelSelector", scope.labels), ("fieldSelector", scope.fields))
    return {name: selector for name, selector in pairs if selector}


def _options(*, dry_run: bool = False, validation: Validation | None = None) -> dict[str, str]:
    options: dict[str, str] = {}
    if dry_run:
        options["dryRun"] = "All"
    if validation is not None:
        options["fieldValidation"] = validation
    return options


def _path_of(resource: Resource, obj: Object, subresource: str | None) -> str:
    meta = obj["metadata"]
    return resource.path(meta.get("namespace"), meta["name"], subresource)


_PRECONDITIONS = ("resourceVersion", "uid")
_TESTED = frozenset(f"/metadata/{name}" for name in _PRECONDITIONS)


def _repeat(body: Patch) -> Repeat:
    """Whether the body itself keeps a second write from doing harm."""
    if isinstance(body, list):
        guarded = any(op.get("op") == "test" and op.get("path") in _TESTED for op in body)
    else:
        meta = body.get("metadata") or {}
        guarded = any(meta.get(name) for name in _PRECONDITIONS)
    return Repeat.HARMLESS if guarded else Repeat.ONLY_IF_UNDONE


def _object(body: bytes) -> Object:
    try:
        answer: Object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        start = body[:80].decode(errors="replace")
        raise TransportError(
            f"the answer is not JSON but {start!r}; is there a proxy in between?", sent=True
        ) from error
    return answer
