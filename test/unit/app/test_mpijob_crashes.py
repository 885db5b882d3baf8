# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator dies at each write of an MPIJob's life, and another takes over: nothing differs."""

import asyncio
from contextlib import suppress

import pytest

from ascendop.kube.resource import BATCH_JOBS, CONFIGMAPS, SECRETS, SERVICES, Scope

from ..town import NS  # noqa: TID252  the standard library has a package called test
from .mpitown import JOBS, mpi_town  # noqa: TID252  likewise

WRITES = 40
"""More than a life has; those beyond its last are a life without a death."""


async def lives(town, nth, *, sent):
    """Operators, one after the other: the first dies at its nth write, sent or not."""
    operator, dead, count = town.operator("first"), asyncio.Event(), [0]

    async def count_down(request):
        if request.method == "GET" or request.path.endswith("/events"):
            return
        count[0] += 1
        if count[0] == nth:
            dead.set()
            await asyncio.sleep(3600)  # nobody hears the answer any more

    (town.wire.after if sent else town.wire.before).append(count_down)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(operator.run(asyncio.Event()))
        await dead.wait()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        await town.operator("second").run(asyncio.Event())


async def story(town):
    """Runs, sleeps, wakes with another worker, and ends."""
    await town.make(policy={"cleanPodPolicy": "All"})
    await town.until_all(3)
    await town.kubelet("Running")
    await town.until_job("Running", "foo")
    await town.suspend()
    await town.until_pods(0)
    await town.until_job("Suspended", "foo")
    workers = {"Worker": {"replicas": 3}}
    policy = {"suspend": False}
    spec = {"mpiReplicaSpecs": workers, "runPolicy": policy}
    await town.patch(JOBS, "foo", {"spec": spec})
    await town.until_all(4)
    await town.kubelet("Running")
    await town.until_job("Running", "foo")
    await town.kubelet("Succeeded", "launcher")
    await town.until_job("Succeeded", "foo")
    await town.until_pods(1)
    await asyncio.sleep(5)


async def end_of(town):
    """What there is, but for names and times that are chance."""
    status = await town.status()
    config = await town.hands.get(CONFIGMAPS, NS, "foo-config")
    names = [
        sorted(found["metadata"]["name"] for found in await town.hands.list(resource, Scope(NS)))
        for resource in (SERVICES, CONFIGMAPS, SECRETS, BATCH_JOBS)
    ]
    conditions = [(c["type"], c["status"], c["reason"]) for c in status["conditions"]]
    return conditions, status["replicaStatuses"], config["data"]["hostfile"], names


@pytest.mark.parametrize("sent", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("nth", range(1, WRITES, 2))
async def test_a_crash_at_any_write_changes_nothing(nth, sent):
    """mpijob:W-06 mpijob:W-17"""
    async with mpi_town() as town, asyncio.TaskGroup() as group:
        operators = group.create_task(lives(town, nth + sent, sent=sent))
        await story(town)
        conditions, counts, hosts, names = await end_of(town)
        secret = await town.hands.get(SECRETS, NS, "foo-ssh")
        made = [body for wire in town.wires.values() for body in wire.bodies("POST", "secrets")]
        operators.cancel()
    assert conditions[0] == ("Created", "True", "MPIJobCreated")
    assert sorted(conditions[1:]) == [
        ("Running", "False", "MPIJobRunning"),
        ("Succeeded", "True", "MPIJobSucceeded"),
        ("Suspended", "False", "MPIJobResumed"),
    ]
    assert counts == {"Launcher": {"succeeded": 1}, "Worker": {}}
    assert len(hosts.splitlines()) == 3
    assert names == [["foo"], ["foo-config"], ["foo-ssh"], ["foo-launcher"]]
    assert sorted(secret["data"]) == ["ssh-privatekey", "ssh-publickey"]
    assert len(made) <= 2, "by a death between the write and its answer, or just before it"
