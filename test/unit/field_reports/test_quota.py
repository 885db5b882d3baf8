# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A namespace that has no room for all that is wanted."""

import asyncio

import orjson
import pytest

from ascendop.kube.resource import CRDS
from ascendop.schema.crd import crd
from ascendop.sim.answers import RefusedError

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import JOBS, KINDS, NS, resource_of  # noqa: TID252  likewise
from ..wire import is_write  # noqa: TID252  likewise

TORCH = resource_of(KINDS["PyTorchJob"])


class Quota:
    """A ResourceQuota for pods, as its admission plug-in words it."""

    def __init__(self, town, pods):
        self.town, self.pods = town, pods
        self.let_in = set()
        town.wire.before.append(self.before)
        town.wire.after.append(self.after)

    async def before(self, request):
        if not is_write("POST", "pods")(request):
            return
        used = len(set(await self.town.pods()) | self.let_in)
        if used >= self.pods:
            text = (
                'pods "x" is forbidden: exceeded quota: small, requested: pods=1, '
                f"used: pods={used}, limited: pods={self.pods}"
            )
            raise RefusedError(403, "Forbidden", text)
        self.let_in.add(orjson.loads(request.body)["metadata"]["name"])

    async def after(self, request):
        if is_write("POST", "pods")(request):
            self.let_in.discard(orjson.loads(request.body)["metadata"]["name"])


async def created(town, resource=JOBS, name="j"):
    status = (await town.hands.get(resource, NS, name)).get("status") or {}
    return next(c for c in status["conditions"] if c["type"] == "Created")


async def of(town, name):
    """Names of the pods of one job."""
    return [pod for pod in await town.pods() if pod.startswith(f"{name}-")]


async def test_a_job_that_the_quota_has_no_room_for_says_so_until_there_is(town):
    """field-reports:FR-005"""
    async with town.running(town.operator()):
        quota = Quota(town, 2)
        await town.create(Master=1, Worker=4)
        await asyncio.sleep(60)
        assert len(await town.pods()) == 2, "what is no gang keeps what it has"
        assert "exceeded quota: small" in (await created(town))["message"]
        assert len(town.wire.writes("pods")) < 15
        reasons = await town.reasons()
        assert reasons.count("FailedCreatePod") == 1
        await asyncio.sleep(3 * 3600)
        quota.pods = 10
        await town.until_pods(5, within_s=132)
        await asyncio.sleep(1)
        found = await created(town)
        assert (found["reason"], found["message"]) == ("JobCreated", "Job j is create.")


async def test_a_torch_job_says_it_too(town):
    """field-reports:FR-005"""
    await town.hands.create(CRDS, crd(KINDS["PyTorchJob"]))
    async with town.running(town.operator(kinds=("PyTorchJob",))):
        quota = Quota(town, 2)
        body = make.torch_job(Master=1, Worker=4)
        body["metadata"]["namespace"] = NS
        await town.hands.create(TORCH, body)
        await asyncio.sleep(60)
        found = await created(town, TORCH)
        assert found["reason"] == "PyTorchJobPodCreateFailed"
        assert "exceeded quota: small" in found["message"]
        quota.pods = 10
        await town.until_pods(5, within_s=120)
        await asyncio.sleep(1)
        assert (await created(town, TORCH))["reason"] == "PyTorchJobCreated"


@pytest.mark.parametrize("jobs", [2, 3])
async def test_gangs_that_the_quota_has_room_for_one_by_one_run_one_by_one(town, jobs):
    """field-reports:FR-029"""
    names = [f"gang{number}" for number in range(jobs)]
    async with town.running(town.operator(enable_gang_scheduling=True)):
        Quota(town, 5)
        for name in names:
            await town.create(name, Master=1, Worker=3)
        await town.let_in(gangs=jobs)
        left = list(names)
        while left:
            await asyncio.sleep(60 if len(left) == jobs else 120)
            counts = {name: len(await of(town, name)) for name in left}
            whole = [name for name in left if counts[name] == 4]
            assert len(whole) == 1 and sum(counts.values()) <= 5, counts
            for name in set(left) - set(whole):
                assert "exceeded quota: small" in (await created(town, name=name))["message"]
            pods = await of(town, whole[0])
            await town.turn("Running", *pods)
            await town.turn("Succeeded", *pods)
            await town.until_job("Succeeded", whole[0])
            await town.lose(*pods)
            left.remove(whole[0])


async def test_a_gang_that_runs_gives_nothing_back(town):
    """field-reports:FR-029"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        quota = Quota(town, 5)
        await town.create(Master=1, Worker=3)
        await town.let_in()
        await town.until_pods(4)
        await town.turn("Running")
        await town.until_job("Running")
        quota.pods = 3
        await town.lose("j-worker-2")
        await asyncio.sleep(600)
        assert len(await town.pods()) == 3
        assert "exceeded quota: small" in (await created(town))["message"]
        quota.pods = 4
        await town.until_pods(4, within_s=132)


async def test_what_never_fits_is_tried_less_and_less_often(town):
    """field-reports:FR-029"""
    async with town.running(town.operator(enable_gang_scheduling=True)):
        Quota(town, 3)
        await town.create(Master=1, Worker=3)
        await town.let_in()
        await asyncio.sleep(3600)
        before = len(town.wire.writes("pods"))
        await asyncio.sleep(3600)
        tries = (len(town.wire.writes("pods")) - before) / (4 + 3)
        assert 3600 / 125 < tries < 3600 / 60, "each minute or two, one set of pods"
        assert "GangOverQuota" in await town.reasons()
