# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""AscendJobs live through Volcano, fake nodes, crashes and a change of leader."""

import json
import time
from pathlib import Path

import pytest

from hack.admin import path_of, wait_for
from hack.jobs import Job, read_jobs

SAMPLES = Path(__file__).parent / "recorded" / "ascendjob"
PYTORCH = "01-sample-pytorch-2node"
MINDSPORE = "02-sample-mindspore"
TENSORFLOW = "03-sample-tensorflow"
TAKES_OVER_S = 18.0
SHORT_LEASE = ("--lease-s=4", "--renew-s=3", "--retry-s=1")
"""A restarted replica waits for the lease of the one that was killed."""


@pytest.fixture
def cluster(full, namespace):
    """A namespace with every right, and what the samples expect to find."""
    where = namespace(full)
    with full.admin() as admin:
        meta = {"name": "training-normal"}
        admin.ensure(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": meta,
                "value": 1,
            }
        )
        yield admin, where


def sample(cluster, name, **options):
    """One of the samples, not created yet; what it needs is."""
    admin, where = cluster
    needed = SAMPLES / f"{name}.objects.yaml"
    for obj in read_jobs(needed) if needed.exists() else ():
        obj["metadata"]["namespace"] = where
        admin.ensure(obj)
    (job,) = read_jobs(SAMPLES / f"{name}.job.yaml")
    return Job(admin, where, job, **options)


def with_table_file(job):
    """The same job, reading its rank table from the shared directory."""
    volume = {
        "name": "ranktable",
        "hostPath": {"path": f"/user/mindx-dl/ranktable/{job.namespace}.{job.name}"},
    }
    for role in job.asked["spec"]["replicaSpecs"].values():
        role["template"]["spec"]["volumes"].append(volume)
    return job


@pytest.mark.parametrize(("name", "pods"), [(PYTORCH, 2), (MINDSPORE, 3), (TENSORFLOW, 1)])
def test_a_sample_runs_from_created_to_succeeded(name, pods, cluster, full, operator):
    operator(full)
    job = sample(cluster, name)
    job.create()
    job.wait_pods(pods, "Running")
    running = job.wait("Running")
    assert running["reason"] == "JobRunning"
    (group,) = job.pod_groups
    assert group["spec"]["minMember"] == pods
    assert group["status"]["phase"] in {"Inqueue", "Running"}
    job.tell("succeed")
    job.wait("Succeeded")
    assert job.status["completionTime"]
    reasons = [reason for reason, _ in job.events]
    assert reasons.count("SuccessfulCreatePod") == pods
    wait_for("the PodGroup of a finished job is gone", lambda: not job.pod_groups)


def test_p12_without_gangs_pods_come_at_once_and_know_of_none(cluster, full, operator):
    operator(full, "-enableGangScheduling=false", "-logLevel=-1")
    job = sample(cluster, PYTORCH)
    job.create()
    job.wait_pods(2)
    assert not job.pod_groups
    for pod in job.pods:
        notes = pod["metadata"]["annotations"]
        assert not {"scheduling.k8s.io/group-name", "volcano.sh/task-spec"} & notes.keys()
        assert pod["spec"]["schedulerName"] == "default-scheduler", "as in the template"


def test_a_failed_pod_that_nobody_restarts_fails_the_job(cluster, full, operator):
    operator(full)
    job = sample(cluster, PYTORCH)
    job.create()
    job.wait_pods(2, "Running")
    job.wait("Running")
    job.tell("fail", f"{job.name}-worker-0")
    job.wait("Failed")
    assert job.status["completionTime"]


def test_the_rank_table_is_in_the_config_map_once_every_pod_has_devices(cluster, full, operator):
    operator(full)
    job = sample(cluster, MINDSPORE)
    job.create()
    job.wait_pods(3, "Running")
    config_map = f"rings-config-{job.name}"

    def table():
        return json.loads(job.data_of(config_map)["hccl.json"])

    wait_for("the table is complete", lambda: table()["status"] == "completed")
    assert table()["server_count"] == "2"
    devices = [d for server in table()["server_list"] for d in server["device"]]
    assert [d["rank_id"] for d in devices] == [str(rank) for rank in range(16)]


def test_the_rank_table_is_in_the_shared_directory(cluster, full, operator):
    replica = operator(full)
    job = with_table_file(sample(cluster, PYTORCH))
    job.create()
    job.wait_pods(2, "Running")
    file = replica.rank_tables / f"{job.namespace}.{job.name}" / "hccl.json"
    wait_for(
        "the table is complete",
        lambda: file.exists() and json.loads(file.read_text())["status"] == "completed",
    )
    assert json.loads(file.read_text())["server_count"] == "2"


def test_everything_of_a_deleted_job_goes(cluster, full, operator):
    operator(full)
    job = sample(cluster, PYTORCH)
    job.create()
    job.wait_pods(2, "Running")
    job.delete()
    kinds = [("v1", "Pod"), ("v1", "Service"), ("scheduling.volcano.sh/v1beta1", "PodGroup")]
    wait_for("its children are gone", lambda: not any(job.children(*kind) for kind in kinds))


def test_a_job_that_cannot_run_names_every_mistake_and_stops_no_other(cluster, full, operator):
    operator(full)
    bad = sample(cluster, PYTORCH)
    bad.asked["metadata"]["name"] = bad.name = "bad"
    del bad.asked["metadata"]["labels"]["framework"]
    bad.asked["spec"]["runPolicy"]["schedulingPolicy"]["queue"] = "nowhere"
    bad.create()
    good = sample(cluster, PYTORCH)
    good.create()
    good.wait_pods(2, "Running")
    failed = bad.wait("Failed")
    assert "framework" in failed["message"]
    assert bad.pods == []


@pytest.mark.parametrize("when", ["before the pods", "while they run", "when they have ended"])
def test_a_crash_doubles_nothing_and_loses_nothing(when, cluster, full, operator):
    replica = operator(full, *SHORT_LEASE)
    job = sample(cluster, PYTORCH)
    job.create()
    if when == "before the pods":
        replica.restart()
    uids = job.wait_pods(2, "Running")
    job.wait("Running")
    if when == "while they run":
        replica.restart()
    elif when == "when they have ended":
        replica.kill()
    job.tell("succeed")
    if when == "when they have ended":
        wait_for("they end", lambda: set(job.phases.values()) == {"Succeeded"})
        replica.start()
    job.wait("Succeeded")
    assert job.uids == uids
    created = [note for reason, note in job.events if reason == "SuccessfulCreatePod"]
    assert len(created) == len(set(created)) == 2


def leads(replica):
    return replica.process.running and replica.metric("leader_election_master_status") == 1


def test_the_other_replica_takes_over_when_the_leader_is_killed(cluster, full, operator):
    """runtime:L-2, runtime:L-12"""
    replicas = [operator(full, name=name) for name in ("one", "two")]
    wait_for("one of them leads", lambda: any(map(leads, replicas)), 30)
    leader = next(filter(leads, replicas))
    (other,) = (replica for replica in replicas if replica is not leader)
    assert not leads(other)
    job = sample(cluster, PYTORCH)
    job.create()
    uids = job.wait_pods(2, "Running")
    leader.kill()
    started = time.monotonic()
    wait_for("the other leads", lambda: leads(other), TAKES_OVER_S + 5)
    assert time.monotonic() - started < TAKES_OVER_S
    job.tell("succeed")
    job.wait("Succeeded")
    assert job.uids == uids


def test_a_leader_that_is_asked_to_end_hands_over_in_a_second(cluster, full, operator):
    """runtime:L-11"""
    replicas = [operator(full, name=name) for name in ("one", "two")]
    wait_for("one of them leads", lambda: any(map(leads, replicas)), 30)
    leader = next(filter(leads, replicas))
    (other,) = (replica for replica in replicas if replica is not leader)
    assert leader.stop() == 0
    started = time.monotonic()
    wait_for("the other leads", lambda: leads(other), 10)
    assert time.monotonic() - started < 1.5
    job = sample(cluster, TENSORFLOW)
    job.create()
    job.wait_pods(1, "Running")
    assert job.admin.request("GET", path_of(job.asked))["status"]
