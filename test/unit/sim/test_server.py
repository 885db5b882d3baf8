# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the simulator's server promises beyond what a real one does; the rest is the contract."""

import asyncio
from datetime import UTC, datetime
from random import Random  # noqa: TID251  the dice of a test have a seed

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.clock import simulated
from ascendop.kube.client import Client
from ascendop.kube.errors import ForbiddenError, GoneError, RejectedError
from ascendop.kube.resource import CONFIGMAPS, PODS, Scope
from ascendop.kube.transport import Request
from ascendop.sim.answers import forbidden
from ascendop.sim.server import ApiServer
from ascendop.sim.storage import Storage
from ascendop.sim.transport import SimTransport
from ascendop.sim.watch import BACKLOG


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


async def test_a_client_talks_to_the_simulator_without_a_socket():
    """runtime:S-2"""
    api = client_of(make_server())
    before = open_files()
    async with api.watch(PODS, Scope(), version="", initial=False, timeout_s=60) as stream:
        await api.create(PODS, pod("a"))
        assert b"ADDED" in await anext(stream.chunks())
        assert open_files() == before


def open_files():
    """What the loop waits for, beside its timers."""
    return len(asyncio.get_running_loop()._selector.get_map())


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


PATH = "/api/v1/namespaces/default/pods"


async def test_history_that_is_compacted_answers_410_to_pages_and_watches():
    """runtime:S-3"""
    server = make_server()
    api = client_of(server)
    for index in range(4):
        await api.create(PODS, pod(f"p{index}"))
    page = orjson.loads(await api.list_page(PODS, Scope(), limit=2))["metadata"]
    await api.create(PODS, pod("more"))
    server.compact()
    with pytest.raises(GoneError) as caught:
        await api.list_page(PODS, Scope(), limit=2, continue_token=page["continue"])
    assert caught.value.reason == "Expired"
    version = page["resourceVersion"]
    async with api.watch(PODS, Scope(), version=version, initial=False, timeout_s=60) as stream:
        (line,) = [chunk async for chunk in stream.chunks()]
    assert orjson.loads(line)["object"]["code"] == 410


async def test_the_window_of_changes_is_bounded():
    """runtime:S-3"""
    server = make_server(storage=Storage(window=3))
    api = client_of(server)
    start = str(server.revision)
    for index in range(4):
        await api.create(PODS, pod(f"p{index}"))
    async with api.watch(PODS, Scope(), version=start, initial=False, timeout_s=60) as stream:
        (line,) = [chunk async for chunk in stream.chunks()]
    assert orjson.loads(line)["type"] == "ERROR"


async def test_a_quiet_watch_gets_a_bookmark_every_minute_and_one_at_its_end():
    """runtime:S-3"""
    api = client_of(make_server())
    loop = asyncio.get_running_loop()
    async with api.watch(PODS, Scope(), version="", initial=False, timeout_s=150) as stream:
        seen = [(loop.time(), orjson.loads(chunk)["type"]) async for chunk in stream.chunks()]
    assert seen == [(60.0, "BOOKMARK"), (120.0, "BOOKMARK"), (150.0, "BOOKMARK")]


async def test_a_lagging_server_answers_version_zero_from_the_past_and_nothing_else():
    """runtime:S-3"""
    server = make_server()
    api = client_of(server)
    await api.create(PODS, pod("old"))
    await api.create(PODS, pod("new"))
    server.lag_by(lambda: 1)

    async def names(version):
        page = orjson.loads(await api.list_page(PODS, Scope(), limit=0, version=version))
        return [item["metadata"]["name"] for item in page["items"]]

    assert (await names("0"), await names("")) == (["old"], ["new", "old"])


async def test_children_go_after_the_delay_and_not_before():
    """runtime:S-3"""
    api = client_of(make_server(collect_after_s=7.0))
    owner = await api.create(CONFIGMAPS, {"metadata": {"name": "o", "namespace": "default"}})
    child = pod("child")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "o",
            "uid": owner["metadata"]["uid"],
        }
    ]
    await api.create(PODS, child)
    await api.delete(CONFIGMAPS, "default", "o")
    await asyncio.sleep(6.9)
    assert len(await api.list(PODS)) == 1
    await asyncio.sleep(0.2)
    assert await api.list(PODS) == []


async def test_every_watch_ends_when_the_server_cuts_them():
    server = make_server()
    api = client_of(server)
    async with api.watch(PODS, Scope(), version="", initial=False, timeout_s=600) as stream:
        server.cut_watches()
        assert [chunk async for chunk in stream.chunks()] == []
    assert asyncio.get_running_loop().time() == 0


async def test_a_watcher_that_never_reads_is_cut_and_not_kept_for_ever():
    """runtime:I-17"""
    server = make_server()
    api = client_of(server)
    storage = server.world.storage
    table = storage.table("configmaps")
    async with api.watch(CONFIGMAPS, Scope(), version="", initial=False, timeout_s=600) as stream:
        for _ in range(BACKLOG + 1):
            storage.put(table, ("default", "c"), {"metadata": {"name": "c"}})
        seen = b"".join([chunk async for chunk in stream.chunks()])
    assert seen.count(b"\n") == BACKLOG
    assert asyncio.get_running_loop().time() < 1


async def test_a_server_without_books_still_knows_who_applied():
    """Without managedFields for every write a simulation is twice as fast."""
    api = client_of(make_server(track_fields=False))
    made = await api.create(CONFIGMAPS, {"metadata": {"name": "c", "namespace": "default"}})
    assert "managedFields" not in made["metadata"]
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default"},
        "data": {"a": "b"},
    }
    applied = await api.apply(CONFIGMAPS, obj)
    assert [entry["operation"] for entry in applied["metadata"]["managedFields"]] == ["Apply"]


async def test_a_pod_nobody_runs_has_no_log():
    server = make_server()
    api = client_of(server)
    await api.create(PODS, pod("p"))
    with pytest.raises(RejectedError, match="no node runs pods here"):
        await api.raw(Request("GET", f"{PATH}/p/log"))


@given(changes=st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=20))
def test_the_past_of_a_table_is_what_it_was(changes):
    """Whatever is written and removed, a table at an old revision shows that revision."""
    storage = Storage()
    table = storage.table("t")
    seen = {storage.revision: []}
    for name, wanted in changes:
        row = table.get(("", name))
        if wanted:
            storage.put(table, ("", name), {"metadata": {"name": name}})
        elif row is not None:
            storage.remove(table, row)
        seen[storage.revision] = [(row.key, row.revision) for row in table.scan(None)]
    for revision, want in seen.items():
        assert [(row.key, row.revision) for row in table.at(revision).scan(None)] == want
