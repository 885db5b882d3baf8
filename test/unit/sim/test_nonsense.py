# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whatever is sent, the simulator answers; it never falls over."""

import asyncio
import copy
from datetime import UTC, datetime
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendop.clock import simulated
from ascendop.kube.transport import Request
from ascendop.sim.loop import JumpingLoop
from ascendop.sim.server import ApiServer

PODS = "/api/v1/namespaces/default/pods"
OBJECTS = {
    PODS: {
        "metadata": {
            "name": "x",
            "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}],
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "env": [{"name": "A", "value": "b"}],
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1"}},
                    "livenessProbe": {"httpGet": {"port": 80}},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                }
            ],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            "tolerations": [{"key": "k"}],
        },
    },
    "/api/v1/namespaces/default/services": {
        "metadata": {"name": "x"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    },
    "/api/v1/namespaces/default/secrets": {"metadata": {"name": "x"}, "stringData": {"a": "b"}},
    "/apis/batch/v1/namespaces/default/jobs": {
        "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {}}},
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
        "metadata": {"name": "xs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "xs", "kind": "X"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    },
}
JUNK = st.sampled_from([None, 0, -1, 1.5, "", "x", True, [], {}, [None], ["x"], [{}], {"a": None}])


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, below in items:
        yield from places(below, (*path, key))


def put(obj, path, junk):
    changed = copy.deepcopy(obj)
    if not path:
        return junk
    node = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = junk
    return changed


@settings(max_examples=50)
@given(data=st.data())
@pytest.mark.parametrize("path", OBJECTS)
def test_an_object_with_junk_anywhere_is_stored_or_refused(path, data):
    want = OBJECTS[path]
    where = data.draw(st.sampled_from(list(places(want))))
    body = orjson.dumps(put(want, where, data.draw(JUNK)))
    (status,) = ask_once(Request("POST", path, {}, {"Content-Type": "application/json"}, body))
    assert status in {201, 400, 404, 422}


@settings(max_examples=50)
@given(data=st.data())
@pytest.mark.parametrize(
    "how", ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]
)
def test_a_patch_with_junk_anywhere_is_applied_or_refused(how, data):
    want = {"apiVersion": "v1", "kind": "Pod", **OBJECTS[PODS]}
    where = data.draw(st.sampled_from(list(places(want))))
    body = orjson.dumps(put(want, where, data.draw(JUNK)))
    create = Request(
        "POST", PODS, {}, {"Content-Type": "application/json"}, orjson.dumps(OBJECTS[PODS])
    )
    kind = {"Content-Type": f"application/{how}"}
    query = {"fieldManager": "me", "force": "true"}
    created, patched = ask_once(create, Request("PATCH", f"{PODS}/x", query, kind, body))
    assert created == 201
    assert patched in {200, 400, 409, 422}


@given(junk=st.binary(max_size=60))
def test_bytes_that_are_no_protobuf_are_400(junk):
    kind = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    (status,) = ask_once(Request("POST", PODS, {}, kind, b"k8s\x00" + junk))
    assert status == 400


@given(
    query=st.dictionaries(
        st.sampled_from(
            ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "timeout"]
        ),
        st.text(st.sampled_from("ab=!,() <>.0-"), max_size=12),
    )
)
def test_a_query_is_answered_or_refused(query):
    (status,) = ask_once(Request("GET", PODS, query))
    assert status in {200, 400, 410, 504}


def ask_once(*requests):
    async def send():
        loop = asyncio.get_running_loop()
        wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), loop.time)
        server = ApiServer(wall=wall, rng=Random(1))
        seen = [(await server.handle(request)).status for request in requests]
        await asyncio.sleep(10)
        server.close()
        return seen

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(send())
