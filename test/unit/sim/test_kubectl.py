# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A stock kubectl against the simulator: what people type, and what they see."""

import asyncio
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random  # noqa: TID251  a seed, so that every run is the same

import orjson
import pytest

from ascendop.clock import wall
from ascendop.sim.http import serve
from ascendop.sim.server import ApiServer

pytestmark = pytest.mark.real_time
ROOT = Path(__file__).parents[3]

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: main, image: "image:1", command: [sleep, "1"], ports: [{containerPort: 80}]}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .s}}
    additionalPrinterColumns: [{name: Size, type: string, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted.
            properties:
              size: {type: string, enum: [S, M], description: How large it is.}
              replicas: {type: integer}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: S}
"""


@cache
def binary():
    """The kubectl of the tool cache, or the one that ASCENDOP_KUBECTL names."""
    if named := os.environ.get("ASCENDOP_KUBECTL"):
        return named
    command = [sys.executable, str(ROOT / "hack" / "tools.py"), "path", "kubectl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    path = done.stdout.strip()
    return path if done.returncode == 0 and Path(path).exists() else ""


class Logs:
    """Two lines, one at a time."""

    async def read(self, namespace, pod, container, *, follow, tail, previous):
        yield f"{pod}/{container} one\n".encode()
        if follow:
            await asyncio.sleep(0.05)
            yield b"two\n"


@pytest.fixture
async def kubectl(tmp_path):
    """Run kubectl; its standard output, or both outputs where it is said to fail."""
    if not binary():
        pytest.skip("there is no kubectl: set ASCENDOP_KUBECTL, or `python hack/tools.py build`")
    server = ApiServer(wall=wall, rng=Random(1))
    server.logs = Logs()
    config = tmp_path / "kubeconfig"
    environ = {"KUBECONFIG": str(config), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    async def run(*arguments, stdin="", fails=False, editor=""):
        process = await asyncio.create_subprocess_exec(
            binary(),
            *arguments,
            env={**environ, "EDITOR": editor},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = await process.communicate(stdin.encode())
        assert (process.returncode != 0) is fails, (out + errors).decode()
        return (out + errors).decode() if fails else out.decode()

    run.server = server
    async with serve(server, token="secret") as address:
        address.write_kubeconfig(config)
        yield run
    server.close()


def words(table):
    return [line.split() for line in table.splitlines()]


async def test_a_manifest_is_applied_shown_and_described(kubectl):
    assert await kubectl("apply", "-f", "-", stdin=POD) == "pod/web created\n"
    assert await kubectl("apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"
    header, row = words(await kubectl("get", "pods", "-A", "-l", "app=web"))
    assert header == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["default", "web", "0/1", "Pending"]
    assert "NODE" in words(await kubectl("get", "pod", "web", "-o", "wide"))[0]
    told = await kubectl("describe", "pod", "web")
    pairs = [line.split() for line in told.splitlines()]
    assert ["QoS", "Class:", "BestEffort"] in pairs
    assert ["Image:", "image:1"] in pairs


async def test_an_apply_by_the_server_says_who_is_in_the_way(kubectl):
    await kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=POD)
    other = POD.replace("image:1", "image:2")
    told = await kubectl("apply", "--server-side", "-f", "-", stdin=other, fails=True)
    assert 'conflict with "one" using v1: .spec.containers[name="main"].image' in told
    forced = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert await kubectl(*forced, stdin=other) == "pod/web serverside-applied\n"


async def test_a_custom_kind_is_explained_waited_for_scaled_and_edited(kubectl, tmp_path):
    await kubectl("apply", "-f", "-", stdin=CRD)
    await kubectl("wait", "--for=condition=established", "crd/widgets.example.com")
    await kubectl("create", "-f", "-", stdin=WIDGET)
    assert words(await kubectl("get", "wd")) == [["NAME", "SIZE"], ["a", "S"]]
    assert "How large it is." in await kubectl("explain", "widget.spec.size")
    assert "wd" in await kubectl("api-resources", "--api-group=example.com")
    await kubectl("scale", "wd/a", "--replicas=3")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/size: S/size: M/" "$1"\n')
    editor.chmod(0o755)
    await kubectl("edit", "wd", "a", editor=str(editor))
    found = orjson.loads(await kubectl("get", "wd", "a", "-o", "json"))
    assert found["spec"] == {"size": "M", "replicas": 3}
    bad = '{"spec": {"size": "XL"}}'
    told = await kubectl("patch", "wd", "a", "--type=merge", "-p", bad, fails=True)
    assert 'Unsupported value: "XL": supported values: "S", "M"' in told


async def test_what_kubectl_makes_by_itself_arrives(kubectl):
    """It sends those in protobuf."""
    await kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert await kubectl("get", "cm", "c", "-o", "jsonpath={.data}") == '{"a":"b"}'
    await kubectl("create", "deployment", "d", "--image=image:1", "--replicas=0")
    spec = orjson.loads(await kubectl("get", "deploy", "d", "-o", "json"))["spec"]
    assert (spec["replicas"], spec["selector"]) == (0, {"matchLabels": {"app": "d"}})
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert await kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="


async def test_labels_annotations_and_patches_are_written(kubectl):
    await kubectl("apply", "-f", "-", stdin=POD)
    await kubectl("label", "pod", "web", "a=b")
    await kubectl("annotate", "pod", "web", "c=d")
    image = '{"spec": {"containers": [{"name": "main", "image": "image:3"}]}}'
    await kubectl("patch", "pod", "web", "-p", image)
    found = orjson.loads(await kubectl("get", "pod", "web", "-o", "json"))
    assert found["metadata"]["labels"] == {"app": "web", "a": "b"}
    assert found["metadata"]["annotations"]["c"] == "d"
    assert found["spec"]["containers"][0]["image"] == "image:3"


async def test_waiting_ends_when_what_is_waited_for_happens(kubectl):
    await kubectl("apply", "-f", "-", stdin=POD)
    ready = '{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}'
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kubectl("wait", "--for=condition=Ready", "pod/web"))
        tasks.create_task(kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/web"))
        await kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", ready)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kubectl("wait", "--for=delete", "pod/web"))
        await kubectl("delete", "pod", "web")


async def test_a_watch_prints_what_changes_until_the_server_ends_it(kubectl):
    await kubectl("apply", "-f", "-", stdin=POD)
    async with asyncio.TaskGroup() as tasks:
        watch = ("get", "pods", "--watch", "--output-watch-events", "--request-timeout=2s")
        seen = tasks.create_task(kubectl(*watch))
        await asyncio.sleep(0.7)
        await kubectl("delete", "pod", "web")
    table = words(seen.result())
    assert [row[0] for row in table] == ["EVENT", "ADDED", "DELETED"]


async def test_logs_are_followed_to_their_end(kubectl):
    await kubectl("apply", "-f", "-", stdin=POD)
    assert await kubectl("logs", "web") == "web/main one\n"
    assert await kubectl("logs", "-f", "web") == "web/main one\ntwo\n"
    told = await kubectl("logs", "web", "-c", "none", fails=True)
    assert "container none is not valid for pod web" in told


async def test_the_cluster_says_what_it_is(kubectl):
    assert "Server Version: v1.34" in await kubectl("version")
    assert "control plane" in await kubectl("cluster-info")
    assert "pods" in await kubectl("api-resources", "--namespaced=true", "-o", "name")
    assert "FIELDS:" in await kubectl("explain", "pod.spec.containers")


async def test_nobody_gets_in_without_the_token(kubectl, tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(config.read_text().replace("/secret", "/guess"))
    told = await kubectl("get", "pods", fails=True)
    assert "You must be logged in" in told or "Unauthorized" in told
