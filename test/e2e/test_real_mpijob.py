# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""MPIJobs in real containers: mpirun goes over ssh, and each rank is on the host it belongs to."""

import itertools
import os
from dataclasses import replace
from functools import partial

import pytest

from hack.admin import MERGE, path_of, wait_for
from hack.mpijobs import (
    FAILS_ON_ONE,
    RealMPIJob,
    mpi_job,
    mpirun,
    never_together,
    one_launcher,
    template_of,
)
from hack.mpirun import IMPLEMENTATIONS, MPIUSER, PROGRAM, ROOT
from hack.node.images import IMAGES
from hack.node.machine import why_not

REASON = why_not()
pytestmark = [
    pytest.mark.skipif(bool(REASON), reason=REASON),
    pytest.mark.timeout(900),  # the first time, images are made and unpacked
]
OPEN_MPI_4 = IMPLEMENTATIONS["Open MPI 4"]
MADE = IMAGES[OPEN_MPI_4.image].archive.exists() or "NODES" in os.environ
OTHERS = sorted(IMPLEMENTATIONS.keys() - {"Open MPI 4"})
USERS = pytest.mark.parametrize("user", [ROOT, MPIUSER], ids=["root", "uid-1000"])
RESTRICTED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
WHEN_READY = {"launcherCreationPolicy": "WaitForWorkersReady"}
AT_STARTUP = {"launcherCreationPolicy": "AtStartup"}
LOOKS = itertools.count()
LOST_S = 120
"""For Kubernetes to find out that a node does not answer, and to let its pods go."""


@pytest.fixture(scope="module")
def running(real, make_replica):
    """The operator as a process beside it, with the rights that it is given."""
    with make_replica(real, "--no-enable-gang-scheduling", name="real-mpi-operator") as replica:
        yield replica


@pytest.fixture
def job(real, running, namespace):
    """Create an MPIJob in a namespace of its own: `job(mpi, user, ...)`, as `mpi_job` takes it."""
    with real.admin() as admin:

        def make(mpi=OPEN_MPI_4, user=ROOT, *, change=lambda _asked: None, **options):
            real.node.have(mpi.image)
            where = namespace(real)
            if user is MPIUSER:
                obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": where}}
                admin.request("PATCH", path_of(obj), RESTRICTED, MERGE)
            asked = mpi_job(mpi, user, **options)
            change(asked)
            made = RealMPIJob(real, admin, where, asked)
            made.create()
            return made

        yield make


@USERS
@pytest.mark.skipif(not MADE, reason="its image is not made yet: make test-long does")
def test_open_mpi_has_each_rank_on_its_host(job, user):
    """field-reports:FR-094"""
    made = job(user=user, **WHEN_READY)
    made.wait("Succeeded")
    assert made.ranks == made.expected()
    assert made.launcher_state["restartCount"] == 0
    assert [c["type"] for c in made.status["conditions"]] == ["Created", "Running", "Succeeded"]


@USERS
@pytest.mark.long
@pytest.mark.parametrize("mpi", OTHERS)
def test_every_other_mpi_has_each_rank_on_its_host(job, mpi, user):
    made = job(IMPLEMENTATIONS[mpi], user, **WHEN_READY)
    made.wait("Succeeded")
    assert made.ranks == made.expected()


@pytest.mark.long
@pytest.mark.parametrize("mpi", sorted(IMPLEMENTATIONS))
def test_a_launcher_that_works_too_has_the_first_ranks(job, mpi):
    run = mpirun(4)
    if IMPLEMENTATIONS[mpi].kind != "OpenMPI":
        # Hydra does not see that a full name is its own, and goes there by ssh as well.
        run = ["sh", "-c", '/usr/sbin/sshd && exec "$@"', "sh", *run]
    made = job(IMPLEMENTATIONS[mpi], workers=1, run=run, runLauncherAsWorker=True)
    made.wait("Succeeded")
    assert made.ranks == made.expected()


# ------------------------------------------------------------ when the launcher comes
def ten_starts(job, **options):
    """Ten of them have succeeded, five at a time, by an mpirun that waits for nobody itself."""
    done = []
    for _ in range(2):
        made = [job(run=mpirun(6, waits=False), **options) for _ in range(5)]
        for one in made:
            one.wait("Succeeded", 120)
        done += made
    return done


@pytest.mark.long
def test_a_launcher_that_comes_when_workers_are_ready_is_never_restarted(job):
    made = ten_starts(job, **WHEN_READY)
    assert [one.ranks for one in made] == [one.expected() for one in made]
    restarts = [(len(one.launchers), one.launcher_state["restartCount"]) for one in made]
    assert restarts == [(1, 0)] * 10


@pytest.mark.long
def test_a_launcher_that_comes_at_once_gets_there(job):
    made = job(run=mpirun(6, waits=False), **AT_STARTUP)
    made.wait("Succeeded", 120)
    assert made.ranks == made.expected()


@pytest.mark.long
def test_a_launcher_that_comes_at_once_finds_names_that_are_there_early(
    real, running, make_replica, job
):
    flags = ("--no-enable-gang-scheduling", "--mpi-names-early")
    running.stop()
    try:
        with make_replica(real, *flags, name="early-mpi-operator"):
            made = ten_starts(job, **AT_STARTUP)
            assert [one.ranks for one in made] == [one.expected() for one in made]
            assert [one.launcher_state["restartCount"] for one in made] == [0] * 10
    finally:
        running.start()


# ------------------------------------------------------------ two nodes
@pytest.mark.long
def test_mpirun_goes_across_two_nodes(real, job):
    with real.joined() as second:
        second.have(OPEN_MPI_4.image)
        for user in (ROOT, MPIUSER):
            made = job(user=user, workers=2, change=never_together, **WHEN_READY)
            made.wait("Succeeded")
            assert made.ranks == made.expected()
            nodes = {pod["spec"]["nodeName"] for pod in made.pods}
            assert nodes == {real.node.layout.name, second.layout.name}


# ------------------------------------------------------------ where the keys and the names are
def on_the_nodes_network(asked):
    template_of(asked, "Worker")["spec"]["hostNetwork"] = True


@pytest.mark.long
def test_a_worker_may_use_the_network_of_its_node(real, job):
    """There the ranks have the name of the node; they are found by that of the worker."""
    made = job(workers=1, change=on_the_nodes_network, **WHEN_READY)
    made.wait("Succeeded")
    (worker,) = made.pods
    assert worker["status"]["podIP"] == worker["status"]["hostIP"]
    name = made.in_pod(worker, "hostname").strip()
    assert made.ranks == [replace(rank, host=name) for rank in made.expected()]


@USERS
@pytest.mark.long
def test_who_runs_in_a_pod_can_read_its_key_and_ssh_takes_it(job, user):
    """mpijob:W-13: root has it for himself; for anybody else the files are still root's."""
    made = job(user=user, workers=1, run=["sleep", "600"], **WHEN_READY)
    made.wait("Running")
    key = f"{user.home}/.ssh/id_rsa"
    for pod in (*made.pods, made.launcher):
        # Through the links that kubelet makes: the mode counts of the file they lead to.
        mode = made.in_pod(pod, "stat", "-L", "-c", "%a %u", key).split()
        assert mode == (["600", "0"] if user is ROOT else ["644", "0"])
    host = f"pi-worker-0.pi.{made.namespace}.svc"
    assert made.in_launcher("ssh", host, "hostname").strip() == "pi-worker-0"


# ------------------------------------------------------------ faults
@pytest.mark.long
def test_a_worker_that_is_killed_stays_dead_and_its_job_fails(real, job):
    run = mpirun(6, f"{PROGRAM}\nimport time; time.sleep(600)")
    made = job(run=run, runPolicy={"backoffLimit": 0}, **WHEN_READY)
    made.wait("Running")
    wait_for("its ranks have spoken", lambda: made.ranks == made.expected(), 60)
    before = made.uids
    real.node.kill("sshd", before["pi-worker-1"])
    failed = made.wait("Failed")
    assert failed["reason"].startswith("BackoffLimitExceeded")
    assert made.uids == before
    assert made.phases == {
        "pi-worker-0": "Running", "pi-worker-1": "Failed", "pi-worker-2": "Running"
    }  # fmt: skip
    assert made.status["completionTime"]


@pytest.mark.long
def test_a_worker_that_is_deleted_comes_back_under_its_name_and_the_launcher_tries_again(job):
    made = job(run=mpirun(6, f"{PROGRAM}\nimport time; time.sleep(4)"), **WHEN_READY)
    made.wait("Running")
    wait_for("its ranks have spoken", lambda: made.ranks == made.expected(), 60)
    before, (lost,) = made.uids, [p for p in made.pods if p["metadata"]["name"] == "pi-worker-1"]
    made.admin.request("DELETE", path_of(lost))
    made.wait("Succeeded", 120)
    assert made.ranks == made.expected()
    assert made.launcher_state["restartCount"] > 0
    after = made.uids
    assert after.keys() == before.keys()
    assert [name for name in after if after[name] != before[name]] == ["pi-worker-1"]


def asks_for_one_more(asked):
    asked["metadata"]["annotations"] = {"ascendop.io/replace-failed-workers": "1"}


@pytest.mark.long
def test_a_worker_that_is_killed_comes_back_if_the_job_asks_for_that(real, job):
    run = mpirun(6, f"{PROGRAM}\nimport time; time.sleep(4)")
    made = job(run=run, change=asks_for_one_more, **WHEN_READY)
    made.wait("Running")
    wait_for("its ranks have spoken", lambda: made.ranks == made.expected(), 60)
    before = made.uids
    real.node.kill("sshd", before["pi-worker-1"])
    made.wait("Succeeded", 120)
    assert made.ranks == made.expected()
    after = made.uids
    assert [name for name in after if after[name] != before[name]] == ["pi-worker-1"]


def leave_lost_nodes(asked, launcher_on):
    """In seconds; and the launcher is not on the one that will be lost."""
    never_together(asked)
    for role in ("Launcher", "Worker"):
        template_of(asked, role)["spec"]["tolerations"] = [
            {"key": f"node.kubernetes.io/{why}", "effect": "NoExecute", "tolerationSeconds": 3}
            | {"operator": "Exists"}
            for why in ("not-ready", "unreachable")
        ]
    where = {"kubernetes.io/hostname": launcher_on}
    template_of(asked, "Launcher")["spec"]["nodeSelector"] = where


@pytest.mark.long
def test_a_worker_that_is_lost_with_its_node_is_named_and_comes_back_when_given_up(real, job):
    """mpijob:W-38: whether it has ended nobody can see; until that is known it is said."""
    change = partial(leave_lost_nodes, launcher_on=real.node.layout.name)
    with real.joined() as second:
        second.have(OPEN_MPI_4.image)
        made = job(workers=2, run=["sleep", "600"], change=change, **WHEN_READY)
        made.wait("Running")
        before, away = made.uids, second.layout.name
        (lost,) = [pod for pod in made.pods if pod["spec"]["nodeName"] == away]
        name = lost["metadata"]["name"]
        second.stop("kubelet")
        said = f"{name} (lost with node {away})"
        wait_for("it is said", lambda: made.conditions["Created"]["message"] == said, LOST_S)
        assert "Running" in made.conditions
        # Two in the host file, and one that still answers.
        wait_for("the script leaves it out", lambda: len(known(made)) == 3, LOST_S)
        # As for a node that is out of service.
        made.admin.request("DELETE", f"{path_of(lost)}?gracePeriodSeconds=0")
        wait_for("another one waits", lambda: made.phases.get(name) == "Pending", LOST_S)
        second.start("kubelet")
        wait_for("it runs", lambda: made.phases.get(name) == "Running", LOST_S)
        wait_for("all are known", lambda: len(known(made)) == 4, LOST_S)
        assert [pod for pod in before if before[pod] != made.uids[pod]] == [name]
        assert made.launcher_state["restartCount"] == 0


def little_memory(asked):
    one_launcher(asked)
    (main,) = template_of(asked, "Launcher")["spec"]["containers"]
    main["resources"] = {"limits": {"memory": "64Mi"}}


@pytest.mark.long
def test_a_launcher_that_is_out_of_memory_fails_its_job(job):
    run = ["python3", "-c", "held = [bytearray(1 << 20) for _ in range(1 << 10)]"]
    limit = {"backoffLimit": 0}
    made = job(run=run, change=little_memory, workers=1, runPolicy=limit, **WHEN_READY)
    failed = made.wait("Failed")
    end = made.launcher_state["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (137, "OOMKilled")
    assert failed["reason"] == "BackoffLimitExceeded/"
    assert failed["message"].endswith(": container main exited with code 137 (OOMKilled)")
    assert made.status["replicaStatuses"]["Launcher"] == {"failed": 1}


@pytest.mark.long
def test_a_rank_that_fails_gives_the_launcher_its_exit_code_and_the_job_its_last_words(job):
    limit = {"backoffLimit": 0}
    made = job(run=mpirun(6, FAILS_ON_ONE), change=one_launcher, runPolicy=limit, **WHEN_READY)
    failed = made.wait("Failed")
    assert made.launcher_state["state"]["terminated"]["exitCode"] == 7
    assert failed["reason"] == "BackoffLimitExceeded/"
    how = "Job has reached the specified backoff limit: container main exited with code 7 (Error): "
    assert failed["message"].startswith(how)
    assert "rank 4: no space left for the mesh" in failed["message"]


def says_its_last(asked):
    (main,) = template_of(asked, "Launcher")["spec"]["containers"]
    main["terminationMessagePolicy"] = "FallbackToLogsOnError"


@pytest.mark.long
def test_a_launcher_that_was_restarted_in_place_leaves_its_last_words_too(job):
    """As any is unless told otherwise; its Job takes the pod away and then fails."""
    limit = {"backoffLimit": 1}
    made = job(run=mpirun(6, FAILS_ON_ONE), change=says_its_last, runPolicy=limit, **WHEN_READY)
    failed = made.wait("Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    how = "Job has reached the specified backoff limit: container main exited with code 7 (Error): "
    assert failed["message"].startswith(how)
    assert "rank 4: no space left for the mesh" in failed["message"]


# ------------------------------------------------------------ sleep and size
@pytest.mark.long
@pytest.mark.parametrize("policy", [WHEN_READY, AT_STARTUP], ids=["when-ready", "at-startup"])
def test_a_job_that_is_suspended_in_the_middle_has_no_pods_and_runs_again(job, policy):
    made = job(run=mpirun(6, f"{PROGRAM}\nimport time; time.sleep(4)"), **policy)
    made.wait("Running")
    wait_for("its ranks have spoken", lambda: made.ranks == made.expected(), 60)
    before, began = made.uids, made.status["startTime"]
    made.change({"runPolicy": {"suspend": True}})
    made.wait("Suspended")
    wait_for("no pod is left", lambda: not made.uids and not made.launchers)
    assert made.conditions.keys() == {"Created", "Suspended"}
    counts = {"Launcher": {}, "Worker": {}}
    wait_for("nothing is active", lambda: made.status["replicaStatuses"] == counts)
    made.change({"runPolicy": {"suspend": False}})
    made.wait("Succeeded", 120)
    assert made.ranks == made.expected()
    assert made.uids.keys() == before.keys()
    assert not set(made.uids.values()) & set(before.values())
    assert made.status["startTime"] > began


def known(made):
    """What the discovery script in the launcher says, and the host file beside it."""
    # kubelet looks at what a pod mounts when the pod changes, or else once a minute.
    stamp = {"metadata": {"annotations": {"looked": str(next(LOOKS))}}}
    made.patch({"apiVersion": "v1", "kind": "Pod", **made.launcher}, stamp)
    said = made.in_launcher("sh", "-c", "/etc/mpi/discover_hosts.sh; cat /etc/mpi/hostfile")
    return [line.split(".")[0] for line in said.splitlines()]


@pytest.mark.long
def test_a_job_that_is_scaled_tells_its_launcher(job):
    made = job(workers=2, run=["sleep", "600"], **WHEN_READY)
    made.wait("Running")
    first = made.uids
    for count in (2, 4, 1):
        made.change({"mpiReplicaSpecs": {"Worker": {"replicas": count}}})
        hosts = [f"pi-worker-{index}" for index in range(count)]
        wait_for(f"it knows {count}", lambda h=hosts: known(made) == h + h, 90)
        assert list(made.phases) == hosts
        assert made.status["replicaStatuses"]["Worker"] == {"active": count}
    assert made.uids["pi-worker-0"] == first["pi-worker-0"]
    assert len(made.launchers) == 1
    assert made.launcher_state["restartCount"] == 0
