# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Kinds whose CRD is installed, upgraded and deleted while we run."""

import asyncio
import json
from dataclasses import replace
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.informer.capabilities import Capabilities, Presence
from ascendop.informer.discovery import AGGREGATED, Discovery, preferred
from ascendop.informer.reflector import State
from ascendop.kube.errors import TransportError, error_of
from ascendop.kube.resource import CRDS, POD_GROUPS, PODS
from ascendop.kube.transport import Response

NAME = POD_GROUPS.name
OLDER = replace(POD_GROUPS, version="v1alpha1")
NOT_SERVED = error_of(404, b"404 page not found")


class Cluster:
    """CRDs in one source, the objects of the optional kind in another, and discovery."""

    def __init__(self, crds, groups):
        self.crds, self.groups = crds, groups
        self.served = set()
        self.asked = []
        self.trouble = None
        self.changed = []

    async def serves(self, groups):
        self.asked.append(asyncio.get_running_loop().time())
        if self.trouble:
            raise self.trouble
        return frozenset(self.served)

    def install(self, resource=POD_GROUPS):
        self.crds.put(NAME, namespace="")
        self.serve(resource)

    def serve(self, resource):
        self.served = {(resource.group, resource.version, resource.plural)}

    def uninstall(self):
        self.crds.delete(NAME, namespace="")
        self.served = set()

    def list_page(self, resource, scope, **more):
        return self._of(resource).list_page(resource, scope, **more)

    def watch(self, resource, scope, **more):
        return self._of(resource).watch(resource, scope, **more)

    def _of(self, resource):
        if resource == CRDS:
            return self.crds
        assert resource.plural == "podgroups"
        return self.groups


@pytest.fixture
async def cluster(source):
    return Cluster(type(source)(), source)


@pytest.fixture
def tracked(cluster, pods, heard):
    def make(*, watch_crds=True):
        informer = pods(cluster)
        informer.resource = POD_GROUPS
        capabilities = Capabilities(
            cluster.serves,
            cluster if watch_crds else None,
            rng=Random(1),
            changed=lambda name, usable: cluster.changed.append((name, usable)),
        )
        capabilities.track(informer, (POD_GROUPS, OLDER))
        ears = heard(informer)
        return capabilities, informer, ears

    return make


async def test_a_kind_that_is_there_is_mirrored(cluster, tracked, running):
    """runtime:I-37 runtime:I-39"""
    cluster.install()
    cluster.groups.put("g")
    capabilities, informer, ears = tracked()
    assert capabilities.presence(NAME) is Presence.UNKNOWN
    async with running(capabilities):
        await informer.synced.wait()
        await asyncio.sleep(0.1)
        assert capabilities.has(NAME)
        assert cluster.changed == [(NAME, True)]
        assert ears.said() == ["add g initial"]
    assert not capabilities.has("queues.scheduling.volcano.sh")


async def test_a_kind_that_comes_goes_and_comes_again_31(cluster, tracked, running):
    """runtime:I-37 runtime:I-38 field-reports:FR-082"""
    capabilities, informer, ears = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
        assert capabilities.presence(NAME) is Presence.ABSENT
        cluster.groups.put("g")
        cluster.install()
        await asyncio.sleep(2)
        assert capabilities.has(NAME)
        cluster.uninstall()
        await asyncio.sleep(2)
        assert capabilities.presence(NAME) is Presence.ABSENT
        assert informer.store.rows() == []
        cluster.install()
        await asyncio.sleep(2)
        assert capabilities.has(NAME)
    assert ears.said() == ["add g initial", "del g inferred", "add g initial"]
    assert cluster.changed == [(NAME, True), (NAME, False), (NAME, True)]


async def test_an_established_crd_that_discovery_does_not_list_yet_is_waited_for(
    cluster, tracked, running
):
    """runtime:I-38"""
    capabilities, informer, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
        cluster.crds.put(NAME, namespace="")
        await asyncio.sleep(5)
        assert capabilities.presence(NAME) is Presence.ABSENT
        cluster.serve(POD_GROUPS)
        cluster.groups.fail(error=NOT_SERVED, times=2)
        await asyncio.sleep(20)
        assert capabilities.has(NAME)
        assert informer.states() == [State.WATCHING]


async def test_discovery_that_still_lists_a_deleted_kind_is_asked_again(cluster, tracked, running):
    """runtime:I-38"""
    cluster.install()
    capabilities, _, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
        cluster.crds.delete(NAME, namespace="")
        await asyncio.sleep(3)
        assert capabilities.has(NAME)
        cluster.served = set()
        await asyncio.sleep(20)
        assert capabilities.presence(NAME) is Presence.ABSENT


async def test_another_version_is_another_start(cluster, tracked, running):
    """runtime:I-38 runtime:I-37"""
    cluster.install(OLDER)
    capabilities, informer, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
        assert informer.resource == OLDER
        cluster.install(POD_GROUPS)
        await asyncio.sleep(5)
        assert informer.resource == POD_GROUPS
        assert capabilities.has(NAME)
    assert cluster.changed == [(NAME, True), (NAME, False), (NAME, True)]


@pytest.mark.parametrize("how", ["not even tried", "refused"])
async def test_without_the_right_to_watch_crds_discovery_is_polled_once_a_minute(
    cluster, tracked, running, how
):
    """runtime:I-37"""
    capabilities, _, _ = tracked(watch_crds=how == "refused")
    cluster.crds.fail(error=error_of(403, b"{}"), times=10_000)
    async with running(capabilities):
        await asyncio.sleep(10)
        began = len(cluster.asked)
        await asyncio.sleep(600)
        assert 8 <= len(cluster.asked) - began <= 13
        cluster.serve(POD_GROUPS)
        await asyncio.sleep(75)
        assert capabilities.has(NAME)


async def test_a_watched_crd_that_does_not_change_costs_no_discovery(cluster, tracked, running):
    """runtime:I-37"""
    cluster.install()
    capabilities, _, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(10)
        began = len(cluster.asked)
        await asyncio.sleep(3600)
        assert len(cluster.asked) - began <= 8


async def test_discovery_that_fails_changes_nothing(cluster, tracked, running):
    """runtime:I-38"""
    cluster.install()
    capabilities, _, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
        cluster.trouble = TransportError("down", sent=False)
        cluster.crds.put(NAME, namespace="", note="touched")
        await asyncio.sleep(300)
        assert capabilities.has(NAME)
        cluster.trouble = None
        cluster.uninstall()
        await asyncio.sleep(60)
        assert not capabilities.has(NAME)


async def test_a_kind_that_cannot_be_listed_for_two_minutes_is_overdue(cluster, tracked, running):
    """runtime:I-40"""
    cluster.install()
    cluster.groups.fail(error=error_of(403, b"{}"), times=10_000)
    capabilities, _, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(100)
        assert capabilities.presence(NAME) is Presence.STARTING
        assert capabilities.overdue() == []
        await asyncio.sleep(30)
        assert capabilities.overdue() == [NAME]


async def test_the_watch_on_crds_is_for_one_name_and_metadata_only(cluster, tracked, running):
    """runtime:I-37"""
    scopes = []
    real = cluster.crds.watch

    def watch(resource, scope, **more):
        scopes.append(scope)
        return real(resource, scope, **more)

    cluster.crds.watch = watch
    capabilities, _, _ = tracked()
    async with running(capabilities):
        await asyncio.sleep(5)
    assert {(s.fields, s.metadata_only) for s in scopes} == {(f"metadata.name={NAME}", True)}


def answering(**answers):
    """Discovery of a server with these answers by path."""
    asked = []

    async def ask(request):
        asked.append(request)
        answer = answers.get(request.path)
        return Response(200 if answer else 404, {}, json.dumps(answer or {}).encode())

    return Discovery(ask), asked


async def test_aggregated_discovery_is_one_question():
    """runtime:I-37"""
    resources = [{"resource": "podgroups"}, {"resource": "queues"}]
    groups = [
        {"metadata": {"name": "other"}, "versions": [{"version": "v1", "resources": resources}]},
        {
            "metadata": {"name": "scheduling.volcano.sh"},
            "versions": [{"version": "v1beta1", "resources": resources}],
        },
    ]
    discovery, asked = answering(**{"/apis": {"kind": "APIGroupDiscoveryList", "items": groups}})
    served = await discovery.served({"scheduling.volcano.sh"})
    assert served == {
        ("scheduling.volcano.sh", "v1beta1", "podgroups"),
        ("scheduling.volcano.sh", "v1beta1", "queues"),
    }
    assert [request.headers["Accept"] for request in asked] == [AGGREGATED]
    assert preferred((OLDER, POD_GROUPS), served) == POD_GROUPS
    assert preferred((PODS,), served) is None


async def test_an_older_server_is_asked_group_by_group():
    """runtime:I-37"""
    group = {
        "name": "scheduling.volcano.sh",
        "versions": [{"version": "v1beta1"}, {"version": "v1gone"}],
    }
    discovery, asked = answering(
        **{
            "/apis": {"kind": "APIGroupList", "groups": [group, {"name": "other"}]},
            "/apis/scheduling.volcano.sh/v1beta1": {
                "resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]
            },
        }
    )
    served = await discovery.served({"scheduling.volcano.sh"})
    assert ("scheduling.volcano.sh", "v1beta1", "podgroups") in served
    assert len(asked) == 3
