# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The whole node side with real processes, on the simulator's server; and nothing left behind."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random  # noqa: TID251  the type; seeded

import pytest

from ascendop.backoff import Backoff
from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.resource import (
    CONFIGMAPS,
    CORE_EVENTS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from ascendop.sim import volcano
from ascendop.sim.local import LocalNode, choose_place
from ascendop.sim.netns import Machine
from ascendop.sim.nodes import parse_nodes
from ascendop.sim.processes import mentions, substitute
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport
from test.unit.sim.driver import (
    HAS,
    best_place,
    left_behind,
    make_place,
    places,
    shell,
)

pytestmark = pytest.mark.real_time

NPU = "huawei.com/Ascend910"
HERE = places(best_place())
EVERYWHERE = places("root", "user", "loopback")


async def until(condition):
    async with asyncio.timeout(20):
        while True:
            holds = condition()
            if await holds if inspect.isawaitable(holds) else holds:
                return
            await asyncio.sleep(0.05)


class Cluster:
    def __init__(self, client, node):
        self.client = client
        self.node = node

    async def create(self, resource, kind, name, **rest):
        meta = {"name": name, "namespace": "ml", **rest.pop("meta", {})}
        obj = {"apiVersion": resource.api_version, "kind": kind, "metadata": meta, **rest}
        return await self.client.create(resource, obj)

    async def start(self, name, script, *, npus=0, env=(), annotations=None, **spec):
        given = shell(script, name, annotations=annotations or {}, **spec)
        given["metadata"].pop("uid")
        given["spec"].pop("nodeName")
        [container] = given["spec"]["containers"]
        container["image"] = "none"
        container["env"] = list(env)
        if npus:
            container["resources"] = {"limits": {NPU: str(npus)}}
        await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **given})

    async def pod(self, name):
        return await self.client.get(PODS, "ml", name)

    async def phase(self, name):
        return ((await self.pod(name)).get("status") or {}).get("phase")

    async def end_of(self, *names):
        for name in names:
            await self.reach(name, "Succeeded", "Failed")
        return [await self.phase(name) for name in names]

    async def reach(self, name, *phases):
        async def there():
            return await self.phase(name) in phases

        await until(there)

    async def is_empty(self):
        return not await self.client.list(PODS)

    async def log(self, name, **options):
        parts = [part async for part in self.node.logs.read("ml", name, "main", **options)]
        return b"".join(parts).decode()


@asynccontextmanager
async def cluster(kind, root, nodes="2x8"):
    server = ApiServer(wall=wall, rng=Random(1), collect_after_s=0.05)
    client = Client(SimTransport(server), rng=Random(1))
    await volcano.install(client)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}}
    await client.create(NAMESPACES, namespace)
    node = LocalNode(
        client,
        root=root,
        wall=wall,
        place=make_place(kind),
        token="a token",
        nodes=[parse_nodes(nodes)],
        restart=Backoff(0.1, 0.2),
    )
    server.logs = node.logs
    async with asyncio.TaskGroup() as group:
        task = group.create_task(node.run())
        await node.ready.wait()
        yield Cluster(client, node)
        task.cancel()
    server.close()


@EVERYWHERE
async def test_a_gang_with_devices_runs_to_its_end(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        spec = {"minMember": 2, "minResources": {NPU: "16"}}
        await c.create(POD_GROUPS, "PodGroup", "g", spec=spec)
        visible = {
            "name": "DEVICES",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{NPU}']"}},
        }
        notes = {"scheduling.k8s.io/group-name": "g"}
        for name in ("w0", "w1"):
            await c.start(name, "echo $DEVICES", npus=8, env=[visible], annotations=notes)
        assert await c.end_of("w0", "w1") == ["Succeeded", "Succeeded"]
        assert (await c.log("w0")).startswith("Ascend910-0,Ascend910-1,")
        hosts = {(await c.pod(name))["status"]["hostIP"] for name in ("w0", "w1")}
        assert hosts == {"10.10.0.1", "10.10.0.2"}


@EVERYWHERE
async def test_a_service_is_reached_by_name_and_by_clusterip(kind, tmp_path):
    serve = (
        "python3 -uc \"import os, socket; s = socket.create_server((os.environ['IP'], 8118));"
        " [s.accept()[0].sendall(b'hello') for _ in range(2)]\""
    )
    ask = (
        'for host in $BY_NAME $BY_IP; do python3 -c "import socket, sys, time\n'
        "for _ in range(100):\n"
        "    try: print(socket.create_connection((sys.argv[1], 8118)).recv(9).decode()); break\n"
        '    except OSError: time.sleep(0.1)\n" $host; done'
    )
    async with cluster(kind, tmp_path) as c:
        ports = [{"port": 8118, "protocol": "TCP"}]
        spec = {"selector": {"app": "master"}, "ports": ports}
        service = await c.create(SERVICES, "Service", "job-master", spec=spec)
        ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        env = [
            {"name": "BY_NAME", "value": "job-master.ml.svc"},
            {"name": "BY_IP", "value": service["spec"]["clusterIP"]},
        ]
        await c.start("worker", ask, env=env)
        await c.start("master", serve, env=[ip])
        assert await c.end_of("master", "worker") == ["Succeeded", "Succeeded"]
        assert await c.log("worker") == "hello\nhello\n"


@HERE
async def test_a_configmap_that_changes_reaches_the_pod_within_a_second(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        await c.create(CONFIGMAPS, "ConfigMap", "ranks", data={"hccl.json": "initializing"})
        await c.start(
            "w",
            "while ! grep -q completed /ranks-here/hccl.json; do sleep 0.05; done",
            container={"volumeMounts": [{"name": "v", "mountPath": "/ranks-here"}]},
            volumes=[{"name": "v", "configMap": {"name": "ranks"}}],
        )
        await c.reach("w", "Running")
        change = {"data": {"hccl.json": "completed"}}
        await c.client.patch(CONFIGMAPS, "ml", "ranks", change)
        assert await c.end_of("w") == ["Succeeded"]


@HERE
async def test_a_log_is_followed_until_the_container_ends_and_cut_to_its_tail(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        await c.start("w", "for i in 1 2 3; do echo $i; sleep 0.2; done")
        await c.reach("w", "Running")
        assert await c.log("w", follow=True) == "1\n2\n3\n"
        assert await c.log("w", tail=2) == "2\n3\n"
        with pytest.raises(LookupError):
            await c.log("nobody")


@HERE
async def test_a_deleted_pod_ends_and_is_gone_with_its_files(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        await c.start("w", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        await until(lambda: c.node.logs.path("ml", "w", "main").exists())
        await until(lambda: "up" in c.node.logs.path("ml", "w", "main").read_text())
        await c.client.delete(PODS, "ml", "w")
        await until(c.is_empty)
        assert await c.log("w") == "up\nbye\n"
        assert list((tmp_path / "pods").iterdir()) == []


@HERE
async def test_a_pod_deleted_by_force_is_killed(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        await c.start("w", "sleep 87123")
        await until(lambda: bool(left_behind("sleep 87123")))
        await c.client.delete(PODS, "ml", "w", grace_s=0)
        await until(lambda: not left_behind("sleep 87123"))


@HERE
async def test_events_tell_what_happened(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        await c.start("w", "true")
        await c.end_of("w")
        reasons = {event["reason"] for event in await c.client.list(CORE_EVENTS)}
        assert {"Scheduled", "Started"} <= reasons


@HERE
async def test_a_pod_of_a_driver_that_died_has_failed(kind, tmp_path):
    async with cluster(kind, tmp_path) as c:
        spec = {"containers": [{"name": "main", "image": "i", "command": ["true"]}]}
        await c.create(PODS, "Pod", "w", spec={**spec, "nodeName": "elsewhere"})
        status = {"status": {"phase": "Running"}}
        await c.client.patch(PODS, "ml", "w", status, subresource="status")
        await c.client.create(
            NODES,
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}},
        )
        assert await c.end_of("w") == ["Failed"]
        ended = (await c.pod("w"))["status"]["containerStatuses"][0]["state"]["terminated"]
        assert ended["exitCode"] == 137


SCRIPT = """
import asyncio, signal, sys
from pathlib import Path
from random import Random
from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.resource import PODS
from ascendop.sim.local import LocalNode
from ascendop.sim.netns import Machine
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

async def main():
    server = ApiServer(wall=wall, rng=Random(1))
    client = Client(SimTransport(server), rng=Random(1))
    place = Machine(user=sys.argv[2] == "user")
    node = LocalNode(client, root=Path(sys.argv[1]), wall=wall, place=place, token="t")
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        await node.ready.wait()
        for name in ("a", "b"):
            await client.create(PODS, {
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i",
                    "volumeMounts": [{"name": "v", "mountPath": "/not/there/yet"}],
                    "command": ["sh", "-c", "setsid sleep 65432 & exec sleep 65432"]}],
                    "volumes": [{"name": "v", "emptyDir": {}}]}})

# Whoever started the tests in the background may have told them not to hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.run(main())
"""


DEATHS = [
    pytest.param("root", signal.SIGKILL, id="killed"),
    pytest.param("user", signal.SIGKILL, id="killed, in a user namespace"),
    pytest.param(best_place(), signal.SIGTERM, id="told to end, which it does not hear"),
    pytest.param(best_place(), signal.SIGINT, id="interrupted"),
]


@pytest.mark.root
@pytest.mark.parametrize(("kind", "how"), DEATHS)
def test_when_the_driver_dies_nothing_is_left(kind, how, tmp_path):
    if not HAS.get(kind):
        pytest.skip(f"no namespaces as {kind}")
    mounts, links = Path("/proc/self/mountinfo").read_text(), network_links()
    root = Path(__file__).parents[3]
    driver = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), kind],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    try:
        wait_until(lambda: len(left_behind("sleep 65432")) >= 4)
    finally:
        driver.send_signal(how)
    try:
        driver.wait(20)
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not left_behind("65432") and not left_behind(str(tmp_path)))
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert network_links() == links


def network_links():
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def wait_until(condition):
    give_up_at = time.perf_counter() + 20
    while not condition():
        assert time.perf_counter() < give_up_at
        os.sched_yield()


@pytest.mark.skipif(not (HAS["root"] or HAS["user"]), reason="no namespaces here")
async def test_namespaces_are_chosen_where_they_are_to_be_had():
    warnings = []
    place = await choose_place(warnings.append)
    assert isinstance(place, Machine) and warnings == []


async def test_without_namespaces_one_sentence_warns(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    warnings = []
    place = await choose_place(warnings.append)
    assert not place.separate
    [warning] = warnings
    assert "unshare, nsenter, ip, mount, sh not found" in warning


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("web", "1.2.3.4"),
        ("http://web:80/x", "http://1.2.3.4:80/x"),
        ("web,db.ml.svc", "1.2.3.4,5.6.7.8"),
        ("webb my-web web-1 web.other", "webb my-web web-1 web.other"),
        ("10.96.0.10:8118", "127.77.0.1:8118"),
        ("10.96.0.101", "10.96.0.101"),
        ("cat /opt/web/x /web", "cat /opt/web/x /web"),
    ],
)
def test_names_that_stand_alone_become_addresses(text, want):
    pairs = {"web": "1.2.3.4", "db": "0", "db.ml.svc": "5.6.7.8", "10.96.0.10": "127.77.0.1"}
    assert substitute(text, pairs) == want


def test_a_name_is_mentioned_only_whole():
    assert mentions("tcp://web:1", "web") and not mentions("my-web", "web")
