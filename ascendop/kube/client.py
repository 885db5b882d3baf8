# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs of the API, for any resource; dicts or bytes out, one class of error per reaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from random import Random  # noqa: TID251  the type; the dice are an argument

import orjson

from ascendop.kube import verbs
from ascendop.kube.agent import user_agent as default_user_agent
from ascendop.kube.call import READS, Caller, Traffic, duration
from ascendop.kube.errors import GoneError, RejectedError, TransportError
from ascendop.kube.gate import WriteGate
from ascendop.kube.observer import NobodyCounts, RequestObserver
from ascendop.kube.resource import Object, Resource, Scope
from ascendop.kube.retry import ATTEMPTS, Repeat
from ascendop.kube.transport import Pool, Request, Response, Stream, Transport
from ascendop.kube.verbs import How, Patch, Propagation, Question, Validation

Objects = list[Object]
"""What `Client.list` returns; inside the class the word list is taken."""

CALL_S = 30.0
LIST_S = 60.0  # a page of 500 pods from a busy server
HEADERS_S = 10.0  # of a watch: TLS and the first line of the answer
OVERDUE_S = 30.0  # a watch that its server did not end in time is half-open, not healthy
PAGE = 500
_UNPROCESSABLE = 422
_FRESH_STARTS = 2  # of a list whose snapshot expired between two pages


class Client:
    """An API server's verbs; each also with `_bytes`, for callers that decode themselves.

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
        list_timeout_s: float = LIST_S,
        attempts: int = ATTEMPTS,
        traffic: Traffic | None = None,
        traceparent: Callable[[], str] | None = None,
    ) -> None:
        """`traffic` is what this client shares with others; without one it has its own.

        pool:            "lease" for the elector: own connections, no limiter.
        list_timeout_s:  of one page.
        traceparent:     the W3C header of the running span, empty for none.
        """
        self._traffic = traffic or Traffic(
            transport, host=host, observer=observer or NobodyCounts()
        )
        self._caller = Caller(self._traffic, rng, gate, attempts)
        self._once = replace(self._caller, attempts=1)
        self._agent = user_agent or default_user_agent()
        self._pool: Pool = pool
        self._timeout_s = timeout_s
        self._list_timeout_s = list_timeout_s
        self._traceparent = traceparent

    def sibling(
        self,
        component: str,
        *,
        gate: WriteGate | None = None,
        pool: Pool = "api",
        attempts: int = ATTEMPTS,
    ) -> Client:
        """A client for another part of the process: same wire, limits and time-outs, own name.

        gate:  None for ours, if we have one; a gate is never lost on the way.
        """
        return Client(
            self._traffic.transport,
            rng=self._caller.rng,
            user_agent=default_user_agent(component),
            gate=gate or self._caller.gate,
            pool=pool,
            timeout_s=self._timeout_s,
            list_timeout_s=self._list_timeout_s,
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
        return await self._ask(verbs.get(resource, namespace, name, subresource))

    async def list(self, resource: Resource, scope: Scope | None = None) -> Objects:
        """All objects in scope, of one consistent snapshot; each says its kind.

        A snapshot that expires between two pages is begun anew, twice; then all is asked for at
        once.
        """
        for _ in range(1 + _FRESH_STARTS):
            try:
                return await self._all_pages(resource, scope or Scope(), PAGE)
            except GoneError:
                continue
        return await self._all_pages(resource, scope or Scope(), 0)

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
        question = verbs.page(
            resource, scope, limit=limit, token=continue_token, version=version, match=match
        )
        return await self._ask(question, limit_s=self._list_timeout_s, caller=self._once)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, scope: Scope, *, version: str, initial: bool, timeout_s: int
    ) -> AsyncIterator[Stream]:
        """What changes in scope after `version`, as raw chunks of lines. Sent once.

        initial:    begin with the objects themselves (WatchList); then an empty version is legal.
        timeout_s:  after which the server ends the stream. 30 s later it counts as half-open:
                    TransportError.
        """
        question = verbs.watch(
            resource, scope, version=version, initial=initial, timeout_s=timeout_s
        )
        request = replace(self._request(question, HEADERS_S), pool="watch")
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
        return _object(
            await self.create_bytes(resource, obj, dry_run=dry_run, validation=validation)
        )

    async def create_bytes(
        self,
        resource: Resource,
        obj: Object,
        *,
        dry_run: bool = False,
        validation: Validation | None = None,
    ) -> bytes:
        return await self._ask(verbs.create(resource, obj, dry_run=dry_run, validation=validation))

    async def create_list(
        self, resource: Resource, namespace: str, objects: Sequence[Object]
    ) -> None:
        """All of these at once, in a namespace; only some API servers know how.

        Raises:  RejectedError where the server does not, and whatever one of the objects deserves.
                 Some may have been made even then.
        """
        await self._ask(verbs.create_list(resource, namespace, objects))

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
        return await self._ask(
            verbs.replace(resource, obj, subresource=subresource, validation=validation)
        )

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Patch,
        *,
        how: How = "merge",
        subresource: str | None = None,
        validation: Validation | None = None,
    ) -> Object:
        """Change what `body` names; the object after it.

        A JSON patch that does not fit what is there (a `test` that fails, a path that is gone) is
        a ConflictError like a stale resourceVersion: somebody wrote first.
        """
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
        how: How = "merge",
        subresource: str | None = None,
        validation: Validation | None = None,
        metadata_only: bool = False,
    ) -> bytes:
        """`metadata_only` of what is answered: the rest may be large, and is known."""
        path = resource.path(namespace, name, subresource)
        try:
            return await self._ask(
                verbs.patch(path, body, how=how, validation=validation, metadata_only=metadata_only)
            )
        except RejectedError as error:
            # For an object that would be wrong the server names causes; for a patch that does
            # not fit it says nothing but the number.
            if how == "json" and error.status == _UNPROCESSABLE and not error.details:
                raise error.as_conflict() from error
            raise

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
        question = verbs.apply(
            resource,
            obj,
            manager=manager,
            force=force,
            subresource=subresource,
            validation=validation,
        )
        return await self._ask(question)

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
        answer = _object(
            await self.delete_bytes(
                resource,
                namespace,
                name,
                uid=uid,
                version=version,
                grace_s=grace_s,
                propagation=propagation,
            )
        )
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
        path = resource.path(namespace, name)
        question = verbs.delete(
            path, uid=uid, version=version, grace_s=grace_s, propagation=propagation
        )
        return await self._ask(question)

    async def raw(self, request: Request) -> Response:
        """Anything else: discovery, tables, logs. Errors and repeats as everywhere."""
        repeat = Repeat.HARMLESS if request.method in READS else Repeat.ONLY_IF_UNDONE
        return await self._caller.send(self._signed(request), repeat)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Anything else whose answer has no foreseeable end: logs that are followed."""
        return self._caller.open(self._signed(request))

    async def _all_pages(self, resource: Resource, scope: Scope, limit: int) -> Objects:
        found: Objects = []
        token = ""
        while True:
            question = verbs.page(resource, scope, limit=limit, token=token, version="", match="")
            page = _object(await self._ask(question, limit_s=self._list_timeout_s))
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                found.append(item)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    async def _ask(
        self, question: Question, *, limit_s: float = 0.0, caller: Caller | None = None
    ) -> bytes:
        limit_s = limit_s or self._timeout_s
        question.query["timeout"] = duration(limit_s)  # so that both sides give up together
        request = self._request(question, limit_s)
        return (await (caller or self._caller).send(request, question.repeat)).body

    def _request(self, question: Question, limit_s: float) -> Request:
        headers = {**question.headers, "User-Agent": self._agent}
        if self._traceparent is not None and (span := self._traceparent()):
            headers["traceparent"] = span
        return Request(
            question.method,
            question.path,
            question.query,
            headers,
            question.body,
            limit_s,
            self._pool,
        )

    def _signed(self, request: Request) -> Request:
        return replace(request, headers={"User-Agent": self._agent, **request.headers})


def _object(body: bytes) -> Object:
    try:
        answer: Object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        start = body[:80].decode(errors="replace")
        raise TransportError(
            f"the answer is not JSON but {start!r}; is there a proxy in between?", sent=True
        ) from error
    return answer
