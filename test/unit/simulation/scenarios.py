# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What people do to a cluster, step by step; each step waits until it can see the one before."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from ascendop.builder import labels as keys
from ascendop.builder.names import RETRIES_CONFIG_MAP, VOLCANO_NAMESPACE
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import CONFIGMAPS, NAMESPACES, POD_GROUPS, PODS, SERVICES, Resource
from ascendop.reconciler.attempts import read_attempts

from .. import make  # noqa: TID252  the standard library has a package called test
from .world import World  # noqa: TID252  likewise

ASCENDJOBS = Resource("mindxdl.gitee.com", "v1", "ascendjobs", "AscendJob")
PYTORCHJOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
EVENTS_S = 600.0
"""Events that bad weather has held up are told late; a short story waits for them."""
RESOURCES = {"AscendJob": ASCENDJOBS, "PyTorchJob": PYTORCHJOBS}


@dataclass(frozen=True)
class Scenario:
    """One story. Its end is the same whatever the weather was."""

    play: Callable[[World], Awaitable[None]]
    nodes: tuple[str, ...] = ("3x8 910B",)
    volcano: bool = True
    shelf: bool = False
    """Whether there is a shared directory for rank tables."""
    settings: dict = field(default_factory=dict)
    batch: bool = False
    """Whether Kubernetes' own controller of Jobs is there, too."""

    @property
    def name(self):
        return self.play.__name__


# What users write.


def lasting(job, seconds, outcome="succeed", code=1, roles=None):
    """Pods of these roles end by themselves after so many seconds of running."""
    job = copy.deepcopy(job)
    specs = job["spec"].get("replicaSpecs") or job["spec"]["pytorchReplicaSpecs"]
    for role in roles or specs:
        meta = specs[role]["template"].setdefault("metadata", {})
        meta["annotations"] = {
            "ascendop.io/outcome": outcome,
            "ascendop.io/after": f"{seconds}s",
            "ascendop.io/exit-code": str(code),
        }
    return job


async def apply(world, job):
    resource = RESOURCES[job["kind"]]
    meta = {"namespace": "default", **job["metadata"]}
    return await world.people.create(resource, {**job, "metadata": meta})


async def change(world, job, spec):
    resource = RESOURCES[job["kind"]]
    name = job["metadata"]["name"]
    return await world.people.patch(resource, "default", name, {"spec": spec})


async def delete(world, resource, name):
    try:
        await world.people.delete(resource, "default", name)
    except NotFoundError:
        return


async def lose(world, name):
    """Somebody deletes a pod; wait until another one stands in its place, or nobody needs it."""
    uid = world.find("pods", name)["metadata"]["uid"]
    await delete(world, PODS, name)

    @said(f"{name} is another one")
    def replaced(world):
        found = world.find("pods", name)
        return found is not None and found["metadata"]["uid"] != uid

    await world.until(replaced)


async def fail(world, name, code):
    """A pod's main container ends with this code."""
    ended = {"terminated": {"exitCode": code, "reason": "Error"}}
    container = world.find("pods", name)["spec"]["containers"][0]["name"]
    said = {"name": container, "state": ended, "ready": False, "restartCount": 0}
    body = {
        "status": {"phase": "Failed", "containerStatuses": [{**said, "image": "", "imageID": ""}]}
    }
    await world.people.patch(PODS, "default", name, body, subresource="status")


async def annotate(world, name, **annotations):
    """What clusterd does to a pod."""
    await world.people.patch(PODS, "default", name, {"metadata": {"annotations": annotations}})


async def back_up(world, name):
    """clusterd asks for a backup of a pod and waits until it runs. The backup's name."""
    pods_before = len(pods(world))
    await annotate(world, name, inHotSwitchFlow="true", needOperatorOpe="create")
    await world.until(marked(name, backupNewPodName=True, needOperatorOpe=False))
    await world.until(run(pods_before + 1))
    return world.find("pods", name)["metadata"]["annotations"]["backupNewPodName"]


# What can be seen.


def said(what):
    def named(holds):
        holds.what = what
        return holds

    return named


def is_(state, name="j"):
    """The job's last condition has this type, and is true."""

    @said(f"{name} is {state}")
    def holds(world):
        for resource in RESOURCES.values():
            job = found(world, resource.name, name)
            conditions = ((job or {}).get("status") or {}).get("conditions") or [{}]
            if conditions[-1].get("type") == state and conditions[-1].get("status") == "True":
                return True
        return False

    return holds


def found(world, table, name):
    """The object of this name in whatever namespace."""
    objects = world.objects(table)
    return next((obj for obj in objects if obj["metadata"]["name"] == name), None)


def phases(phase, count, name="j"):
    """So many pods of the job are in this phase, and no others are there."""

    @said(f"{count} pods of {name} are {phase}")
    def holds(world):
        return [p["status"].get("phase") for p in pods(world, name)] == [phase] * count

    return holds


def run(count, name="j"):
    return phases("Running", count, name)


def gone(name="j"):
    """Neither the job nor anything of it is there."""

    @said(f"{name} is gone")
    def holds(world):
        if any(world.find(r.name, name) for r in RESOURCES.values()):
            return False
        tables = ("pods", "services", POD_GROUPS.name)
        return not any(
            (obj["metadata"].get("ownerReferences") or [{}])[0].get("name") == name
            for table in tables
            for obj in world.objects(table)
        )

    return holds


def counted(attempt, name="j"):
    """The job stands at this attempt, and every pod of it has been seen.

    Before that nobody can tell a pod that was lost from one that was never made.
    """

    @said(f"{name} is at attempt {attempt}")
    def holds(world):
        job = world.find(ASCENDJOBS.name, name)
        text = job["metadata"]["annotations"].get(keys.ATTEMPT_ANNOTATION, "")
        found = read_attempts(text, ())
        return found.made and found.current == attempt

    return holds


def member(slot, name="j"):
    """The pod of this slot is of the newest generation, by the slot's name."""

    @said(f"{slot} is of the newest generation of {name}")
    def holds(world):
        job = world.find(ASCENDJOBS.name, name)
        text = job["metadata"]["annotations"].get(keys.ATTEMPT_ANNOTATION, "")
        return slot in (read_attempts(text, ()).slots or (slot,))

    return holds


def cleaned(name="j"):
    """The PodGroup of an ended job is gone."""

    @said(f"{name} has no PodGroup")
    def holds(world):
        return not any(
            obj["metadata"]["ownerReferences"][0]["name"] == name
            for obj in world.objects(POD_GROUPS.name)
        )

    return holds


def waits(reason, name="j"):
    @said(f"{name} waits: {reason}")
    def holds(world):
        job = world.find(ASCENDJOBS.name, name)
        conditions = ((job or {}).get("status") or {}).get("conditions") or [{}]
        return conditions[-1].get("reason") == reason

    return holds


def pods(world, name="j"):
    return [
        pod
        for pod in world.objects("pods")
        if (pod["metadata"].get("ownerReferences") or [{}])[0].get("name") == name
    ]


def file_says(status):
    @said(f"the file is {status}")
    def holds(world):
        path = Path(world.settings.rank_table_dir) / "default.j" / "hccl.json"
        return path.exists() and f'"status":"{status}"' in path.read_text()

    return holds


def marked(name, **marks):
    """A pod has these annotations, or has them not."""

    @said(f"{name} has {marks}")
    def holds(world):
        found = world.find("pods", name)
        there = ((found or {}).get("metadata") or {}).get("annotations") or {}
        return found is not None and all((key in there) == on for key, on in marks.items())

    return holds


def table_says(status, name="j"):
    @said(f"the rank table of {name} is {status}")
    def holds(world):
        found = world.find("configmaps", f"rings-config-{name}")
        return f'"status":"{status}"' in ((found or {}).get("data") or {}).get("hccl.json", "")

    return holds


# Stories.


async def a_gang_waits_for_room(world):
    """Three pods of eight NPUs on two nodes; the third node comes later."""
    await apply(world, lasting(make.job(Master=1, Worker=2), 900))
    await world.until(waits("PodGroupPending"))
    await world.add_nodes("1x8 910B")
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def mindspore_loses_a_pod(world):
    """Its table is withdrawn and written anew, and the pod comes back with another version."""
    table = {"metadata": {"name": "rings-config-j", "namespace": "default"}, "data": {}}
    await world.people.create(CONFIGMAPS, table)
    scheduler = make.replica(1, make.container(npus=0))
    await apply(world, lasting(make.job("mindspore", Scheduler=scheduler, Worker=2), 900))
    await world.until(is_("Running"))
    await world.until(run(3))
    await world.until(table_says("completed"))
    await lose(world, "j-worker-1")
    await world.until(run(3))
    await world.until(table_says("completed"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def a_pytorchjob_replaces_a_failed_pod(world):
    await apply(world, lasting(make.torch_job(Master=1, Worker=2), 900))
    await world.until(run(3))
    await fail(world, "j-worker-1", 139)
    await world.until(run(3))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(phases("Succeeded", 3))


async def pods_start_without_a_gang(world):
    await apply(world, lasting(make.job(Master=1, Worker=2), 900))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))


async def a_job_is_made_again_under_its_name(world):
    """Deleted and made anew at moments that chance chooses, while the old pods still end."""
    rng = world.dice("people")
    for times in range(3):
        await apply(world, make.job(Master=1, Worker=2, labels={"times": str(times)}))
        await asyncio.sleep(rng.uniform(0, 4))
        await delete(world, ASCENDJOBS, "j")
        await asyncio.sleep(rng.choice((0, 0, 0.3, 1)))
    await apply(world, lasting(make.job(Master=1, Worker=2, labels={"times": "last"}), 900))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def workers_come_and_go(world):
    job = make.job(Master=1, Worker=1)
    await apply(world, job)
    await world.until(run(2))
    for count in (3, 1, 2):
        await change(world, job, {"replicaSpecs": {"Worker": {"replicas": count}}})
        await world.until(run(count + 1))
        await world.until(is_("Running"))


async def two_jobs_fit_one_at_a_time(world):
    """Neither may hold a part of the nodes while it waits for the rest."""
    await apply(world, lasting(make.job(name="a", Master=1, Worker=1), 900))
    await apply(world, lasting(make.job(name="b", Master=1, Worker=1), 900))
    for name in "ab":
        await world.until(is_("Succeeded", name))
        await world.until(cleaned(name))


async def volcano_comes_late_and_goes_and_comes(world):
    await apply(world, lasting(make.job(Master=1, Worker=2), 900))
    await world.until(waits("SyncPodGroupFailed"))
    await world.install_volcano()
    await world.until(run(3))
    await world.until(is_("Running"))
    await world.remove_volcano()
    await asyncio.sleep(60)
    await world.install_volcano()
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def an_exit_code_is_tried_again(world):
    worker = make.replica(2, policy="ExitCode")
    await apply(world, lasting(make.job(Master=1, Worker=worker), 900))
    await world.until(is_("Running"))
    await world.until(run(3))
    uid = world.find("pods", "j-worker-0")["metadata"]["uid"]
    await fail(world, "j-worker-0", 137)
    await world.until(
        lambda w: (
            (w.find("pods", "j-worker-0") or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid
        )
    )
    await world.until(run(3))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def a_budget_of_two_is_spent(world):
    """The third lost pod ends the job: not the second, and not the fourth."""
    await apply(world, make.job(Master=1, Worker=2, policy={"backoffLimit": 2}))
    for times in range(2):
        await world.until(run(3))
        await world.until(is_("Running"))
        await lose(world, "j-worker-0")
        await world.until(counted(times + 1))
    await world.until(run(3))
    await world.until(is_("Running"))
    await delete(world, PODS, "j-worker-0")
    await world.until(is_("Failed"))
    await world.until(cleaned())


async def a_failed_job_is_cleaned_and_expires(world):
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 60}
    await apply(world, make.job(Master=1, Worker=2, policy=policy))
    await world.until(is_("Running"))
    await world.until(run(3))
    await fail(world, "j-worker-0", 1)
    await world.until(is_("Failed"))
    await world.until(gone())


async def a_job_is_suspended_and_resumed(world):
    job = make.job(Master=1, Worker=2)
    await apply(world, lasting(job, 900))
    await world.until(run(3))
    await world.until(is_("Running"))
    await change(world, job, {"runPolicy": {"suspend": True}})
    await world.until(run(0))
    await world.until(is_("Suspended"))
    await change(world, job, {"runPolicy": {"suspend": False}})
    await world.until(run(3))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def children_vanish(world):
    """Somebody deletes the Service and the PodGroup of a job that runs."""
    await apply(world, make.job(Master=1, Worker=2))
    await world.until(run(3))
    await world.until(is_("Running"))
    await delete(world, SERVICES, "j-master-0")
    await world.until(lambda w: w.find("services", "j-master-0"))
    (group,) = world.objects(POD_GROUPS.name)
    await delete(world, POD_GROUPS, group["metadata"]["name"])
    await world.until(
        lambda w: (
            [g["metadata"]["uid"] for g in w.objects(POD_GROUPS.name)]
            not in ([], [group["metadata"]["uid"]])
        )
    )
    await world.until(is_("Running"))


async def many_jobs_come_at_once(world):
    await apply(
        world, make.job(name="wrong", roles={"Worker": make.replica(1)}, framework="tensorflow")
    )
    for n in range(4):
        await apply(world, lasting(make.job(name=f"j{n}", Master=1, Worker=n % 3), 900))
    await apply(world, lasting(make.torch_job(name="torch"), 900))
    for name in ("j0", "j1", "j2", "j3", "torch"):
        await world.until(is_("Succeeded", name))
    for n in range(4):
        await world.until(cleaned(f"j{n}"))


async def a_table_in_a_directory_is_of_the_newest_job(world):
    """Deleted and made again under its name: a pod that starts never reads the old table."""
    volume = {"name": "ranktable", "hostPath": {"path": "/user/mindx-dl/ranktable/default.j"}}
    roles = {"Master": 1, "Worker": make.replica(1, spec={"volumes": [volume]})}
    rng = world.dice("people")
    for _ in range(2):
        await apply(world, make.job(roles=roles))
        await world.until(file_says("completed"))
        await delete(world, ASCENDJOBS, "j")
        await asyncio.sleep(rng.choice((0, 0.3, 2)))
    await apply(world, lasting(make.job(roles=roles), 900))
    await world.until(is_("Running"))
    await world.until(file_says("completed"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def a_table_without_a_gang(world):
    """Its pods do not wait; neither does the withdrawal of the old table."""
    await a_table_in_a_directory_is_of_the_newest_job(world)


async def a_namespace_goes_and_comes(world):
    """With everything in it, while its job runs; what comes after it is new."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    job = lasting(make.job(Master=1, Worker=2), 900)
    job["metadata"]["namespace"] = "team"
    for times in range(2):
        await world.people.create(NAMESPACES, space)
        await apply(world, job)
        await world.until(run(3))
        if times == 0:
            await world.people.delete(NAMESPACES, None, "team")
            await world.until(
                said("the namespace is gone")(lambda w: not w.find("namespaces", "team", ""))
            )
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def plug_in_says(world, times):
    """Volcano's NPU plug-in writes down how many retries it has left for the job."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VOLCANO_NAMESPACE}}
    meta = {"name": RETRIES_CONFIG_MAP, "namespace": VOLCANO_NAMESPACE}
    (group,) = world.objects(POD_GROUPS.name)
    said = json.dumps({f"default/{group['metadata']['name']}": {"Times": times}})
    data = {"remain-retry-times": said}
    if world.find("configmaps", RETRIES_CONFIG_MAP, VOLCANO_NAMESPACE):
        await world.people.patch(CONFIGMAPS, meta["namespace"], meta["name"], {"data": data})
        return
    await world.people.create(NAMESPACES, space)
    await world.people.create(CONFIGMAPS, {"metadata": meta, "data": data})


async def all_pods_fail_at_once(world):
    """The plug-in learns of it later than the operator, counts first and deletes then."""
    job = make.job(Master=1, Worker=2, labels={"fault-retry-times": "3"})
    await apply(world, lasting(job, 900))
    await world.until(run(3))
    await world.until(is_("Running"))
    names = [pod["metadata"]["name"] for pod in pods(world)]
    for name in names:
        await fail(world, name, 1)
    await asyncio.sleep(world.dice("people").uniform(0, 5))
    await plug_in_says(world, 1)
    await world.until(is_("Restarting"))
    await plug_in_says(world, 0)
    await asyncio.sleep(world.dice("people").uniform(0, 5))
    for name in names:
        await delete(world, PODS, name)
    await world.until(run(3))
    await world.until(counted(1))
    await world.until(is_("Running"))
    await world.until(is_("Succeeded"))
    await world.until(cleaned())


async def a_failure_is_never_answered(world):
    await apply(world, make.job(Master=1, Worker=2, labels={"fault-retry-times": "3"}))
    await world.until(run(3))
    await world.until(is_("Running"))
    await fail(world, "j-worker-0", 1)
    await world.until(is_("Failed"))
    await world.until(cleaned())


async def a_sick_pod_is_switched(world):
    """The first switch fails, the second works, and the pod that took over is lost later."""
    table = {"metadata": {"name": "rings-config-j", "namespace": "default"}, "data": {}}
    await world.people.create(CONFIGMAPS, table)
    await apply(world, make.job(Master=1, Worker=2))
    await world.until(run(3))
    await world.until(is_("Running"))
    await world.until(table_says("completed"))
    backup = await back_up(world, "j-worker-1")
    await annotate(world, backup, needOperatorOpe="delete")
    await world.until(marked("j-worker-1", backupNewPodName=False, inHotSwitchFlow=False))
    await world.until(run(3))
    await world.until(counted(1))
    backup = await back_up(world, "j-worker-1")
    await delete(world, PODS, "j-worker-1")
    await world.until(marked(backup, podType=False, backupSourcePodName=False))
    await annotate(world, backup, inHotSwitchFlow=None)
    await world.until(run(3))
    await world.until(table_says("completed"))
    await world.until(member("j-worker-1"))
    await delete(world, PODS, backup)
    await world.until(counted(2))
    await world.until(marked("j-worker-1", podType=False))
    await world.until(run(3))
    await world.until(table_says("completed"))


async def a_service_grows_by_its_rule(world):
    """Three jobs of two groups: none has pods before the size that it belongs to is begun."""
    sizes = [{"prefill": 2, "decode": 1}, {"prefill": 1, "decode": 1}]
    entries = [
        {
            "group_list": [
                {"group_name": name, "group_num": str(jobs), "server_num_per_group": "2"}
                for name, jobs in size.items()
            ]
        }
        for size in sizes
    ]
    rule = {
        "metadata": {"name": "sizes", "namespace": "default"},
        "data": {"elastic_scaling.json": json.dumps({"elastic_scaling_list": entries})},
    }
    for name, group in (("p1", "prefill"), ("p2", "prefill"), ("d1", "decode")):
        labels = {keys.SCALING_RULE: "sizes", keys.SCALING_GROUP: group, keys.INFERENCE_JOB: "svc"}
        await apply(world, make.job(name=name, Master=1, Worker=1, labels=labels))
    await asyncio.sleep(30)
    assert not world.objects("pods"), "nobody starts without a rule"
    await world.people.create(CONFIGMAPS, rule)
    for name in ("p1", "p2", "d1"):
        await world.until(run(2, name))
        await world.until(is_("Running", name))
    await asyncio.sleep(EVENTS_S)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(a_gang_waits_for_room, nodes=("2x8 910B",)),
        Scenario(mindspore_loses_a_pod),
        Scenario(a_pytorchjob_replaces_a_failed_pod),
        Scenario(pods_start_without_a_gang, settings={"enable_gang_scheduling": False}),
        Scenario(a_job_is_made_again_under_its_name),
        Scenario(workers_come_and_go, nodes=("4x8 910B",)),
        Scenario(two_jobs_fit_one_at_a_time, nodes=("2x8 910B",)),
        Scenario(volcano_comes_late_and_goes_and_comes, volcano=False),
        Scenario(an_exit_code_is_tried_again),
        Scenario(a_budget_of_two_is_spent),
        Scenario(a_failed_job_is_cleaned_and_expires),
        Scenario(a_job_is_suspended_and_resumed),
        Scenario(children_vanish),
        Scenario(many_jobs_come_at_once),
        Scenario(a_table_in_a_directory_is_of_the_newest_job, shelf=True),
        Scenario(a_namespace_goes_and_comes),
        Scenario(a_table_without_a_gang, shelf=True, settings={"enable_gang_scheduling": False}),
        # Whoever sees the answer late must not give up first: here only the end is looked at.
        Scenario(all_pods_fail_at_once, settings={"retry_grace_s": 3600.0}),
        Scenario(a_failure_is_never_answered, settings={"stop_survivors": True}),
        Scenario(a_sick_pod_is_switched, nodes=("4x8 910B",)),
        Scenario(a_service_grows_by_its_rule, nodes=("6x8 910B",)),
    )
}
