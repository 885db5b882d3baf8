# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A running MPIJob that mpi-operator itself has made is taken over, and can be given back.

Both are told to lock the same namespace, so that they exclude each other, and to serve health at
the same port, so that they are never started together here.
"""

import os
import re
import subprocess
import sys
from contextlib import contextmanager

import pytest

from hack import tools
from hack.admin import path_of, wait_for
from hack.controlplane import ROOT
from hack.process import Process

from .test_mpijob import MPIJob, mpi_job  # noqa: TID252  the standard library has a test package

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]  # the first time, it is built
LOCKS = "mpi-locks"
TAKES_S = 60
"""A lease that its holder has not given back lasts fifteen seconds from its last renewal."""


@pytest.fixture
def run(full, folder):
    """One of the two for a `with` block, from the moment on at which it leads."""
    with full.admin() as admin:
        admin.ask("POST", "/api/v1/namespaces", {"metadata": {"name": LOCKS}})
        ours = [sys.executable, "-m", "ascendop", "mpi-operator"]
        commands = {"theirs": [tools.path("mpi-operator")], "ours": ours}
        flags = [f"-kubeConfig={full.kubeconfig}", f"-lock-namespace={LOCKS}", "-v=4"]
        flags.append("-gang-scheduling=volcano")  # whose scheduler is the only one here
        logs = folder("mpi-operators")

        @contextmanager
        def run(which):
            before = holder(admin)
            env = {"PYTHONPATH": str(ROOT), "KUBECONFIG": ""}
            process = Process(which, [*commands[which], *flags], logs / f"{which}.log", env)
            process.start()
            try:

                def leads():
                    process.check()
                    return holder(admin) not in {"", before}

                wait_for(f"{which} leads", leads, TAKES_S)
                yield
            finally:
                process.stop()

        yield run


def holder(admin):
    path = f"/apis/coordination.k8s.io/v1/namespaces/{LOCKS}/leases/mpi-operator"
    code, found = admin.ask("GET", path)
    return (found["spec"].get("holderIdentity") or "") if code == 200 else ""


@pytest.fixture
def job(full, namespace):
    with full.admin() as admin:
        made = MPIJob(admin, namespace(full), mpi_job())
        yield made
        made.delete()
        wait_for("its pods are gone", lambda: not made.pods, 60)


def loses_a_worker(made):
    """Somebody deletes it; whoever leads makes it anew, and nothing else."""
    before = made.uids
    (lost,) = [pod for pod in made.pods if pod["metadata"]["name"] == "pi-worker-1"]
    made.admin.request("DELETE", path_of(lost), {"gracePeriodSeconds": 0})

    def another():
        found = made.uids
        return found.keys() == before.keys() and found["pi-worker-1"] != before["pi-worker-1"]

    wait_for("another worker is there", another, 60)
    kept = {name: uid for name, uid in made.uids.items() if name != "pi-worker-1"}
    assert kept.items() <= before.items()
    made.wait_pods(3, "Running")
    wait_for("both workers can be found again", lambda: finds_both(made), 60)


def finds_both(made):
    """Whoever leads writes the script a moment after kubelet says that a worker runs."""
    (found,) = made.children("v1", "ConfigMap")
    return found["data"]["discover_hosts.sh"].count("\necho ") == 2


def runs(made):
    made.create()
    made.wait_pods(3, "Running")
    made.wait("Running")
    wait_for("both workers can be found", lambda: finds_both(made), 60)


def beside(made):
    """What the pods share, the launcher's Job and the gang, by kind, name, uid and data."""
    kinds = (
        *(("v1", "Service"), ("v1", "ConfigMap"), ("v1", "Secret"), ("batch/v1", "Job")),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    )
    return [
        (kind, found["metadata"]["name"], found["metadata"]["uid"], found.get("data"))
        for version, kind in kinds
        for found in made.children(version, kind)
    ]


def test_a_job_that_mpi_operator_made_is_taken_over_and_given_back(run, job):
    """mpijob:15: no pod is touched, no condition lost, and each goes on where the other was."""
    with run("theirs"):
        runs(job)
        pods, shared, said = job.uids, beside(job), job.status
        assert len(shared) == 5
    with run("ours"):
        loses_a_worker(job)
        assert {**job.uids, "pi-worker-1": ""} == {**pods, "pi-worker-1": ""}
        assert beside(job) == shared
        assert job.status["conditions"] == said["conditions"]
        pods = job.uids
    with run("theirs"):
        loses_a_worker(job)
        assert {**job.uids, "pi-worker-1": ""} == {**pods, "pi-worker-1": ""}
        assert beside(job) == shared
        (launcher,) = [pod for pod in job.pods if "-launcher-" in pod["metadata"]["name"]]
        job.tell("succeed", launcher["metadata"]["name"])
        job.wait("Succeeded")


def test_bench_peers_measures_ours_and_theirs_in_turn(tmp_path):
    """Here, since mpi-operator serves health at a port that only one can have."""
    small = {"BENCH_JOBS": "4", "BENCH_PODS": "10", "BENCH_RUNS": "1"}
    command = [sys.executable, "-m", "hack.bench", "--peers", f"--dir={tmp_path}"]
    env = {**os.environ, **small}
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    for shape, peer in (
        ("4 MPIJobs x 5 pods", "mpi-operator 0.8.0"),
        ("one MPIJob of 10 pods", "mpi-operator 0.8.0"),
        ("4 PyTorchJobs x 5 pods", "training-operator 1.9.4"),
        ("one PyTorchJob of 10 pods", "training-operator 1.9.4"),
    ):
        for what, unit in (("pods/s", ""), ("CPU per pod", " ms"), ("resident", " MB")):
            figure = rf"\| [\d.]+{unit} .*"
            row = rf"\| {shape}: {what}, beside {peer} *{figure}{figure}\| [\d.]+ "
            assert re.search(row, done.stdout), done.stdout


def test_a_job_that_ours_made_is_finished_by_mpi_operator(run, job):
    """mpijob:15"""
    with run("ours"):
        runs(job)
        pods, shared = job.uids, beside(job)
    with run("theirs"):
        loses_a_worker(job)
        assert {**job.uids, "pi-worker-1": ""} == {**pods, "pi-worker-1": ""}
        assert beside(job) == shared
        (launcher,) = [pod for pod in job.pods if "-launcher-" in pod["metadata"]["name"]]
        job.tell("succeed", launcher["metadata"]["name"])
        job.wait("Succeeded")
        assert job.conditions.keys() == {"Created", "Succeeded"}
