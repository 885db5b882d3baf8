# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The simulator over real HTTP: our own client reads the kubeconfig and talks to it."""

import asyncio
import stat
from contextlib import asynccontextmanager
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest

from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.config import load
from ascendop.kube.errors import ApiError, ForbiddenError
from ascendop.kube.resource import CONFIGMAPS, Scope
from ascendop.kube.transport import HttpTransport, Request
from ascendop.sim.http import serve
from ascendop.sim.server import ApiServer

pytestmark = pytest.mark.real_time


def config(name, **data):
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


@asynccontextmanager
async def served(tmp_path, token="", secret=None):
    """A server, and a client that knows this secret."""
    server = ApiServer(wall=wall, rng=Random(1))
    async with serve(server, token=token) as address:
        file = tmp_path / "kubeconfig"
        address.write_kubeconfig(file)
        if secret is not None:
            file.write_text(file.read_text().replace(token, secret))
        wire = HttpTransport(await load(environ={}, kubeconfig=str(file)), rng=Random(2))
        client = Client(wire, rng=Random(3))
        try:
            yield client, server, file
        finally:
            await client.aclose()
    server.close()


@pytest.mark.parametrize("token", ["", "secret"])
async def test_objects_are_written_read_and_watched(tmp_path, token):
    async with served(tmp_path, token) as (api, server, _):
        version = str(server.revision)
        await api.create(CONFIGMAPS, config("a", text="ü/%20 &"))
        assert (await api.get(CONFIGMAPS, "default", "a"))["data"] == {"text": "ü/%20 &"}
        async with api.watch(
            CONFIGMAPS, Scope(), version=version, initial=False, timeout_s=5
        ) as stream:
            line = await anext(stream.chunks())
        assert orjson.loads(line)["type"] == "ADDED"


async def test_a_file_with_a_token_is_its_owners_alone(tmp_path):
    async with served(tmp_path, "secret") as (_, _, file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_who_does_not_know_the_token_is_answered_401(tmp_path):
    async with served(tmp_path, "secret", "guess") as (api, _, _):
        with pytest.raises(ForbiddenError) as caught:
            await api.list(CONFIGMAPS)
        assert caught.value.status == 401


async def test_a_token_may_also_be_in_a_header(tmp_path):
    async with served(tmp_path, "secret", "") as (api, _, _):
        bearer = {"Authorization": "Bearer secret"}
        assert (await api.raw(Request("GET", "/version", {}, bearer))).status == 200


async def test_a_body_that_is_too_large_is_refused_and_not_read(tmp_path):
    async with served(tmp_path) as (api, _, _):
        with pytest.raises(ApiError) as caught:
            await api.create(CONFIGMAPS, config("a", text="x" * 4 * 1024 * 1024))
        assert caught.value.status == 413


async def test_streams_that_are_open_end_when_the_server_leaves(tmp_path):
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with (
        served(tmp_path) as (api, server, _),
        api.watch(CONFIGMAPS, Scope(), version="", initial=False, timeout_s=60) as stream,
    ):
        server.cut_watches()
        assert [chunk async for chunk in stream.chunks()] == []
    assert loop.time() < started + 10
