# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Deleting: conditions, grace, finalizers, and what goes because something else went."""

import pytest

from ascendop.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
)
from ascendop.kube.resource import CONFIGMAPS, NAMESPACES, PODS, Scope

from . import make  # noqa: TID252  the standard library has a package called test

FINALIZER = "contract.example.com/hold"


async def test_what_is_deleted_is_gone(api, space, is_gone):
    await api.create(CONFIGMAPS, make.config(space))
    assert await api.delete(CONFIGMAPS, space, "c") is None
    assert await is_gone(CONFIGMAPS, space, "c")()


async def test_a_second_delete_is_404(api, space):
    await api.create(CONFIGMAPS, make.config(space))
    await api.delete(CONFIGMAPS, space, "c")
    with pytest.raises(NotFoundError):
        await api.delete(CONFIGMAPS, space, "c")


async def test_a_delete_says_the_uid_of_what_went(ask, api, space):
    made = await api.create(CONFIGMAPS, make.config(space))
    said = await ask(CONFIGMAPS.path(space, "c"), method="DELETE")
    assert (said["kind"], said["status"]) == ("Status", "Success")
    assert said["details"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param({"uid": "00000000-0000-4000-8000-000000000000"}, id="another uid"),
        pytest.param({"version": "1"}, id="another version"),
    ],
)
async def test_a_delete_on_a_condition_that_does_not_hold_is_a_conflict(api, space, condition):
    """runtime:W-13"""
    await api.create(CONFIGMAPS, make.config(space))
    with pytest.raises(ConflictError) as caught:
        await api.delete(CONFIGMAPS, space, "c", **condition)
    assert caught.value.reason == "Conflict"
    assert await api.get(CONFIGMAPS, space, "c")


async def test_a_delete_on_a_condition_that_holds_deletes(api, space, is_gone):
    """runtime:W-13"""
    meta = (await api.create(CONFIGMAPS, make.config(space)))["metadata"]
    await api.delete(CONFIGMAPS, space, "c", uid=meta["uid"], version=meta["resourceVersion"])
    assert await is_gone(CONFIGMAPS, space, "c")()


async def test_a_pod_without_a_node_is_gone_at_once(api, space, is_gone):
    await api.create(PODS, make.pod(space))
    await api.delete(PODS, space, "p")
    assert await is_gone(PODS, space, "p")()


async def test_a_pod_on_a_node_stays_until_its_node_says_so(api, space, is_gone):
    await api.create(PODS, make.pod(space, nodeName="n", terminationGracePeriodSeconds=45))
    marked = await api.delete(PODS, space, "p")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 45
    assert "deletionTimestamp" in (await api.get(PODS, space, "p"))["metadata"]
    await api.delete(PODS, space, "p", grace_s=0)
    assert await is_gone(PODS, space, "p")()


async def test_a_second_delete_shortens_the_grace_and_never_prolongs_it(api, space):
    await api.create(PODS, make.pod(space, nodeName="n"))

    async def grace(grace_s):
        marked = await api.delete(PODS, space, "p", grace_s=grace_s)
        return marked["metadata"]["deletionGracePeriodSeconds"]

    assert [await grace(20), await grace(60), await grace(5)] == [20, 20, 5]
    await api.delete(PODS, space, "p", grace_s=0)


async def test_a_pod_that_has_ended_is_gone_at_once(api, space, is_gone):
    await api.create(PODS, make.pod(space, nodeName="n"))
    await api.patch(PODS, space, "p", {"status": {"phase": "Failed"}}, subresource="status")
    await api.delete(PODS, space, "p")
    assert await is_gone(PODS, space, "p")()


async def test_a_finalizer_holds_what_is_deleted_until_it_is_removed(api, space, is_gone):
    """runtime:W-15"""
    await api.create(CONFIGMAPS, make.config(space, finalizers=[FINALIZER]))
    marked = await api.delete(CONFIGMAPS, space, "c")
    assert "deletionTimestamp" in marked["metadata"]
    held = await api.get(CONFIGMAPS, space, "c")
    assert held["metadata"]["deletionTimestamp"]
    remove = [
        {"op": "test", "path": "/metadata/finalizers/0", "value": FINALIZER},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]
    await api.patch(CONFIGMAPS, space, "c", remove, how="json")
    assert await is_gone(CONFIGMAPS, space, "c")()


async def test_what_is_going_takes_no_new_finalizer(api, space):
    await api.create(CONFIGMAPS, make.config(space, finalizers=[FINALIZER]))
    await api.delete(CONFIGMAPS, space, "c")
    both = {"metadata": {"finalizers": [FINALIZER, "contract.example.com/late"]}}
    with pytest.raises(RejectedError) as caught:
        await api.patch(CONFIGMAPS, space, "c", both)
    assert ("FieldValueForbidden", "metadata.finalizers") in make.causes(caught.value)
    await api.patch(CONFIGMAPS, space, "c", {"metadata": {"finalizers": None}})


async def test_what_is_going_can_still_be_changed(api, space):
    await api.create(CONFIGMAPS, make.config(space, finalizers=[FINALIZER]))
    await api.delete(CONFIGMAPS, space, "c")
    assert (await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}}))["data"] == {"a": "1"}
    await api.patch(CONFIGMAPS, space, "c", {"metadata": {"finalizers": None}})


async def test_a_collection_is_deleted_by_selector(ask, api, space):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {"x": "2"})):
        await api.create(CONFIGMAPS, make.config(space, name, labels=labels))
    await ask(CONFIGMAPS.path(space), method="DELETE", query={"labelSelector": "x=1"})
    left = await api.list(CONFIGMAPS, Scope(space, labels="x"))
    assert [obj["metadata"]["name"] for obj in left] == ["c"]


async def test_a_dry_delete_deletes_nothing(ask, api, space):
    await api.create(CONFIGMAPS, make.config(space))
    await ask(CONFIGMAPS.path(space, "c"), method="DELETE", query={"dryRun": "All"})
    assert await api.get(CONFIGMAPS, space, "c")


async def test_children_follow_their_owner(api, space, eventually, is_gone):
    """runtime:W-16"""
    owner = await api.create(CONFIGMAPS, make.config(space, "owner"))
    await api.create(PODS, make.pod(space, owners=[make.owner(owner)]))
    await api.delete(CONFIGMAPS, space, "owner")
    assert await eventually(is_gone(PODS, space, "p"))


async def test_a_child_of_a_uid_that_nobody_has_goes(api, space, eventually, is_gone):
    owner = await api.create(CONFIGMAPS, make.config(space, "owner"))
    wrong = {**make.owner(owner), "uid": "00000000-0000-4000-8000-000000000000"}
    await api.create(CONFIGMAPS, make.config(space, "child", owners=[wrong]))
    assert await eventually(is_gone(CONFIGMAPS, space, "child"))


async def test_a_child_stays_while_one_of_its_owners_lives(api, space, eventually):
    one = await api.create(CONFIGMAPS, make.config(space, "one"))
    two = await api.create(CONFIGMAPS, make.config(space, "two"))
    owners = [make.owner(one), make.owner(two)]
    await api.create(CONFIGMAPS, make.config(space, "child", owners=owners))
    await api.delete(CONFIGMAPS, space, "one")

    async def only_two():
        child = await api.get(CONFIGMAPS, space, "child")
        return [o["name"] for o in child["metadata"]["ownerReferences"]] == ["two"]

    assert await eventually(only_two)


async def test_orphans_stay_without_their_owner(api, space, eventually, is_gone):
    owner = await api.create(CONFIGMAPS, make.config(space, "owner"))
    await api.create(CONFIGMAPS, make.config(space, "child", owners=[make.owner(owner)]))
    await api.delete(CONFIGMAPS, space, "owner", propagation="Orphan")
    assert await eventually(is_gone(CONFIGMAPS, space, "owner"))
    child = await api.get(CONFIGMAPS, space, "child")
    assert "ownerReferences" not in child["metadata"]


async def test_an_owner_in_the_foreground_waits_for_its_children(api, space, eventually, is_gone):
    owner = await api.create(CONFIGMAPS, make.config(space, "owner"))
    blocking = make.owner(owner, blockOwnerDeletion=True)
    child = make.config(space, "child", owners=[blocking], finalizers=[FINALIZER])
    await api.create(CONFIGMAPS, child)
    marked = await api.delete(CONFIGMAPS, space, "owner", propagation="Foreground")
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def child_is_going():
        return "deletionTimestamp" in (await api.get(CONFIGMAPS, space, "child"))["metadata"]

    assert await eventually(child_is_going)
    assert await api.get(CONFIGMAPS, space, "owner")
    await api.patch(CONFIGMAPS, space, "child", {"metadata": {"finalizers": None}})
    assert await eventually(is_gone(CONFIGMAPS, space, "owner"))


async def test_a_namespace_takes_its_contents_along(api, space, eventually, is_gone):
    name = f"{space}-going"
    await api.create(NAMESPACES, {"metadata": {"name": name}})
    await api.create(CONFIGMAPS, make.config(name))
    marked = await api.delete(NAMESPACES, None, name)
    assert marked["status"]["phase"] == "Terminating"
    assert await eventually(is_gone(NAMESPACES, None, name))
    assert await is_gone(CONFIGMAPS, name, "c")()


async def test_nothing_new_is_created_in_a_namespace_that_ends(api, space, eventually, is_gone):
    name = f"{space}-ending"
    await api.create(NAMESPACES, {"metadata": {"name": name}})
    await api.create(CONFIGMAPS, make.config(name, finalizers=[FINALIZER]))
    await api.delete(NAMESPACES, None, name)
    with pytest.raises(ForbiddenError) as caught:
        await api.create(CONFIGMAPS, make.config(name, "late"))
    assert caught.value.caused_by("NamespaceTerminating")
    assert "because it is being terminated" in caught.value.message
    await api.patch(CONFIGMAPS, name, "c", {"metadata": {"finalizers": None}})
    assert await eventually(is_gone(NAMESPACES, None, name))


async def test_a_namespace_carries_its_name_as_a_label(api, space):
    made = await api.get(NAMESPACES, None, space)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": space}
    assert made["status"]["phase"] == "Active"


async def test_a_deleted_name_can_be_used_again_and_is_another_object(api, space):
    """runtime:I-19"""
    first = await api.create(CONFIGMAPS, make.config(space))
    await api.delete(CONFIGMAPS, space, "c")
    second = await api.create(CONFIGMAPS, make.config(space))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_a_create_over_something_that_is_still_going_is_already_exists(api, space):
    await api.create(CONFIGMAPS, make.config(space, finalizers=[FINALIZER]))
    await api.delete(CONFIGMAPS, space, "c")
    with pytest.raises(ApiError) as caught:
        await api.create(CONFIGMAPS, make.config(space))
    assert caught.value.reason == "AlreadyExists"
    await api.patch(CONFIGMAPS, space, "c", {"metadata": {"finalizers": None}})
