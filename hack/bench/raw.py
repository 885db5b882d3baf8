# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The same writes with nothing in between: what the server can bear from one client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import orjson

from hack.bench.kinds import Benched
from hack.bench.shape import Rendered, Shape, Written
from hack.bench.wire import APPLY, MERGE, Wire, all_of

EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{namespace}/events"
_MOMENT: Final = "2030-01-01T00:00:00Z"
_APPLIED: Final = "?fieldManager=bench&force=true"


@dataclass(frozen=True, slots=True)
class Extras:
    """Writes beside the objects, over all jobs of a run."""

    statuses: int
    events: int

    def of_job(self, number: int, jobs: int) -> Extras:
        """The share of one job; shares differ by one at most and add up."""
        return Extras(_share(self.statuses, number, jobs), _share(self.events, number, jobs))


def _share(total: int, number: int, jobs: int) -> int:
    return total * (number + 1) // jobs - total * number // jobs


class Loader:
    """Makes what the operator would make of the jobs of a shape, in a namespace."""

    def __init__(self, wire: Wire, shape: Shape, rendered: Rendered, namespace: str) -> None:
        self._wire = wire
        self._shape = shape
        self._rendered = rendered
        self._namespace = namespace
        self._kind: Benched = shape.kind
        self._jobs = shape.kind.jobs(namespace)

    async def jobs_alone(self) -> None:
        """Only the jobs: the rest is the operator's."""
        await all_of(self._job, self._shape.names())

    async def everything(self, extras: Extras) -> None:
        """Each job with all that belongs to it, the jobs side by side."""

        async def one(numbered: tuple[int, str]) -> None:
            number, name = numbered
            await self._whole_job(name, extras.of_job(number, self._shape.jobs))

        await all_of(one, enumerate(self._shape.names()))

    async def _job(self, name: str) -> bytes:
        body = self._rendered.job_of(self._namespace, name)
        answer = await self._wire.send("POST", self._jobs, body)
        return str(orjson.loads(answer)["metadata"]["uid"]).encode()

    async def _whole_job(self, name: str, extras: Extras) -> None:
        uid = await self._job(name)
        for group in self._rendered.groups:
            collection, body = group.filled(self._namespace, name, uid, b"")
            path = f"{collection}/{group.named(name, uid)}{_APPLIED}"
            await self._wire.send("PATCH", path, body, APPLY)
        for shared in self._rendered.shared:
            await self._post(shared, name, uid, b"")
        address = b""
        for service in self._rendered.services:
            answer = await self._post(service, name, uid, b"")
            address = str(orjson.loads(answer)["spec"]["clusterIP"]).encode()

        async def write(what: Written | str) -> None:
            match what:
                case Written():
                    await self._post(what, name, uid, address)
                case "status":
                    path = f"{self._jobs}/{name}/status"
                    await self._wire.send("PATCH", path, _STATUS, MERGE)
                case _:
                    path = EVENTS.format(namespace=self._namespace)
                    await self._wire.send("POST", path, self._event(name, uid))

        beside = ["status"] * extras.statuses + ["event"] * extras.events
        await all_of(write, _spread(self._rendered.pods, beside))

    async def _post(self, what: Written, job: str, uid: bytes, address: bytes) -> bytes:
        collection, body = what.filled(self._namespace, job, uid, address)
        return await self._wire.send("POST", collection, body)

    def _event(self, job: str, uid: bytes) -> bytes:
        return orjson.dumps({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{job}-", "namespace": self._namespace},
            "type": "Normal",
            "reason": "SuccessfulCreatePod",
            "action": "Create",
            "note": f"Created pod: {job}-worker-0",
            "eventTime": "2030-01-01T00:00:00.000000Z",
            "reportingController": "bench",
            "reportingInstance": "bench-0",
            "regarding": {
                "apiVersion": self._kind.api_version,
                "kind": self._kind.kind,
                "name": job,
                "namespace": self._namespace,
                "uid": uid.decode(),
            },
        })  # fmt: skip


_STATUS: Final = orjson.dumps({
    "status": {
        "conditions": [
            {
                "type": "Created",
                "status": "True",
                "reason": "JobCreated",
                "message": "Job bench is create.",
                "lastUpdateTime": _MOMENT,
                "lastTransitionTime": _MOMENT,
            }
        ],
        "replicaStatuses": {"Master": {}, "Worker": {}},
        "startTime": _MOMENT,
    }
})  # fmt: skip


def _spread(pods: tuple[Written, ...], beside: list[str]) -> Iterator[Written | str]:
    """The writes beside, evenly between the pods."""
    width = max(1, len(pods) // max(1, len(beside)))
    groups: Iterable[tuple[Written, ...]] = (
        pods[start : start + width] for start in range(0, len(pods), width)
    )
    for some, extra in zip_longest(groups, beside, fillvalue=()):
        yield from some
        if isinstance(extra, str):
            yield extra
