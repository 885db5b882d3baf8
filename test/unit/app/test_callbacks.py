# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""No callback holds the loop: probes, the lease and all other jobs wait behind it."""

import asyncio
import gc
import time

import pytest

from ..make import job  # noqa: TID252  the standard library has a package called test
from ..town import JOBS, NS  # noqa: TID252  likewise

JOBS_THERE, PODS_EACH = 100, 100
SLOW_S = 0.1


@pytest.fixture
def callbacks(monkeypatch):
    """CPU seconds and name of every callback of the operator's tasks that was slow.

    CPU time and not the clock's: how busy the machine is, is not the operator's doing.
    """
    slow = []
    gc.collect()
    gc.disable()  # how it pauses has tests of its own, and a policy that is not on here
    run = asyncio.Handle._run

    def measured(handle):
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > SLOW_S:
            slow.append((round(took, 3), repr(handle)))

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    yield slow
    gc.enable()


def put(town, plural, obj):
    """Straight into storage: what it costs to ask the server is not of interest here."""
    world = town.server.world
    table = world.storage.table(plural)
    meta = obj["metadata"]
    meta |= {"uid": world.uid(), "creationTimestamp": world.now(), "namespace": NS}
    world.storage.put(table, (NS, meta["name"]), obj)
    return meta


def fill(town, template):
    for number in range(JOBS_THERE):
        name = f"job-{number}"
        labels = {"framework": "pytorch"}
        found = {**template, "metadata": {"name": name, "labels": labels}}
        owner = {
            "apiVersion": JOBS.api_version,
            "kind": "AscendJob",
            "name": name,
            "uid": put(town, "ascendjobs.mindxdl.gitee.com", found)["uid"],
            "controller": True,
        }
        put(town, "pods", pod(name, "master", 0, owner))
        for index in range(PODS_EACH - 1):
            put(town, "pods", pod(name, "worker", index, owner))


def pod(job, role, index, owner):
    labels = {
        "training.kubeflow.org/job-name": job,
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
        "version": "0",
    }
    meta = {"name": f"{job}-{role}-{index}", "labels": labels, "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"nodeName": f"node-{index}", "containers": [{"name": "ascend", "image": "i:1"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


@pytest.mark.real_time
async def test_ten_thousand_pods_are_read_and_decided_about_in_small_pieces(town, callbacks):
    """runtime:P-11 runtime:I-10 runtime:I-17 runtime:I-29 field-reports:FR-079"""
    fill(town, job(Master=1, Worker=PODS_EACH - 1))
    await asyncio.sleep(0)
    callbacks.clear()
    operator = town.operator()
    async with town.running(operator):
        assert len(operator.mirror.pods.store) == JOBS_THERE * PODS_EACH
        while operator.queue.depths():  # noqa: ASYNC110  a queue has no event for being empty
            await asyncio.sleep(0.1)
    assert callbacks == []
