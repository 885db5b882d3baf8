# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Custom kinds: their schema is the law, their status has its own door, their definition rules."""

import pytest

from ascendop.kube.errors import NotFoundError, RejectedError
from ascendop.kube.resource import CRDS, Resource, Scope

from . import make  # noqa: TID252  the standard library has a package called test
from .conftest import crd, ensure_served  # noqa: TID252


async def test_defaults_of_the_schema_are_stored(api, space, widgets):
    assert (await api.create(widgets, make.widget(space)))["spec"]["replicas"] == 1


async def test_a_field_without_a_schema_is_dropped(api, space, widgets):
    made = await api.create(widgets, make.widget(space, unknown=1), validation="Ignore")
    assert "unknown" not in made["spec"]


async def test_a_field_without_a_schema_is_refused_where_the_caller_is_strict(api, space, widgets):
    with pytest.raises(RejectedError, match=r'unknown field "spec\.unknown"') as caught:
        await api.create(widgets, make.widget(space, unknown=1), validation="Strict")
    assert caught.value.status == 400


async def test_unknown_fields_stay_where_the_schema_says_so(api, space, widgets):
    free = {"any": {"thing": [1, None, {"goes": True}]}}
    assert (await api.create(widgets, make.widget(space, free=free)))["spec"]["free"] == free


@pytest.mark.parametrize(
    ("spec", "cause", "message"),
    [
        ({"size": "XXL"}, "FieldValueNotSupported", 'supported values: "S", "M", "L"'),
        ({"replicas": "two"}, "FieldValueTypeInvalid", "must be of type integer"),
        ({"replicas": -1}, "FieldValueInvalid", "should be greater than or equal to 0"),
        ({"code": "ABC"}, "FieldValueInvalid", r"should match '\^\[a-z\]\+\$'"),
        ({"code": "abcdef"}, "FieldValueTooLong", "may not be more than 5"),
        ({"labels": {"a": 1}}, "FieldValueTypeInvalid", "must be of type string"),
        ({"words": "one"}, "FieldValueTypeInvalid", "must be of type array"),
        ({"parts": [{"count": 1}]}, "FieldValueRequired", "Required value"),
        ({"parts": [{"name": "a"}, {"name": "a"}]}, "FieldValueDuplicate", "Duplicate value"),
        ({"port": 1.5}, "FieldValueTypeInvalid", "must be of type integer,string"),
    ],
)
async def test_a_value_against_the_schema_is_422(api, space, widgets, spec, cause, message):
    with pytest.raises(RejectedError, match=message) as caught:
        await api.create(widgets, make.widget(space, **spec))
    assert caught.value.status == 422
    assert cause in [reason for reason, _ in make.causes(caught.value)]


async def test_a_required_field_is_named_by_its_path(api, space, widgets):
    obj = make.widget(space)
    obj["spec"] = {}
    with pytest.raises(RejectedError) as caught:
        await api.create(widgets, obj)
    assert make.causes(caught.value) == [("FieldValueRequired", "spec.size")]


@pytest.mark.parametrize("port", [80, "http"])
async def test_a_number_or_a_word_may_be_either(api, space, widgets, port):
    assert (await api.create(widgets, make.widget(space, port=port)))["spec"]["port"] == port


async def test_a_change_is_held_against_the_schema_too(api, space, widgets):
    await api.create(widgets, make.widget(space))
    with pytest.raises(RejectedError):
        await api.patch(widgets, space, "w", {"spec": {"size": "XXL"}})


async def test_a_new_object_has_no_status(api, space, widgets):
    made = await api.create(widgets, make.widget(space, status={"phase": "x"}))
    assert "status" not in made


async def test_the_front_door_does_not_touch_the_status(api, space, widgets):
    await api.create(widgets, make.widget(space))
    await api.patch(widgets, space, "w", {"status": {"phase": "x"}}, subresource="status")
    patched = await api.patch(widgets, space, "w", {"status": {"phase": "y"}})
    assert patched["status"]["phase"] == "x"


async def test_the_status_door_touches_nothing_else(api, space, widgets):
    """runtime:W-18"""
    await api.create(widgets, make.widget(space))
    body = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"size": "L"},
        "status": {"phase": "x"},
    }
    patched = await api.patch(widgets, space, "w", body, subresource="status")
    assert (patched["spec"]["size"], patched["status"]) == ("S", {"phase": "x"})
    assert "labels" not in patched["metadata"]


async def test_a_status_against_the_schema_is_422(api, space, widgets):
    await api.create(widgets, make.widget(space))
    with pytest.raises(RejectedError):
        await api.patch(widgets, space, "w", {"status": {"phase": 1}}, subresource="status")


async def test_a_replace_of_a_custom_object_needs_its_version(api, space, widgets):
    await api.create(widgets, make.widget(space))
    with pytest.raises(RejectedError) as caught:
        await api.replace(widgets, make.widget(space))
    assert make.causes(caught.value) == [("FieldValueInvalid", "metadata.resourceVersion")]


async def test_the_scale_shows_and_sets_the_number_of_replicas(ask, api, space, widgets):
    await api.create(widgets, make.widget(space, replicas=2))
    status = {"status": {"replicas": 1, "selector": "a=b"}}
    await api.patch(widgets, space, "w", status, subresource="status")
    scale = await api.get(widgets, space, "w", subresource="scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 2},
        {"replicas": 1, "selector": "a=b"},
    )
    scale["spec"]["replicas"] = 5
    await ask(widgets.path(space, "w", "scale"), method="PUT", body=scale)
    assert (await api.get(widgets, space, "w"))["spec"]["replicas"] == 5


async def test_a_definition_becomes_established(api, widgets, eventually):
    """runtime:I-38"""

    async def established():
        found = await api.get(CRDS, None, widgets.name)
        conditions = found["status"]["conditions"]
        return {("Established", "True"), ("NamesAccepted", "True")} <= {
            (condition["type"], condition["status"]) for condition in conditions
        }

    assert await eventually(established)


async def test_a_definition_under_another_name_than_its_kinds_is_422(api):
    definition = crd(Resource("contract.example.com", "v1", "things", "Thing"))
    definition["metadata"]["name"] = "other.contract.example.com"
    with pytest.raises(RejectedError) as caught:
        await api.create(CRDS, definition)
    assert ("FieldValueInvalid", "metadata.name") in make.causes(caught.value)


async def test_a_definition_takes_its_objects_along(api, space, eventually, is_gone):
    """runtime:I-38"""
    gizmos = Resource("contract.example.com", "v1", "gizmos", "Gizmo")
    await ensure_served(api, crd(gizmos))
    await api.create(gizmos, {**make.widget(space), "kind": "Gizmo"})
    await api.delete(CRDS, None, gizmos.name)
    assert await eventually(is_gone(CRDS, None, gizmos.name))

    async def not_served():
        try:
            await api.list(gizmos, Scope(space))
        except NotFoundError:
            return True
        return False

    assert await eventually(not_served)
    await ensure_served(api, crd(gizmos))
    assert await api.list(gizmos, Scope(space)) == []
    await api.delete(CRDS, None, gizmos.name)


async def test_an_object_is_shown_in_every_version_that_is_served(api, space, eventually):
    """runtime:I-37"""
    old = Resource("contract.example.com", "v1beta1", "dooes", "Doo")
    new = Resource("contract.example.com", "v1", "dooes", "Doo")
    definition = crd(new)
    (version,) = definition["spec"]["versions"]
    definition["spec"]["versions"].append({**version, "name": "v1beta1", "storage": False})
    await ensure_served(api, definition)
    obj = {**make.widget(space), "kind": "Doo"}

    async def created():
        return await api.create(old, {**obj, "apiVersion": old.api_version})

    made = await eventually(created)
    assert made["apiVersion"] == "contract.example.com/v1beta1"
    assert (await api.get(new, space, "w"))["apiVersion"] == "contract.example.com/v1"
    await api.delete(CRDS, None, new.name)
