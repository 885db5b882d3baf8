# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Creating and changing: who gets which answer, and what is stored."""

import orjson
import pytest

from ascendop.kube.errors import (
    ApiError,
    ConflictError,
    ExistsError,
    NotFoundError,
    RejectedError,
)
from ascendop.kube.resource import CONFIGMAPS, PODS, SERVICES, Resource

from . import make  # noqa: TID252  the standard library has a package called test


async def test_a_new_object_has_a_uid_a_version_and_a_birthday(api, space):
    made = await api.create(CONFIGMAPS, make.config(space))
    assert made["metadata"].keys() >= {"uid", "resourceVersion", "creationTimestamp"}
    assert await api.get(CONFIGMAPS, space, "c") == made


async def test_the_second_create_of_a_name_is_answered_already_exists(api, space):
    await api.create(CONFIGMAPS, make.config(space))
    with pytest.raises(ExistsError) as caught:
        await api.create(CONFIGMAPS, make.config(space))
    assert caught.value.reason == "AlreadyExists"
    assert caught.value.details["name"] == "c"


async def test_a_name_is_generated_behind_its_prefix(api, space):
    obj = make.config(space)
    obj["metadata"] = {"namespace": space, "generateName": "made-"}
    names = {(await api.create(CONFIGMAPS, obj))["metadata"]["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("made-") and len(name) == len("made-") + 5 for name in names)


async def test_a_create_in_a_namespace_that_is_not_there_is_404_for_the_namespace(api):
    with pytest.raises(NotFoundError) as caught:
        await api.create(CONFIGMAPS, make.config("nowhere"))
    assert caught.value.details == {"name": "nowhere", "kind": "namespaces"}


async def test_what_is_not_there_is_404_with_kind_and_name(api, space):
    with pytest.raises(NotFoundError) as caught:
        await api.get(PODS, space, "none")
    assert caught.value.reason == "NotFound"
    assert caught.value.details == {"name": "none", "kind": "pods"}


async def test_a_replace_of_what_is_not_there_is_404(api, space):
    with pytest.raises(NotFoundError):
        await api.replace(CONFIGMAPS, make.config(space))


async def test_a_kind_that_is_not_served_is_404(api, space):
    with pytest.raises(NotFoundError):
        await api.get(Resource("", "v1", "nothings", "Nothing"), space, "x")


async def test_a_verb_that_a_resource_does_not_have_is_405(ask, space):
    with pytest.raises(RejectedError) as caught:
        await ask(f"/api/v1/namespaces/{space}/pods/x", method="POST", body={})
    assert caught.value.status == 405


async def test_a_stale_replace_is_a_conflict(api, space):
    first = await api.create(CONFIGMAPS, make.config(space))
    await api.replace(CONFIGMAPS, {**first, "data": {"a": "1"}})
    with pytest.raises(ConflictError) as caught:
        await api.replace(CONFIGMAPS, {**first, "data": {"a": "2"}})
    assert caught.value.reason == "Conflict"


async def test_a_replace_without_a_version_overwrites_a_built_in_object(api, space):
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}))
    replaced = await api.replace(CONFIGMAPS, make.config(space, data={"b": "2"}))
    assert replaced["data"] == {"b": "2"}


async def test_a_replace_with_another_uid_is_a_conflict(api, space):
    made = await api.create(CONFIGMAPS, make.config(space))
    made["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(ConflictError):
        await api.replace(CONFIGMAPS, made)


async def test_a_write_that_changes_nothing_keeps_the_version(api, space):
    made = await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}))
    same = await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
    assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_null_in_a_merge_patch_removes(api, space):
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1", "b": "2"}))
    patched = await api.patch(CONFIGMAPS, space, "c", {"data": {"a": None, "c": "3"}})
    assert patched["data"] == {"b": "2", "c": "3"}


async def test_a_merge_patch_with_a_stale_version_is_a_conflict(api, space):
    made = await api.create(CONFIGMAPS, make.config(space))
    await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    with pytest.raises(ConflictError):
        await api.patch(CONFIGMAPS, space, "c", {**stale, "data": {"a": "2"}})


async def test_a_patch_with_another_uid_is_422_and_not_a_conflict(api, space):
    """runtime:W-16"""
    await api.create(CONFIGMAPS, make.config(space))
    other = {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}}
    with pytest.raises(ApiError) as caught:
        await api.patch(CONFIGMAPS, space, "c", {**other, "data": {"a": "2"}})
    assert caught.value.status == 422
    assert set(make.causes(caught.value)) == {("FieldValueInvalid", "metadata.uid")}


async def test_a_json_patch_is_applied_in_order(api, space):
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}))
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/data/b", "value": "3"},
    ]
    patched = await api.patch(CONFIGMAPS, space, "c", operations, how="json")
    assert patched["data"] == {"a": "2", "b": "3"}


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/data/a", "value": "9"}, id="a test that fails"),
        pytest.param({"op": "remove", "path": "/data/none"}, id="a path that is not there"),
    ],
)
async def test_a_json_patch_that_does_not_apply_is_422(api, space, operation):
    await api.create(CONFIGMAPS, make.config(space, data={"a": "1"}))
    with pytest.raises(ApiError) as caught:
        await api.patch(CONFIGMAPS, space, "c", [operation], how="json")
    assert caught.value.status == 422


async def test_an_unknown_kind_of_patch_is_415(ask, api, space):
    await api.create(CONFIGMAPS, make.config(space))
    path = CONFIGMAPS.path(space, "c")
    with pytest.raises(RejectedError) as caught:
        await ask(path, method="PATCH", body={}, Content_Type="application/nonsense")
    assert caught.value.status == 415


async def test_a_strategic_patch_merges_containers_by_name(ask, api, space):
    await api.create(PODS, make.pod(space))
    body = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
    strategic = "application/strategic-merge-patch+json"
    path = PODS.path(space, "p")
    patched = await ask(path, method="PATCH", body=body, Content_Type=strategic)
    container = patched["spec"]["containers"][0]
    assert (container["image"], container["terminationMessagePath"]) == (
        "image:2",
        "/dev/termination-log",
    )


async def test_a_strategic_patch_is_not_for_custom_kinds(ask, api, space, widgets):
    await api.create(widgets, make.widget(space))
    strategic = "application/strategic-merge-patch+json"
    with pytest.raises(RejectedError) as caught:
        await ask(widgets.path(space, "w"), method="PATCH", body={}, Content_Type=strategic)
    assert caught.value.status == 415


async def test_a_dry_run_answers_and_stores_nothing(api, space):
    made = await api.create(CONFIGMAPS, make.config(space), dry_run=True)
    assert made["metadata"]["uid"]
    with pytest.raises(NotFoundError):
        await api.get(CONFIGMAPS, space, "c")


async def test_an_unknown_field_is_refused_where_the_caller_is_strict(api, space):
    with pytest.raises(RejectedError, match=r'unknown field "spec\.bogus"') as caught:
        await api.create(PODS, make.pod(space, bogus=1), validation="Strict")
    assert caught.value.status == 400


async def test_an_unknown_field_is_dropped_where_the_caller_is_not(api, space):
    made = await api.create(PODS, make.pod(space, bogus=1), validation="Ignore")
    assert "bogus" not in made["spec"]


async def test_a_name_that_is_no_dns_name_is_422_at_its_path(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(CONFIGMAPS, make.config(space, "Not_A_Name"))
    assert caught.value.status == 422
    assert make.causes(caught.value) == [("FieldValueInvalid", "metadata.name")]


async def test_a_label_that_is_too_long_is_422(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(CONFIGMAPS, make.config(space, labels={"a": "x" * 64}))
    assert make.causes(caught.value) == [("FieldValueInvalid", "metadata.labels")]


async def test_every_mistake_in_a_pod_is_a_cause_of_its_own(api, space):
    obj = make.pod(space)
    obj["spec"]["containers"] = [{"name": "main"}, {"image": "x"}]
    with pytest.raises(RejectedError) as caught:
        await api.create(PODS, obj)
    assert sorted(make.causes(caught.value)) == [
        ("FieldValueRequired", "spec.containers[0].image"),
        ("FieldValueRequired", "spec.containers[1].name"),
    ]


async def test_a_pod_without_containers_is_422(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(PODS, make.pod(space, containers=[]))
    assert make.causes(caught.value) == [("FieldValueRequired", "spec.containers")]


async def test_a_mount_of_a_volume_that_is_not_there_is_422(api, space):
    obj = make.pod(space)
    obj["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    with pytest.raises(RejectedError) as caught:
        await api.create(PODS, obj)
    assert make.causes(caught.value) == [
        ("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name")
    ]


async def test_a_value_of_a_wrong_type_in_a_built_in_kind_is_400(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(PODS, make.pod(space, containers="many"))
    assert caught.value.status == 400


async def test_an_object_of_another_kind_is_400(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(PODS, make.config(space))
    assert caught.value.status == 400


async def test_a_body_for_another_namespace_than_the_path_is_400(ask, space):
    with pytest.raises(RejectedError) as caught:
        await ask(CONFIGMAPS.path(space), method="POST", body=make.config("default"))
    assert caught.value.status == 400


async def test_a_body_with_another_name_than_the_path_is_400(ask, api, space):
    made = await api.create(CONFIGMAPS, make.config(space))
    made["metadata"]["name"] = "other"
    with pytest.raises(RejectedError) as caught:
        await ask(CONFIGMAPS.path(space, "c"), method="PUT", body=made)
    assert caught.value.status == 400


async def test_a_body_that_is_no_json_is_400(api, space):
    from ascendop.kube.transport import Request  # noqa: PLC0415

    json = {"Content-Type": "application/json"}
    with pytest.raises(RejectedError) as caught:
        await api.raw(Request("POST", CONFIGMAPS.path(space), {}, json, b"{no"))
    assert caught.value.status == 400


async def test_a_pods_spec_cannot_change(api, space):
    """runtime:W-18"""
    await api.create(PODS, make.pod(space))
    with pytest.raises(RejectedError) as caught:
        await api.patch(PODS, space, "p", {"spec": {"restartPolicy": "Never"}})
    assert (caught.value.status, make.causes(caught.value)) == (
        422,
        [("FieldValueForbidden", "spec")],
    )


async def test_a_pods_labels_and_annotations_can_change(api, space):
    await api.create(PODS, make.pod(space))
    both = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    patched = await api.patch(PODS, space, "p", {"metadata": both})
    assert (patched["metadata"]["labels"], patched["metadata"]["annotations"]) == (
        {"a": "b"},
        {"c": "d"},
    )


async def test_an_immutable_config_map_cannot_change(api, space):
    obj = {**make.config(space, data={"a": "1"}), "immutable": True}
    await api.create(CONFIGMAPS, obj)
    with pytest.raises(RejectedError) as caught:
        await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "2"}})
    assert make.causes(caught.value) == [("FieldValueForbidden", "data")]


async def test_two_owners_cannot_both_control(api, space):
    """runtime:W-16"""
    first = await api.create(CONFIGMAPS, make.config(space, "one"))
    second = await api.create(CONFIGMAPS, make.config(space, "two"))
    owners = [make.owner(obj, controller=True) for obj in (first, second)]
    with pytest.raises(RejectedError) as caught:
        await api.create(CONFIGMAPS, make.config(space, owners=owners))
    assert caught.value.status == 422


async def test_the_front_door_does_not_touch_a_pods_status(api, space):
    await api.create(PODS, make.pod(space))
    await api.patch(PODS, space, "p", {"status": {"phase": "Running"}})
    assert (await api.get(PODS, space, "p"))["status"]["phase"] == "Pending"


async def test_the_status_door_does_not_touch_a_pods_spec(api, space):
    made = await api.create(PODS, make.pod(space))
    body = {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    patched = await api.patch(PODS, space, "p", body, subresource="status")
    assert (patched["status"]["phase"], patched["spec"]) == ("Running", made["spec"])


async def test_a_new_pods_status_is_the_servers(api, space):
    obj = {**make.pod(space), "status": {"phase": "Succeeded"}}
    assert (await api.create(PODS, obj))["status"] == {
        "phase": "Pending",
        "qosClass": "BestEffort",
    }


async def test_a_pod_gets_its_defaults(api, space):
    spec = (await api.create(PODS, make.pod(space)))["spec"]
    want = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "securityContext": {},
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert {name: spec[name] for name in want} == want
    assert spec["containers"] == [
        {
            "name": "main",
            "image": "image:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    assert {t["key"] for t in spec["tolerations"]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


async def test_a_limit_is_also_the_request(api, space):
    obj = make.pod(space)
    obj["spec"]["containers"][0]["resources"] = {"limits": {"huawei.com/Ascend910": "8"}}
    made = await api.create(PODS, obj)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"huawei.com/Ascend910": "8"}


async def test_a_null_is_as_good_as_nothing_in_a_built_in_kind(api, space):
    obj = make.config(space)
    obj["metadata"] |= {"creationTimestamp": None, "labels": None}
    made = await api.create(CONFIGMAPS, obj)
    assert "labels" not in made["metadata"]
    assert made["metadata"]["creationTimestamp"]


async def test_the_generation_counts_changes_of_the_spec_only(api, space, widgets):
    """runtime:W-20"""

    async def generation(body, **options):
        return (await api.patch(widgets, space, "w", body, **options))["metadata"]["generation"]

    await api.create(widgets, make.widget(space))
    assert await generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation({"status": {"phase": "x"}}, subresource="status") == 1
    assert await generation({"spec": {"size": "M"}}) == 2


async def test_versions_of_one_kind_grow(api, space):
    """runtime:I-3"""
    made = await api.create(CONFIGMAPS, make.config(space))
    patched = await api.patch(CONFIGMAPS, space, "c", {"data": {"a": "1"}})
    assert int(patched["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_a_secrets_plain_strings_are_stored_encoded(api, space):
    secrets = Resource("", "v1", "secrets", "Secret")
    made = await api.create(
        secrets, {"metadata": make.meta(space, "s"), "stringData": {"a": "hello"}}
    )
    assert (made["data"], made["type"]) == ({"a": "aGVsbG8="}, "Opaque")
    assert "stringData" not in made


async def test_a_service_gets_an_address_of_its_own(api, space):
    def service(name, **spec):
        return {"metadata": make.meta(space, name), "spec": {"ports": [{"port": 80}], **spec}}

    first = await api.create(SERVICES, service("one"))
    second = await api.create(SERVICES, service("two"))
    addresses = [made["spec"]["clusterIP"] for made in (first, second)]
    assert len(set(addresses)) == 2
    assert all(address.startswith("10.96.") for address in addresses)
    assert first["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    headless = await api.create(SERVICES, service("three", clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]


async def test_an_address_that_is_taken_is_422(api, space):
    def service(name, **spec):
        return {"metadata": make.meta(space, name), "spec": {"ports": [{"port": 80}], **spec}}

    taken = (await api.create(SERVICES, service("one")))["spec"]["clusterIP"]
    with pytest.raises(RejectedError) as caught:
        await api.create(SERVICES, service("two", clusterIP=taken))
    assert make.causes(caught.value) == [("FieldValueInvalid", "spec.clusterIPs")]


async def test_a_services_address_does_not_change(api, space):
    obj = {"metadata": make.meta(space, "s"), "spec": {"ports": [{"port": 80}]}}
    await api.create(SERVICES, obj)
    with pytest.raises(RejectedError) as caught:
        await api.patch(SERVICES, space, "s", {"spec": {"clusterIP": "10.96.0.77"}})
    assert caught.value.status == 422


async def test_a_service_without_ports_must_be_headless(api, space):
    with pytest.raises(RejectedError) as caught:
        await api.create(SERVICES, {"metadata": make.meta(space, "s"), "spec": {}})
    assert make.causes(caught.value) == [("FieldValueRequired", "spec.ports")]


async def test_the_answer_to_a_patch_may_be_metadata_alone(api, space):
    await api.create(CONFIGMAPS, make.config(space))
    body = {"data": {"k": "new"}}
    said = orjson.loads(await api.patch_bytes(CONFIGMAPS, space, "c", body, metadata_only=True))
    stored = await api.get(CONFIGMAPS, space, "c")
    assert said["kind"] == "PartialObjectMetadata" and "data" not in said
    assert said["metadata"] == stored["metadata"] and stored["data"]["k"] == "new"
