# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What users of mpi-operator have met, done to ours."""

import asyncio

import pytest

from ascendop.apply.plan import Create
from ascendop.kube.resource import BATCH_JOBS, PODS, Scope
from ascendop.reconciler.decide import decide

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .. import make  # noqa: TID252  likewise
from ..app.mpitown import JOBS, mpi_town, running  # noqa: TID252  likewise
from ..town import NS  # noqa: TID252  likewise


@pytest.fixture
async def town():
    async with mpi_town() as town:
        yield town


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
async def test_a_job_that_has_ended_never_runs_again(town, policy):
    """field-reports:FR-001: whatever is deleted, and whoever looks at it anew."""
    async with town.running(town.operator()):
        await town.make(policy={"cleanPodPolicy": policy})
        await town.until_all()
        await town.kubelet("Running")
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        await asyncio.sleep(5)
    before = await town.status()
    for name in await town.pods():
        await town.hands.delete(PODS, NS, name, grace_s=0)
    await town.hands.delete(BATCH_JOBS, NS, "foo-launcher")
    async with town.running(town.operator("b")):
        await asyncio.sleep(5)
        await town.patch(JOBS, "foo", {"metadata": {"annotations": {"touched": "1"}}})
        await asyncio.sleep(60)
    assert await town.pods() == {}
    assert await town.hands.list(BATCH_JOBS, Scope(NS)) == []
    assert await town.status() == before
    assert town.wires["b"].writes("pods") == town.wires["b"].writes("jobs") == []


async def test_running_is_told_once_for_each_start(town):
    """field-reports:FR-008: pods of before a suspension are still seen to run after it."""
    async with running(town):
        await town.suspend()
        await town.until_pods(0)
        await town.until_job("Suspended", "foo")
        await asyncio.sleep(30)
        assert dict(await town.conditions())["Running"] == "False"
        await town.suspend(False)
        await town.until_all()
        await asyncio.sleep(30)
        assert dict(await town.conditions())["Running"] == "False", "no pod runs yet"
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
    assert (await town.reasons()).count("MPIJobRunning") == 1, "one Event that counts two"


@pytest.mark.parametrize("policy", ["ExitCode", "Always"])
def test_a_launcher_policy_that_no_job_has_is_refused(policy):
    """field-reports:FR-016: and never taken for another one without a word."""
    launcher = {"template": mpi.template(), "restartPolicy": policy}
    plan, found = mpi.decided(mpi.seen(mpi.job(workers=1, launcher=launcher), shared={}))
    assert plan.steps == ()
    (text,) = (text for _, reason, text in mpi.told(found) if reason == "ValidationError")
    assert f'"{policy}"' in text and "restartPolicy" in text


async def test_pods_of_a_namesake_that_still_end_are_waited_for(town):
    """field-reports:FR-019: they are never counted, adopted or deleted; nothing fails of it."""
    async with running(town):
        for name in await town.pods():
            finalizers = {"metadata": {"finalizers": ["example.com/slow"]}}
            await town.hands.patch(PODS, NS, name, finalizers)
        old = {pod["metadata"]["uid"] for pod in (await town.pods()).values()}
        await town.hands.delete(JOBS, NS, "foo")
        await asyncio.sleep(5)
        await town.make()
        await asyncio.sleep(20)
        found = {pod["metadata"]["uid"] for name, pod in (await town.pods()).items()}
        workers = {p["metadata"]["uid"] for n, p in (await town.pods()).items() if "worker" in n}
        assert workers < old, "their names are taken"
        assert (await town.status())["replicaStatuses"].get("Worker", {}) == {}
        assert found & old == old
        for name, pod in (await town.pods()).items():
            if pod["metadata"]["uid"] in old:
                await town.hands.patch(PODS, NS, name, {"metadata": {"finalizers": None}})

        async def anew():
            there = await town.pods()
            uids = {pod["metadata"]["uid"] for pod in there.values()}
            return len(there) == 3 and not uids & old

        await town.until(anew, 10)
        await town.kubelet("Running")
        await town.until_job("Running", "foo")


def test_a_launcher_that_works_alone_waits_for_nobody():
    """field-reports:FR-041"""
    spec = {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    obj = mpi.job(**spec)
    plan = decide(mpi.seen(obj, shared={}))
    kinds = [kind for kind, _ in mpi.made(plan)]
    assert kinds == ["Service", "ConfigMap", "Secret", "Job"]
    (config,) = (w.object for w in make.writes(plan, Create) if w.object["kind"] == "ConfigMap")
    assert config["data"]["hostfile"].count("\n") == 1
    (service,) = (w.object for w in make.writes(plan, Create) if w.object["kind"] == "Service")
    assert service["spec"]["publishNotReadyAddresses"] is True


async def test_the_accounts_and_secrets_of_users_are_used_and_never_made(town):
    """field-reports:FR-043"""
    spec = {"serviceAccountName": "my-sa", "imagePullSecrets": [{"name": "pull"}]}
    async with town.running(town.operator()):
        await town.make(launcher={"template": mpi.template(**spec)})
        await town.until_all()
        job = await town.hands.get(BATCH_JOBS, NS, "foo-launcher")
    found = job["spec"]["template"]["spec"]
    assert {key: found[key] for key in spec} == spec
    made = {plural for _, plural in town.wire.writes()}
    assert not made & {"serviceaccounts", "roles", "rolebindings"}
