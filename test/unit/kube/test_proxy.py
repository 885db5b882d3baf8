# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which way to a server, and a real proxy on that way."""

import asyncio

import pytest

from ascendop.errors import UsageError
from ascendop.kube.config import Connection
from ascendop.kube.errors import TransportError
from ascendop.kube.proxy import is_direct, proxy_for
from ascendop.kube.tls import Tls
from ascendop.kube.transport import Request

API = "https://api.dev.example.com:6443"


@pytest.mark.parametrize(
    ("server", "no_proxy", "want"),
    [
        (API, "", False),
        (API, "*", True),
        (API, "api.dev.example.com", True),
        (API, "example.com", True),
        (API, ".example.com", True),
        (API, "*.example.com", True),
        (API, ".api.dev.example.com", False),
        (API, "ample.com", False),
        (API, "example.com:6443", True),
        (API, "example.com:443", False),
        (API, " other.org , EXAMPLE.com ", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://11.1.2.3:6443", "10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", True),
        ("https://10.1.2.3", "10.1.2.3:443", True),
        ("https://api.dev.example.com", "10.0.0.0/8", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://localhost:6443", "", True),
        ("https://127.0.0.1:6443", "", True),
        ("https://[::1]:6443", "", True),
        (API, "not/a/network", False),
    ],
)
def test_who_is_reached_directly(server, no_proxy, want):
    """runtime:H-3, pitfall 79."""
    assert is_direct(server, no_proxy) is want


def test_the_kubeconfigs_proxy_wins_over_everything():
    environ = {"HTTPS_PROXY": "http://other", "NO_PROXY": "*"}
    assert proxy_for(API, named="http://named:1", environ=environ) == "http://named:1"


@pytest.mark.parametrize(
    ("server", "environ", "want"),
    [
        (API, {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        (API, {"https_proxy": "http://p:1"}, "http://p:1"),
        (API, {"HTTPS_PROXY": "p:1"}, "http://p:1"),
        (API, {"HTTP_PROXY": "http://p:1"}, None),
        ("http://plain:8080", {"HTTP_PROXY": "http://p:1"}, "http://p:1"),
        (API, {"HTTPS_PROXY": "http://p:1", "no_proxy": "example.com"}, None),
        (API, {}, None),
    ],
)
def test_what_the_environment_says(server, environ, want):
    assert proxy_for(server, named=None, environ=environ) == want


def test_a_proxy_that_is_not_spoken_is_refused_without_its_password():
    """runtime:H-9."""
    with pytest.raises(UsageError, match="'socks5'") as caught:
        proxy_for(API, named="socks5://me:secret@p:1", environ={})
    assert "secret" not in str(caught.value)


class Tunnel:
    """A proxy that understands CONNECT, as real ones do."""

    def __init__(self, refuses=False):
        self.refuses = refuses
        self.asked = []

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def stop(self):
        self.server.close()

    async def _serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, port = head.split()[1].split(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pour(reader, back))
            group.create_task(pour(there, writer))


async def pour(source, sink):
    while data := await source.read(1 << 16):
        sink.write(data)
    sink.close()


@pytest.mark.real_time
async def test_a_request_goes_through_the_proxy_and_the_proxy_sees_no_token(stage, authority):
    ca = authority()
    server = await stage.server(ca.server_context())
    tunnel = Tunnel()
    address = await tunnel.start()
    transport = stage.transport(
        Connection(
            server=server.url("https"),
            tls=Tls(ca_file=ca.file),
            proxy=f"http://me:pw@{address}",
        )
    )
    assert (await transport.send(Request("GET", "/api"))).status == 200
    assert len(tunnel.asked) == 1
    assert f"CONNECT 127.0.0.1:{server.port}" in tunnel.asked[0]
    assert "Proxy-Authorization: Basic" in tunnel.asked[0]
    await transport.close()
    await tunnel.stop()


@pytest.mark.real_time
async def test_a_proxy_that_refuses_is_told_and_nothing_was_sent(stage):
    tunnel = Tunnel(refuses=True)
    address = await tunnel.start()
    connection = Connection(server="https://api.invalid", proxy=f"http://me:secret@{address}")
    with pytest.raises(TransportError, match=r"the proxy refused .* 407") as caught:
        await stage.transport(connection).send(Request("GET", "/api"))
    assert caught.value.sent is False
    assert "secret" not in repr(caught.value)
    await tunnel.stop()


@pytest.mark.real_time
async def test_a_proxy_that_is_down_is_told_and_nothing_was_sent(stage):
    connection = Connection(server="https://api.invalid", proxy="http://127.0.0.1:1")
    with pytest.raises(TransportError, match="cannot connect to the proxy") as caught:
        await stage.transport(connection).send(Request("GET", "/api"))
    assert caught.value.sent is False
