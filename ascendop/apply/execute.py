# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A plan becomes calls: in safe order, bounded, each of them harmless on a stale read."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ascendop.api.model import Object
from ascendop.apply.address import address_taken, with_old_address
from ascendop.apply.caches import Caches
from ascendop.apply.lists import PodLists
from ascendop.apply.plan import (
    Absent,
    Answer,
    Apply,
    Create,
    Delete,
    Done,
    Failure,
    Patch,
    Question,
    Step,
    Write,
    Written,
)
from ascendop.apply.refusals import failure_of
from ascendop.apply.taken import Claim, NameTakenError, Taken, read_taken
from ascendop.apply.together import side_by_side, slow_start
from ascendop.errors import AscendopError, NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ConflictError,
    ExistsError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from ascendop.kube.resource import BATCH_JOBS, CONFIGMAPS, PODS, Key, Resource
from ascendop.kube.verbs import Validation

Maker = Callable[[], Mapping[str, bytes]]
"""Makes the data of an object, such as keys; slow, and never on the loop."""
Noted = Callable[[Key, Resource, str], None]
"""Told of every write that was answered: for which job, of what, and the version it has now."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of a plan's steps, and the trouble after which the rest must be decided anew."""

    done: Done
    trouble: AscendopError | None = None
    """No answer, a conflict, a busy server: nobody's mistake, so it is no failure of the plan."""
    job_version: str = ""
    """Of the job after a step that patched it; empty when none did."""


@dataclass(slots=True)
class _Tally:
    """What has become of the writes so far."""

    written: list[Written] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    trouble: AscendopError | None = None
    job_version: str = ""

    @property
    def stopped(self) -> bool:
        return bool(self.failures) or self.trouble is not None

    def executed(self) -> Executed:
        done = Done(tuple(self.written), tuple(self.failures))
        return Executed(done, self.trouble, self.job_version)


@dataclass(frozen=True, slots=True)
class _Answer:
    """A write that changed something."""

    uid: str = ""
    """Of the object, where it is cached."""
    version: str = ""


class Executor:
    """Carries steps out, one after the other.

    Slow start:  a step's writes go out 1, 2, 4 ... 32 at a time, and none after one was refused.
    Harmless:    creates have fixed names, deletions name the UID, patches the version they are
                 for; so it does not matter how old the snapshot was, or who else is writing.
    Seen:        every answer is noted in the caches before `run` returns.
    Not:         decides anything but whose an object is that already has the name.
    """

    def __init__(
        self,
        client: Client,
        caches: Caches,
        manager: str = "ascendop",
        *,
        noted: Noted,
        lists: PodLists | None = None,
        makers: Mapping[str, Maker] | None = None,
    ) -> None:
        """`makers` make the data of writes that are to be filled, by name."""
        self._client = client
        self._makers = makers or {}
        self._lists = lists
        self._caches = caches
        self._manager = manager
        self._noted = noted

    async def run(self, key: Key, steps: Sequence[Step]) -> Executed:
        """The steps, until one fails.

        Raises:  NotLeaderError when a write was not allowed to start; a bug of ours.
        """
        tally = _Tally()
        for step in steps:
            writes = await self._by_lists(key, step, tally)
            for batch in slow_start(writes):
                await self._batch(key, step, batch, tally)
                if tally.stopped:
                    return tally.executed()
        return tally.executed()

    async def exists(self, absent: Absent) -> bool:
        """Whether the server has what the cache lacks."""
        try:
            await self._client.get_bytes(absent.resource, absent.namespace or None, absent.name)
        except NotFoundError:
            return False
        return True

    async def answer(self, question: Question) -> Answer:
        """What stands in the ConfigMap now; that it cannot be read is an answer, too."""
        if not question.name:
            return Answer(question, trouble="the label names no ConfigMap; write its name there")
        where = f"ConfigMap {question.namespace}/{question.name}"
        try:
            found = await self._client.get(CONFIGMAPS, question.namespace, question.name)
        except NotFoundError:
            wanted = f"{where} does not exist; make it, with the key {question.key}"
            return Answer(question, trouble=wanted)
        except ForbiddenError as error:
            return Answer(question, trouble=f"{where} may not be read: {error.message}")
        text = (found.get("data") or {}).get(question.key)
        if text is None:
            return Answer(question, trouble=f"{where} has no key {question.key}; add it")
        return Answer(question, text)

    async def refresh(self, key: Key, resource: Resource) -> None:
        """Read the job as it is now into the cache. Raises NotFoundError when it is gone."""
        body = await self._client.get_bytes(resource, key.namespace, key.name)
        self._wrote(key, resource, body)

    async def status(self, key: Key, resource: Resource, version: str, patch: Object) -> None:
        """The difference of a status, only over the version it was computed from.

        Raises:  ConflictError when somebody wrote meanwhile; NotFoundError when the job is gone.
        """
        body = {"metadata": {"resourceVersion": version}, "status": patch}
        answer = await self._client.patch_bytes(
            resource, key.namespace, key.name, body, subresource="status"
        )
        self._wrote(key, resource, answer)

    async def _by_lists(self, key: Key, step: Step, tally: _Tally) -> Sequence[Write]:
        """Make what can be made by lists; the writes that are left."""
        pods = self._lists.fitting(step.writes) if self._lists is not None else []
        if self._lists is None or not pods:
            return step.writes
        made = await self._lists.create(key.namespace, pods)
        if made is None:
            return step.writes
        answers = {name: self._wrote(key, PODS, body) for name, body in made.items()}
        done = {id(pod): answers[pod.name].uid for pod in pods if pod.name in answers}
        tally.written += [Written(step.name, w, done[id(w)]) for w in step.writes if id(w) in done]
        return [write for write in step.writes if id(write) not in done]

    async def _batch(self, key: Key, step: Step, batch: Sequence[Write], tally: _Tally) -> None:
        ends = await side_by_side([partial(self._write, key, write) for write in batch])
        _raise_what_ends_the_pass(ends)
        for write, end in zip(batch, ends, strict=True):
            if isinstance(end, AscendopError):
                failure = failure_of(step.name, write, end)
                if failure is not None:
                    tally.failures.append(failure)
                else:
                    tally.trouble = tally.trouble or end
            elif isinstance(end, _Answer):
                tally.written.append(Written(step.name, write, end.uid))
                if isinstance(write, Patch) and write.resource.kind == key.kind:
                    tally.job_version = end.version

    async def _write(self, key: Key, write: Write) -> _Answer | None:
        """None when nothing had to change."""
        match write:
            case Create():
                return await self._create(key, write)
            case Apply():
                answer = await self._client.apply_bytes(
                    write.resource, write.object, manager=self._manager
                )
                return self._wrote(key, write.resource, answer)
            case Patch():
                return await self._patch(key, write)
            case Delete():
                return await self._delete(key, write)

    def _wrote(self, key: Key, resource: Resource, body: bytes) -> _Answer:
        cache = self._caches.get(resource)
        if cache is None:
            return _Answer()
        row = cache.wrote(body)
        self._noted(key, resource, row.version)
        return _Answer(row.uid, row.version)

    async def _patch(self, key: Key, write: Patch) -> _Answer | None:
        meta = {"uid": write.uid, "resourceVersion": write.version}
        found = await self._filled(write.body, write.filled)
        body = {**found, "metadata": {**found.get("metadata", {}), **meta}}
        try:
            answer = await self._client.patch_bytes(
                write.resource, key.namespace, write.name, body, subresource=write.subresource
            )
        except NotFoundError:
            cache = self._caches.get(write.resource)
            if write.resource.kind == key.kind or cache is None:
                raise
            cache.gone(key.namespace, write.name, write.uid)  # a child: the job looks again
            return None
        return self._wrote(key, write.resource, answer)

    async def _create(self, key: Key, write: Create) -> _Answer | None:
        # A user's template may be newer than the server; what we wrote ourselves may not be wrong.
        known: Validation = "Warn" if write.resource in {PODS, BATCH_JOBS} else "Strict"
        wanted = await self._filled(await with_old_address(self._client, write), write.filled)
        try:
            answer = await self._client.create_bytes(write.resource, wanted, validation=known)
        except ExistsError:
            await self._meet(key, write)
            return None
        except RejectedError as error:
            raise address_taken(error, wanted) or error from error
        return self._wrote(key, write.resource, answer)

    async def _filled(self, found: Object, name: str) -> Object:
        if not name:
            return found
        made = await asyncio.to_thread(self._makers[name])
        data = {key: base64.b64encode(value).decode() for key, value in made.items()}
        return {**found, "data": {**(found.get("data") or {}), **data}}

    async def _delete(self, key: Key, write: Delete) -> _Answer | None:
        cache = self._caches.get(write.resource)
        try:
            answer = await self._client.delete_bytes(
                write.resource,
                key.namespace,
                write.name,
                uid=write.uid,
                version=write.version or None,
                grace_s=write.grace_s,
            )
        except (NotFoundError, ConflictError) as error:
            # What was decided about is not there any more, or not as it was: the event that says
            # so is on its way, and wakes the job.
            changed = isinstance(error, ConflictError) and write.version
            if cache is not None and not changed:
                cache.gone(key.namespace, write.name, write.uid)
            return None
        row = cache.deleted(key.namespace, write.name, write.uid, answer) if cache else None
        if row is not None:
            self._noted(key, write.resource, row.version)
        return _Answer(write.uid)

    # The name is taken.

    async def _meet(self, key: Key, write: Create) -> None:
        """Somebody has the name. The child itself, or one to adopt: that is success."""
        what = f'{write.resource.plural} "{write.name}"'
        owner: Object = write.object["metadata"]["ownerReferences"][0]
        try:
            body = await self._client.get_bytes(write.resource, key.namespace, write.name)
        except NotFoundError:
            raise NameTakenError(f"{what} has just gone", Claim.LEAVING) from None
        taken = read_taken(body, write.object["metadata"], adopts=write.adopts)
        match taken.claim:
            case Claim.OURS if taken.hidden:
                await self._find_again(key, write, taken)
            case Claim.OURS:
                self._wrote(key, write.resource, body)
            case Claim.ORPHAN:
                await self._adopt(key, write, owner, taken)
            case Claim.LEAVING:
                raise NameTakenError(f"{what} is still being deleted", taken.claim)
            case Claim.LEFTOVER:
                text = f"{what} is left over from an earlier job of this name; delete it"
                raise NameTakenError(text, taken.claim)
            case Claim.FOREIGN:
                whose = f"belongs to {taken.owner}" if taken.owner else "belongs to nobody"
                text = f"{what} already exists and {whose}; delete it or rename the job"
                raise NameTakenError(text, taken.claim)

    async def _find_again(self, key: Key, write: Create, taken: Taken) -> None:
        """Ours, but somebody has edited the labels that we watch: else it is never seen again."""
        meta = {"uid": taken.uid, "resourceVersion": taken.version, "labels": dict(taken.hidden)}
        answer = await self._client.patch_bytes(
            write.resource, key.namespace, write.name, {"metadata": meta}
        )
        self._wrote(key, write.resource, answer)

    async def _adopt(self, key: Key, write: Create, owner: Object, taken: Taken) -> None:
        """Make an orphan ours, if the job is alive and the orphan is as it was judged.

        Raises:  ConflictError when the job or the orphan is not; all is then decided anew.
        """
        job = next((r for r in self._caches if _is_of(r, owner)), None)
        if job is None:
            raise NameTakenError(f"{owner['kind']} {owner['name']} is not ours", Claim.FOREIGN)
        if not await self._lives(key, job, owner):
            raise ConflictError(409, f"{owner['kind']} {owner['name']} is gone; adopting nothing")
        body = {
            "metadata": {
                "uid": taken.uid,
                "resourceVersion": taken.version,
                "ownerReferences": [*taken.owners, owner],
            }
        }
        answer = await self._client.patch_bytes(write.resource, key.namespace, write.name, body)
        self._wrote(key, write.resource, answer)

    async def _lives(self, key: Key, job: Resource, owner: Object) -> bool:
        try:
            found = await self._client.get(job, key.namespace, owner["name"])
        except NotFoundError:
            return False
        meta = found["metadata"]
        return bool(meta["uid"] == owner["uid"]) and not meta.get("deletionTimestamp")


def _is_of(resource: Resource, owner: Object) -> bool:
    return (resource.api_version, resource.kind) == (owner["apiVersion"], owner["kind"])


def _raise_what_ends_the_pass(ends: Sequence[object]) -> None:
    """The lease is lost, or a bug: neither is a matter of one write."""
    for end in ends:
        if isinstance(end, NotLeaderError):
            raise end
        if isinstance(end, Exception) and not isinstance(end, AscendopError):
            raise end
