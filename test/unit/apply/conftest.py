# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""An executor on the simulator's server, with the caches that it writes for."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.app.mirror import resource_of
from ascendop.apply.caches import Cache
from ascendop.apply.execute import Executor
from ascendop.apply.plan import Create, Step
from ascendop.clock import simulated
from ascendop.informer import rows
from ascendop.informer.informer import Informer, all_synced
from ascendop.kinds import load_kinds
from ascendop.kube.client import Client
from ascendop.kube.resource import CRDS, PODS, SERVICES, Key
from ascendop.schema.crd import crd
from ascendop.sim.server import ApiServer
from ascendop.sim.transport import SimTransport

from .. import make  # noqa: TID252  the standard library has a package called test
from ..wire import Wire  # noqa: TID252  likewise

KIND = load_kinds()["AscendJob"]
JOBS = resource_of(KIND)
NS = "default"


class Bench:
    """A job on a server, the executor, and hands to meddle with."""

    def __init__(self, server):
        self.server = server
        self.wire = Wire(server)
        self.hands = Client(SimTransport(server), rng=Random(1))
        """Somebody else's."""
        self.client = Client(self.wire, rng=Random(2), attempts=1)
        self.noted = []
        self.informers = {
            resource: Informer(self.hands, resource, form, rng=Random(3))
            for resource, form in (
                (PODS, rows.pods_form()),
                (SERVICES, rows.services_form()),
                (JOBS, rows.jobs_form()),
            )
        }
        forms = {PODS: rows.pods_form(), SERVICES: rows.services_form(), JOBS: rows.jobs_form()}
        caches = {r: Cache(i.store, forms[r]) for r, i in self.informers.items()}
        self.caches = caches
        self.executor = self.executor_of()
        self.job = {}
        self.key = Key("AscendJob", NS, "j")

    def executor_of(self, lists=None):
        return Executor(
            self.client,
            self.caches,
            noted=lambda *args: self.noted.append(args),
            lists=lists,
        )

    @property
    def pods(self):
        """The cache, with our own writes over it."""
        return self.informers[PODS].store

    def owner(self, **fields):
        return {
            "apiVersion": JOBS.api_version,
            "kind": "AscendJob",
            "name": "j",
            "uid": self.job["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        } | fields

    def pod(self, name="j-worker-0", *, owners=None, **meta):
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": NS,
                "labels": {
                    "training.kubeflow.org/job-name": "j",
                    "training.kubeflow.org/replica-type": "worker",
                    "training.kubeflow.org/replica-index": "0",
                },
                "ownerReferences": [self.owner()] if owners is None else owners,
            }
            | meta,
            "spec": {"containers": [{"name": "ascend", "image": "train:1"}]},
        }

    async def exists(self, name="j-worker-0", **meta):
        """Somebody has made a pod of that name before."""
        return await self.hands.create(PODS, self.pod(name, **meta))

    async def run(self, *writes, name="pods"):
        return await self.executor.run(self.key, (Step(name, tuple(writes)),))

    async def create(self, *names, **meta):
        writes = [Create(PODS, self.pod(name, **meta)) for name in names or ("j-worker-0",)]
        return await self.run(*writes)


@asynccontextmanager
async def running(bench):
    """The caches follow the server."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(i.run()) for i in bench.informers.values()]
        await all_synced(tuple(bench.informers.values()), 30)
        yield
        for task in tasks:
            task.cancel()


@pytest.fixture
async def bench():
    """The caches do not follow the server, unless a test makes them: what is read was noted."""
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    bench = Bench(ApiServer(wall=wall, rng=Random(4)))
    await bench.hands.create(CRDS, crd(KIND))
    job = make.job()
    job["metadata"]["namespace"] = NS
    bench.job = await bench.hands.create(JOBS, job)
    yield bench
    bench.server.close()
