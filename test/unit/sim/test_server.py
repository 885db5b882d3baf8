# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the simulator's server promises beyond what a real one does; the rest is the contract."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  the dice of a test have a seed

import pytest

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.errors import ForbiddenError
from ascendop.kube.resource import CONFIGMAPS, PODS, Scope
from ascendop.sim.answers import forbidden
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport


def make_server(seed=1, **options):
    start = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    return ApiServer(wall=start, rng=Random(seed), **options)


def client_of(server, **options):
    return Client(SimTransport(server, **options), rng=Random(2))


def pod(name, **labels):
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    }


async def test_the_same_seed_gives_the_same_objects_to_the_byte():
    """runtime:S-3"""

    async def bodies(seed):
        api = client_of(make_server(seed))
        await api.create(PODS, {**pod("a"), "metadata": {**pod("a")["metadata"]}})
        return await api.list_page(PODS, Scope(), limit=0)

    assert await bodies(7) == await bodies(7)
    assert await bodies(7) != await bodies(8)


async def test_who_is_not_allowed_gets_a_403_that_says_what_is_missing():
    server = make_server()
    server.authorize = lambda user, verb, *_: (user, verb) != ("bob", "create")
    with pytest.raises(ForbiddenError, match='User "bob" cannot create resource "pods"'):
        await client_of(server, user="bob").create(PODS, pod("a"))
    await client_of(server, user="eve").create(PODS, pod("a"))


async def test_an_admission_hook_changes_and_refuses_what_is_created():
    """runtime:S-3"""
    server = make_server()

    def hook(admitted):
        if admitted.obj["metadata"]["name"] == "bad":
            raise forbidden(admitted.served.resource, "bad", "the hook says no")
        admitted.obj["metadata"]["labels"] = {"seen": "yes"}

    server.admission.append(hook)
    api = client_of(server)
    created = await api.create(CONFIGMAPS, {"metadata": {"name": "a", "namespace": "default"}})
    assert created["metadata"]["labels"] == {"seen": "yes"}
    with pytest.raises(ForbiddenError, match="the hook says no"):
        await api.create(PODS, pod("bad"))
