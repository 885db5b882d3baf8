# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A town with MPIJobs and Kubernetes' own controller of Jobs."""

import asyncio
from contextlib import asynccontextmanager

from ascendop.app.mirror import resource_of
from ascendop.kube.resource import CRDS, PODS
from ascendop.schema.crd import crd
from ascendop.sim.batch import BatchJobs
from ascendop.sim.volcano import build_definitions

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from ..town import NS, Town  # noqa: TID252  likewise

JOBS = resource_of(mpi.KIND)


class MPITown(Town):
    """A town with MPIJobs and nothing else; `kubelet` is played by hand."""

    async def install(self, *, volcano=False):
        for definition in [crd(mpi.KIND), *(build_definitions() if volcano else ())]:
            await self.hands.create(CRDS, definition)

    def operator(self, name="a", **settings):
        return super().operator(name, **{"kinds": ("MPIJob",)} | settings)

    async def make(self, name="foo", workers=2, **fields):
        obj = mpi.job(name, workers, **fields)
        obj["metadata"]["namespace"] = NS
        return await self.hands.create(JOBS, obj)

    async def status(self, name="foo"):
        return (await self.hands.get(JOBS, NS, name)).get("status") or {}

    async def conditions(self, name="foo"):
        found = (await self.status(name)).get("conditions") or ()
        return [(c["type"], c["status"]) for c in found]

    async def until_all(self, count=3):
        await self.until_pods(count)

    async def patch(self, resource, name, body):
        return await self.hands.patch(resource, NS, name, body)

    async def suspend(self, suspend=True):
        await self.patch(JOBS, "foo", {"spec": {"runPolicy": {"suspend": suspend}}})

    async def kubelet(self, phase, which=""):
        """Pods whose names hold this are in a phase; those that run are ready."""
        for name, pod in (await self.pods()).items():
            if which in name:
                ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
                conditions = [{**ready, "lastTransitionTime": None}]
                main = pod["spec"]["containers"][0]["name"]
                state = {"running": {}}
                if phase in {"Succeeded", "Failed"}:
                    now = self.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
                    code = int(phase == "Failed")
                    state = {"terminated": {"exitCode": code, "finishedAt": now}}
                container = {
                    "name": main, "image": "i", "imageID": "", "ready": False,
                    "restartCount": 0, "state": state,
                }  # fmt: skip
                status = {"phase": phase, "conditions": conditions}
                status["containerStatuses"] = [container]
                await self.hands.patch(PODS, NS, name, {"status": status}, subresource="status")


@asynccontextmanager
async def mpi_town():
    """With its controller of Jobs, for as long as the block lasts."""
    town = MPITown()
    await town.install()
    async with asyncio.TaskGroup() as group:
        kubernetes = group.create_task(BatchJobs(town.hands, wall=town.wall).run())
        yield town
        kubernetes.cancel()
    town.server.close()


@asynccontextmanager
async def running(town, **settings):
    """The operator, and a job that runs."""
    async with town.running(town.operator(**settings)):
        await town.make()
        await town.until_all()
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
        yield
