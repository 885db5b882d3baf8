# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods by the thousand in one request, for API servers that take lists of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import orjson

from ascendop.api.model import Object
from ascendop.apply.plan import Create, Write
from ascendop.apply.together import side_by_side
from ascendop.builder import labels as keys
from ascendop.errors import AscendopError, NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.resource import PODS, Scope
from ascendop.telemetry.log import get_log

log = get_log(__name__)

LONGEST: Final = 1000
"""Pods of one request, as openFuyao's API server wants them."""
AGAIN_S: Final = 3600.0
"""A server that has refused a list is not asked again for so long."""


class PodLists:
    """Makes the pods of a job by lists, where the server can.

    Wanted:    by a setting only: a stock server refuses every list, after reading all of it.
    Refused:   whatever the reason, the pods are then made one by one, which finds those that are
               there already and tells what is wrong with the others; for an hour lists rest.
    Seen:      what was made is read once, so that the next pass does not make it again.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rests_until = float("-inf")

    def fitting(self, writes: Sequence[Write]) -> list[Create]:
        """Of the writes of a step those that can go as a list; none while lists rest."""
        if asyncio.get_running_loop().time() < self._rests_until:
            return []
        pods = [w for w in writes if isinstance(w, Create) and w.resource == PODS]
        return pods if len(pods) > 1 else []

    async def create(self, namespace: str, pods: Sequence[Create]) -> Mapping[str, bytes] | None:
        """The pods that are there now, by name; None when the server did not take the lists.

        Raises:  NotLeaderError when a write was not allowed to start; a bug of ours.
        """
        objects = [pod.object for pod in pods]
        lists = [objects[start : start + LONGEST] for start in range(0, len(objects), LONGEST)]
        make = partial(self._client.create_list, PODS, namespace)
        ends = await side_by_side([partial(make, found) for found in lists])
        for end in ends:
            if isinstance(end, NotLeaderError):
                raise end
            if isinstance(end, Exception) and not isinstance(end, AscendopError):
                raise end
        error = next((end for end in ends if isinstance(end, Exception)), None)
        if error is not None:
            self._rests_until = asyncio.get_running_loop().time() + AGAIN_S
            log.warning("the server takes no list of pods", error=str(error), again_s=AGAIN_S)
            return None
        return await self._there(namespace, objects)

    async def _there(self, namespace: str, objects: Sequence[Object]) -> Mapping[str, bytes]:
        job = objects[0]["metadata"]["labels"][keys.JOB_NAME]
        found = await self._client.list(PODS, Scope(namespace, labels=f"{keys.JOB_NAME}={job}"))
        made = {pod["metadata"]["name"] for pod in objects}
        return {
            pod["metadata"]["name"]: orjson.dumps(pod)
            for pod in found
            if pod["metadata"]["name"] in made
        }
