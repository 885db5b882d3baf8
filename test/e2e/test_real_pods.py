# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs in real containers: kubelet starts them, names resolve, ClusterIPs lead to the leader."""

import copy
from pathlib import Path

import pytest
import yaml

from hack.admin import wait_for
from hack.jobs import Job
from hack.node.machine import why_not

EXAMPLES = Path(__file__).parents[2] / "examples"
REASON = why_not()
pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.timeout(600),  # the first time, images are made and unpacked
]
SUCCEEDS_S = 90.0


@pytest.fixture(scope="module")
def running(real, make_replica):
    """The operator as a process beside it, with the rights that it is given."""
    with make_replica(real, "--no-enable-gang-scheduling", name="real-operator") as replica:
        yield replica


def example(name, image="localhost/python:1"):
    """The documents of an example, with an image that the node has, and no NPUs."""
    documents = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    job = documents[-1]
    specs = next(v for k, v in job["spec"].items() if k.lower().endswith("replicaspecs"))
    for role in specs.values():
        role["template"] = copy.deepcopy(role["template"])
        for container in role["template"]["spec"]["containers"]:
            container["image"] = image
    return documents


@pytest.fixture
def job(real, running, namespace):
    """Create an example, and what it needs: `job(name)`."""
    where = namespace(real)
    with real.admin() as admin:

        def make(name, change=lambda _job: None):
            *others, asked = example(name)
            change(asked)
            for other in others:
                other["metadata"]["namespace"] = where
                admin.create(other)
            made = Job(admin, where, asked)
            made.create()
            return made

        yield make


def test_a_pytorchjob_finds_its_master_by_name(real, job):
    made = job("pytorchjob-allreduce.yaml")
    made.wait("Succeeded", SUCCEEDS_S)
    said = [real.logs(made.namespace, name).strip() for name in made.phases]
    assert sorted(said) == [f"rank {rank} of 3: {10**rank} -> sum 111" for rank in range(3)]


def test_a_container_that_is_killed_is_started_again_by_kubelet(real, job):
    def sleeps(asked):
        for role in asked["spec"]["pytorchReplicaSpecs"].values():
            role["template"]["spec"]["containers"][0]["command"] = ["sleep", "600"]

    made = job("pytorchjob-allreduce.yaml", sleeps)
    made.wait("Running", SUCCEEDS_S)
    wait_for("all run", lambda: set(made.phases.values()) == {"Running"}, SUCCEEDS_S)
    before = made.uids
    real.node.kill("sleep", before["sum-worker-1"])

    def restarts():
        (pod,) = [p for p in made.pods if p["metadata"]["name"] == "sum-worker-1"]
        return pod["status"]["containerStatuses"][0]["restartCount"]

    wait_for("it has started again", restarts, SUCCEEDS_S)
    assert made.uids == before


def with_sleep(asked):
    for role in asked["spec"]["replicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["command"] = ["sleep", "600"]


def give_npus(real, count):
    """The node has as many NPUs as somebody says."""
    patch = [{"op": "add", "path": "/status/capacity/huawei.com~1Ascend910", "value": str(count)}]
    with real.admin() as admin:
        path = f"/api/v1/nodes/{real.node.layout.name}/status"
        admin.request("PATCH", path, patch, "application/json-patch+json")


def test_an_ascendjob_meets_its_master_by_clusterip_and_reads_its_table(real, job):
    give_npus(real, 3)
    made = job("ascendjob-allreduce.yaml")
    made.wait("Succeeded", SUCCEEDS_S)
    said = sorted(real.logs(made.namespace, name).splitlines()[-1] for name in made.phases)
    assert len(said) == 3
    assert all("111" in line for line in said)


def test_a_pod_whose_container_is_killed_fails_an_ascendjob_that_never_restarts(real, job):
    give_npus(real, 3)
    made = job("ascendjob-allreduce.yaml", with_sleep)
    made.wait("Running", SUCCEEDS_S)
    wait_for("all run", lambda: set(made.phases.values()) == {"Running"}, SUCCEEDS_S)
    real.node.kill("sleep", made.uids["allreduce-worker-1"])
    failed = made.wait("Failed", SUCCEEDS_S)
    assert failed["reason"] == "JobFailed"
    assert made.phases["allreduce-worker-1"] == "Failed"
