# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a server says about itself: versions, kinds, schemas, tables."""

from datetime import datetime

from ascendop.kube.resource import PODS

from . import make  # noqa: TID252  the standard library has a package called test

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_the_version_is_told(ask):
    """runtime:I-6"""
    version = await ask("/version")
    assert (version["major"], version["gitVersion"].startswith("v1.")) == ("1", True)


async def test_a_custom_kind_is_discovered_with_all_groups_at_once(ask, widgets, eventually):
    """runtime:I-37"""

    async def found():
        groups = await ask("/apis", accept=AGGREGATED)
        group = next(g for g in groups["items"] if g["metadata"]["name"] == widgets.group)
        version = next(v for v in group["versions"] if v["version"] == widgets.version)
        return next(r for r in version["resources"] if r["resource"] == widgets.plural)

    resource = await eventually(found)
    assert resource["responseKind"]["kind"] == "Widget"
    assert (resource["scope"], resource["singularResource"]) == ("Namespaced", "widget")
    assert resource["shortNames"] == ["xwidgets"]
    assert {"get", "list", "watch", "patch"} <= set(resource["verbs"])
    assert {s["subresource"] for s in resource["subresources"]} == {"status", "scale"}


async def test_the_core_group_is_discovered(ask):
    (core,) = (await ask("/api", accept=AGGREGATED))["items"]
    plurals = {r["resource"] for r in core["versions"][0]["resources"]}
    assert plurals >= {"pods", "services", "configmaps", "nodes", "events", "namespaces"}


async def test_a_group_can_be_asked_in_the_old_way(ask, widgets, eventually):
    """runtime:I-37"""

    async def found():
        return await ask(f"/apis/{widgets.group}/{widgets.version}")

    resources = (await eventually(found))["resources"]
    assert {"widgets", "widgets/status", "widgets/scale"} <= {r["name"] for r in resources}


async def test_the_schema_of_a_custom_kind_is_published(ask, widgets, eventually):
    async def found():
        index = (await ask("/openapi/v3"))["paths"]
        entry = index[f"apis/{widgets.group}/{widgets.version}"]
        path, _, stamp = entry["serverRelativeURL"].partition("?hash=")
        doc = await ask(path, query={"hash": stamp})
        return next(
            schema
            for schema in doc["components"]["schemas"].values()
            if {"group": widgets.group, "version": "v1", "kind": "Widget"}
            in schema.get("x-kubernetes-group-version-kind", ())
        )

    async def published():
        try:
            return await found()
        except (KeyError, StopIteration, RuntimeError):
            return None

    schema = await eventually(published)
    assert schema["properties"]["spec"]["properties"]["replicas"]["default"] == 1


async def test_a_pod_is_a_row_of_a_table(ask, api, space):
    await api.create(PODS, make.pod(space))
    table = await ask(PODS.path(space), accept=TABLE)
    columns = [c["name"] for c in table["columnDefinitions"] if c["priority"] == 0]
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["p", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_a_pods_word_is_the_reason_that_says_most(ask, api, space):
    await api.create(PODS, make.pod(space))
    state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    container = {
        "name": "main",
        "state": state,
        "ready": False,
        "restartCount": 2,
        "image": "image:1",
        "imageID": "",
    }
    status = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    await api.patch(PODS, space, "p", status, subresource="status")
    (row,) = (await ask(PODS.path(space), accept=TABLE))["rows"]
    assert row["cells"][1:3] == ["0/1", "OOMKilled"]


async def test_a_custom_kind_has_the_columns_of_its_definition(ask, api, space, widgets):
    await api.create(widgets, make.widget(space, size="L"))
    table = await ask(widgets.path(space), accept=TABLE)
    columns = [(c["name"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Size", 0), ("Phase", 1), ("Age", 0)]
    assert table["rows"][0]["cells"][:2] == ["w", "L"]


async def test_birthdays_are_told_in_whole_seconds(api, space):
    made = await api.create(PODS, make.pod(space))
    assert datetime.fromisoformat(made["metadata"]["creationTimestamp"]).microsecond == 0
    assert len(made["metadata"]["creationTimestamp"]) == len("2026-01-01T00:00:00Z")
