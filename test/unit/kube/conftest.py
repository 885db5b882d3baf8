# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A server that answers by script in virtual time, and one of real HTTP on loopback."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest
import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ascendop.kube.client import Client
from ascendop.kube.config import Connection
from ascendop.kube.transport import HttpTransport, Response
from ascendop.sim.loop import JumpingLoop


def pytest_asyncio_loop_factories(config, item):
    """The wire runs on both loops, as it does for users; all else in virtual time."""
    if not item.get_closest_marker("real_time"):
        return {"jumping": JumpingLoop}
    if item.path.name in {"test_http.py", "test_connections.py", "test_execplugin.py"}:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"real": asyncio.new_event_loop}


class Scripted:
    """Answers in the order of the script, then 200 for ever. An error in the script is raised."""

    def __init__(self, *script, takes_s=0.0):
        self.script = list(script)
        self.takes_s = takes_s
        self.seen = []
        self.seen_at = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def send(self, request):
        self.seen.append(request)
        self.seen_at.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.takes_s)
            answer = self.script.pop(0) if self.script else reply(200)
            if isinstance(answer, Exception):
                raise answer
            return answer(request) if callable(answer) else answer
        finally:
            self.in_flight -= 1

    @asynccontextmanager
    async def stream(self, request):
        answer = await self.send(request)
        yield Pieces(answer)

    async def close(self):
        self.script = None

    def client(self, **options):
        return Client(self, rng=Random(7), **options)


class Pieces:
    """A stream over a whole answer, or over an endless silence when the body is None."""

    def __init__(self, answer):
        self.status, self.headers, self.body = answer.status, answer.headers, answer.body

    async def chunks(self):
        if self.body is None:
            await asyncio.sleep(1e6)
        yield self.body

    async def read(self):
        return self.body


def reply(status, body=None, **headers):
    """An answer; header names are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        body = {"kind": "Status", "code": status, "message": "no"} if status >= 300 else {}
    return Response(status, named, body if isinstance(body, bytes) else orjson.dumps(body))


@pytest.fixture
def scripted():
    return Scripted


@pytest.fixture(name="reply")
def _reply():
    return reply


class Server:
    """A real HTTP server whose answers a test sets; it remembers what it was asked."""

    def __init__(self):
        self.answer = lambda request: web.json_response({"kind": "Pod"})
        self.seen = []
        self.bodies = []
        self.peers = []
        self.port = None
        self._runner = None
        self._site = None

    async def start(self, context=None, port=0):
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=context)
        await self._site.start()
        self.port = self._site._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        await self._runner.cleanup()

    async def _handle(self, request):
        self.bodies.append(await request.content.read())  # read() would refuse more than 1 MiB
        self.seen.append(request)
        self.peers.append(request.transport.get_extra_info("peername"))
        answer = self.answer(request)
        return await answer if asyncio.iscoroutine(answer) else answer

    def url(self, scheme="http"):
        return f"{scheme}://127.0.0.1:{self.port}"


@pytest.fixture
async def stage():
    """Starts servers and transports, and ends all of them."""
    async with AsyncExitStack() as stack:
        yield Stage(stack)


class Stage:
    def __init__(self, stack):
        self._stack = stack

    async def server(self, context=None):
        server = await Server().start(context)
        self._stack.push_async_callback(server.stop)
        return server

    async def restart(self, server, context=None):
        await server.stop()
        await server.start(context, port=server.port)

    def transport(self, connection, **options):
        if isinstance(connection, str):
            connection = Connection(server=connection)
        transport = HttpTransport(connection, rng=Random(3), **options)
        self._stack.push_async_callback(transport.close)
        return transport

    def client(self, connection, **options):
        return Client(self.transport(connection), rng=Random(3), **options)


async def until(claim, limit_s=5.0):
    """Wait for something that other tasks bring about."""
    async with asyncio.timeout(limit_s):
        while not claim():  # noqa: ASYNC110  there is no event to wait for
            await asyncio.sleep(0.005)


@pytest.fixture(name="until")
def _until():
    return until


class Authority:
    """A CA, and the certificates that it signs."""

    def __init__(self, folder, name="ca"):
        self.folder = folder
        self.name = name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = _name(name)
        self.certificate = self._sign(self.subject, self.key.public_key(), ca=True)
        self.file = str(self._write(f"{name}.crt", self.certificate))

    def server_context(self, *, hosts=("127.0.0.1",), wants_client=False):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server", hosts=hosts))
        if wants_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file)
        return context

    def issue(self, name, *, hosts=(), strict=True):
        """Files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name(name), key.public_key(), hosts=hosts, strict=strict)
        return (
            str(self._write(f"{name}.crt", certificate)),
            str(self._write(f"{name}.key", key)),
        )

    def _sign(self, subject, key, *, ca=False, hosts=(), strict=True):
        now = dt.datetime.now(dt.UTC)  # noqa: TID251  OpenSSL asks the wall as well
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )
        if ca:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        if strict:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(issuer, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _write(self, file, what):
        pem = serialization.Encoding.PEM
        if isinstance(what, x509.Certificate):
            text = what.public_bytes(pem)
        else:
            form = serialization.PrivateFormat.PKCS8
            text = what.private_bytes(pem, form, serialization.NoEncryption())
        path = self.folder / file
        path.write_bytes(text)
        return path


def _name(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@pytest.fixture
def authority(tmp_path):
    """Makes CAs, each with files of its own."""

    def make(name="ca"):
        folder = tmp_path / name
        folder.mkdir()
        return Authority(folder, name)

    return make
