# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""MPIJobs with Kubernetes' own controller of Jobs and Volcano's scheduler, on fake nodes."""

import base64

import pytest

from hack.admin import MERGE, wait_for
from hack.jobs import Job

GANG = "--mpi-gang-scheduler=volcano"
KEYS = ["ssh-privatekey", "ssh-publickey"]


def mpi_job(**spec):
    """A launcher and two workers that run until they are told."""
    container = {"name": "mpi", "image": "mpi:1", "resources": {"requests": {"cpu": "100m"}}}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "pi"},
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"template": template},
                "Worker": {"replicas": 2, "template": template},
            },
            **spec,
        },
    }


class MPIJob(Job):
    """Its launcher's pods are those of its Job."""

    @property
    def pods(self):
        query = f"labelSelector=training.kubeflow.org/job-name={self.name}"
        path = f"/api/v1/namespaces/{self.namespace}/pods?{query}"
        found = self.admin.request("GET", path)["items"]
        return [
            {"apiVersion": "v1", "kind": "Pod", **pod}
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        ]


@pytest.fixture
def make(full, namespace):
    where = namespace(full)
    made = []
    with full.admin() as admin:

        def start(**spec):
            job = MPIJob(admin, where, mpi_job(**spec))
            job.create()
            made.append(job)
            return job

        yield start
        for job in made:  # else its Job makes pods anew while the namespace is emptied
            job.delete()
            wait_for("its pods are gone", lambda j=job: not j.pods, 60)


def launchers(job):
    return [pod for pod in job.pods if "-launcher-" in pod["metadata"]["name"]]


def patch(job, path, body):
    return job.admin.request("PATCH", f"/{path}", body, MERGE)


def of(job, path):
    """The job itself, or what it has beside its pods, by API path."""
    group, _, name = path.rpartition("/")
    group, _, plural = group.rpartition("/")
    return f"{group}/namespaces/{job.namespace}/{plural}/{name}"


def itself(job):
    return of(job, "apis/kubeflow.org/v2beta1/mpijobs/pi")


def test_a_gang_whose_launcher_comes_when_the_workers_are_ready(make, full, operator):
    """mpijob:W-03: the real scheduler starts it, and does not wait for who waits for it."""
    operator(full, GANG)
    job = make(launcherCreationPolicy="WaitForWorkersReady", runPolicy={"cleanPodPolicy": "All"})
    job.wait_pods(3, "Running")
    job.wait("Running")
    (group,) = job.pod_groups
    assert group["spec"]["minMember"] == 3
    (launcher,) = launchers(job)
    assert launcher["spec"]["schedulerName"] == "volcano"
    job.tell("succeed", launcher["metadata"]["name"])
    job.wait("Succeeded")
    wait_for("the PodGroup of a finished job is gone", lambda: not job.pod_groups)
    wait_for("its workers are gone", lambda: len(job.pods) == len(launchers(job)))
    told = {reason for reason, _ in job.events if reason.startswith("MPIJob")}
    assert told == {"MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded"}


def test_c56_a_job_that_ran_wakes_where_its_queue_says(make, full, operator):
    """mpijob:W-17: the server lets a Job change that says that it never started."""
    operator(full, GANG)
    job = make()
    job.wait_pods(3, "Running")
    job.wait("Running")
    (before,) = launchers(job)
    patch(job, itself(job), {"spec": {"runPolicy": {"suspend": True}}})
    wait_for("no pod is left", lambda: not job.pods)
    directed = {"template": {"spec": {"nodeSelector": {"accelerator-type": "module-910b-8"}}}}
    spec = {"mpiReplicaSpecs": {"Launcher": directed}, "runPolicy": {"suspend": False}}
    patch(job, itself(job), {"spec": spec})
    job.wait_pods(3, "Running")
    wait_for("it runs", lambda: "Running" in job.conditions)
    (after,) = launchers(job)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["nodeSelector"] == {"accelerator-type": "module-910b-8"}
    assert after["spec"]["nodeName"] in {"node-1", "node-2"}


def test_c20_c21_keys_are_known_by_their_names_alone(make, full, operator):
    """By what the server writes down of who owns which fields."""
    operator(full, GANG)
    job = make()
    job.wait_pods(3)
    path = of(job, "api/v1/secrets/pi-ssh")

    def data():
        return job.admin.request("GET", f"/{path}")["data"]

    mine = base64.b64encode(b"mine").decode()
    first = data()
    patch(job, path, {"data": {"ssh-privatekey": mine}})
    patch(job, path, {"data": {"extra": mine, "ssh-publickey": None}})
    wait_for("there are two keys again", lambda: sorted(data()) == KEYS)
    assert data()["ssh-privatekey"] not in {mine, first["ssh-privatekey"]}
    patch(job, path, {"data": {"ssh-privatekey": mine}})
    patch(job, itself(job), {"spec": {"slotsPerWorker": 3}})
    config = of(job, "api/v1/configmaps/pi-config")

    def hosts():
        return job.admin.request("GET", f"/{config}")["data"]["hostfile"]

    wait_for("the host file follows", lambda: hosts().count("slots=3") == 2)
    assert data()["ssh-privatekey"] == mine
