# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The wire against a real server on loopback, on both loops."""

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from aiohttp import web

from ascendop.kube.errors import (
    ApiError,
    BusyError,
    ForbiddenError,
    RejectedError,
    TransportError,
)
from ascendop.kube.resource import PODS, SERVICES, Resource, Scope
from ascendop.kube.sockets import OPTIONS
from ascendop.kube.transport import MAX_AGE_S, Request

pytestmark = pytest.mark.real_time

POD = {"metadata": {"namespace": "ml", "name": "a"}}
GET = Request("GET", "/api/v1/pods")


async def test_a_request_says_what_it_wants_and_who_we_are(stage):
    """runtime:H-5, runtime:H-19, runtime:H-17."""
    server = await stage.server()
    await stage.client(server.url()).create(PODS, POD)
    sent = server.seen[0]
    assert sent.method == "POST"
    assert sent.path_qs == "/api/v1/namespaces/ml/pods?timeout=30s"
    assert sent.headers["Accept-Encoding"] == "identity"
    assert sent.headers["Content-Type"] == "application/json"
    assert sent.headers["User-Agent"].startswith("ascendop/")
    assert server.bodies[0] == b'{"metadata":{"namespace":"ml","name":"a"}}'


async def test_a_sibling_is_known_by_its_own_name_and_shares_the_connection(stage):
    """runtime:H-19."""
    server = await stage.server()
    client = stage.client(server.url())
    await client.get(PODS, "ml", "a")
    await client.sibling("ascendjob-controller").get(PODS, "ml", "a")
    assert server.seen[1].headers["User-Agent"].endswith(" ascendjob-controller")
    assert server.peers[0] == server.peers[1]


async def test_compression_is_asked_for_only_when_the_link_is_slow(stage):
    """runtime:H-5."""
    server = await stage.server()
    await stage.transport(server.url(), compressed=True).send(GET)
    assert server.seen[0].headers["Accept-Encoding"] == "gzip"


async def test_odd_characters_arrive_as_they_were_meant(stage):
    server = await stage.server()
    odd = Request("GET", "/apis/a b/ü%/c:d", {"labelSelector": "a in (b,c),d=e&f", "x": "+ü"})
    await stage.transport(server.url()).send(odd)
    seen = server.seen[0]
    assert seen.path == "/apis/a b/ü%/c:d"
    assert dict(seen.query) == {"labelSelector": "a in (b,c),d=e&f", "x": "+ü"}


async def test_a_server_below_a_path_is_asked_below_that_path(stage):
    server = await stage.server()
    await stage.client(f"{server.url()}/k8s/clusters/c-1").get(PODS, "ml", "a")
    assert server.seen[0].path == "/k8s/clusters/c-1/api/v1/namespaces/ml/pods/a"


async def test_headers_are_found_in_lower_case_and_repeated_ones_are_joined(stage):
    server = await stage.server()

    def answer(request):
        found = web.json_response({})
        found.headers.add("Audit-Id", "a1")
        found.headers.add("Warning", '299 - "one"')
        found.headers.add("Warning", '299 - "two"')
        return found

    server.answer = answer
    response = await stage.transport(server.url()).send(GET)
    assert response.headers["audit-id"] == "a1"
    assert response.headers["warning"] == '299 - "one", 299 - "two"'


async def test_no_cookie_is_ever_sent_back(stage):
    """runtime:H-4."""
    server = await stage.server()

    def answer(request):
        found = web.json_response({})
        found.set_cookie("route", "replica-1")
        return found

    server.answer = answer
    named = server.url().replace("127.0.0.1", "localhost")  # addresses have no cookies anyway
    transport = stage.transport(named)
    await transport.send(GET)
    await transport.send(GET)
    assert "Cookie" not in server.seen[1].headers


async def test_a_redirect_is_a_no_and_the_token_stays_here(stage):
    """runtime:H-4."""
    server, elsewhere = await stage.server(), await stage.server()
    server.answer = lambda request: web.Response(status=307, headers={"Location": elsewhere.url()})
    with pytest.raises(RejectedError) as caught:
        await stage.client(server.url()).create(PODS, POD)
    assert caught.value.status == 307
    assert elsewhere.seen == []


async def test_an_error_carries_what_the_servers_logs_know_it_by(stage):
    """runtime:H-20."""
    server = await stage.server()
    server.answer = lambda request: web.json_response(
        {"kind": "Status", "message": "slow down", "reason": "TooManyRequests"},
        status=429,
        headers={
            "Retry-After": "60",
            "Audit-Id": "audit-1",
            "X-Kubernetes-PF-FlowSchema-UID": "schema-1",
            "X-Kubernetes-PF-PriorityLevel-UID": "level-1",
        },
    )
    with pytest.raises(BusyError) as caught:
        await stage.client(server.url()).create(PODS, POD)
    error = caught.value
    assert (error.audit_id, error.flow_schema, error.priority_level, error.retry_after_s) == (
        "audit-1",
        "schema-1",
        "level-1",
        60.0,
    )
    assert "POST /api/v1/namespaces/ml/pods" in str(error)


async def test_what_a_proxy_says_instead_of_the_server_is_an_error_as_well(stage):
    server = await stage.server()
    server.answer = lambda request: web.Response(status=502, text="<html>Bad Gateway</html>")
    with pytest.raises(ApiError, match="Bad Gateway"):
        await stage.client(server.url(), attempts=1).get(PODS, "ml", "a")
    server.answer = lambda request: web.Response(text="<html>please log in</html>")
    with pytest.raises(TransportError, match="please log in"):
        await stage.client(server.url()).get(PODS, "ml", "a")


async def test_a_port_that_nobody_listens_on_is_named_and_nothing_was_sent(stage):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match=f"cannot connect to http://127.0.0.1:{port}") as c:
        await stage.transport(f"http://127.0.0.1:{port}").send(GET)
    assert c.value.sent is False


async def test_a_name_that_does_not_resolve_is_named_and_nothing_was_sent(stage):
    with pytest.raises(TransportError, match=r"cannot connect to http://nowhere\.invalid") as c:
        await stage.transport("http://nowhere.invalid:1").send(GET)
    assert c.value.sent is False


async def test_a_connection_cut_after_the_request_may_have_worked(stage):
    server = await stage.server()
    server.answer = reset
    with pytest.raises(TransportError) as caught:
        await stage.client(server.url()).create(PODS, POD)
    assert caught.value.sent is True
    assert len(server.seen) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE", "GET"])
async def test_the_library_below_repeats_nothing_by_itself(stage, method):
    """runtime:H-11: aiohttp would send an idempotent method twice on a pooled connection."""
    server = await stage.server()
    transport = stage.transport(server.url())
    await transport.send(GET)
    server.answer = reset
    with pytest.raises(TransportError):
        await transport.send(Request(method, "/api/v1/namespaces/ml/pods/a"))
    assert len(server.seen) == 2


async def test_a_read_survives_a_connection_that_is_cut(stage):
    server = await stage.server()
    server.answer = lambda request: reset(request) if len(server.seen) == 1 else ok(request)
    assert await stage.client(server.url()).get(PODS, "ml", "a") == {}


async def test_an_answer_that_does_not_come_ends_in_time(stage):
    """runtime:H-6."""
    server = await stage.server()
    server.answer = silence
    with pytest.raises(TransportError, match=r"no answer from .* within 0\.2 s") as caught:
        await stage.transport(server.url()).send(replace(GET, timeout_s=0.2))
    assert caught.value.sent is True


async def test_a_watch_that_never_begins_ends_in_time(stage):
    """runtime:H-6."""
    server = await stage.server()
    server.answer = silence
    with pytest.raises(TransportError, match="no answer"):
        async with stage.transport(server.url()).stream(replace(GET, timeout_s=0.2)):
            pass


async def test_a_stream_outlives_the_limit_of_its_headers(stage):
    """runtime:H-6, pitfall 16."""
    server = await stage.server()
    server.answer = lambda request: drip(request, [b"a\n", b"b\n", b"c\n"], pause_s=0.15)
    got = b""
    async with stage.transport(server.url()).stream(replace(GET, timeout_s=0.2)) as stream:
        async for chunk in stream.chunks():
            got += chunk
    assert got == b"a\nb\nc\n"


async def test_a_stream_that_is_cut_says_so(stage):
    server = await stage.server()

    async def answer(request):
        found = web.StreamResponse()
        await found.prepare(request)
        await found.write(b"half a li")
        await cut.wait()
        return reset(request)

    cut = asyncio.Event()
    server.answer = answer
    async with stage.transport(server.url()).stream(GET) as stream:
        chunks = stream.chunks()
        assert await anext(chunks) == b"half a li"
        cut.set()
        with pytest.raises(TransportError, match="broke"):
            await anext(chunks)


async def test_a_refused_watch_raises_on_entry_with_the_servers_words(stage):
    server = await stage.server()
    server.answer = lambda request: web.json_response({"message": "no list for you"}, status=403)
    client = stage.client(server.url())
    with pytest.raises(ForbiddenError, match="no list for you"):
        async with client.watch(PODS, Scope(), version="", initial=True, timeout_s=5):
            pass


async def test_leaving_a_watch_closes_its_connection(stage, until):
    """runtime:I-27."""
    server = await stage.server()
    closed = asyncio.Event()

    async def answer(request):
        found = web.StreamResponse()
        await found.prepare(request)
        await found.write(b"x\n")
        await until(lambda: gone(request))
        closed.set()
        return found

    server.answer = answer
    client = stage.client(server.url())
    async with client.watch(PODS, Scope(), version="1", initial=False, timeout_s=300) as stream:
        async for _ in stream.chunks():
            break
    async with asyncio.timeout(2):
        await closed.wait()


async def test_pools_share_no_connection(stage):
    """runtime:H-1."""
    server = await stage.server()
    transport = stage.transport(server.url())
    for pool in ("api", "lease", "api", "lease"):
        await transport.send(replace(GET, pool=pool))
    assert server.peers[0] == server.peers[2] != server.peers[1] == server.peers[3]


async def test_calls_that_hang_do_not_hold_up_the_lease_or_a_watch(stage, until):
    """runtime:H-1, runtime:L-4, pitfall 74."""
    server = await stage.server()
    server.answer = lambda request: (silence if request.path == "/hang" else ok)(request)
    transport = stage.transport(server.url())
    hang = Request("POST", "/hang", timeout_s=20.0)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(transport.send(hang)) for _ in range(40)]
        await until(lambda: len(server.seen) == 32)
        await transport.send(replace(GET, pool="lease"))
        async with transport.stream(replace(GET, pool="watch")) as stream:
            assert stream.status == 200
        await asyncio.sleep(0.05)
        assert sum(request.path == "/hang" for request in server.seen) == 32
        for task in tasks:
            task.cancel()


async def test_renewals_that_hang_hold_two_connections_and_no_more(stage, until):
    """runtime:H-1."""
    server = await stage.server()
    server.answer = silence
    transport = stage.transport(server.url())
    renew = Request("PUT", "/lease", timeout_s=20.0, pool="lease")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(transport.send(renew)) for _ in range(5)]
        await until(lambda: len(server.seen) == 2)
        await asyncio.sleep(0.05)
        assert len(server.seen) == 2
        for task in tasks:
            task.cancel()


async def test_watches_are_not_limited_in_number(stage):
    """runtime:H-1."""
    server = await stage.server()
    server.answer = lambda request: drip(request, [b"x\n"], pause_s=5.0)
    transport = stage.transport(server.url())

    async def hold(ready, leave):
        async with transport.stream(replace(GET, pool="watch")):
            ready.release()
            await leave.wait()

    ready, leave = asyncio.Semaphore(0), asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(hold(ready, leave))
        for _ in range(50):
            await ready.acquire()
        leave.set()


async def test_a_connection_is_used_again_until_it_is_old(stage):
    """runtime:H-2."""
    server = await stage.server()
    transport = stage.transport(server.url())
    await transport.send(GET)
    await transport.send(GET)
    generation = transport._pools["api"]
    now = asyncio.get_running_loop().time()
    assert 0.8 * MAX_AGE_S - 1 <= generation.ends_at - now <= 1.2 * MAX_AGE_S
    generation.ends_at = now
    await transport.send(GET)
    assert server.peers[0] == server.peers[1] != server.peers[2]
    assert generation.session.closed


async def test_an_old_connection_ends_only_when_its_last_request_does(stage):
    """runtime:H-2."""
    server = await stage.server()
    server.answer = lambda request: (
        drip(request, [b"1", b"2"], pause_s=0.2) if request.path == "/slow" else ok(request)
    )
    transport = stage.transport(server.url())
    async with transport.stream(Request("GET", "/slow")) as stream:
        old = transport._pools["api"]
        old.ends_at = 0.0
        await transport.send(GET)
        assert not old.session.closed
        assert b"".join([chunk async for chunk in stream.chunks()]) == b"12"
    assert old.session.closed


async def test_after_close_nothing_is_sent_and_what_runs_ends(stage, until):
    server = await stage.server()
    server.answer = silence
    transport = stage.transport(server.url())
    async with asyncio.TaskGroup() as group:
        call = group.create_task(caught(transport.send(GET)))
        await until(lambda: server.seen)
        await transport.close()
    assert isinstance(call.result(), TransportError)
    with pytest.raises(TransportError, match="closed") as error:
        await transport.send(GET)
    assert error.value.sent is False


async def test_a_socket_notices_a_dead_peer(stage):
    """runtime:I-26."""
    server = await stage.server()
    server.answer = lambda request: drip(request, [b"x"], pause_s=1.0)
    transport = stage.transport(server.url())
    async with transport.stream(GET):
        generation = transport._pools["api"]
        (protocol,) = generation.session.connector._acquired
        made = protocol.transport.get_extra_info("socket")
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for name, value in OPTIONS.items():
            assert made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


async def test_a_watch_is_read_in_larger_pieces_than_a_call(stage):
    """runtime:H-7."""
    server = await stage.server()
    transport = stage.transport(server.url())
    await transport.send(GET)
    await transport.send(replace(GET, pool="watch"))
    sizes = {name: pool.session._read_bufsize for name, pool in transport._pools.items()}
    assert sizes == {"api": 256 << 10, "watch": 1 << 20}


async def test_a_large_body_goes_and_comes_whole(stage):
    server = await stage.server()
    server.answer = lambda request: drip(request, [server.bodies[-1]], pause_s=0)
    body = b"x" * (3 << 20)
    response = await stage.transport(server.url()).send(Request("POST", "/", body=body))
    assert response.body == body


async def test_the_environment_has_no_say_in_a_request(stage, monkeypatch):
    """runtime:H-3, pitfall 79."""
    server = await stage.server()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    await stage.transport(server.url()).send(GET)
    assert len(server.seen) == 1


async def test_a_cluster_scoped_and_a_grouped_resource_have_their_own_paths(stage):
    server = await stage.server()
    client = stage.client(server.url())
    widgets = Resource("example.com", "v1", "widgets", "Widget", namespaced=False)
    await client.get(widgets, "ignored", "w", subresource="status")
    await client.list(SERVICES, Scope(namespace="ml", labels="a=b", fields="c=d"))
    assert server.seen[0].path == "/apis/example.com/v1/widgets/w/status"
    assert server.seen[1].path == "/api/v1/namespaces/ml/services"
    assert dict(server.seen[1].query) == {
        "timeout": "60s",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "limit": "500",
    }


def ok(request):
    return web.json_response({})


def reset(request):
    """Cut the connection without a goodbye."""
    request.transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    request.transport.abort()
    return web.Response()


def gone(request):
    return request.transport is None or request.transport.is_closing()


async def silence(request):
    while not gone(request):  # noqa: ASYNC110  there is no event to wait for
        await asyncio.sleep(0.01)
    return web.Response()


async def drip(request, pieces, *, pause_s):
    found = web.StreamResponse()
    await found.prepare(request)
    with suppress(ConnectionError):
        for piece in pieces:
            await found.write(piece)
            for _ in range(round(pause_s / 0.01)):
                if gone(request):
                    return found
                await asyncio.sleep(0.01)
    return found


async def caught(call):
    try:
        return await call
    except TransportError as error:
        return error
