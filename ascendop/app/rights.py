# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether we may do all that we will do: asked before the first job waits for what cannot come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import orjson

from ascendop.app.preflight import UnusableClusterError
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, NotFoundError, TransportError
from ascendop.kube.resource import (
    CORE_EVENTS,
    COSCHEDULING_GROUPS,
    LEASES,
    POD_GROUPS,
    SECRETS,
    Resource,
)
from ascendop.kube.transport import Request
from ascendop.schema.rbac import CALLS, KIND_VERBS, LAUNCH_CALLS
from ascendop.settings import Settings

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_HEADERS: Final = {"Accept": "application/json", "Content-Type": "application/json"}
_LEASE_VERBS: Final = ("get", "create", "update")
_TOLD: Final = 4  # rights in one sentence; whoever lacks more has no RBAC of ours at all


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource, in a namespace or in all of them."""

    verb: str
    resource: Resource
    namespace: str | None
    subresource: str = ""

    def __str__(self) -> str:
        part = f"/{self.subresource}" if self.subresource else ""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource.name}{part}{where}"


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def check_rights(
    client: Client, settings: Settings, jobs: Iterable[Resource], own_namespace: str
) -> None:
    """Ask the server about every right without which jobs would not run.

    Not:     what a smaller operator works without: queues, priority classes, the older Events.
    Raises:  UnusableClusterError, with the rights that are missing.
    """
    needed = list(_needed(settings, list(jobs), own_namespace))
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(_may(client, right)) for right in needed]
    missing = [str(right) for right, may in zip(needed, asked, strict=True) if not may.result()]
    if missing:
        more = f" and {len(missing) - _TOLD} more" if len(missing) > _TOLD else ""
        raise UnusableClusterError(
            f"the right is missing to {', '.join(missing[:_TOLD])}{more}; "
            "kubectl apply --server-side -k manifests/ grants what is needed"
        )


async def check_lease_namespace(client: Client, settings: Settings, own_namespace: str) -> None:
    """Whether there is a place for the lease: without one, no replica would ever lead.

    Raises:  UnusableClusterError, when the namespace is not there.
    """
    namespace = settings.lease_namespace or own_namespace
    metadata = {"namespace": namespace, "name": settings.lease_name}
    lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
    try:
        # A dry run, because reading namespaces would take a right that nothing else needs.
        await client.create(LEASES, lease, dry_run=True)
    except NotFoundError as error:
        raise UnusableClusterError(
            f"there is no namespace {namespace} for the lease; make it, "
            "or name another one by --lease-namespace"
        ) from error
    except (ApiError, TransportError):
        return  # it exists, or the elector will find out


def _needed(settings: Settings, jobs: list[Resource], own_namespace: str) -> Iterator[Right]:
    calls = [
        (call.resource, verb)
        for call in CALLS
        if call.resource.namespaced and call.resource != CORE_EVENTS
        if call.resource != POD_GROUPS or settings.enable_gang_scheduling
        for verb in call.verbs
    ]
    for namespace in settings.namespaces or (None,):
        for resource, verb in calls:
            yield Right(verb, resource, namespace)
        yield from _beside(jobs, namespace)
        if settings.mpi_delete_keys:
            yield Right("delete", SECRETS, namespace)
        for job in jobs:
            for verb in KIND_VERBS:
                yield Right(verb, job, namespace)
            yield Right("patch", job, namespace, "status")
    if settings.leader_elect:
        for verb in _LEASE_VERBS:
            yield Right(verb, LEASES, settings.lease_namespace or own_namespace)


def _beside(jobs: Iterable[Resource], namespace: str | None) -> Iterator[Right]:
    """What kinds with a launcher need; without its PodGroups they run jobs that are no gangs."""
    launching = {kind.kind for kind in load_kinds().values() if kind.launch is not None}
    if not any(job.kind in launching for job in jobs):
        return
    for call in LAUNCH_CALLS:
        if call.resource == COSCHEDULING_GROUPS:
            continue
        # A part is spelled as in a role, e.g. jobs/status.
        plural, _, part = call.resource.plural.partition("/")
        for verb in call.verbs:
            yield Right(verb, replace(call.resource, plural=plural), namespace, part)


async def _may(client: Client, right: Right) -> bool:
    """True, too, where the server does not want to be asked: it will say no soon enough."""
    asked = {
        "verb": right.verb,
        "group": right.resource.group,
        "resource": right.resource.plural,
        "subresource": right.subresource,
        "namespace": right.namespace or "",
    }
    body = orjson.dumps(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
    )
    try:
        answer = await client.raw(Request("POST", _PATH, headers=_HEADERS, body=body))
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except (ApiError, TransportError, msgspec.DecodeError):
        return True
