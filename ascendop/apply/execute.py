# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A plan becomes calls: in safe order, bounded, each of them harmless on a stale read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ascendop.api.model import Object
from ascendop.apply.caches import Caches
from ascendop.apply.plan import (
    Absent,
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
from ascendop.kube.resource import Key, Resource

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


Noted = Callable[[Key, Resource, str], None]
"""Told of every write that was answered: for which job, of what, and the version it has now."""


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

    def __init__(
        self, client: Client, caches: Caches, manager: str = "ascendop", *, noted: Noted
    ) -> None:
        self._client = client
        self._caches = caches
        self._manager = manager
        self._noted = noted

    async def run(self, key: Key, steps: Sequence[Step]) -> Executed:
        """The steps, until one fails."""
        written: list[Written] = []
        failures: list[Failure] = []
        trouble: AscendopError | None = None
        for step in steps:
            width, start = 1, 0
            while start < len(step.writes) and not failures and trouble is None:
                batch = step.writes[start : start + width]
                for write, end in zip(batch, await self._side_by_side(key, batch), strict=True):
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

    async def exists(self, absent: Absent) -> bool:
        """Whether the server has what the cache lacks."""
        try:
            await self._client.get_bytes(absent.resource, absent.namespace or None, absent.name)
        except NotFoundError:
            return False
        return True

    async def status(self, key: Key, resource: Resource, version: str, patch: Object) -> None:
        """The difference of a status, only over the version it was computed from.

        Raises:  ConflictError when somebody wrote meanwhile; NotFoundError when the job is gone.
        """
        body = {"metadata": {"resourceVersion": version}, "status": patch}
        answer = await self._client.patch_bytes(
            resource, key.namespace, key.name, body, subresource="status"
        )
        self._wrote(key, resource, answer)

    async def _side_by_side(self, key: Key, batch: Sequence[Write]) -> list[str | Exception | None]:
        """How each ended. One that fails does not cancel its siblings: they may have worked."""
        ends: list[str | Exception | None] = [None] * len(batch)

        async def one(index: int, write: Write) -> None:
            try:
                ends[index] = await self._write(key, write)
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

    async def _write(self, key: Key, write: Write) -> str | None:
        """The uid of what was made, empty for another change; None when nothing changed."""
        match write:
            case Create():
                return await self._create(key, write)
            case Apply():
                answer = await self._client.apply_bytes(
                    write.resource, write.object, manager=self._manager
                )
                self._wrote(key, write.resource, answer)
                return ""
            case Patch():
                meta = {"uid": write.uid, "resourceVersion": write.version}
                body = {**write.body, "metadata": {**write.body.get("metadata", {}), **meta}}
                answer = await self._client.patch_bytes(
                    write.resource, key.namespace, write.name, body
                )
                self._wrote(key, write.resource, answer)
                return ""
            case Delete():
                return await self._delete(key, write)

    def _wrote(self, key: Key, resource: Resource, body: bytes) -> str:
        """The uid of the object, where it is cached."""
        cache = self._caches.get(resource)
        if cache is None:
            return ""
        row = cache.wrote(body)
        self._noted(key, resource, row.version)
        return str(row.uid)

    async def _create(self, key: Key, write: Create) -> str | None:
        try:
            answer = await self._client.create_bytes(write.resource, write.object)
        except ExistsError:
            await self._look(key, write)
            return None
        return self._wrote(key, write.resource, answer)

    async def _look(self, key: Key, write: Create) -> None:
        """The name is taken. By ours: that is success. By one on its way out: wait for it."""
        body = await self._client.get_bytes(write.resource, key.namespace, write.name)
        found = _OWNED.decode(body).metadata
        want = write.object["metadata"]["ownerReferences"][0]
        owner = next((o for o in found.owner_references or () if o.controller), _Owner())
        if owner.uid == want["uid"] and found.deletion_timestamp is None:
            self._wrote(key, write.resource, body)
            return
        same_job = (owner.kind, owner.name) == (want["kind"], want["name"])
        if owner.uid == want["uid"] or same_job:
            raise NameTakenError(f"{write.name} is still being deleted", waits=True)
        whose = f"belongs to {owner.kind} {owner.name}" if owner.uid else "belongs to nobody"
        raise NameTakenError(
            f'{write.resource.plural} "{write.name}" already exists and {whose}; '
            "delete it or rename the job"
        )

    async def _delete(self, key: Key, write: Delete) -> str | None:
        cache = self._caches.get(write.resource)
        try:
            answer = await self._client.delete_bytes(
                write.resource, key.namespace, write.name, uid=write.uid, grace_s=write.grace_s
            )
        except (NotFoundError, ConflictError):
            # Gone, or another object under the same name: what was decided about is not there.
            if cache is not None:
                cache.gone(key.namespace, write.name, write.uid)
            return None
        if cache is not None:
            row = cache.deleted(key.namespace, write.name, write.uid, answer)
            if row is not None:
                self._noted(key, write.resource, row.version)
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
        case ForbiddenError() if error.caused_by("NamespaceTerminating"):
            return Failure(step, write, error.message, waits=True)
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
