# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The verbs: what each one asks of the server, and what comes back."""

import asyncio
import logging
import subprocess
import sys

import orjson
import pytest

from ascendop.kube.agent import user_agent
from ascendop.kube.call import Traffic
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    BusyError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    RejectedError,
    TransportError,
    error_of,
)
from ascendop.kube.resource import CRDS, NODES, POD_GROUPS, PODS, Scope
from ascendop.kube.transport import Request

POD = {"metadata": {"namespace": "ml", "name": "a", "uid": "u"}, "spec": {}}
META = "application/json;as={};g=meta.k8s.io;v=v1,application/json"


def body_of(request):
    return orjson.loads(request.body)


async def test_get_returns_the_object(scripted, reply):
    server = scripted(reply(200, POD))
    assert await server.client().get(PODS, "ml", "a", subresource="status") == POD
    (sent,) = server.seen
    assert (sent.method, sent.path) == ("GET", "/api/v1/namespaces/ml/pods/a/status")
    assert sent.query == {"timeout": "30s"}


async def test_create_goes_to_the_collection(scripted, reply):
    """runtime:H-18."""
    server = scripted(reply(201, POD), reply(201, POD))
    client = server.client()
    assert await client.create(PODS, POD, validation="Strict") == POD
    assert await client.create_bytes(PODS, POD, dry_run=True) == orjson.dumps(POD)
    real, dry = server.seen
    assert (real.method, real.path) == ("POST", "/api/v1/namespaces/ml/pods")
    assert real.query == {"fieldValidation": "Strict", "timeout": "30s"}
    assert real.headers["Content-Type"] == "application/json"
    assert body_of(real) == POD
    assert dry.query["dryRun"] == "All"


async def test_a_cluster_scoped_object_has_no_namespace_in_its_path(scripted):
    server = scripted()
    await server.client().create(CRDS, {"metadata": {"name": "x"}})
    assert server.seen[0].path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_replace_goes_to_the_object(scripted):
    server = scripted()
    await server.client().replace(POD_GROUPS, POD, subresource="status", validation="Warn")
    (sent,) = server.seen
    assert sent.method == "PUT"
    assert sent.path == "/apis/scheduling.volcano.sh/v1beta1/namespaces/ml/podgroups/a/status"
    assert sent.query["fieldValidation"] == "Warn"


@pytest.mark.parametrize(
    ("how", "body", "content_type"),
    [
        ("merge", {"spec": {"x": None}}, "application/merge-patch+json"),
        ("json", [{"op": "remove", "path": "/x"}], "application/json-patch+json"),
    ],
)
async def test_patch_says_which_kind_of_patch_it_is(scripted, how, body, content_type):
    server = scripted()
    await server.client().patch(PODS, "ml", "a", body, how=how, subresource="status")
    (sent,) = server.seen
    assert (sent.method, sent.path) == ("PATCH", "/api/v1/namespaces/ml/pods/a/status")
    assert sent.headers["Content-Type"] == content_type
    assert body_of(sent) == body


@pytest.mark.parametrize(
    ("how", "details", "want"),
    [
        pytest.param("json", None, ConflictError, id="the patch does not fit what is there"),
        pytest.param(
            "json", {"causes": [{"field": "spec"}]}, RejectedError, id="the result is wrong"
        ),
        pytest.param("merge", None, RejectedError, id="a merge patch always fits"),
    ],
)
async def test_a_patch_that_does_not_fit_means_that_somebody_wrote_first(
    scripted, reply, how, details, want
):
    """runtime:W-15. The server answers 422 to both, as tried with kube-apiserver 1.34."""
    status = {"reason": "Invalid", "message": "the server rejected", "details": details}
    server = scripted(reply(422, status, audit_id="a1"))
    with pytest.raises(ApiError, match="the server rejected") as caught:
        await server.client().patch(PODS, "ml", "a", [], how=how)
    assert type(caught.value) is want
    assert caught.value.audit_id == "a1"


async def test_apply_names_its_manager(scripted):
    server = scripted()
    client = server.client()
    await client.apply(PODS, POD)
    await client.apply(PODS, POD, manager="me", force=False)
    ours, mine = server.seen
    assert ours.headers["Content-Type"] == "application/apply-patch+yaml"
    assert ours.query == {"fieldManager": "ascendop", "force": "true", "timeout": "30s"}
    assert (mine.query["fieldManager"], mine.query["force"]) == ("me", "false")


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, {"propagationPolicy": "Background"}),
        ({"uid": "u"}, {"propagationPolicy": "Background", "preconditions": {"uid": "u"}}),
        (
            {"uid": "u", "version": "7", "grace_s": 0, "propagation": None},
            {"preconditions": {"uid": "u", "resourceVersion": "7"}, "gracePeriodSeconds": 0},
        ),
        ({"propagation": "Foreground"}, {"propagationPolicy": "Foreground"}),
    ],
)
async def test_delete_says_what_exactly_and_how(scripted, options, want):
    """runtime:W-13, runtime:W-14, pitfall 66."""
    server = scripted()
    await server.client().delete(PODS, "ml", "a", **options)
    assert body_of(server.seen[0]) == {"apiVersion": "v1", "kind": "DeleteOptions", **want}


async def test_delete_tells_an_object_that_is_ending_from_one_that_is_gone(scripted, reply):
    ending = {"kind": "Pod", "metadata": {"deletionTimestamp": "now"}}
    server = scripted(reply(200, ending), reply(200, {"kind": "Status", "status": "Success"}))
    client = server.client()
    assert await client.delete(PODS, "ml", "a") == ending
    assert await client.delete(PODS, "ml", "a") is None


async def test_a_list_is_all_of_its_pages(scripted, reply):
    """Pitfalls 5 and 6."""
    server = scripted(
        reply(200, {"metadata": {"continue": "t1"}, "items": [{"metadata": {"name": "a"}}]}),
        reply(200, {"metadata": {"continue": "t2"}, "items": None}),
        reply(200, {"metadata": {}, "items": [{"kind": "Kept", "metadata": {"name": "b"}}]}),
    )
    found = await server.client().list(PODS, Scope(namespace="ml", labels="a=b"))
    assert [(item["kind"], item["metadata"]["name"]) for item in found] == [
        ("Pod", "a"),
        ("Kept", "b"),
    ]
    assert {request.path for request in server.seen} == {"/api/v1/namespaces/ml/pods"}
    assert [request.query.get("continue") for request in server.seen] == [None, "t1", "t2"]
    for request in server.seen:
        assert request.query["limit"] == "500"
        assert request.query["labelSelector"] == "a=b"
        assert "resourceVersion" not in request.query
        assert (request.timeout_s, request.query["timeout"]) == (60.0, "60s")


async def test_a_snapshot_that_expires_is_begun_anew_and_nothing_of_it_is_kept(scripted, reply):
    """runtime:I-9, pitfall 7: twice, then all at once."""
    page = reply(200, {"metadata": {"continue": "t"}, "items": [{"metadata": {"name": "old"}}]})
    whole = reply(200, {"metadata": {}, "items": [{"metadata": {"name": "new"}}]})
    server = scripted(page, reply(410), page, reply(410), page, reply(410), whole)
    found = await server.client().list(PODS)
    assert [item["metadata"]["name"] for item in found] == ["new"]
    assert "limit" not in server.seen[-1].query


async def test_a_list_that_keeps_expiring_is_an_error(scripted, reply):
    server = scripted(*[reply(410)] * 4)
    with pytest.raises(GoneError):
        await server.client().list(PODS)
    assert len(server.seen) == 4


async def test_a_page_is_asked_for_as_the_reflector_wants_it(scripted, reply):
    """runtime:I-8, pitfall 6: no version beside a continue token."""
    server = scripted(reply(200, {"items": []}))
    client = server.client()
    assert await client.list_page(NODES, Scope(), limit=0, version="0") == b'{"items":[]}'
    await client.list_page(
        NODES,
        Scope(fields="x=y", metadata_only=True),
        limit=500,
        continue_token="t",
        version="7",
        match="Exact",
    )
    await client.list_page(NODES, Scope(), limit=500, version="7", match="Exact")
    first, second, third = (dict(request.query) for request in server.seen)
    assert first == {"resourceVersion": "0", "timeout": "60s"}
    assert second == {"fieldSelector": "x=y", "limit": "500", "continue": "t", "timeout": "60s"}
    assert (third["resourceVersion"], third["resourceVersionMatch"]) == ("7", "Exact")
    assert server.seen[1].headers["Accept"] == META.format("PartialObjectMetadataList")


async def test_a_watch_resumes_or_begins_with_what_is_there(scripted, reply):
    server = scripted(reply(200, b"{}\n"), reply(200, b"{}\n"))
    client = server.client()
    scope = Scope(namespace="ml", labels="a", metadata_only=True)
    async with client.watch(PODS, scope, version="7", initial=False, timeout_s=300) as stream:
        assert [chunk async for chunk in stream.chunks()] == [b"{}\n"]
    async with client.watch(PODS, Scope(), version="", initial=True, timeout_s=301):
        pass
    resumed, fresh = server.seen
    assert resumed.query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
        "labelSelector": "a",
        "resourceVersion": "7",
    }
    assert resumed.headers["Accept"] == META.format("PartialObjectMetadata")
    assert resumed.pool == "watch"
    assert fresh.query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "301",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


async def test_a_watch_that_its_server_does_not_end_in_time_is_ended(scripted, reply):
    """runtime:I-12, runtime:H-6."""
    silent = reply(200)
    object.__setattr__(silent, "body", None)
    server = scripted(silent)
    with pytest.raises(TransportError, match="never ended it"):
        await read_all(server.client())
    assert asyncio.get_running_loop().time() == pytest.approx(330)


async def read_all(client):
    async with client.watch(PODS, Scope(), version="7", initial=False, timeout_s=300) as stream:
        return [chunk async for chunk in stream.chunks()]


async def test_a_time_out_of_the_reader_stays_the_readers(scripted, reply):
    server = scripted(reply(200, b"x"))
    with pytest.raises(TimeoutError):
        async with server.client().watch(PODS, Scope(), version="7", initial=False, timeout_s=300):
            raise TimeoutError


async def test_a_stream_of_ones_own_raises_on_entry(scripted, reply):
    server = scripted(reply(404))
    log = Request("GET", "/api/v1/namespaces/ml/pods/a/log", {"follow": "true"})
    with pytest.raises(NotFoundError):
        async with server.client().stream(log):
            pass
    assert server.seen[0].headers["User-Agent"] == user_agent()


async def test_a_raw_request_keeps_its_own_headers(scripted):
    server = scripted()
    await server.client().raw(Request("GET", "/version", headers={"User-Agent": "me"}))
    assert server.seen[0].headers["User-Agent"] == "me"


async def test_a_running_span_goes_along(scripted):
    """runtime:H-20."""
    server = scripted()
    spans = ["00-trace-span-01", ""]
    client = server.client(traceparent=lambda: spans.pop(0))
    await client.get(PODS, "ml", "a")
    await client.get(PODS, "ml", "a")
    assert server.seen[0].headers["traceparent"] == "00-trace-span-01"
    assert "traceparent" not in server.seen[1].headers


class NoDice:
    """Any use of it fails."""

    def __getattr__(self, name):
        raise AssertionError("policy began without a failure")


async def test_a_call_without_a_failure_meets_no_policy(scripted):
    """runtime:H-12: retrying costs nothing until there is something to retry."""
    server = scripted()
    client = Client(server, rng=NoDice())
    await client.create(PODS, POD)
    await client.get(PODS, "ml", "a")
    assert asyncio.get_running_loop().time() == 0


@pytest.mark.real_time
def test_the_library_for_rare_retries_is_not_on_the_way_of_every_request():
    """runtime:H-12: it costs a quarter of a create without any failure."""
    check = "import sys, ascendop.kube.client; sys.exit('tenacity' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


async def test_json_is_all_that_is_spoken(scripted):
    """runtime:H-16."""
    server = scripted()
    client = server.client()
    await client.get(PODS, "ml", "a")
    await client.list(PODS, Scope(metadata_only=True))
    await client.create(PODS, POD)
    await client.replace(PODS, POD)
    await client.patch(PODS, "ml", "a", {})
    await client.delete(PODS, "ml", "a")
    for request in server.seen:
        assert request.headers["Accept"].startswith("application/json")
        if request.body is not None:
            assert request.headers["Content-Type"].endswith("json")
            orjson.loads(request.body)


async def test_what_is_not_needed_is_not_decoded(scripted, reply):
    """runtime:H-17: the hot path decodes into its own structs."""
    server = scripted(*[reply(200, b"not even JSON")] * 6)
    client = server.client()
    for call in (
        client.get_bytes(PODS, "ml", "a"),
        client.create_bytes(PODS, POD),
        client.replace_bytes(PODS, POD),
        client.patch_bytes(PODS, "ml", "a", {}),
        client.apply_bytes(PODS, POD),
        client.delete_bytes(PODS, "ml", "a"),
    ):
        assert await call == b"not even JSON"


def test_we_say_who_we_are_down_to_the_part():
    """runtime:H-19."""
    said = user_agent("mpijob", commit="abc123")
    assert said.startswith("ascendop/")
    assert said.endswith(" abc123 mpijob")
    assert "python/3." in said


class Counted:
    def __init__(self):
        self.lines = []

    def observed(self, verb, host, code, seconds):
        self.lines.append((verb, host, code, seconds))

    def retried(self, verb, host, code):
        self.lines.append(("again", verb, host, code))

    def throttled(self, verb, host, seconds):
        self.lines.append(("held", verb, host, seconds))


async def test_every_attempt_is_counted(scripted, reply):
    counted = Counted()
    silent = TransportError("refused", sent=False)
    server = scripted(reply(503), silent, takes_s=0.5)
    client = server.client(observer=counted, host="api:6443")
    await client.get(PODS, "ml", "a")
    with_stream = Request("GET", "/api")
    async with client.stream(with_stream):
        pass
    assert counted.lines == [
        ("GET", "api:6443", "503", 0.5),
        ("again", "GET", "api:6443", "503"),
        ("GET", "api:6443", "<error>", pytest.approx(0.5)),
        ("again", "GET", "api:6443", "<error>"),
        ("GET", "api:6443", "200", pytest.approx(0.5)),
        ("GET", "api:6443", "200", pytest.approx(0.5)),
    ]


async def test_waiting_of_our_own_making_is_counted(scripted, reply):
    """runtime:H-13."""
    counted = Counted()
    server = scripted(reply(429, retry_after="2"))
    traffic = Traffic(server, observer=counted)
    client = server.client(traffic=traffic)
    with pytest.raises(BusyError):
        await client.sibling("x", attempts=1).create(PODS, POD)
    await client.create(PODS, POD)
    assert ("held", "POST", "", 2.0) in counted.lines


async def test_a_warning_of_the_server_is_said_once(scripted, reply, caplog):
    """runtime:H-18."""
    first = reply(201, warning='299 - "unknown field \\"spec.foo\\""')
    both = reply(201, warning='299 - "unknown field \\"spec.foo\\"", 299 - "v1beta1 is old"')
    server = scripted(first, both, both)
    client = server.client()
    with caplog.at_level(logging.WARNING, logger="ascendop.kube"):
        for _ in range(3):
            await client.create(PODS, POD)
    assert [record.keys["text"] for record in caplog.records] == [
        'unknown field \\"spec.foo\\"',
        "v1beta1 is old",
    ]


@pytest.mark.parametrize(
    ("status", "want"),
    [
        (400, "RejectedError"),
        (401, "ForbiddenError"),
        (403, "ForbiddenError"),
        (404, "NotFoundError"),
        (405, "RejectedError"),
        (409, "ConflictError"),
        (410, "GoneError"),
        (418, "RejectedError"),
        (422, "RejectedError"),
        (429, "BusyError"),
        (500, "BusyError"),
        (507, "BusyError"),
    ],
)
def test_each_status_is_the_class_that_a_caller_reacts_to(status, want):
    assert type(error_of(status, b"{}")).__name__ == want


async def test_an_error_says_which_request_and_in_whose_words(scripted, reply):
    status = {
        "message": "pods is forbidden",
        "reason": "Forbidden",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]},
    }
    server = scripted(reply(403, status, audit_id="a1"))
    with pytest.raises(ForbiddenError, match=r"^POST /api.*/pods: pods is forbidden \(403") as got:
        await server.client().create(PODS, POD)
    assert got.value.caused_by("NamespaceTerminating")
    assert got.value.audit_id == "a1"


async def test_a_retry_after_that_is_a_date_counts_as_a_second(scripted, reply):
    server = scripted(reply(503, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"))
    with pytest.raises(ApiError) as caught:
        await server.client(attempts=1).get(PODS, "ml", "a")
    assert caught.value.retry_after_s == 1.0


async def test_closing_one_client_closes_the_wire_of_all(scripted):
    server = scripted()
    await server.client().sibling("other").aclose()
    assert server.script is None
