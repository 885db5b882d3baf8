# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Bytes into rows: small, shared, acyclic, and one odd object hides no other."""

import gc
import json

import msgspec
import pytest

from ascendop.informer.metadata import Meta, MetaObject, MetaRow
from ascendop.informer.pool import Pool
from ascendop.informer.represent import (
    StructForm,
    UndecodableError,
    form_of_metadata,
)
from ascendop.kube.errors import GoneError

OBJECT = {
    "kind": "ConfigMap",
    "metadata": {
        "namespace": "ml",
        "name": "table",
        "uid": "u1",
        "resourceVersion": "7",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"job": "a", "role": "w"},
        "annotations": {"hash": "abc", "noise": "x" * 1000},
        "ownerReferences": [
            {"kind": "Other", "name": "o", "uid": "uo"},
            {"kind": "AscendJob", "name": "a", "uid": "ua", "controller": True},
        ],
        "finalizers": ["f/one"],
        "managedFields": [{"manager": "x"}],
    },
    "data": {"big": "y" * 1000},
}


def line(kind, obj, order=("type", "object")):
    parts = {"type": kind, "object": obj}
    return json.dumps({name: parts[name] for name in order}).encode()


def test_metadata_keeps_what_reconcilers_need_and_nothing_else():
    """runtime:I-33 runtime:I-34"""
    form = form_of_metadata(annotations=("hash",))
    row = form.decode_event(line("ADDED", OBJECT)).row
    assert row == MetaRow(
        namespace="ml",
        name="table",
        uid="u1",
        version="7",
        generation=3,
        created="2026-01-01T00:00:00Z",
        deleting=True,
        owner_kind="AscendJob",
        owner_name="a",
        owner_uid="ua",
        labels=(("job", "a"), ("role", "w")),
        annotations=(("hash", "abc"),),
        finalizers=("f/one",),
    )
    assert row.label("role") == "w"
    assert row.annotation("noise") == ""


def test_a_type_is_found_wherever_it_stands_in_the_line():
    """runtime:I-13"""
    form = form_of_metadata()
    for order in (("type", "object"), ("object", "type")):
        event = form.decode_event(line("DELETED", OBJECT, order))
        assert (event.type, event.row.name, event.version) == ("DELETED", "table", "7")


@pytest.mark.parametrize(
    "status",
    [
        {"code": 410, "reason": "Expired", "message": "too old"},
        {"reason": "Expired", "message": "too old"},
    ],
    ids=["with a code", "without a code"],
)
def test_an_error_in_a_stream_is_the_error_it_would_be_as_an_answer_1(status):
    """runtime:I-13"""
    event = form_of_metadata().decode_event(line("ERROR", {"kind": "Status"} | status))
    assert isinstance(event.error, GoneError)


def test_a_bookmark_has_a_version_and_may_end_the_initial_events():
    """runtime:I-4 runtime:I-13"""
    form = form_of_metadata()
    meta = {"resourceVersion": "9"}
    assert form.decode_event(line("BOOKMARK", {"metadata": meta})).version == "9"
    end = meta | {"annotations": {"k8s.io/initial-events-end": "true"}}
    assert form.decode_event(line("BOOKMARK", {"metadata": end})).ends_initial
    assert not form.decode_event(line("BOOKMARK", {"metadata": meta})).ends_initial


class Wire(MetaObject):
    count: int


class Row(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    version: str
    count: int


def make_row(wire, pool):
    if wire.count == 13:
        raise ValueError("unlucky")
    return bare(wire.metadata, pool, wire.count)


def bare(meta: Meta, pool, count=-1):
    return Row(pool(meta.namespace), meta.name, meta.uid, meta.resource_version, count)


def counted(name, count):
    meta = {"namespace": "ml", "name": name, "resourceVersion": "5"}
    return {"metadata": meta, "count": count}


@pytest.fixture
def troubles():
    return []


@pytest.fixture
def form(troubles):
    return StructForm(
        Wire, make_row, bare, troubled=lambda ns, name, error: troubles.append((ns, name))
    )


def test_an_object_of_the_wrong_shape_hides_no_other_object_of_its_page(form, troubles):
    """runtime:I-34"""
    items = [counted("a", 1), counted("b", "no number"), counted("c", 13), counted("d", 4)]
    body = json.dumps({"metadata": {"resourceVersion": "8"}, "items": items}).encode()
    page = form.decode_list(body)
    assert [(row.name, row.count) for row in page.rows] == [
        ("a", 1),
        ("b", -1),
        ("c", -1),
        ("d", 4),
    ]
    assert page.version == "8"
    assert troubles == [("ml", "b"), ("ml", "c")]


def test_a_transform_that_fails_leaves_the_bare_row(form, troubles):
    """runtime:I-34"""
    event = form.decode_event(line("MODIFIED", counted("c", 13)))
    assert event.row.count == -1
    assert troubles == [("ml", "c")]


def test_an_event_of_the_wrong_shape_is_an_error_first_and_a_bare_row_if_need_be(form):
    odd = line("MODIFIED", counted("b", "no number"))
    with pytest.raises(UndecodableError):
        form.decode_event(odd)
    assert form.decode_event(odd, lenient=True).row.count == -1


@pytest.mark.parametrize("raw", [b"{", b"not json", b'{"type":"ADDED","object":{"metadata":'])
def test_what_is_no_json_is_an_error_even_if_need_be(form, raw):
    with pytest.raises(UndecodableError):
        form.decode_event(raw, lenient=True)
    with pytest.raises(UndecodableError):
        form.decode_list(raw)


@pytest.mark.parametrize("items", [None, []])
def test_an_empty_list_may_be_null(form, items):
    body = json.dumps({"metadata": {"continue": "t"}, "items": items}).encode()
    page = form.decode_list(body)
    assert (page.rows, page.continue_token) == ([], "t")


def test_equal_strings_of_rows_are_one_string():
    """runtime:I-35"""
    form = form_of_metadata()
    one, two = (form.decode_event(line("ADDED", OBJECT)).row for _ in range(2))
    assert one.namespace is two.namespace
    assert one.owner_uid is two.owner_uid
    assert one.labels[0][1] is two.labels[0][1]


async def test_the_pool_forgets_the_strings_of_rows_that_are_gone():
    """runtime:I-35"""
    pool = Pool()
    for n in range(10_000):
        pool(f"uid-{n}")
    live = [Row(pool("ml"), "a", pool("uid-7"), "1", 0)]
    assert pool.outgrown(len(live))
    await pool.tidy(live)
    assert len(pool) == 2
    assert pool("uid-7") is live[0].uid
    assert not pool.outgrown(len(live))


def test_the_collector_visits_none_of_many_rows():
    """runtime:P-14 runtime:I-32"""
    form = form_of_metadata(annotations=("hash",))
    raw = line("ADDED", OBJECT)
    gc.collect()
    before = len(gc.get_objects())
    rows = [form.decode_event(raw).row for _ in range(5_000)]
    gc.collect()  # tuples of strings leave its sight the first time, tuples of those the second
    gc.collect()
    assert not any(gc.is_tracked(row) for row in rows)
    assert len(gc.get_objects()) - before < 100


def test_a_row_cannot_be_changed_27():
    """ascendjob:W-25 runtime:I-32"""
    row = form_of_metadata().decode_event(line("ADDED", OBJECT)).row
    with pytest.raises(AttributeError):
        row.name = "other"
