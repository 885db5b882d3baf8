# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Informers behind the real client, on the simulator's server, with bad luck from a seed."""

import asyncio
import hashlib
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.clock import simulated
from ascendop.informer.capabilities import Capabilities, Presence
from ascendop.informer.discovery import Discovery
from ascendop.informer.informer import Informer
from ascendop.informer.represent import form_of_metadata
from ascendop.informer.source import SyncPolicy
from ascendop.kube.client import Client
from ascendop.kube.errors import AscendopError
from ascendop.kube.resource import CONFIGMAPS, CRDS, POD_GROUPS, Scope
from ascendop.sim.faults import NO_FAULTS, Faults, Plan
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

BAD_LUCK = Plan(
    refuse=0.05,
    reset_before=0.05,
    reset_after=0.05,
    hang=0.02,
    status={429: 0.03, 500: 0.03, 503: 0.03, 504: 0.03},
    delay_s=0.3,
    cut=0.05,
    split=0.4,
    truncate=0.03,
    lag_s=1.0,
)
OURS = Scope(labels="ours")


def server_of(seed):
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    return ApiServer(wall=wall, rng=Random(seed))


def client_of(server, seed, faults=NO_FAULTS):
    return Client(SimTransport(server, faults=faults), rng=Random(seed))


def configmap(name, owner, *, ours=True):
    labels = {"owner": owner} | ({"ours": "yes"} if ours else {})
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}}


class Belief:
    """What a handler knows that keeps nothing but changes."""

    def __init__(self):
        self.rows = {}
        self.said = []
        self.versions = {}

    def __call__(self, change):
        if change.synthetic:
            return
        key = (change.row.namespace, change.row.name)
        self.said.append((key, change.old is None, change.new is None, change.row.version))
        assert self.rows.get(key) == change.old, "changes chain"
        if change.new is None:
            del self.rows[key]
            return
        seen = self.versions.get(change.new.uid, 0)
        assert int(change.new.version) >= seen, "no object goes back in time"
        self.versions[change.new.uid] = int(change.new.version)
        self.rows[key] = change.new


async def stir(api, server, rng, seconds):
    """Somebody else's life: objects come, change, leave the selector, go; history is forgotten."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        name, owner = f"c{rng.randrange(12)}", rng.choice("xyz")
        try:
            match rng.randrange(8):
                case 0 | 1 | 2:
                    await api.create(CONFIGMAPS, configmap(name, owner))
                case 3:
                    body = {"metadata": {"labels": {"ours": rng.choice(["yes", None])}}}
                    await api.patch(CONFIGMAPS, "default", name, body)
                case 4 | 5:
                    await api.delete(CONFIGMAPS, "default", name)
                case 6 if rng.random() < 0.3:
                    server.compact()
                case 7 if rng.random() < 0.3:
                    server.cut_watches()
        except AscendopError:
            pass  # it was there, or was not
        await asyncio.sleep(rng.expovariate(2.0))


async def live(seed, policy):
    """Five minutes of bad luck, then peace: a request may hang, a pause may be at its longest.

    What everybody knows at the end.
    """
    server = server_of(seed)
    faults = Faults(BAD_LUCK, Random(seed))
    informer = Informer(
        client_of(server, seed, faults),
        CONFIGMAPS,
        form_of_metadata(),
        rng=Random(seed),
        scopes=(OURS,),
        indexes={"owner": lambda row: (row.label("owner"),)},
        policy=policy,
    )
    belief = Belief()
    informer.handle(belief)
    admin = client_of(server, 0)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await stir(admin, server, Random(seed), 300)
        faults.enabled = False
        await asyncio.sleep(130)
        task.cancel()
    found = await admin.list(CONFIGMAPS, OURS)
    server.close()
    want = {
        (o["metadata"]["name"], o["metadata"]["uid"], o["metadata"]["resourceVersion"])
        for o in found
    }
    return informer, belief, want


@pytest.mark.parametrize("watch_list", [True, False], ids=["by watch", "by list"])
@pytest.mark.parametrize("seed", range(6))
async def test_whatever_happens_the_store_is_the_servers_when_it_is_over(seed, watch_list):
    """runtime:S-4 runtime:S-5 runtime:I-25"""
    informer, belief, want = await live(seed, SyncPolicy(watch_list=watch_list))
    rows = informer.store.rows()
    assert {(row.name, row.uid, row.version) for row in rows} == want
    assert {(row.namespace, row.name): row for row in rows} == belief.rows
    for owner in "xyz":
        by_index = {row.name for row in informer.store.by_index("owner", owner)}
        assert by_index == {row.name for row in rows if row.label("owner") == owner}
    assert informer.figures().written == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 300))
async def test_many_seeds(seed):
    """runtime:S-6"""
    informer, belief, want = await live(seed, SyncPolicy(watch_list=seed % 2 == 0))
    assert {(row.name, row.uid, row.version) for row in informer.store.rows()} == want
    assert {(row.namespace, row.name): row for row in informer.store.rows()} == belief.rows


async def test_the_same_seed_is_the_same_run():
    """runtime:S-7"""

    async def trace():
        _, belief, _ = await live(42, SyncPolicy())
        return hashlib.sha256(repr(belief.said).encode()).hexdigest()

    assert await trace() == await trace()


GROUPS_CRD = {
    "metadata": {"name": POD_GROUPS.name},
    "spec": {
        "group": POD_GROUPS.group,
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup", "singular": "podgroup"},
        "versions": [
            {
                "name": POD_GROUPS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


class Groups:
    """PodGroups on a server whose CRD comes and goes, and who follows them."""

    def __init__(self, server):
        self.api = client_of(server, 1)
        self.informer = Informer(self.api, POD_GROUPS, form_of_metadata(), rng=Random(1))
        self.belief = Belief()
        self.informer.handle(self.belief)
        self.changed = []
        self.capabilities = Capabilities(
            Discovery(self.api.raw).served,
            self.api,
            rng=Random(1),
            changed=lambda _name, usable: self.changed.append(usable),
        )
        self.capabilities.track(self.informer)

    @property
    def presence(self):
        return self.capabilities.presence(POD_GROUPS.name)

    async def come(self):
        await self.api.create(CRDS, GROUPS_CRD)
        await asyncio.sleep(5)
        assert self.capabilities.has(POD_GROUPS.name)
        await self.api.create(POD_GROUPS, {"metadata": {"name": "g", "namespace": "default"}})
        await asyncio.sleep(1)
        assert [row.name for row in self.informer.store.rows()] == ["g"]

    async def go(self):
        await self.api.delete(CRDS, "", POD_GROUPS.name)
        await asyncio.sleep(40)
        assert self.presence is Presence.ABSENT
        assert self.belief.rows == {}


async def test_a_crd_that_is_installed_deleted_and_installed_again_31():
    """runtime:I-37 runtime:I-38"""
    server = server_of(1)
    groups = Groups(server)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(groups.capabilities.run())
        await asyncio.sleep(5)
        assert groups.presence is Presence.ABSENT
        for _ in range(2):
            await groups.come()
            await groups.go()
        task.cancel()
    server.close()
    assert groups.changed == [True, False, True, False]
