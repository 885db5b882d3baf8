# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Kinds with a will of their own: pods and nodes, events, leases, priorities, scale."""

import pytest

from ascendop.kube.errors import ConflictError, ForbiddenError, RejectedError
from ascendop.kube.resource import (
    CORE_EVENTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Resource,
    Scope,
)

from . import make  # noqa: TID252  the standard library has a package called test

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


def binding(node="n"):
    return {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": node}}


async def test_a_binding_gives_a_pod_its_node(ask, api, space):
    await api.create(PODS, make.pod(space))
    said = await ask(PODS.path(space, "p", "binding"), method="POST", body=binding())
    bound = await api.get(PODS, space, "p")
    assert said["status"] == "Success"
    assert bound["spec"]["nodeName"] == "n"
    conditions = {c["type"]: c["status"] for c in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"


async def test_a_pod_is_bound_once(ask, api, space):
    await api.create(PODS, make.pod(space))
    await ask(PODS.path(space, "p", "binding"), method="POST", body=binding())
    with pytest.raises(ConflictError, match="already assigned to node"):
        await ask(PODS.path(space, "p", "binding"), method="POST", body=binding("m"))


async def test_an_eviction_deletes(ask, api, space, is_gone):
    await api.create(PODS, make.pod(space))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": make.meta(space, "p")}
    await ask(PODS.path(space, "p", "eviction"), method="POST", body=body)
    assert await is_gone(PODS, space, "p")()


async def test_a_pod_of_an_unknown_priority_class_is_forbidden(api, space):
    with pytest.raises(ForbiddenError, match="no PriorityClass with name nothing was found"):
        await api.create(PODS, make.pod(space, priorityClassName="nothing"))


async def test_a_pod_gets_the_number_of_its_priority_class(api, space, eventually):
    await api.create(PRIORITY_CLASSES, {"metadata": {"name": space}, "value": 77})

    async def created():
        try:
            return await api.create(PODS, make.pod(space, priorityClassName=space))
        except ForbiddenError:  # a real server looks it up in a cache
            return None

    assert (await eventually(created))["spec"]["priority"] == 77
    await api.delete(PRIORITY_CLASSES, None, space)


async def test_a_node_keeps_the_status_it_is_registered_with(api, space):
    status = {"capacity": {"huawei.com/Ascend910": "8"}}
    made = await api.create(NODES, {"metadata": {"name": space}, "status": status})
    assert made["status"]["capacity"] == status["capacity"]
    more = {"status": {"allocatable": {"huawei.com/Ascend910": "7"}}}
    patched = await api.patch(NODES, None, space, more, subresource="status")
    assert patched["status"]["allocatable"] == {"huawei.com/Ascend910": "7"}
    await api.delete(NODES, None, space)


async def test_an_event_is_the_same_in_both_groups(api, space):
    event = {
        "metadata": make.meta(space, "e"),
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reason": "Because",
        "action": "Tested",
        "type": "Normal",
        "note": "a note",
        "reportingController": "contract.example.com/tests",
        "reportingInstance": "one",
        "regarding": {"kind": "Pod", "namespace": space, "name": "p", "apiVersion": "v1"},
    }
    await api.create(EVENTS, event)
    core = await api.get(CORE_EVENTS, space, "e")
    assert (core["message"], core["involvedObject"]["name"], core["kind"]) == (
        "a note",
        "p",
        "Event",
    )
    assert core["reportingComponent"] == "contract.example.com/tests"
    back = await api.get(EVENTS, space, "e")
    assert (back["note"], back["regarding"]["name"]) == ("a note", "p")


async def test_events_are_found_by_what_they_are_about(api, space):
    for name in ("a", "b"):
        event = {
            "metadata": make.meta(space, f"event-{name}"),
            "involvedObject": {"kind": "Pod", "namespace": space, "name": name},
            "reason": "Because",
            "message": "x",
            "type": "Normal",
        }
        await api.create(CORE_EVENTS, event)
    scope = Scope(space, fields="involvedObject.name=b,involvedObject.kind=Pod")
    found = await api.list(CORE_EVENTS, scope)
    assert [event["metadata"]["name"] for event in found] == ["event-b"]


async def test_a_lease_keeps_microseconds(api, space):
    moment = "2026-01-01T00:00:00.123456Z"
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": moment}
    made = await api.create(LEASES, {"metadata": make.meta(space, "l"), "spec": spec})
    assert made["spec"]["renewTime"] == moment


async def test_a_stale_renewal_of_a_lease_is_a_conflict(api, space):
    first = await api.create(
        LEASES, {"metadata": make.meta(space, "l"), "spec": {"holderIdentity": "a"}}
    )
    await api.replace(LEASES, {**first, "spec": {"holderIdentity": "b"}})
    with pytest.raises(ConflictError):
        await api.replace(LEASES, {**first, "spec": {"holderIdentity": "c"}})


async def test_a_deployment_is_scaled_by_its_subresource(ask, api, space):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": make.pod(space)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.create(DEPLOYMENTS, {"metadata": make.meta(space, "d"), "spec": spec})
    assert made["spec"]["replicas"] == 1
    body = {"spec": {"replicas": 3}}
    path = DEPLOYMENTS.path(space, "d", "scale")
    merge = "application/merge-patch+json"
    scale = await ask(path, method="PATCH", body=body, Content_Type=merge)
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 3)
    assert (await api.get(DEPLOYMENTS, space, "d"))["spec"]["replicas"] == 3


async def test_a_batch_job_must_say_that_its_pods_end(api, space):
    jobs = Resource("batch", "v1", "jobs", "Job")
    spec = make.pod(space)["spec"]
    obj = {"metadata": make.meta(space, "j"), "spec": {"template": {"spec": spec}}}
    with pytest.raises(RejectedError) as caught:
        await api.create(jobs, obj)
    assert "spec.template.spec.restartPolicy" in [path for _, path in make.causes(caught.value)]
    spec["restartPolicy"] = "Never"
    made = await api.create(jobs, obj)
    assert (made["spec"]["completions"], made["spec"]["backoffLimit"]) == (1, 6)


async def test_a_batch_job_selects_its_own_pods(api, space):
    jobs = Resource("batch", "v1", "jobs", "Job")
    template = {"spec": {**make.pod(space)["spec"], "restartPolicy": "Never"}}
    obj = {"metadata": make.meta(space, "j"), "spec": {"template": template}}
    made = await api.create(jobs, obj)
    uid = made["metadata"]["uid"]
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert (labels["controller-uid"], labels["batch.kubernetes.io/job-name"]) == (uid, "j")
