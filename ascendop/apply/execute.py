# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A plan becomes calls: in safe order, bounded, each of them harmless on a stale read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ascendop.api.model import Object
from ascendop.apply.caches import Caches
from ascendop.apply.plan import (
    Apply,
    Create,
    Delete,
    Done,
    Failure,
    Patch,
    Step,
    StepName,
    Write,
    Written,
)
from ascendop.errors import AscendopError, NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    ConflictError,
    ExistsError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from ascendop.kube.resource import Resource

WIDEST: Final = 32  # writes of one job in flight; more only makes the API server's queue longer


class _Owner(msgspec.Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Owned(msgspec.Struct):
    metadata: _Meta


_OWNED = msgspec.json.Decoder(_Owned)


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of a plan's steps, and the trouble after which the rest must be decided anew."""

    done: Done
    trouble: AscendopError | None = None
    """No answer, a conflict, a busy server: nobody's mistake, so it is no failure of the plan."""


class Executor:
    """Carries steps out, one after the other.

    Slow start: a step's writes go out 1, 2, 4 ... 32 at a time, and none after one was refused: a
    template that always fails costs one request and not a thousand.
    """

    def __init__(self, client: Client, caches: Caches, manager: str = "ascendop") -> None:
        self._client = client
        self._caches = caches
        self._manager = manager

    async def run(self, namespace: str, steps: Sequence[Step]) -> Executed:
        """The steps, until one fails."""
        written: list[Written] = []
        failures: list[Failure] = []
        trouble: AscendopError | None = None
        for step in steps:
            width, start = 1, 0
            while start < len(step.writes) and not failures and trouble is None:
                batch = step.writes[start : start + width]
                for write, end in zip(
                    batch, await self._side_by_side(namespace, batch), strict=True
                ):
                    if isinstance(end, str):
                        written.append(Written(step.name, write, end))
                    elif isinstance(end, Exception):
                        failure = _failure(step.name, write, end)
                        if failure is None:
                            trouble = trouble or _as_trouble(end)
                        else:
                            failures.append(failure)
                start, width = start + width, min(2 * width, WIDEST)
        return Executed(Done(tuple(written), tuple(failures)), trouble)

    async def status(
        self, resource: Resource, namespace: str, name: str, version: str, patch: Object
    ) -> None:
        """The difference of a status, only over the version it was computed from.

        Raises:  ConflictError when somebody wrote meanwhile; NotFoundError when the job is gone.
        """
        body = {"metadata": {"resourceVersion": version}, "status": patch}
        answer = await self._client.patch_bytes(
            resource, namespace, name, body, subresource="status"
        )
        self._caches[resource].wrote(answer)

    async def _side_by_side(
        self, namespace: str, batch: Sequence[Write]
    ) -> list[str | Exception | None]:
        """How each ended. One that fails does not cancel its siblings: they may have worked."""
        ends: list[str | Exception | None] = [None] * len(batch)

        async def one(index: int, write: Write) -> None:
            try:
                ends[index] = await self._write(namespace, write)
            except (NotLeaderError, asyncio.CancelledError):
                raise
            except AscendopError as error:
                ends[index] = error

        if len(batch) == 1:
            await one(0, batch[0])
            return ends
        async with asyncio.TaskGroup() as group:
            for index, write in enumerate(batch):
                group.create_task(one(index, write))
        return ends

    async def _write(self, namespace: str, write: Write) -> str | None:
        """The uid of what was made, empty for another change; None when nothing changed."""
        match write:
            case Create():
                return await self._create(namespace, write)
            case Apply():
                answer = await self._client.apply_bytes(
                    write.resource, write.object, manager=self._manager
                )
                self._wrote(write.resource, answer)
                return ""
            case Patch():
                meta = {"uid": write.uid, "resourceVersion": write.version}
                body = {**write.body, "metadata": {**write.body.get("metadata", {}), **meta}}
                answer = await self._client.patch_bytes(write.resource, namespace, write.name, body)
                self._wrote(write.resource, answer)
                return ""
            case Delete():
                return await self._delete(namespace, write)

    def _wrote(self, resource: Resource, body: bytes) -> str:
        """The uid of the object, where it is cached."""
        cache = self._caches.get(resource)
        return "" if cache is None else cache.wrote(body)

    async def _create(self, namespace: str, write: Create) -> str | None:
        try:
            answer = await self._client.create_bytes(write.resource, write.object)
        except ExistsError:
            await self._look(namespace, write)
            return None
        return self._wrote(write.resource, answer)

    async def _look(self, namespace: str, write: Create) -> None:
        """The name is taken. By ours: that is success. By one on its way out: wait for it."""
        body = await self._client.get_bytes(write.resource, namespace, write.name)
        found = _OWNED.decode(body).metadata
        want = write.object["metadata"]["ownerReferences"][0]
        owner = next((o for o in found.owner_references or () if o.controller), _Owner())
        if owner.uid == want["uid"] and found.deletion_timestamp is None:
            self._wrote(write.resource, body)
            return
        same_job = (owner.kind, owner.name) == (want["kind"], want["name"])
        if owner.uid == want["uid"] or same_job:
            raise NameTakenError(f"{write.name} is still being deleted", waits=True)
        whose = f"belongs to {owner.kind} {owner.name}" if owner.uid else "belongs to nobody"
        raise NameTakenError(
            f'{write.resource.plural} "{write.name}" already exists and {whose}; '
            "delete it or rename the job"
        )

    async def _delete(self, namespace: str, write: Delete) -> str | None:
        cache = self._caches.get(write.resource)
        try:
            answer = await self._client.delete_bytes(
                write.resource, namespace, write.name, uid=write.uid, grace_s=write.grace_s
            )
        except (NotFoundError, ConflictError):
            # Gone, or another object under the same name: what was decided about is not there.
            if cache is not None:
                cache.gone(namespace, write.name, write.uid)
            return None
        if cache is not None:
            cache.deleted(namespace, write.name, write.uid, answer)
        return ""


class NameTakenError(AscendopError):
    """An object of that name is there and is not ours."""

    def __init__(self, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.waits = waits


def _failure(step: StepName, write: Write, error: Exception) -> Failure | None:
    """The refusal that the job's owner should hear of; None for what nobody did wrong."""
    match error:
        case NameTakenError():
            return Failure(step, write, str(error), waits=error.waits)
        case RejectedError() | ForbiddenError():
            return Failure(step, write, error.message)
        case NotFoundError():
            return Failure(step, write, error.message)
        case ApiError() | AscendopError():
            return None
        case _:
            return None


def _as_trouble(error: Exception) -> AscendopError:
    return error if isinstance(error, AscendopError) else AscendopError(repr(error))
