# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which resources the server serves at this moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec

from ascendop.informer.represent import UndecodableError
from ascendop.kube.errors import NotFoundError, error_of
from ascendop.kube.resource import Resource
from ascendop.kube.transport import Request, Response

AGGREGATED: Final = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"
    "application/json"
)
"""Servers before 1.27 know the last only: they name the groups, and each is asked by itself."""
_OK: Final = 200

Served = frozenset[tuple[str, str, str]]
"""Group, version and plural of each resource that is served."""


class _Named(msgspec.Struct):
    name: str = ""


class _Resource(msgspec.Struct):
    resource: str = ""
    """In aggregated discovery."""
    name: str = ""
    """In an APIResourceList; subresources have a slash in it."""


class _Version(msgspec.Struct):
    version: str = ""
    resources: list[_Resource] | None = None


class _Group(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)
    """In aggregated discovery."""
    name: str = ""
    """In an APIGroupList."""
    versions: list[_Version] | None = None


class _Answer(msgspec.Struct):
    kind: str = ""
    items: list[_Group] | None = None
    """Of an APIGroupDiscoveryList."""
    groups: list[_Group] | None = None
    """Of an APIGroupList."""
    resources: list[_Resource] | None = None
    """Of an APIResourceList."""


_ANSWER = msgspec.json.Decoder(_Answer)


class Discovery:
    """Asks for all groups at once where the server can tell, else for each that matters."""

    def __init__(self, ask: Callable[[Request], Awaitable[Response]]) -> None:
        """`ask` is `Client.raw`."""
        self._ask = ask

    async def served(self, groups: Collection[str]) -> Served:
        """What is served of these groups. Raises ApiError, TransportError, UndecodableError."""
        answer = await self._get("/apis", AGGREGATED)
        found: set[tuple[str, str, str]] = set()
        for group in answer.items or ():
            for version in group.versions or ():
                for resource in version.resources or ():
                    found.add((group.metadata.name, version.version, resource.resource))
        for group in answer.groups or ():
            if group.name in groups:
                found |= await self._served_of(group)
        return frozenset(each for each in found if each[0] in groups)

    async def _served_of(self, group: _Group) -> set[tuple[str, str, str]]:
        found: set[tuple[str, str, str]] = set()
        for version in group.versions or ():
            try:
                answer = await self._get(f"/apis/{group.name}/{version.version}")
            except NotFoundError:
                continue  # it went away between the two questions
            found |= {(group.name, version.version, r.name) for r in answer.resources or ()}
        return found

    async def _get(self, path: str, accept: str = "application/json") -> _Answer:
        request = Request("GET", path, headers={"Accept": accept})
        response = await self._ask(request)
        if response.status != _OK:
            raise error_of(response.status, response.body, request=str(request))
        try:
            return _ANSWER.decode(response.body)
        except msgspec.MsgspecError as error:
            raise UndecodableError(f"discovery at {path}: {error}") from error


def preferred(versions: Collection[Resource], served: Served) -> Resource | None:
    """The first of `versions` that is served; None when none is."""
    return next((r for r in versions if (r.group, r.version, r.plural) in served), None)
