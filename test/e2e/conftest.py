# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Real control planes, one of a kind a session; whatever ends the session ends them."""

import asyncio
import itertools
import os

import pytest

from hack.admin import wait_for
from hack.controlplane import SHARP, ControlPlane
from hack.node.cluster import NodeError
from hack.node.layout import default_layout
from hack.node.plane import RealPlane
from hack.operate import Operator

FOLDERS = []
COUNTER = itertools.count(1)
SLOW_S = 300


def pytest_asyncio_loop_factories(config, item):
    return {"real": asyncio.new_event_loop}


def pytest_collection_modifyitems(items):
    for item in items:
        if "test/e2e" in item.path.as_posix():
            item.add_marker(pytest.mark.e2e)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(SLOW_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """With the report, so that it also comes from a process beside."""
    report = yield
    if report.failed and FOLDERS:
        report.sections.append(("logs", "\n".join(str(folder) for folder in FOLDERS)))
    return report


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder for logs, named when a test failed."""

    def make(name):
        made = tmp_path_factory.mktemp(name)
        FOLDERS.append(made)
        return made

    return make


@pytest.fixture(scope="session")
def plain(folder):
    """API server and controllers, with Volcano's CRDs and ours, and nobody who acts on them."""
    with ControlPlane(folder("plain")) as plane:
        yield plane


@pytest.fixture(scope="session")
def full(folder):
    """The same with Volcano and three fake nodes of eight NPUs, one of them of the oldest kind."""
    with ControlPlane(folder("full"), volcano=SHARP, kwok=True) as plane:
        plane.add_node("node-1", labels={"accelerator-type": "module-910b-8"})
        plane.add_node("node-2", labels={"accelerator-type": "module-910b-8"})
        plane.add_node("node-3", labels={"accelerator-type": "module", "host-arch": "huawei-arm"})
        yield plane


@pytest.fixture
def namespace():
    """Make a namespace that goes with the test: `namespace(plane)`."""
    made = []

    def make(plane):
        name = f"test-{next(COUNTER)}"
        with plane.admin() as admin:
            meta = {"name": name}
            admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        made.append((plane, name))
        return name

    yield make
    for plane, name in made:
        with plane.admin() as admin:
            # What is left of one test would hold the NPUs that the next one waits for.
            for path in taking_room(name):
                admin.request("DELETE", path, {"gracePeriodSeconds": 0})
            admin.ask("DELETE", f"/api/v1/namespaces/{name}")  # a test may have done it
            wait_for(f"{name} is empty", lambda a=admin, n=name: is_empty(a, n), 60)


def taking_room(namespace):
    """Collections of what Volcano counts."""
    groups = "apis/scheduling.volcano.sh/v1beta1"
    return [
        f"/{v}/namespaces/{namespace}/{p}" for v, p in ((groups, "podgroups"), ("api/v1", "pods"))
    ]


def is_empty(admin, namespace):
    return not any(admin.request("GET", path)["items"] for path in taking_room(namespace))


@pytest.fixture(scope="session")
def make_replica(folder):
    """Make a replica for a `with` block: for fixtures that outlive a test."""

    def make(plane, *arguments, **options):
        return Operator(plane, folder(options.get("name", "operator")), *arguments, **options)

    return make


@pytest.fixture(scope="module")
def real(folder):
    """One real node. Where none comes up, that is said; only `make node-test` insists."""
    plane = RealPlane(default_layout(), folder("real"), toleration_s=5)
    try:
        plane.start()
    except NodeError as error:
        if "NODES" in os.environ:
            raise
        pytest.skip(f"no real node on this machine: {error}")
    yield plane
    plane.stop()


@pytest.fixture
def operator(folder):
    """Start replicas: `operator(plane, "--flag", name="second")`; they end with the test."""
    started = []

    def start(plane, *arguments, **options):
        replica = Operator(plane, folder(options.get("name", "operator")), *arguments, **options)
        started.append(replica)
        return replica.start()

    yield start
    for replica in started:
        replica.process.stop()
