# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Events on the API server of the house, as kubectl reads them: by the core group."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

from ascendop.apply.events import EventRecorder
from ascendop.apply.series import Reference
from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.resource import CONFIGMAPS, CORE_EVENTS, Scope
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport


async def test_what_was_told_is_what_describe_shows():
    """runtime:E-2 runtime:E-3"""
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    client = Client(SimTransport(ApiServer(wall=wall, rng=Random(1))), rng=Random(2))
    body = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = await client.create(
        CONFIGMAPS, body | {"metadata": {"namespace": "default", "name": "a"}}
    )
    about = Reference.of(body | made)
    recorder = EventRecorder(
        client.sibling("events"), instance="ascendop-0", wall=wall, rng=Random(3)
    )
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(recorder.run())
        for _ in range(2):
            recorder.event(
                about, "Warning", "Odd", "it is", "Look", controller="ascendjob-controller"
            )
            await asyncio.sleep(1)
        await recorder.flush()
        run.cancel()
    (event,) = await client.list(CORE_EVENTS, Scope(namespace="default"))
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "Odd", "it is")
    assert event["reportingComponent"] == "ascendjob-controller"
    assert event["series"]["count"] == 2
