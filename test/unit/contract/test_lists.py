# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Lists: pages of one snapshot, selectors, versions, representations."""

import base64

import orjson
import pytest

from ascendop.kube.errors import BusyError, RejectedError
from ascendop.kube.resource import CONFIGMAPS, PODS, Scope

from . import make  # noqa: TID252  the standard library has a package called test

NAMES = [f"c{index}" for index in range(5)]


@pytest.fixture
async def five(api, space):
    """Five config maps with a label that says which."""
    for index, name in enumerate(NAMES):
        labels = {"index": str(index), "half": "low" if index < 2 else "high"}
        await api.create(CONFIGMAPS, make.config(space, name, labels=labels))
    return Scope(space, fields="metadata.name!=kube-root-ca.crt")


def names(page):
    return [item["metadata"]["name"] for item in page["items"]]


async def page_of(api, scope, limit=0, token="", **options):
    body = await api.list_page(CONFIGMAPS, scope, limit=limit, continue_token=token, **options)
    return orjson.loads(body)


async def test_pages_follow_the_order_of_names(api, five):
    """runtime:I-8"""
    seen, token = [], ""
    while True:
        page = await page_of(api, five, 2, token)
        seen.append(names(page))
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [["c0", "c1"], ["c2", "c3"], ["c4"]]


async def test_all_pages_show_the_snapshot_of_the_first(api, space, five):
    """runtime:I-8"""
    first = await page_of(api, five, 2)
    await api.create(CONFIGMAPS, make.config(space, "c2b"))
    await api.delete(CONFIGMAPS, space, "c3")
    await api.patch(CONFIGMAPS, space, "c4", {"data": {"new": "yes"}})
    second = await page_of(api, five, 9, first["metadata"]["continue"])
    assert names(second) == ["c2", "c3", "c4"]
    assert "data" not in second["items"][2]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_page_without_selectors_says_how_many_are_left(ask, api, space):
    for name in NAMES:
        await api.create(PODS, make.pod(space, name))
    page = await ask(PODS.path(space), query={"limit": "2"})
    assert page["metadata"]["remainingItemCount"] == 3


async def test_a_version_beside_a_continue_token_is_400(ask, api, five, space):
    token = (await page_of(api, five, 2))["metadata"]["continue"]
    query = {"continue": token, "resourceVersion": "5", "limit": "2"}
    with pytest.raises(RejectedError) as caught:
        await ask(CONFIGMAPS.path(space), query=query)
    assert caught.value.status == 400


async def test_a_token_that_is_none_is_400(ask, space):
    token = base64.b64encode(b"nonsense").decode()
    with pytest.raises(RejectedError) as caught:
        await ask(CONFIGMAPS.path(space), query={"continue": token, "limit": "2"})
    assert caught.value.status == 400


async def test_the_version_of_a_list_is_not_older_than_what_it_shows(api, five):
    """runtime:I-3"""
    page = await page_of(api, five)
    versions = [int(item["metadata"]["resourceVersion"]) for item in page["items"]]
    assert int(page["metadata"]["resourceVersion"]) >= max(versions)


async def test_a_list_of_an_exact_version_shows_that_moment(api, space, five):
    page = await page_of(api, five)
    version = page["metadata"]["resourceVersion"]
    await api.delete(CONFIGMAPS, space, "c0")
    then = await page_of(api, five, 100, version=version, match="Exact")
    assert (names(then), then["metadata"]["resourceVersion"]) == (NAMES, version)


async def test_a_list_with_version_zero_has_no_pages(api, five, eventually):
    """runtime:I-1"""

    async def whole():
        page = await page_of(api, five, 2, version="0")
        return names(page) == NAMES and "continue" not in page["metadata"]

    assert await eventually(whole)


async def test_a_version_from_the_future_is_504_with_its_cause(api, space):
    """runtime:I-3"""
    with pytest.raises(BusyError) as caught:
        await page_of(api, Scope(space), version="99999999999")
    assert caught.value.status == 504
    assert caught.value.caused_by("ResourceVersionTooLarge")


async def test_a_match_without_a_version_is_422(api, space):
    with pytest.raises(RejectedError) as caught:
        await page_of(api, Scope(space), match="Exact")
    assert caught.value.status == 422


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("index=1", ["c1"]),
        ("index==1", ["c1"]),
        ("index!=1,index", ["c0", "c2", "c3", "c4"]),
        ("index in (0, 4)", ["c0", "c4"]),
        ("index notin (0,1,2),half", ["c3", "c4"]),
        ("index>2", ["c3", "c4"]),
        ("index<1", ["c0"]),
        ("half=high,index!=4", ["c2", "c3"]),
        ("!index,nothing", []),
        ("half", NAMES),
    ],
)
async def test_a_label_selector_selects(api, space, five, selector, want):
    assert names(await page_of(api, Scope(space, labels=selector))) == want


async def test_an_object_without_the_label_is_not_in_and_not_equal(api, space, five):
    await api.create(CONFIGMAPS, make.config(space, "plain"))
    scope = Scope(space, labels="half!=low", fields=five.fields)
    assert names(await page_of(api, scope)) == ["c2", "c3", "c4", "plain"]


@pytest.mark.parametrize("selector", ["a===b", "a in b", "a in (b", "=b", "a b"])
async def test_a_label_selector_that_is_none_is_400(api, space, selector):
    with pytest.raises(RejectedError) as caught:
        await page_of(api, Scope(space, labels=selector))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name!=a", ["b"]),
        ("spec.nodeName=n", ["b"]),
        ("spec.nodeName=", ["a"]),
        ("status.phase=Pending", ["a", "b"]),
        ("status.phase!=Pending", []),
        ("spec.nodeName=n,status.phase=Pending", ["b"]),
    ],
)
async def test_a_field_selector_selects(ask, api, space, selector, want):
    await api.create(PODS, make.pod(space, "a"))
    await api.create(PODS, make.pod(space, "b", nodeName="n"))
    assert names(await ask(PODS.path(space), query={"fieldSelector": selector})) == want


async def test_a_field_that_a_kind_cannot_select_by_is_400(ask, space):
    with pytest.raises(RejectedError, match="field label not supported") as caught:
        await ask(PODS.path(space), query={"fieldSelector": "spec.hostname=x"})
    assert caught.value.status == 400


async def test_one_namespace_is_not_another(api, space, five):
    everywhere = await api.list(CONFIGMAPS, Scope(labels="half"))
    assert {o["metadata"]["namespace"] for o in everywhere} >= {space}
    assert await api.list(CONFIGMAPS, Scope("default", labels="half")) == []


async def test_metadata_alone_is_shown_to_who_asks_for_it(api, space):
    """runtime:I-33"""
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}, labels={"x": "y"}))
    page = await page_of(api, Scope(space, labels="x", metadata_only=True))
    assert page["kind"] == "PartialObjectMetadataList"
    assert page["items"][0].keys() <= {"kind", "apiVersion", "metadata"}
    assert page["items"][0]["metadata"]["labels"] == {"x": "y"}


async def test_a_list_of_a_custom_kind_is_called_by_its_list_kind(ask, widgets, space):
    assert (await ask(widgets.path(space)))["kind"] == "WidgetList"
