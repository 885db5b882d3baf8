# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Watches: order, resumption, selectors, initial state, bookmarks, ends."""

import pytest

from ascendop.kube.errors import RejectedError
from ascendop.kube.resource import CONFIGMAPS, CRDS, PODS, Resource, Scope

from . import make  # noqa: TID252  the standard library has a package called test
from .conftest import crd, ensure_served  # noqa: TID252

END_MARK = "k8s.io/initial-events-end"


@pytest.fixture
def scope(space):
    return Scope(space, labels="watched")


def watched(space, name="c", **options):
    return make.config(space, name, labels={"watched": "yes"}, **options)


async def now(api, space):
    """A version to begin at."""
    import orjson  # noqa: PLC0415

    page = orjson.loads(await api.list_page(CONFIGMAPS, Scope(space), limit=0))
    return page["metadata"]["resourceVersion"]


async def test_changes_come_in_the_order_they_happened(api, space, scope, watching):
    """runtime:I-13"""
    async with watching(CONFIGMAPS, scope, version=await now(api, space)) as events:
        await api.create(CONFIGMAPS, watched(space))
        await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
        await api.delete(CONFIGMAPS, space, "c")
        want = [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]
        assert await events.named(3) == want


async def test_versions_of_events_only_grow_also_at_the_end(api, space, scope, watching):
    """runtime:I-14"""
    async with watching(CONFIGMAPS, scope, version=await now(api, space)) as events:
        await api.create(CONFIGMAPS, watched(space))
        await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
        await api.delete(CONFIGMAPS, space, "c")
        seen = [int((await events.next())[1]["metadata"]["resourceVersion"]) for _ in range(3)]
    assert seen == sorted(set(seen))


async def test_a_deleted_object_is_shown_in_its_last_state(api, space, scope, watching):
    """runtime:I-13"""
    await api.create(CONFIGMAPS, watched(space, data={"a": "last"}))
    async with watching(CONFIGMAPS, scope, version=await now(api, space)) as events:
        await api.delete(CONFIGMAPS, space, "c")
        assert (await events.next())[1]["data"] == {"a": "last"}


async def test_a_watch_resumes_behind_a_version_without_gap_or_repetition(
    api, space, scope, watching
):
    """runtime:I-14"""
    await api.create(CONFIGMAPS, watched(space, "before"))
    version = await now(api, space)
    await api.create(CONFIGMAPS, watched(space, "between"))
    async with watching(CONFIGMAPS, scope, version=version) as events:
        await api.create(CONFIGMAPS, watched(space, "after"))
        assert await events.named(2) == [("ADDED", "between"), ("ADDED", "after")]


async def test_a_watch_without_a_version_begins_with_what_is_there(api, space, scope, watching):
    await api.create(CONFIGMAPS, watched(space))
    async with watching(CONFIGMAPS, scope) as events:
        assert await events.named(1) == [("ADDED", "c")]


async def test_a_version_that_is_too_old_is_410_inside_the_stream(api, space, widgets, watching):
    """runtime:I-13"""
    await api.create(widgets, make.widget(space))
    async with watching(widgets, Scope(space), version="1") as events:
        kind, status = await events.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


async def test_the_initial_state_ends_with_a_mark(api, space, scope, watching):
    """runtime:I-4"""
    for name in ("a", "b"):
        await api.create(CONFIGMAPS, watched(space, name))
    async with watching(CONFIGMAPS, scope, initial=True) as events:
        assert sorted(await events.named(2)) == [("ADDED", "a"), ("ADDED", "b")]
        kind, mark = await events.next(bookmarks=True)
    assert (kind, mark["metadata"]["annotations"]) == ("BOOKMARK", {END_MARK: "true"})
    assert int(mark["metadata"]["resourceVersion"]) >= int(await now(api, space)) - 100


async def test_behind_the_mark_the_same_stream_goes_on_as_a_watch(api, space, scope, watching):
    """runtime:I-5"""
    async with watching(CONFIGMAPS, scope, initial=True) as events:
        assert (await events.next(bookmarks=True))[0] == "BOOKMARK"
        await api.create(CONFIGMAPS, watched(space))
        assert await events.named(1) == [("ADDED", "c")]


async def test_the_mark_says_a_version_to_resume_at(api, space, scope, watching):
    """runtime:I-4"""
    await api.create(CONFIGMAPS, watched(space, "before"))
    async with watching(CONFIGMAPS, scope, initial=True) as events:
        await events.next()
        mark = (await events.next(bookmarks=True))[1]
    await api.create(CONFIGMAPS, watched(space, "after"))
    version = mark["metadata"]["resourceVersion"]
    async with watching(CONFIGMAPS, scope, version=version) as events:
        assert await events.named(1) == [("ADDED", "after")]


async def test_the_initial_state_without_its_match_is_422(ask, space):
    """runtime:I-6"""
    query = {"watch": "1", "sendInitialEvents": "true", "timeoutSeconds": "1"}
    with pytest.raises(RejectedError) as caught:
        await ask(CONFIGMAPS.path(space), query=query)
    assert caught.value.status == 422


async def test_a_watch_ends_by_itself_when_its_time_is_up(api, space, scope, watching):
    """runtime:I-12"""
    version = await now(api, space)
    async with watching(CONFIGMAPS, scope, version=version, timeout_s=2) as events:
        assert await events.ended()


async def test_who_enters_a_selector_is_added_and_who_leaves_it_is_deleted(api, space, watching):
    """runtime:I-23"""
    await api.create(CONFIGMAPS, make.config(space, labels={"phase": "one"}))

    async def label(value):
        await api.patch(CONFIGMAPS, space, "c", {"metadata": {"labels": {"phase": value}}})

    version = await now(api, space)
    async with watching(CONFIGMAPS, Scope(space, labels="phase=two"), version=version) as events:
        await label("two")
        await label("three")
        await label("two")
        want = [("ADDED", "c"), ("DELETED", "c"), ("ADDED", "c")]
        assert await events.named(3) == want


async def test_who_leaves_a_selector_is_shown_as_it_was_inside(api, space, watching):
    """runtime:I-23"""
    await api.create(CONFIGMAPS, make.config(space, labels={"phase": "one"}))
    scope, version = Scope(space, labels="phase=one"), await now(api, space)
    async with watching(CONFIGMAPS, scope, version=version) as events:
        left = await api.patch(CONFIGMAPS, space, "c", {"metadata": {"labels": {"phase": "two"}}})
        kind, shown = await events.next()
    assert (kind, shown["metadata"]["labels"]) == ("DELETED", {"phase": "one"})
    assert shown["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_a_watch_by_field_sees_pods_reach_their_node(api, space, ask, watching):
    await api.create(PODS, make.pod(space))
    scope = Scope(space, fields="spec.nodeName=n")
    async with watching(PODS, scope, version=await now(api, space)) as events:
        target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        await ask(PODS.path(space, "p", "binding"), method="POST", body=target)
        assert await events.named(1) == [("ADDED", "p")]


async def test_a_watch_of_one_name_sees_that_one_only(api, space, watching):
    scope, version = Scope(space, fields="metadata.name=b"), await now(api, space)
    async with watching(CONFIGMAPS, scope, version=version) as events:
        for name in ("a", "b"):
            await api.create(CONFIGMAPS, watched(space, name))
        assert await events.named(1) == [("ADDED", "b")]


async def test_a_watch_of_a_namespace_sees_no_other(api, space, watching):
    version = await now(api, space)
    async with watching(CONFIGMAPS, Scope(space, labels="watched"), version=version) as events:
        await api.create(CONFIGMAPS, watched("default", f"{space}-elsewhere"))
        await api.create(CONFIGMAPS, watched(space))
        assert await events.named(1) == [("ADDED", "c")]
    await api.delete(CONFIGMAPS, "default", f"{space}-elsewhere")


async def test_metadata_alone_can_be_watched(api, space, watching):
    """runtime:I-33"""
    scope = Scope(space, labels="watched", metadata_only=True)
    async with watching(CONFIGMAPS, scope, version=await now(api, space)) as events:
        await api.create(CONFIGMAPS, watched(space, data={"a": "1"}))
        _, shown = await events.next()
    assert shown["kind"] == "PartialObjectMetadata"
    assert "data" not in shown


async def test_a_write_that_changes_nothing_is_no_event(api, space, scope, watching):
    await api.create(CONFIGMAPS, watched(space, data={"a": "1"}))
    async with watching(CONFIGMAPS, scope, version=await now(api, space)) as events:
        await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
        await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "2"}})
        assert (await events.next())[1]["data"] == {"a": "2"}


async def test_a_watch_ends_when_its_kind_goes(api, space, watching, eventually):
    """runtime:I-38"""
    gadgets = Resource("contract.example.com", "v1", "gadgets", "Gadget")
    await ensure_served(api, crd(gadgets))
    await api.create(gadgets, {**make.widget(space), "kind": "Gadget"})
    async with watching(gadgets, Scope(space)) as events:
        assert await events.named(1) == [("ADDED", "w")]
        await api.delete(CRDS, None, gadgets.name)
        assert await events.named(1) == [("DELETED", "w")]
        assert await events.ended()
