# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Installed as a user does: the Dockerfile's image and the manifests, on a real node."""

import json
import os

import pytest

from hack.admin import path_of, wait_for
from hack.jobs import Job
from hack.node import project
from hack.node.cluster import ROOT
from hack.node.machine import why_not

REASON = why_not()
pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.skipif("NODES" not in os.environ, reason="make node-test does"),
    pytest.mark.timeout(900),  # the image is built
]
OURS = ("-n", "ascendop-system")
MANIFESTS = str(ROOT / "manifests")
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def installed(real, tmp_path_factory):
    """Two replicas as pods, from `kubectl apply --server-side -k manifests/`."""
    archive = tmp_path_factory.mktemp("image") / "ascendop.tar"
    project.build(archive)
    real.node.load(archive)
    archive.unlink()
    real.node.kubectl("apply", "--server-side", "-k", MANIFESTS)
    rolled_out(real)
    return real


def rolled_out(real):
    where = (*OURS, "deployment/ascendop", f"--timeout={PATIENCE_S:.0f}s")
    real.node.kubectl("rollout", "status", *where)


@pytest.fixture
def job(installed, namespace):
    """A job whose two pods run until they are told."""
    main = {"name": "pytorch", "image": "localhost/python:1", "command": ["sleep", "3600"]}
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 1}}
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": template}
    asked = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Master": role, "Worker": role}},
    }
    where = namespace(installed)
    with installed.admin() as admin:
        made = Job(admin, where, asked)
        made.create()
        runs(made)
        yield made


def runs(made):
    both = {"j-master-0": "Running", "j-worker-0": "Running"}
    try:
        wait_for("its pods run", lambda: made.phases == both, PATIENCE_S)
    except TimeoutError as error:
        states = {pod["metadata"]["name"]: pod["status"] for pod in made.pods}
        raise AssertionError(f"{error}\n{json.dumps(states, indent=1)}\n{made.status}") from error
    wait_for("it is Running", lambda: "Running" in made.conditions, PATIENCE_S)


def replicas(admin):
    """Names of the operator's pods that are ready and stay."""
    path = "/api/v1/namespaces/ascendop-system/pods?labelSelector=app.kubernetes.io/name=ascendop"
    return {
        pod["metadata"]["name"]
        for pod in admin.request("GET", path)["items"]
        if "deletionTimestamp" not in pod["metadata"]
        if ("Ready", "True")
        in {(c["type"], c["status"]) for c in pod["status"].get("conditions", ())}
    }


def leader(admin):
    """Name of the pod that holds the lease; empty while nobody does."""
    path = "/apis/coordination.k8s.io/v1/namespaces/ascendop-system/leases/ascendop"
    holder = admin.request("GET", path)["spec"].get("holderIdentity") or ""
    return next((name for name in replicas(admin) if holder.startswith(name)), "")


def loses_its_worker(made):
    """Somebody deletes it, and the operator makes another one."""
    (worker,) = [pod for pod in made.pods if pod["metadata"]["name"] == "j-worker-0"]
    before = made.uids
    made.admin.request("DELETE", path_of(worker))

    def another():
        found = made.uids
        return found.keys() == before.keys() and found["j-worker-0"] != before["j-worker-0"]

    wait_for("another worker is there", another, PATIENCE_S)
    assert made.uids["j-master-0"] == before["j-master-0"]
    runs(made)


def test_two_replicas_run_jobs_and_the_other_goes_on_when_the_leader_is_killed(job):
    admin = job.admin
    assert len(replicas(admin)) == 2
    before, first = job.uids, leader(admin)
    assert first, "one of them holds the lease"
    path = f"/api/v1/namespaces/ascendop-system/pods/{first}"
    admin.request("DELETE", path, {"gracePeriodSeconds": 0})
    wait_for("another one leads", lambda: leader(admin) not in {"", first}, PATIENCE_S)
    wait_for("there are two again", lambda: len(replicas(admin) - {first}) == 2, PATIENCE_S)
    assert job.uids == before
    loses_its_worker(job)


def test_a_rolling_update_touches_no_pod_of_a_job(installed, job):
    admin, before = job.admin, job.uids
    old = replicas(admin)
    installed.node.kubectl("rollout", "restart", *OURS, "deployment/ascendop")
    rolled_out(installed)
    wait_for("both are new", lambda: len(replicas(admin)) == 2 and not replicas(admin) & old, 60)
    wait_for("one of them leads", lambda: leader(admin), PATIENCE_S)
    assert job.uids == before
    loses_its_worker(job)


def test_pods_of_jobs_run_on_when_the_operator_is_removed(installed, job):
    """Without the CRDs: these have the jobs in them. It is the last test here for that."""
    admin, before, said = job.admin, job.uids, job.conditions
    for folder in ("deploy", "rbac"):
        gone = ("delete", "-f", f"{MANIFESTS}/{folder}", "--ignore-not-found", "--timeout=120s")
        installed.node.kubectl(*gone)
    wait_for("no replica is left", lambda: not replicas(admin), PATIENCE_S)
    assert job.uids == before and job.conditions == said
    assert job.phases == dict.fromkeys(before, "Running")
