# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Proofs of who we are: fetched once, renewed in time, replaced when refused, never shown."""

import asyncio
import logging
from random import Random  # noqa: TID251  a seed

import pytest
from aiohttp import web

from ascendop.kube.config import Connection
from ascendop.kube.credentials import (
    TOKEN_FILE_S,
    Credential,
    CredentialError,
    Grant,
    token_file,
)
from ascendop.kube.errors import ForbiddenError, TransportError
from ascendop.kube.resource import PODS, Scope
from ascendop.kube.tls import ClientCertificate
from ascendop.kube.transport import HttpTransport, Request

POD = {"metadata": {"namespace": "ml", "name": "a"}}


class Source:
    """Hands out secret-1, secret-2 and so on; fails where the script says so."""

    def __init__(self, *script, lasts_s=100.0, takes_s=0.0):
        self.script = list(script)
        self.lasts_s = lasts_s
        self.takes_s = takes_s
        self.asked = 0

    async def __call__(self):
        self.asked += 1
        asked = self.asked
        await asyncio.sleep(self.takes_s)
        if self.script and self.script.pop(0) == "fail":
            raise CredentialError("the source is down")
        return Grant(f"Bearer secret-{asked}", refresh_after_s=self.lasts_s)


async def test_the_first_request_fetches_and_the_next_ones_use_it():
    source = Source()
    credential = Credential(source)
    for _ in range(3):
        assert (await credential.current()).authorization == "Bearer secret-1"
    assert source.asked == 1


async def test_it_is_renewed_when_it_is_due():
    credential = Credential(Source(lasts_s=100.0))
    await credential.current()
    await asyncio.sleep(99)
    assert (await credential.current()).authorization == "Bearer secret-1"
    await asyncio.sleep(2)
    assert (await credential.current()).authorization == "Bearer secret-2"


async def test_many_requests_make_one_fetch():
    source = Source(takes_s=5.0)
    credential = Credential(source)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(credential.current()) for _ in range(20)]
    assert {task.result().authorization for task in tasks} == {"Bearer secret-1"}
    assert source.asked == 1


async def test_while_one_request_renews_the_others_use_what_is_held():
    source = Source(takes_s=5.0, lasts_s=10.0)
    credential = Credential(source)
    await credential.current()
    await asyncio.sleep(11)
    async with asyncio.TaskGroup() as group:
        renews = group.create_task(credential.current())
        await asyncio.sleep(1)
        assert (await credential.current()).authorization == "Bearer secret-1"
    assert renews.result().authorization == "Bearer secret-2"


async def test_the_lease_never_waits_for_a_renewal():
    source = Source(takes_s=30.0, lasts_s=10.0)
    credential = Credential(source)
    await credential.current()
    await asyncio.sleep(11)
    before = asyncio.get_running_loop().time()
    assert (await credential.current(waits=False)).authorization == "Bearer secret-1"
    assert asyncio.get_running_loop().time() == before


async def test_a_failed_renewal_keeps_the_last_good_one_and_is_tried_again_soon():
    """runtime:H-8."""
    source = Source("ok", "fail", "ok", lasts_s=100.0)
    credential = Credential(source)
    await credential.current()
    await asyncio.sleep(101)
    assert (await credential.current()).authorization == "Bearer secret-1"
    assert (await credential.current()).authorization == "Bearer secret-1"
    assert source.asked == 2
    await asyncio.sleep(10)
    assert (await credential.current()).authorization == "Bearer secret-3"


async def test_without_any_the_request_fails_and_says_why():
    source = Source("fail", "fail")
    credential = Credential(source)
    for _ in range(3):
        with pytest.raises(TransportError, match="the source is down") as caught:
            await credential.current()
        assert caught.value.sent is False
    assert source.asked == 1


async def test_one_that_was_refused_is_replaced_once_however_many_met_it():
    source = Source(takes_s=1.0)
    credential = Credential(source)
    grant = await credential.current()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(credential.refused(grant)) for _ in range(10)]
    assert all(task.result() for task in tasks)
    assert source.asked == 2


async def test_a_user_that_is_refused_for_good_does_not_ask_the_source_each_time():
    source = Source()
    credential = Credential(source)
    for _ in range(50):
        await credential.refused(await credential.current())
    assert source.asked == 2


async def test_a_fixed_token_has_nothing_else_to_try():
    credential = Credential(grant=Grant("Bearer fixed"))
    assert not await credential.refused(await credential.current())


async def test_nobody_is_a_credential_too():
    assert (await Credential().current()).authorization == ""


async def test_a_token_file_is_read_again_after_a_minute(tmp_path):
    """Pitfall 76."""
    file = tmp_path / "token"
    file.write_text("one\n")
    credential = Credential(token_file(str(file)))
    assert (await credential.current()).authorization == "Bearer one"
    file.write_text("two\n")
    await asyncio.sleep(TOKEN_FILE_S - 1)
    assert (await credential.current()).authorization == "Bearer one"
    await asyncio.sleep(2)
    assert (await credential.current()).authorization == "Bearer two"


@pytest.mark.parametrize("content", [None, "", "  \n", "t\u00f6ken"])
async def test_a_token_file_that_is_none_is_named(tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(CredentialError, match="token"):
        await token_file(str(file))()


def test_no_form_of_a_proof_is_shown():
    """runtime:H-9."""
    grant = Grant("Bearer secret", ClientCertificate("secret chain", "secret key"))
    credential = Credential(grant=grant)
    connection = Connection("https://x", credential, proxy="http://me:secret@proxy")
    for shown in (grant, credential, connection, grant.certificate):
        assert "secret" not in f"{shown!r} {shown!s}"


async def test_upkeep_renews_before_a_request_has_to_wait():
    source = Source(lasts_s=80.0)
    transport = HttpTransport(
        Connection(server="http://nowhere", credential=Credential(source)), rng=Random(1)
    )
    async with asyncio.TaskGroup() as group:
        upkeep = group.create_task(transport.maintain())
        await asyncio.sleep(900)
        upkeep.cancel()
    assert 900 / (80 + 10) - 1 <= source.asked <= 900 / 80 + 1


async def test_upkeep_survives_a_source_that_is_down():
    source = Source(*["fail"] * 3)
    transport = HttpTransport(
        Connection(server="http://nowhere", credential=Credential(source)), rng=Random(1)
    )
    async with asyncio.TaskGroup() as group:
        upkeep = group.create_task(transport.maintain())
        await asyncio.sleep(90)
        upkeep.cancel()
    assert source.asked == 4


@pytest.mark.real_time
class TestOnTheWire:
    def connect(self, stage, server, credential):
        return stage.client(Connection(server=server.url(), credential=credential))

    @pytest.mark.parametrize("verb", ["create", "watch"])
    async def test_a_rotated_token_is_picked_up_when_the_old_one_is_refused(
        self, stage, tmp_path, verb
    ):
        """Pitfall 76, runtime:H-11: also for a create, because a 401 did nothing."""
        server = await stage.server()
        valid = ["Bearer one"]

        def answer(request):
            known = request.headers.get("Authorization") in valid
            return web.json_response({}, status=200 if known else 401)

        async def ask():
            if verb == "create":
                return await client.create(PODS, POD)
            async with client.watch(PODS, Scope(), version="1", initial=False, timeout_s=5) as got:
                return got.status

        server.answer = answer
        file = tmp_path / "token"
        file.write_text("one")
        client = self.connect(stage, server, Credential(token_file(str(file))))
        await ask()
        valid[:] = ["Bearer two"]
        file.write_text("two")
        await ask()
        sent = [request.headers["Authorization"] for request in server.seen]
        assert sent == ["Bearer one", "Bearer one", "Bearer two"]

    async def test_a_token_that_stays_refused_is_an_error_after_one_more_try(self, stage):
        """runtime:H-11."""
        server = await stage.server()
        server.answer = lambda request: web.json_response({"message": "who?"}, status=401)
        client = self.connect(stage, server, Credential(Source()))
        with pytest.raises(ForbiddenError, match="who"):
            await client.create(PODS, POD)
        assert len(server.seen) == 2

    async def test_a_missing_right_renews_nothing_and_keeps_the_connection(self, stage):
        """runtime:H-8, pitfall 32."""
        server = await stage.server()
        server.answer = lambda request: web.json_response({"message": "no"}, status=403)
        source = Source()
        client = self.connect(stage, server, Credential(source))
        for _ in range(3):
            with pytest.raises(ForbiddenError):
                await client.get(PODS, "ml", "a")
        assert source.asked == 1
        assert len(server.seen) == 3
        assert len(set(server.peers)) == 1

    async def test_a_proof_that_takes_too_long_sends_nothing_late(self, stage):
        """runtime:L-8: a lease may have ended meanwhile."""
        server = await stage.server()
        source = Source(takes_s=0.3)
        connection = Connection(server=server.url(), credential=Credential(source))
        with pytest.raises(TransportError, match="too late") as caught:
            await stage.transport(connection).send(Request("POST", "/", timeout_s=0.1))
        assert caught.value.sent is False
        assert server.seen == []

    async def test_no_token_is_ever_logged(self, stage, caplog):
        """runtime:H-9."""
        caplog.set_level(logging.DEBUG)
        server = await stage.server()
        server.answer = lambda request: web.json_response({"message": "no"}, status=401)
        client = self.connect(stage, server, Credential(Source("ok", "fail")))
        with pytest.raises(ForbiddenError) as caught:
            await client.get(PODS, "ml", "a")
        assert "secret" not in caplog.text + repr(caught.value)
