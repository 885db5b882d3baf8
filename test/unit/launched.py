# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""MPIJobs, what they have in the cluster, and snapshots of them; only what matters is said."""

from dataclasses import replace

from ascendop.api.launch import NOWHERE, Seen
from ascendop.api.observed import LauncherView, PodView, SharedView
from ascendop.apply.plan import Create, Done, Failure, Written
from ascendop.builder.content import content_of
from ascendop.errors import InvalidJobError
from ascendop.reconciler.decide import decide
from ascendop.reconciler.snapshot import Launched

from . import make  # noqa: TID252  the standard library has a package called test

KIND = make.KINDS["MPIJob"]
PLAIN = {"name": "c", "image": "i"}
KEYS = ("ssh-privatekey", "ssh-publickey")


def template(*containers, metadata=None, **spec):
    found = {"spec": {"containers": list(containers or (PLAIN,)), **spec}}
    return found | ({"metadata": metadata} if metadata else {})


def job(name="foo", workers=None, *, policy=None, launcher=None, worker=None, **spec):
    """An MPIJob in `bar`; without a number of workers it has a launcher only."""
    specs = {"Launcher": launcher or {"template": template()}}
    if workers is not None:
        specs["Worker"] = {"replicas": workers, **(worker or {"template": template()})}
    wanted = {"mpiReplicaSpecs": specs} | ({"runPolicy": policy} if policy is not None else {})
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "bar"},
        "spec": wanted | spec,
    }


def pod(index=0, phase="Running", *, name="foo", **fields):
    """A worker."""
    defaults = {
        "namespace": "bar",
        "name": f"{name}-worker-{index}",
        "uid": f"uid-worker-{index}",
        "version": "1",
        "owner_kind": "MPIJob",
        "owner_name": name,
        "owner_uid": "U",
        "job": name,
        "index": index,
        "phase": phase,
        "ready": phase == "Running",
    }
    return PodView(**defaults | fields)


def launcher_pod(phase="Running", *, number=0, name="foo", **fields):
    defaults = {
        "namespace": "bar",
        "name": f"{name}-launcher-{number:05}",
        "uid": f"uid-launcher-{number}",
        "version": "1",
        "owner_kind": "Job",
        "owner_name": f"{name}-launcher",
        "owner_uid": "uid-launcher",
        "job": name,
        "phase": phase,
    }
    return PodView(**defaults | fields)


def launcher(name="foo", **fields):
    """The Job, as it runs."""
    defaults = {
        "namespace": "bar",
        "name": f"{name}-launcher",
        "uid": "uid-launcher",
        "version": "1",
        "owner_kind": "MPIJob",
        "owner_name": name,
        "owner_uid": "U",
    }
    return LauncherView(**defaults | fields)


def shared_of(view, running=(), place=NOWHERE):
    """What all pods share, as it should be."""
    found = {}
    for wanted in KIND.launch.shared(view, place, Seen(tuple(sorted(running)))):
        obj = wanted.object
        found[obj["kind"]] = SharedView(
            namespace="bar",
            name=obj["metadata"]["name"],
            uid=f"uid-{obj['kind']}",
            version="1",
            owner_kind="MPIJob",
            owner_uid="U",
            content=content_of(obj),
            keys=KEYS if wanted.filled else tuple(obj.get("data") or obj["spec"]["selector"]),
        )
    return found


def seen(
    obj,
    *pods,
    job=None,
    of_launcher=(),
    shared=True,
    status=None,
    place=NOWHERE,
    group=None,
    row=None,
    **fields,
):
    """A job at one moment, with what it shares as it should be."""
    more = {key: fields.pop(key) for key in ("now",) if key in fields}
    found = make.snapshot(
        obj,
        pods=pods,
        services=(),
        group=group,
        status=status,
        job_row=row or make.row(obj, namespace="bar", created="2026-01-02T03:04:00Z"),
        gang=bool(place.gang),
        place=place,
        **more,
    )
    running = [pod.name for pod in pods if pod.phase == "Running" and not pod.deleting]
    valid = not isinstance(found.job, InvalidJobError)
    there = shared_of(found.job, running, place) if shared is True and valid else {}
    there = there or (shared if isinstance(shared, dict) else {})
    launched = Launched(job=job, pods=tuple(of_launcher), shared=there, **fields)
    return replace(found, launched=launched, group=group)


def made(plan):
    """Kind and name of what is made, in order."""
    return [(w.object["kind"], w.name) for w in make.writes(plan, Create)]


def told(conclusion):
    return [(event.type, event.reason, event.note) for event in conclusion.events]


def conditions(conclusion):
    return [(c["type"], c["status"], c["reason"]) for c in conclusion.status["conditions"]]


def decided(found):
    """A plan, and how the job stands when all of it has worked."""
    plan = decide(found)
    return plan, make.concluded(plan)


def failing(found, name, message="no", **fields):
    """How the job stands when one object could not be made, and nothing after it."""
    plan, written = decide(found), []
    for step in plan.steps:
        for write in step.writes:
            if write.name == name:
                failure = Failure(step.name, write, message, **fields)
                return plan.conclude(Done(tuple(written), (failure,)))
            written.append(Written(step.name, write))
    raise AssertionError(f"{name} is not made")
