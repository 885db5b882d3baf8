# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Server-side apply: who owns which field, and what happens when two want the same."""

import pytest

from ascendop.kube.errors import ConflictError
from ascendop.kube.resource import CONFIGMAPS, PODS, SERVICES

from . import make  # noqa: TID252  the standard library has a package called test


async def apply(api, space, data, manager="one", *, force=False):
    obj = make.config(space, data=data)
    return await api.apply(CONFIGMAPS, obj, manager=manager, force=force)


def managers(obj):
    return {(m["manager"], m["operation"]) for m in obj["metadata"]["managedFields"]}


async def test_an_apply_creates_what_is_not_there(api, space):
    made = await apply(api, space, {"a": "1"})
    assert (made["data"], managers(made)) == ({"a": "1"}, {("one", "Apply")})


async def test_an_apply_keeps_what_others_own(api, space):
    await apply(api, space, {"a": "1"})
    await api.patch(CONFIGMAPS, space, "c", {"data": {"b": "2"}})
    assert (await apply(api, space, {"a": "3"}))["data"] == {"a": "3", "b": "2"}


async def test_what_its_manager_applies_no_longer_is_removed(api, space):
    await apply(api, space, {"a": "1", "b": "2"})
    assert (await apply(api, space, {"a": "1"}))["data"] == {"a": "1"}


async def test_what_two_managers_apply_stays_until_both_let_go(api, space):
    await apply(api, space, {"a": "1", "b": "2"})
    await apply(api, space, {"b": "2", "c": "3"}, "two")
    assert (await apply(api, space, {"a": "1"}))["data"] == {"a": "1", "b": "2", "c": "3"}
    assert (await apply(api, space, {"c": "3"}, "two"))["data"] == {"a": "1", "c": "3"}


async def test_another_value_for_somebody_elses_field_is_a_conflict_that_names_him(api, space):
    await apply(api, space, {"a": "1"})
    with pytest.raises(ConflictError, match='conflict with "one"') as caught:
        await apply(api, space, {"a": "2"}, "two")
    assert make.causes(caught.value) == [("FieldManagerConflict", ".data.a")]
    assert caught.value.reason == "Conflict"


async def test_the_same_value_for_somebody_elses_field_is_shared(api, space):
    await apply(api, space, {"a": "1"})
    assert managers(await apply(api, space, {"a": "1"}, "two")) == {
        ("one", "Apply"),
        ("two", "Apply"),
    }


async def test_force_takes_the_field(api, space):
    await apply(api, space, {"a": "1"})
    taken = await apply(api, space, {"a": "2"}, "two", force=True)
    assert (taken["data"], managers(taken)) == ({"a": "2"}, {("two", "Apply")})


async def test_a_plain_write_owns_what_it_changes_too(api, space):
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}))
    with pytest.raises(ConflictError, match='conflict with "contract"') as caught:
        await apply(api, space, {"a": "2"})
    assert make.causes(caught.value) == [("FieldManagerConflict", ".data.a")]


async def test_a_plain_write_takes_the_field_from_who_applied_it(api, space):
    await apply(api, space, {"a": "1", "b": "1"})
    await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "9"}})
    assert (await apply(api, space, {"b": "1"}))["data"] == {"a": "9", "b": "1"}


async def test_an_apply_that_changes_nothing_keeps_the_version(api, space):
    first = await apply(api, space, {"a": "1"})
    second = await apply(api, space, {"a": "1"})
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_items_of_a_list_with_keys_are_merged_by_key(api, space):
    def service(*ports):
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": make.meta(space, "s"),
            "spec": {"ports": [{"name": f"p{port}", "port": port} for port in ports]},
        }

    await api.apply(SERVICES, service(80), manager="one")
    both = await api.apply(SERVICES, service(81), manager="two")
    assert [port["port"] for port in both["spec"]["ports"]] == [80, 81]
    one = await api.apply(SERVICES, service(82), manager="one")
    assert sorted(port["port"] for port in one["spec"]["ports"]) == [81, 82]


async def test_a_custom_list_with_keys_is_merged_by_key(api, space, widgets):
    def parts(**counts):
        items = [{"name": name, "count": count} for name, count in counts.items()]
        return make.widget(space, parts=items)

    await api.apply(widgets, parts(a=1, b=1), manager="one")
    both = await api.apply(widgets, parts(c=3), manager="two")
    assert [part["name"] for part in both["spec"]["parts"]] == ["a", "b", "c"]
    less = await api.apply(widgets, parts(a=2), manager="one")
    assert less["spec"]["parts"] == [{"name": "a", "count": 2}, {"name": "c", "count": 3}]


async def test_a_list_without_keys_is_one_field(api, space, widgets):
    await api.apply(widgets, make.widget(space, words=["a"]), manager="one")
    with pytest.raises(ConflictError) as caught:
        await api.apply(widgets, make.widget(space, words=["b"]), manager="two", force=False)
    assert make.causes(caught.value) == [("FieldManagerConflict", ".spec.words")]


async def test_status_is_applied_by_its_own_door(api, space, widgets):
    await api.apply(widgets, make.widget(space), manager="one")
    obj = make.widget(space, status={"phase": "Ready"})
    del obj["spec"]
    applied = await api.apply(widgets, obj, manager="two", subresource="status")
    assert (applied["status"], applied["spec"]["size"]) == ({"phase": "Ready"}, "S")
    entry = next(m for m in applied["metadata"]["managedFields"] if m["manager"] == "two")
    assert entry["subresource"] == "status"


async def test_the_front_door_does_not_apply_a_status(api, space, widgets):
    applied = await api.apply(widgets, make.widget(space, status={"phase": "x"}), manager="one")
    assert "status" not in applied


async def test_an_apply_on_a_stale_version_is_a_conflict(api, space):
    first = await apply(api, space, {"a": "1"})
    await apply(api, space, {"a": "2"})
    obj = make.config(space, data={"a": "3"})
    obj["metadata"]["resourceVersion"] = first["metadata"]["resourceVersion"]
    with pytest.raises(ConflictError):
        await api.apply(CONFIGMAPS, obj, manager="one")


async def test_labels_of_two_managers_live_side_by_side(api, space):
    def labelled(**labels):
        return {**make.config(space), "metadata": make.meta(space, "c", labels=labels)}

    await api.apply(CONFIGMAPS, labelled(a="1"), manager="one")
    both = await api.apply(CONFIGMAPS, labelled(b="2"), manager="two")
    assert both["metadata"]["labels"] == {"a": "1", "b": "2"}
    left = await api.apply(CONFIGMAPS, make.config(space), manager="one")
    assert left["metadata"]["labels"] == {"b": "2"}


async def test_a_container_applied_twice_is_one_container(api, space):
    await api.apply(PODS, make.pod(space), manager="one")
    again = await api.apply(PODS, make.pod(space), manager="one")
    assert len(again["spec"]["containers"]) == 1


async def test_managed_fields_name_every_field_of_an_apply(api, space):
    made = await apply(api, space, {"a": "1"})
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
