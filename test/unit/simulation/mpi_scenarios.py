# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What people do with MPIJobs, step by step; Kubernetes' own controller of Jobs is beside us."""

from ascendop.kube.resource import (
    BATCH_JOBS,
    PODS,
    SHARED_CONFIGMAPS,
    SHARED_SERVICES,
    Resource,
)

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from .scenarios import Scenario, delete, said  # noqa: TID252  likewise

MPIJOBS = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
HOSTS = "foo-config"


# What users write.


def job(workers=2, *, ends_s=None, outcome="succeed", policy=None, **spec):
    """An MPIJob whose launcher ends by itself after so many seconds; never, where none are said."""
    marks = {"ascendop.io/outcome": outcome, "ascendop.io/after": f"{ends_s}s"}
    metadata = {"annotations": marks} if ends_s is not None else None
    launcher = {"template": mpi.template(metadata=metadata)}
    if outcome == "fail":
        launcher["restartPolicy"] = "Never"
    obj = mpi.job(workers=workers, launcher=launcher, policy=policy, **spec)
    obj["metadata"]["namespace"] = "default"
    return obj


async def apply(world, obj):
    await world.people.create(MPIJOBS, obj)


async def change(world, **spec):
    await world.people.patch(MPIJOBS, "default", "foo", {"spec": spec})


async def scale(world, workers):
    await change(world, mpiReplicaSpecs={"Worker": {"replicas": workers}})


# What can be seen.


def has(type_, status="True"):
    @said(f"foo has {type_}={status}")
    def holds(world):
        status_ = (world.find(MPIJOBS.name, "foo") or {}).get("status") or {}
        found = {c["type"]: c["status"] for c in status_.get("conditions") or ()}
        return found.get(type_) == status

    return holds


def pods(world):
    """All there are, by name, and their phases; a launcher's under the name of its Job."""
    found = {}
    for pod in world.objects("pods"):
        owner = pod["metadata"]["ownerReferences"][0]
        name = owner["name"] if owner["kind"] == "Job" else pod["metadata"]["name"]
        found[name] = pod["status"].get("phase")
    return found


def runs(workers, *, launcher=True):
    @said(f"{workers} workers run, launcher: {launcher}")
    def holds(world):
        names = [f"foo-worker-{index}" for index in range(workers)]
        return pods(world) == dict.fromkeys([*names, *["foo-launcher"] * launcher], "Running")

    return holds


@said("no pod is there")
def empty(world):
    return not pods(world)


def hosts(count):
    @said(f"the host file has {count} lines")
    def holds(world):
        found = world.find("configmaps", HOSTS) or {"data": {"hostfile": ""}}
        return len(found["data"]["hostfile"].splitlines()) == count

    return holds


def workers_only(count):
    """Those that stay at the end."""

    @said(f"{count} workers and nothing else runs")
    def holds(world):
        found = [name for name, phase in pods(world).items() if phase == "Running"]
        return sorted(found) == [f"foo-worker-{index}" for index in range(count)]

    return holds


# Stories.


async def an_mpijob_runs_to_its_end(world):
    spec = {"launcherCreationPolicy": "WaitForWorkersReady"}
    await apply(world, job(3, ends_s=300, policy={"cleanPodPolicy": "All"}, **spec))
    await world.until(has("Running"))
    await world.until(has("Succeeded"))
    await world.until(lambda world: list(pods(world)) == ["foo-launcher"])


async def an_mpijob_sleeps_and_wakes(world):
    """Made asleep, woken, put to sleep again, and woken with one worker more."""
    await apply(world, job(2, policy={"suspend": True}))
    await world.until(has("Suspended"))
    await change(world, runPolicy={"suspend": False})
    await world.until(runs(2))
    await world.until(has("Running"))
    await change(world, runPolicy={"suspend": True})
    await world.until(empty)
    await world.until(has("Suspended"))
    await scale(world, 3)
    await change(world, runPolicy={"suspend": False})
    await world.until(runs(3))
    await world.until(has("Running"))
    await world.until(has("Suspended", "False"))


async def workers_of_an_mpijob_come_and_go(world):
    await apply(world, job(2))
    await world.until(runs(2))
    await world.until(has("Running"))
    for count in (4, 1, 3):
        await scale(world, count)
        await world.until(runs(count))
        await world.until(hosts(count))


async def a_launcher_fails_too_often(world):
    policy = {"backoffLimit": 1, "cleanPodPolicy": "Running"}
    await apply(world, job(2, ends_s=600, outcome="fail", policy=policy))
    await world.until(has("Failed"))
    await world.until(lambda world: set(pods(world)) == {"foo-launcher"})


async def what_an_mpijob_has_vanishes(world):
    """Somebody deletes a worker, the Service, the host file and the launcher, one by one."""
    await apply(world, job(2))
    await world.until(runs(2))
    await world.until(has("Running"))
    for resource, name in (
        (PODS, "foo-worker-1"),
        (SHARED_SERVICES, "foo"),
        (SHARED_CONFIGMAPS, HOSTS),
        (BATCH_JOBS, "foo-launcher"),
    ):
        uid = world.find(resource.name, name)["metadata"]["uid"]
        await delete(world, resource, name)

        @said(f"{name} is another one")
        def anew(world, resource=resource, name=name, uid=uid):
            found = world.find(resource.name, name)
            return found is not None and found["metadata"]["uid"] != uid

        await world.until(anew)
        await world.until(runs(2))


async def an_mpijob_is_made_again_under_its_name(world):
    """Nothing of the first is taken for the second's."""
    await apply(world, job(2))
    await world.until(runs(2))
    await delete(world, MPIJOBS, "foo")
    await world.until(lambda world: world.find(MPIJOBS.name, "foo") is None)
    await apply(world, job(3))
    await world.until(runs(3))
    await world.until(has("Running"))
    await world.until(hosts(3))


async def an_mpijob_is_a_gang(world):
    """It waits for nobody but Volcano, sleeps without a PodGroup, and ends without one."""
    await apply(world, job(2, ends_s=600))
    await world.until(runs(2))
    await world.until(has("Running"))
    await change(world, runPolicy={"suspend": True})
    await world.until(empty)
    await world.until(has("Running", "False"))
    await change(world, runPolicy={"suspend": False})
    await world.until(runs(2))
    await world.until(has("Succeeded"))
    await world.until(workers_only(2))


MPI_SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(an_mpijob_runs_to_its_end, batch=True),
        Scenario(an_mpijob_sleeps_and_wakes, batch=True),
        Scenario(workers_of_an_mpijob_come_and_go, batch=True),
        Scenario(a_launcher_fails_too_often, batch=True),
        Scenario(what_an_mpijob_has_vanishes, batch=True),
        Scenario(an_mpijob_is_made_again_under_its_name, batch=True),
        Scenario(an_mpijob_is_a_gang, batch=True, settings={"mpi_gang_scheduler": "volcano"}),
    )
}
