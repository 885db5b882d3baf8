# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Runs batch/v1 Jobs of one pod, as kube-controller-manager does.

Retries: a failed pod is followed by another after a growing pause, and a container that restarts
         in place counts likewise, until there were more than the Job's backoffLimit.
Suspend: pods go, and come back when the Job is let go on.
Not:     parallelism and completions other than 1, indexes, policies for failures or success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NoReturn

from ascendop.backoff import Backoff
from ascendop.clock import WallClock, rfc3339
from ascendop.kube.client import Client
from ascendop.kube.errors import ApiError, ConflictError, NotFoundError, TransportError
from ascendop.kube.resource import BATCH_JOBS, PODS, Object
from ascendop.sim.watching import Mirror
from ascendop.times import parse_time

SETTLE_S: Final = 0.02
RETRY: Final = Backoff(0.2, 10.0)
NEXT_POD: Final = Backoff(10.0, 600.0)
"""Before another pod, by how many have failed."""
_PREFIX: Final = 58  # what five letters more make a host name of
_ENDED: Final = ("Succeeded", "Failed")
_Due = float | None
"""Seconds until a Job has to be looked at again."""


class BatchJobs:
    """Looks at every Job when one of them, or a pod, has changed, or a pause is over."""

    def __init__(self, client: Client, *, wall: WallClock) -> None:
        self._client = client
        self._wall = wall
        self._due = asyncio.Event()
        self._jobs = Mirror(client, BATCH_JOBS)
        self._pods = Mirror(client, PODS)
        for mirror in (self._jobs, self._pods):
            mirror.on_change(lambda _old, _new: self._due.set())
        self._made: dict[str, str] = {}
        """Names of pods that the mirror does not show yet, by uid of their Job."""

    async def run(self) -> NoReturn:
        """Run Jobs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for mirror in (self._jobs, self._pods):
                group.create_task(mirror.run())
                await mirror.synced.wait()
            await self._rounds()
        raise AssertionError

    async def _rounds(self) -> NoReturn:
        failures = 0
        next_s: _Due = 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(next_s):
                    await self._due.wait()
            await asyncio.sleep(SETTLE_S if not failures else RETRY.after(failures))
            self._due.clear()
            try:
                next_s = await self._round()
                failures = 0
            except (ApiError, TransportError):
                failures += 1
                self._due.set()

    async def _round(self) -> _Due:
        dues = []
        for key in sorted(self._jobs.objects):
            job = self._jobs.objects.get(key)
            if job is not None and not job["metadata"].get("deletionTimestamp"):
                # What has changed since is looked at in the next round, which the change starts.
                with suppress(NotFoundError, ConflictError):
                    dues.append(await self._tend(job))
        return min((due for due in dues if due is not None), default=None)

    async def _tend(self, job: Object) -> _Due:
        status, spec = job.get("status") or {}, job["spec"]
        if ended := _condition(job, "Complete") or _condition(job, "Failed"):
            return await self._expire(job, ended)
        pods = self._pods_of(job)
        failed = max(sum(_phase(p) == "Failed" for p in pods), int(status.get("failed") or 0))
        if any(_phase(pod) == "Succeeded" for pod in pods):
            return await self._end(job, "Complete", failed, ())
        if spec.get("suspend"):
            return await self._suspend(job, pods, failed)
        started = str(status.get("startTime") or "")
        if not started:
            started = rfc3339(self._wall())
        alive = [pod for pod in pods if _phase(pod) not in _ENDED]
        tries = failed + sum(_restarts(pod) for pod in alive)
        deadline_s = self._left_s(started, spec.get("activeDeadlineSeconds"))
        if tries > int(spec.get("backoffLimit", 6)):
            why = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            return await self._end(job, "Failed", max(failed, 1), alive, *why)
        if deadline_s is not None and deadline_s <= 0:
            why = "DeadlineExceeded", "Job was active longer than specified deadline"
            return await self._end(job, "Failed", failed, alive, *why)
        pause_s = None if alive else await self._make(job, pods, failed)
        wanted: Object = {
            "startTime": started,
            "active": sum(not pod["metadata"].get("deletionTimestamp") for pod in alive) or None,
            "failed": failed or None,
            "conditions": _without_suspended(job, rfc3339(self._wall())),
        }
        await self._write(job, wanted)
        return min((s for s in (pause_s, deadline_s) if s is not None), default=None)

    def _pods_of(self, job: Object) -> list[Object]:
        uid, found = job["metadata"]["uid"], []
        for (namespace, name), pod in self._pods.objects.items():
            owners = pod["metadata"].get("ownerReferences") or ()
            if namespace == job["metadata"]["namespace"] and any(o["uid"] == uid for o in owners):
                found.append(pod)
                if self._made.get(uid) == name:
                    del self._made[uid]
        return found

    async def _make(self, job: Object, pods: Sequence[Object], failed: int) -> _Due:
        """Another pod, unless it is too early for it."""
        meta, template = job["metadata"], job["spec"]["template"]
        if meta["uid"] in self._made:
            return None
        if failed and (last := max((_finished(pod) for pod in pods), default="")):
            pause_s = self._left_s(last, NEXT_POD.after(failed - 1))
            if pause_s is not None and pause_s > 0:
                return pause_s
        kept = {k: v for k, v in (template.get("metadata") or {}).items() if k != "ownerReferences"}
        owner = {
            "apiVersion": BATCH_JOBS.api_version,
            "kind": BATCH_JOBS.kind,
            "name": meta["name"],
            "uid": meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        prefix = f"{meta['name']}-"[:_PREFIX]
        head = {"generateName": prefix, "namespace": meta["namespace"], "ownerReferences": [owner]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**kept, **head},
            "spec": template["spec"],
        }
        made = await self._client.create(PODS, pod)
        self._made[meta["uid"]] = made["metadata"]["name"]
        return None

    async def _suspend(self, job: Object, pods: Sequence[Object], failed: int) -> _Due:
        for pod in pods:
            if _phase(pod) not in _ENDED and not pod["metadata"].get("deletionTimestamp"):
                await self._delete(pod)
        wanted = {
            "active": None,
            "failed": failed or None,
            "conditions": [
                *_others(job, "Suspended"),
                self._said(job, "Suspended", "JobSuspended", "Job suspended"),
            ],
        }
        await self._write(job, wanted)
        return None

    async def _end(
        self,
        job: Object,
        type_: str,
        failed: int,
        alive: Sequence[Object],
        reason: str = "",
        message: str = "",
    ) -> _Due:
        for pod in alive:
            if not pod["metadata"].get("deletionTimestamp"):
                await self._delete(pod)
        wanted: Object = {
            "active": None,
            "failed": failed or None,
            "conditions": [*_others(job, type_), self._said(job, type_, reason, message)],
        }
        if type_ == "Complete":
            wanted |= {"succeeded": 1, "completionTime": rfc3339(self._wall())}
        await self._write(job, wanted)
        return None

    async def _expire(self, job: Object, ended: Object) -> _Due:
        """Gone so many seconds after its end, with its pods."""
        left_s = self._left_s(
            str(ended["lastTransitionTime"]), job["spec"].get("ttlSecondsAfterFinished")
        )
        if left_s is None or left_s > 0:
            return left_s
        meta = job["metadata"]
        await self._client.delete(BATCH_JOBS, meta["namespace"], meta["name"], uid=meta["uid"])
        return None

    async def _delete(self, pod: Object) -> None:
        meta = pod["metadata"]
        with suppress(NotFoundError):
            await self._client.delete(PODS, meta["namespace"], meta["name"], uid=meta["uid"])

    async def _write(self, job: Object, wanted: Object) -> None:
        """The difference of the status, over the version that was looked at."""
        before, meta = job.get("status") or {}, job["metadata"]
        patch = {key: found for key, found in wanted.items() if before.get(key) != found}
        if patch:
            body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": patch}
            await self._client.patch(
                BATCH_JOBS, meta["namespace"], meta["name"], body, subresource="status"
            )

    def _said(self, job: Object, type_: str, reason: str, message: str) -> Object:
        old = _condition(job, type_)
        if old is not None:
            return old
        now = rfc3339(self._wall())
        found = {"type": type_, "status": "True", "lastProbeTime": now, "lastTransitionTime": now}
        return found | ({"reason": reason, "message": message} if reason else {})

    def _left_s(self, since: str, within_s: float | None) -> float | None:
        if within_s is None:
            return None
        due: datetime = parse_time(since) + timedelta(seconds=float(within_s))
        return (due - self._wall()).total_seconds()


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(each.get("restartCount") or 0) for each in statuses)


def _finished(pod: Object) -> str:
    """When the last of its containers ended; empty when nobody said."""
    times = [
        str(((each.get("state") or {}).get("terminated") or {}).get("finishedAt") or "")
        for each in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    return max(times, default="")


def _condition(job: Object, type_: str) -> Object | None:
    found = ((job.get("status") or {}).get("conditions")) or ()
    return next((c for c in found if c["type"] == type_ and c["status"] == "True"), None)


def _others(job: Object, type_: str) -> list[Object]:
    found = ((job.get("status") or {}).get("conditions")) or ()
    return [c for c in found if c["type"] != type_]


def _without_suspended(job: Object, now: str) -> list[Object] | None:
    """A Job that was let go on says so in the place of what it said before."""
    said = _condition(job, "Suspended")
    if said is None:
        return (job.get("status") or {}).get("conditions")
    awake = {"status": "False", "reason": "JobResumed", "message": "Job resumed"}
    return [*_others(job, "Suspended"), {**said, **awake, "lastTransitionTime": now}]
