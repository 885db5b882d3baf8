# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whom we trust, over real TLS: certificates that are wrong, changed, old or none."""

import asyncio
import os
import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from ascendop.kube.config import Connection
from ascendop.kube.credentials import Credential, Grant
from ascendop.kube.errors import TransportError
from ascendop.kube.tls import ClientCertificate, Tls
from ascendop.kube.transport import Request
from ascendop.kube.trust import CHECK_S, Trust

pytestmark = pytest.mark.real_time

GET = Request("GET", "/api/v1/pods", timeout_s=5.0)


async def secured(stage, context, tls, **options):
    server = await stage.server(context)
    return server, stage.transport(Connection(server=server.url("https"), tls=tls, **options))


async def test_a_server_with_a_certificate_of_our_ca_is_talked_to(stage, authority):
    """runtime:H-10."""
    ca = authority()
    _, transport = await secured(stage, ca.server_context(), Tls(ca_file=ca.file))
    assert (await transport.send(GET)).status == 200


async def test_a_server_of_another_ca_is_not_and_nothing_was_sent(stage, authority):
    ca, other = authority(), authority("other")
    server, transport = await secured(stage, other.server_context(), Tls(ca_file=ca.file))
    with pytest.raises(TransportError, match=r"https://127\.0\.0\.1:\d+ is not trusted") as caught:
        await transport.send(GET)
    assert caught.value.sent is False
    assert server.seen == []


async def test_insecure_trusts_whoever_answers(stage, authority):
    _, transport = await secured(stage, authority().server_context(), Tls(insecure=True))
    assert (await transport.send(GET)).status == 200


async def test_the_servers_name_may_differ_from_where_we_connect_to(stage, authority):
    """runtime:H-10."""
    ca = authority()
    context = ca.server_context(hosts=("kubernetes.default",))
    right = Tls(ca_file=ca.file, server_name="kubernetes.default")
    server, transport = await secured(stage, context, right)
    assert (await transport.send(GET)).status == 200
    wrong = Connection(server=server.url("https"), tls=Tls(ca_file=ca.file))
    with pytest.raises(TransportError, match="not trusted"):
        await stage.transport(wrong).send(GET)


async def test_a_ca_without_key_identifiers_is_refused_with_the_way_out(stage, authority):
    """runtime:H-10."""
    ca = authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*ca.issue("old", hosts=("127.0.0.1",), strict=False))
    server, transport = await secured(stage, context, Tls(ca_file=ca.file))
    with pytest.raises(TransportError, match="switch strict TLS off"):
        await transport.send(GET)
    lax = Connection(server=server.url("https"), tls=Tls(ca_file=ca.file, strict=False))
    assert (await stage.transport(lax).send(GET)).status == 200


def test_nothing_below_tls_1_2_is_spoken(authority):
    """runtime:H-10."""
    context = Tls(ca_file=authority().file).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_flags & ssl.VERIFY_X509_STRICT


async def test_a_client_certificate_is_shown(stage, authority):
    ca = authority()
    cert, key = ca.issue("admin")
    context = ca.server_context(wants_client=True)
    mine = Tls(ca_file=ca.file, cert_file=cert, key_file=key)
    _, transport = await secured(stage, context, mine)
    assert (await transport.send(GET)).status == 200
    _, transport = await secured(stage, context, Tls(ca_file=ca.file))
    with pytest.raises(TransportError):
        await transport.send(GET)


async def test_a_certificate_from_a_plugin_is_shown_and_leaves_no_file(
    stage, authority, tmp_path, monkeypatch
):
    ca = authority()
    cert, key = map(_text, ca.issue("admin"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    grant = Grant(certificate=ClientCertificate(cert, key))
    _, transport = await secured(
        stage,
        ca.server_context(wants_client=True),
        Tls(ca_file=ca.file),
        credential=Credential(grant=grant),
    )
    assert (await transport.send(GET)).status == 200
    assert list(scratch.iterdir()) == []


async def test_a_new_ca_on_disk_is_believed_for_new_connections(stage, authority, tmp_path):
    """Pitfall 78."""
    old, new = authority("old"), authority("new")
    bundle = str(tmp_path / "ca.crt")
    shutil.copy(old.file, bundle)
    server, transport = await secured(stage, old.server_context(), Tls(ca_file=bundle))
    await transport.send(GET)
    await stage.restart(server, new.server_context())
    with pytest.raises(TransportError, match="not trusted"):
        await transport.send(replace(GET, pool="lease"))
    shutil.copy(new.file, bundle)
    transport._trust._check_at = 0.0  # a minute later
    assert (await transport.send(GET)).status == 200


async def test_a_new_client_certificate_on_disk_is_shown_on_new_connections(
    stage, authority, tmp_path
):
    """Pitfall 78: also for watches, which have connections of their own."""
    ca = authority()
    cert, key = ca.issue("first")
    context = ca.server_context(wants_client=True)
    names = []
    server, transport = await secured(
        stage, context, Tls(ca_file=ca.file, cert_file=cert, key_file=key)
    )

    def answer(request):
        subject = request.transport.get_extra_info("peercert")["subject"]
        names.append(dict(pair for part in subject for pair in part)["commonName"])
        return web.json_response({})

    server.answer = answer
    await transport.send(GET)
    second = ca.issue("second")
    shutil.copy(second[0], cert)
    shutil.copy(second[1], key)
    transport._trust._check_at = 0.0
    await transport.send(GET)
    async with transport.stream(replace(GET, pool="watch")):
        pass
    assert names == ["first", "second", "second"]


async def test_files_that_have_not_changed_keep_the_connection(stage, authority):
    """runtime:H-10: a context is parsed at the start and after a rotation only."""
    ca = authority()
    server, transport = await secured(stage, ca.server_context(), Tls(ca_file=ca.file))
    await transport.send(GET)
    before = transport._trust.context
    transport._trust._check_at = 0.0
    await transport.send(GET)
    assert transport._trust.context is before
    assert server.peers[0] == server.peers[1]


async def test_half_a_rotation_leaves_the_old_certificates_in_use(authority, caplog):
    ca = authority()
    cert, key = ca.issue("first")
    trust = Trust(Tls(ca_file=ca.file, cert_file=cert, key_file=key))
    assert await trust.renew(None)
    before = trust.context
    _, second_key = ca.issue("second")
    shutil.copy(second_key, key)
    assert not await trust.renew(None)
    assert trust.context is before
    assert "cannot be used yet" in caplog.text


async def test_files_are_looked_at_once_a_minute(authority):
    trust = Trust(Tls(ca_file=authority().file))
    now = asyncio.get_running_loop().time()
    assert trust.is_due(now, None)
    await trust.renew(None)
    later = asyncio.get_running_loop().time()
    assert not trust.is_due(later + CHECK_S - 1, None)
    assert trust.is_due(later + CHECK_S + 1, None)


async def test_a_missing_file_is_named(stage, tmp_path):
    missing = str(tmp_path / "ca.crt")
    transport = stage.transport(Connection(server="https://x.invalid", tls=Tls(ca_file=missing)))
    with pytest.raises(TransportError, match=r"No such file.*ca\.crt") as caught:
        await transport.send(GET)
    assert caught.value.sent is False


def test_a_stamp_changes_with_any_of_the_files(authority):
    ca = authority()
    cert, key = ca.issue("c")
    tls = Tls(ca_file=ca.file, cert_file=cert, key_file=key)
    stamps = {tls.stamp()}
    for nth, file in enumerate((ca.file, cert, key), 1):
        os.utime(file, ns=(nth, nth))
        stamps.add(tls.stamp())
    Path(key).unlink()
    stamps.add(tls.stamp())
    assert len(stamps) == 5


def _text(file):
    return Path(file).read_text()
