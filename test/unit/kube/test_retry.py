# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is sent twice, what is not, and after which pause."""

import asyncio

import pytest

from ascendop.errors import NotLeaderError
from ascendop.kube.errors import (
    ApiError,
    BusyError,
    ConflictError,
    ExistsError,
    TransportError,
)
from ascendop.kube.resource import PODS, Scope
from ascendop.kube.transport import Request

NAMED = {"metadata": {"namespace": "ml", "name": "a"}}
GUARDED = {"metadata": {"namespace": "ml", "name": "a", "resourceVersion": "7"}}
UNREACHED = TransportError("refused", sent=False)
CUT = TransportError("reset", sent=True)

READS = {
    "get": lambda client: client.get(PODS, "ml", "a"),
    "list": lambda client: client.list(PODS),
}
SAFE_WRITES = {
    "PUT with a version": lambda client: client.replace(PODS, GUARDED),
    "merge patch with a version": lambda client: client.patch(PODS, "ml", "a", GUARDED),
    "merge patch with a uid": lambda client: client.patch(
        PODS, "ml", "a", {"metadata": {"uid": "u"}}
    ),
    "JSON patch that tests the version": lambda client: client.patch(
        PODS,
        "ml",
        "a",
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "7"}],
        how="json",
    ),
    "delete with a uid": lambda client: client.delete(PODS, "ml", "a", uid="u"),
    "delete with a version": lambda client: client.delete(PODS, "ml", "a", version="7"),
    "create as a dry run": lambda client: client.create(PODS, NAMED, dry_run=True),
}
ONCE = {
    "create by name": lambda client: client.create(PODS, NAMED),
    "create by generateName": lambda client: client.create(
        PODS, {"metadata": {"namespace": "ml", "generateName": "a-"}}
    ),
    "merge patch of anything": lambda client: client.patch(PODS, "ml", "a", {"spec": {}}),
    "JSON patch that tests something else": lambda client: client.patch(
        PODS, "ml", "a", [{"op": "test", "path": "/spec/x", "value": 1}], how="json"
    ),
    "PUT over anything": lambda client: client.replace(PODS, NAMED),
    "delete by name": lambda client: client.delete(PODS, "ml", "a"),
    "apply": lambda client: client.apply(PODS, NAMED),
    "a raw POST": lambda client: client.raw(Request("POST", "/apis")),
}
SINGLE = {
    "list_page": lambda client: client.list_page(PODS, Scope(), limit=500),
}


def calls(*tables):
    return [pytest.param(call, id=name) for table in tables for name, call in table.items()]


@pytest.mark.parametrize("call", calls(READS, SAFE_WRITES, ONCE))
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(lambda reply: UNREACHED, id="never reached the server"),
        pytest.param(lambda reply: reply(429, retry_after="1"), id="429 with Retry-After"),
        pytest.param(lambda reply: reply(429), id="429 without"),
        pytest.param(lambda reply: reply(503, retry_after="1"), id="503 with Retry-After"),
    ],
)
async def test_what_certainly_did_nothing_is_sent_again_whatever_it_is(
    scripted, reply, call, failure
):
    """runtime:H-11."""
    server = scripted(failure(reply))
    await call(server.client())
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(lambda reply: CUT, id="cut after it was sent"),
        pytest.param(lambda reply: reply(500), id="500"),
        pytest.param(lambda reply: reply(502), id="502"),
        pytest.param(lambda reply: reply(503), id="503 that promises nothing"),
        pytest.param(lambda reply: reply(504), id="504"),
    ],
)
class TestWhatMayHaveWorked:
    """runtime:H-11, pitfall 54."""

    @pytest.mark.parametrize("call", calls(READS, SAFE_WRITES))
    async def test_is_sent_again_where_twice_does_no_harm(self, scripted, reply, call, failure):
        server = scripted(failure(reply))
        await call(server.client())
        assert len(server.seen) == 2

    @pytest.mark.parametrize("call", calls(ONCE))
    async def test_is_never_sent_blindly_again(self, scripted, reply, call, failure):
        server = scripted(failure(reply))
        with pytest.raises((BusyError, TransportError)):
            await call(server.client())
        assert len(server.seen) == 1


@pytest.mark.parametrize("call", calls({"get": READS["get"]}, SAFE_WRITES, ONCE))
@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 409, 410, 415, 422])
async def test_a_plain_no_is_not_asked_again(scripted, reply, call, status):
    """runtime:H-11, runtime:H-4."""
    server = scripted(reply(status))
    with pytest.raises(ApiError) as caught:
        await call(server.client())
    assert caught.value.status == status
    assert len(server.seen) == 1


@pytest.mark.parametrize("failure", [UNREACHED, CUT])
@pytest.mark.parametrize("call", calls(SINGLE))
async def test_a_page_is_asked_for_once_because_its_reader_backs_off_itself(
    scripted, call, failure
):
    server = scripted(failure)
    with pytest.raises(TransportError):
        await call(server.client())
    assert len(server.seen) == 1


async def test_after_four_attempts_the_last_failure_is_the_answer(scripted, reply):
    """runtime:H-11."""
    server = scripted(UNREACHED, UNREACHED, UNREACHED, reply(503))
    with pytest.raises(BusyError):
        await server.client().get(PODS, "ml", "a")
    assert len(server.seen) == 4


async def test_all_attempts_together_last_no_longer_than_the_call(scripted, reply):
    """runtime:H-11."""
    server = scripted(*[reply(500)] * 9, takes_s=12.0)
    started = asyncio.get_running_loop().time()
    with pytest.raises(BusyError):
        await server.client(timeout_s=30.0).get(PODS, "ml", "a")
    limits = [request.timeout_s for request in server.seen]
    assert limits[0] == 30.0
    assert limits[1] < 18.0
    assert limits[2] < 6.0
    assert asyncio.get_running_loop().time() - started < 30.0 + 12.0


async def test_the_server_is_told_when_we_shall_give_up(scripted, reply):
    """runtime:H-6, pitfall 81."""
    server = scripted(reply(500), takes_s=10.0)
    await server.client().get(PODS, "ml", "a")
    first, second = server.seen
    assert first.query["timeout"] == "30s"
    left_ms = int(second.query["timeout"].removesuffix("ms"))
    assert left_ms == pytest.approx(second.timeout_s * 1000, abs=1)
    assert left_ms < 20_000


@pytest.mark.parametrize("asked_s", [1, 7])
async def test_the_pause_is_never_shorter_than_the_server_asked_for(scripted, reply, asked_s):
    server = scripted(reply(429, retry_after=str(asked_s)))
    await server.client().get(PODS, "ml", "a")
    waited_s = server.seen_at[1] - server.seen_at[0]
    assert asked_s <= waited_s <= 1.2 * asked_s


async def test_a_pause_asked_for_in_the_body_counts_as_well(scripted, reply):
    body = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 3}}
    server = scripted(reply(429, body))
    await server.client().get(PODS, "ml", "a")
    assert server.seen_at[1] - server.seen_at[0] >= 3


async def test_a_pause_that_outlasts_the_call_is_left_to_the_caller(scripted, reply):
    server = scripted(reply(429, retry_after="60"))
    with pytest.raises(BusyError) as caught:
        await server.client().get(PODS, "ml", "a")
    assert caught.value.retry_after_s == 60
    assert asyncio.get_running_loop().time() < 1


async def test_pauses_grow_and_differ_between_clients(scripted, reply):
    server = scripted(UNREACHED, UNREACHED, UNREACHED)
    await server.client().get(PODS, "ml", "a")
    gaps = [b - a for a, b in zip(server.seen_at, server.seen_at[1:], strict=False)]
    assert 0.1 <= gaps[0] <= 0.2 <= gaps[1] <= 0.4 <= gaps[2] <= 0.8


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            {"reason": "AlreadyExists", "message": 'pods "a" already exists'},
            ExistsError,
            id="the name is taken",
        ),
        pytest.param(
            {"reason": "Conflict", "message": "the object has been modified"},
            ConflictError,
            id="somebody wrote first",
        ),
        pytest.param(
            {"reason": "Conflict", "message": "Operation cannot be fulfilled on resourcequotas"},
            ConflictError,
            id="quota admission raced",
        ),
    ],
)
async def test_409_has_more_than_one_meaning(scripted, reply, body, want):
    """runtime:W-17, pitfall 53."""
    server = scripted(reply(409, {"kind": "Status", "code": 409, **body}))
    with pytest.raises(ApiError) as caught:
        await server.client().create(PODS, NAMED)
    assert type(caught.value) is want


class Gate:
    """Open for so many seconds; closed when that is None."""

    def __init__(self, *seconds):
        self.seconds = list(seconds)

    def check(self):
        left = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        if left is None:
            raise NotLeaderError("not the leader")
        return left


@pytest.mark.parametrize("call", calls(SAFE_WRITES, ONCE))
async def test_a_closed_gate_stops_every_write_before_it_starts(scripted, call):
    server = scripted()
    with pytest.raises(NotLeaderError):
        await call(server.client(gate=Gate(None)))
    assert server.seen == []


@pytest.mark.parametrize("call", calls(READS, SINGLE))
async def test_a_closed_gate_stops_no_read(scripted, call):
    server = scripted()
    await call(server.client(gate=Gate(None)))
    assert len(server.seen) == 1


async def test_a_write_ends_with_the_lease_at_the_latest(scripted):
    server = scripted()
    await server.client(gate=Gate(4.5)).create(PODS, NAMED)
    assert server.seen[0].timeout_s == 4.5
    assert server.seen[0].query["timeout"] == "4500ms"


async def test_the_gate_is_asked_again_before_a_second_try(scripted):
    server = scripted(UNREACHED)
    with pytest.raises(NotLeaderError):
        await server.client(gate=Gate(10.0, None)).create(PODS, NAMED)
    assert len(server.seen) == 1


async def test_a_sibling_keeps_the_gate_unless_it_gets_its_own(scripted):
    server = scripted()
    client = server.client(gate=Gate(None))
    with pytest.raises(NotLeaderError):
        await client.sibling("other").create(PODS, NAMED)
    await client.sibling("other", gate=Gate(30.0)).create(PODS, NAMED)
    assert len(server.seen) == 1


async def test_a_sibling_waits_for_as_long_as_the_first_of_the_family(scripted, reply):
    """runtime:H-6."""
    server = scripted(reply(200), reply(200, {"items": []}))
    sibling = server.client(timeout_s=7.0, list_timeout_s=90.0).sibling("other")
    await sibling.get(PODS, "ml", "a")
    await sibling.list_page(PODS, Scope(), limit=500)
    assert [(seen.timeout_s, seen.query["timeout"]) for seen in server.seen] == [
        (7.0, "7s"),
        (90.0, "90s"),
    ]
