# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Conformance cases of AscendJob that a server has to answer; ascendjob.md 12.

Nobody acts but the operator and the API server with its controllers: phases of PodGroups and the
states of pods are written by hand.
"""

import json
import time
from pathlib import Path

import pytest

from hack.admin import RefusedError, path_of, wait_for
from hack.byhand import NPUS, JobByHand, build_job
from hack.jobs import read_jobs

SAMPLES = Path(__file__).parent / "recorded" / "ascendjob"
QUIET_S = 2.0
TRIED_AGAIN_S = 130.0
"""What the server forbade is tried again after 30 s to two minutes."""
RETRIES = "vcjob-fault-npu-cm"


@pytest.fixture(scope="module")
def replica(plain, make_replica):
    """One operator for all of them, with the generated rights."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}}
    with plain.admin() as admin:
        for name in ("default", "nlp-queue"):
            admin.ensure(queue | {"metadata": {"name": name}})
        admin.ensure(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "training-normal"},
                "value": 1,
            }
        )
    with make_replica(plain, name="cases") as found:
        yield found


@pytest.fixture
def admin(plain, replica):
    with plain.admin() as found:
        yield found


@pytest.fixture
def where(plain, namespace):
    return namespace(plain)


@pytest.fixture
def create(admin, where):
    """Create a job: `create(job)`."""

    def make(job=None):
        made = JobByHand(admin, where, job or build_job())
        made.create()
        return made

    return make


@pytest.fixture
def sample(admin, where, create):
    """Create a sample, and what it needs, by the beginning of its name."""

    def make(name):
        (file,) = SAMPLES.glob(f"{name}-*.job.yaml")
        needed = file.with_name(file.name.replace(".job.", ".objects."))
        for obj in read_jobs(needed) if needed.exists() else ():
            obj["metadata"]["namespace"] = where
            admin.ensure(obj)
        (job,) = read_jobs(file)
        return create(job)

    return make


def quota(admin, where, **hard):
    """Limit what may be created; returns a function that lifts the limit."""
    made = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "narrow", "namespace": where},
        "spec": {"hard": {key.replace("__", "/").replace("_", "."): v for key, v in hard.items()}},
    }
    admin.create(made)
    # Its controller looks for kinds of custom resources every 30 s.
    path = path_of(made)
    wait_for("the quota counts", lambda: "used" in admin.request("GET", path)["status"], 90)
    return lambda: admin.request("DELETE", path_of(made))


# ── validation ──


def test_v1_v18_a_job_without_framework_fails_and_stays_failed_when_it_is_corrected(create):
    bad = build_job()
    del bad["metadata"]["labels"]["framework"]
    job = create(bad)
    message = job.wait_reason("Failed", "JobValidFailed")
    assert message.startswith("InvalidFramework: framework label is not set")
    assert job.wait_event("InvalidFramework").startswith("framework label is not set")
    job.edit({"metadata": {"labels": {"framework": "pytorch"}}})
    time.sleep(QUIET_S)
    assert job.all_conditions[-1] == ("Failed", "True", "JobValidFailed")
    assert not job.pod_groups and not job.pods


def test_v13_a_queue_that_is_not_there(create):
    job = create(build_job(policy={"schedulingPolicy": {"queue": "nope"}}))
    message = job.wait_reason("Failed", "JobValidFailed")
    assert message.startswith("InvalidQueue: check queue<nope> failed, err: ")
    assert not job.pod_groups


def test_v14_a_policy_without_a_queue_means_the_default_one(create):
    job = create(build_job(policy={"schedulingPolicy": {"minAvailable": 2}}))
    (group,) = wait_for("its PodGroup", lambda: job.pod_groups)
    assert group["spec"].get("queue", "default") == "default", "by the default of its definition"
    assert "Failed" not in job.conditions


def test_v17_an_empty_spec_is_refused_by_the_server_and_none_at_all_by_us(admin, where):
    job = JobByHand(admin, where, build_job())
    job.asked["spec"] = {}
    with pytest.raises(RefusedError, match="replicaSpecs") as refused:
        job.create()
    assert refused.value.status == 422
    del job.asked["spec"]
    job.create()
    assert job.wait_reason("Failed", "JobValidFailed").startswith("InvalidSpecs: ")


# ── PodGroups, Services, pods and variables, as the server keeps them ──


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param(
            "01",
            {
                "minMember": 2,
                "minTaskMember": {"master": 1, "worker": 1},
                "queue": "default",
                "minResources": {NPUS: "16"},
            },
            id="P1 PyTorch",
        ),
        pytest.param(
            "02",
            {
                "minMember": 3,
                "minTaskMember": {"scheduler": 1, "worker": 2},
                "queue": "nlp-queue",
                "priorityClassName": "training-normal",
                "minResources": {"cpu": "196", "memory": "1040Gi", NPUS: "16"},
            },
            id="P2 MindSpore",
        ),
        pytest.param(
            "03",
            {
                "minMember": 1,
                "minTaskMember": {"chief": 1},
                "queue": "default",  # by the default of the definition
                "minResources": {NPUS: "1"},
            },
            id="P3 TensorFlow",
        ),
        pytest.param(
            "06",
            {
                "minMember": 2,
                "minTaskMember": {"master": 1, "worker": 1},
                "queue": "default",
                "minResources": {NPUS: "16"},
            },
            id="P5 resources of the user",
        ),
    ],
)
def test_the_pod_group_of_a_sample(name, want, sample):
    """field-reports:FR-104"""
    job = sample(name)
    (group,) = wait_for("its PodGroup", lambda: job.pod_groups)
    assert group["spec"] == want
    assert group["metadata"]["name"] == f"{job.name}-{job.stored['metadata']['uid']}"


def test_p6_every_word_of_the_job_is_on_its_pod_group(sample):
    job = sample("05")
    (group,) = wait_for("its PodGroup", lambda: job.pod_groups)
    asked = job.asked["metadata"]
    assert group["metadata"]["labels"] == {**asked["labels"], "process-recover-enable": "on"}
    assert group["metadata"]["annotations"].items() >= asked["annotations"].items()


def test_d1_d2_d3_e1_the_pods_of_the_pytorch_sample(sample):
    job = sample("01")
    assert list(job.let_in(2)) == ["vit-pretrain-2x8-master-0", "vit-pretrain-2x8-worker-0"]
    master, worker = (pod["metadata"] for pod in job.pods)
    assert master["labels"]["training.kubeflow.org/job-role"] == "master"
    assert not {"training.kubeflow.org/job-role", "job-role", "framework"} & set(worker["labels"])
    assert worker["labels"].items() >= {"version": "0", "team": "vision"}.items()
    ranks = [meta["annotations"]["hccl/rankIndex"] for meta in (master, worker)]
    assert ranks == ["0", "1"]
    found = job.environment("vit-pretrain-2x8-worker-0")
    address = job.services["vit-pretrain-2x8-master-0"]["spec"]["clusterIP"]
    wanted = {
        "ASCEND_VISIBLE_DEVICES": "<metadata.annotations['huawei.com/Ascend910']>",
        "MINDX_TASK_ID": job.stored["metadata"]["uid"],
        "MASTER_ADDR": address,
        "MASTER_PORT": "2222",
        "WORLD_SIZE": "16",
        "RANK": "1",
    }
    assert found.items() >= wanted.items()


def test_d4_d9_e2_e3_the_pods_of_the_mindspore_sample(sample):
    job = sample("02")
    job.let_in(3)
    (service,) = job.services.values()
    assert service["metadata"]["name"] == "pangu-sft-scheduler-0"
    assert service["spec"]["type"] == "ClusterIP"
    ports = [(port["name"], port["port"]) for port in service["spec"]["ports"]]
    assert ports == [("ascendjob-port", 8118)]
    scheduler = job.environment("pangu-sft-scheduler-0")
    worker = job.environment("pangu-sft-worker-1")
    assert (scheduler["MS_SCHED_HOST"], scheduler["NPU_POD"]) == ("<status.podIP>", "false")
    assert (worker["MS_SCHED_HOST"], worker["MS_SCHED_PORT"]) == (
        service["spec"]["clusterIP"],
        "8118",
    )
    ranks = [pod["metadata"]["annotations"]["hccl/rankIndex"] for pod in job.pods]
    assert ranks == ["0", "0", "1"]


def test_d8_e4_the_pod_of_the_tensorflow_sample(sample):
    job = sample("03")
    job.let_in(1)
    (pod,) = job.pods
    (port,) = pod["spec"]["containers"][0]["ports"]
    assert (port["name"], port["containerPort"]) == ("ascendjob-port", 2222)
    assert list(job.services) == ["tf-mnist-1x1-chief-0"]
    found = job.environment("tf-mnist-1x1-chief-0")
    assert (found["CM_CHIEF_IP"], found["CM_WORKER_SIZE"]) == ("<status.podIP>", "1")


def test_e7_the_recovery_variables_of_the_retry_sample(sample):
    job = sample("05")
    job.let_in(4)
    found = job.environment("qwen-pretrain-4x8-worker-2")
    wanted = {"HIGH_AVAILABILITY": "dump,recover,retry", "PROCESS_RECOVER": "on"}
    assert found.items() >= wanted.items()


# ── the order of things ──


def test_p8_p9_p10_nothing_but_the_group_before_the_gang_is_let_in(create):
    job = create()
    hint = job.wait_reason("Created", "PodGroupNotInitialized")
    assert hint.startswith("volcano-scheduler is maybe not running")
    job.phase_of_group("Pending")
    assert job.wait_reason("Created", "PodGroupPending") == "the cluster resource is not enough"
    assert not job.services and not job.pods
    assert "startTime" not in job.status and job.status["lastReconcileTime"]
    assert list(job.let_in(2)) == ["j-master-0", "j-worker-0"]
    assert list(job.services) == ["j-master-0"]


def test_p11_a_pod_group_that_the_server_refuses(create, admin, where):
    lift = quota(admin, where, count__podgroups_scheduling_volcano_sh="0")
    job = create()
    assert "exceeded quota" in job.wait_reason("Created", "SyncPodGroupFailed")
    lift()
    wait_for("it is tried again", lambda: job.pod_groups, TRIED_AGAIN_S)
    job.let_in(2)


def test_d10_a_service_of_somebody_else_in_the_way(create, admin, where):
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "j-master-0", "namespace": where},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    }
    admin.create(theirs)
    job = create()
    job.phase_of_group("Inqueue")
    assert "j-master-0" in job.wait_reason("Created", "SyncServiceFailed")
    assert not job.pods
    admin.request("DELETE", path_of(theirs))
    job.wait_pods(2)


@pytest.mark.long
def test_d12_a_stock_server_that_is_asked_for_lists_gets_single_pods(plain, where, operator):
    """ascendjob:W-37: by an operator of its own, since nobody has to have the setting."""
    lease = ("--lease-name=lists", f"--namespaces={where}", "--pods-by-lists")
    replica = operator(plain, *lease, "--no-enable-gang-scheduling", name="lists")
    with plain.admin() as hands:
        job = JobByHand(hands, where, build_job(Master=1, Worker=200))
        job.create()
        job.wait_pods(201, timeout_s=120)
        assert "Failed" not in job.conditions
    assert "takes no list of pods" in replica.process.log.read_text()


def test_d13_fewer_workers_than_before(create):
    job = create(build_job(Master=1, Worker=4))
    before = job.run(5)
    job.edit({"spec": {"replicaSpecs": {"Worker": {"replicas": 2}}}})
    after = job.wait_pods(3)
    assert after == {name: before[name] for name in ("j-master-0", "j-worker-0", "j-worker-1")}


@pytest.mark.parametrize(
    "code",
    [pytest.param(137, id="D14 a signal"), pytest.param(None, id="D14 nobody knows")],
)
def test_a_pod_that_may_be_retried_is_replaced_and_the_event_says_so(code, create):
    """The condition stands until a pod runs, and the master does: it is not waited for."""
    job = create(build_job(restart="ExitCode"))
    before = job.run(2)
    job.turn("Failed", "j-worker-0", code=code)
    wait_for("another worker", lambda: job.uids.get("j-worker-0") not in {None, *before.values()})
    assert job.wait_event("jobRestarting").endswith(
        "is restarting because Worker replica(s) failed."
    )
    assert "Failed" not in job.conditions


def test_d14_an_exit_code_of_the_program_s_own_fails_the_job(create):
    job = create(build_job(restart="ExitCode"))
    job.run(2)
    job.turn("Failed", "j-worker-0", code=1)
    job.wait_reason("Failed", "JobFailed")


# ── rank tables ──


def test_r15_r19_r20_a_table_comes_late_is_withdrawn_and_comes_back(create, admin, where):
    job = create()
    job.run(2)
    job.annotate()
    admin.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "rings-config-j", "namespace": where},
            "data": {"hccl.json": '{"status":"initializing"}', "extra": "mine"},
        }
    )

    def status():
        return json.loads(job.data_of("rings-config-j")["hccl.json"])["status"]

    wait_for("the table", lambda: status() == "completed", 60)
    assert job.data_of("rings-config-j").keys() == {"hccl.json", "version", "extra"}
    first = int(job.data_of("rings-config-j")["version"])
    job.lose("j-worker-0")
    wait_for("it is withdrawn", lambda: status() == "initializing")
    job.wait_pods(2)
    job.turn("Running")
    job.annotate()
    wait_for("it is back", lambda: status() == "completed")
    assert int(job.data_of("rings-config-j")["version"]) > first, "ascendjob.md R18: it grows"
    job.delete()
    wait_for("the job is gone", lambda: not job.pods)
    time.sleep(QUIET_S)
    assert job.data_of("rings-config-j")["extra"] == "mine", "the user's"
    assert status() == "completed"


def test_r21_r22_a_directory_from_the_start_files_and_an_end(create, where, replica):
    job = create(build_job(volumes=[{"name": "ranktable", "emptyDir": {}}]))
    folder = replica.rank_tables / f"{where}.j"
    wait_for("the directory", folder.is_dir)
    job.run(2)
    job.annotate()
    wait_for("the files", lambda: len(list(folder.iterdir())) == 2)
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert modes == {"hccl.json": 0o644, "version": 0o644}
    job.delete()
    wait_for("they are gone", lambda: not folder.exists())


# ── status ──


def test_s1_s2_one_pod_runs_then_all_have_succeeded(create):
    job = create()
    uids = job.let_in(2)
    job.turn("Running", "j-master-0")
    job.wait_reason("Running", "JobRunning")
    assert job.status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {}}
    assert job.status["startTime"]
    job.turn("Succeeded")
    job.wait_reason("Succeeded", "JobRunning")
    assert ("Running", "False", "JobRunning") in job.all_conditions
    assert job.status["completionTime"]
    wait_for("its PodGroup goes", lambda: not job.pod_groups)
    assert job.uids == uids


def counted(job, role):
    return job.status.get("replicaStatuses", {}).get(role)


def test_s3_a_worker_that_is_still_pending_is_no_success(create):
    job = create()
    job.let_in(2)
    job.turn("Succeeded", "j-master-0")
    wait_for("it is counted", lambda: counted(job, "Master") == {"succeeded": 1})
    time.sleep(QUIET_S)
    assert "Succeeded" not in job.conditions and len(job.pods) == 2


@pytest.mark.parametrize(
    ("policy", "left", "services"),
    [
        pytest.param("None", ["j-master-0", "j-worker-0"], ["j-master-0"], id="S4 S6 none"),
        pytest.param("Running", ["j-worker-0"], [], id="S6 running"),
        pytest.param("All", [], [], id="S6 all"),
    ],
)
def test_what_a_failed_job_leaves(policy, left, services, create):
    job = create(build_job(policy={"cleanPodPolicy": policy}))
    job.run(2)
    job.turn("Failed", "j-worker-0", code=1)
    job.wait_reason("Failed", "JobFailed")
    wait_for("it is cleaned", lambda: list(job.phases) == left and not job.pod_groups)
    assert list(job.services) == services
    assert job.status["completionTime"]


def test_s7_a_refused_pod_shows_in_the_state_column_of_a_running_job(create, admin, where):
    job = create()
    job.run(2)
    lift = quota(admin, where, pods="1")
    job.lose("j-worker-0")
    assert "exceeded quota" in job.wait_reason("Created", "PodCreateFailed")
    assert job.all_conditions[-1][:2] == ("Created", "True")
    lift()
    job.wait_pods(2, timeout_s=TRIED_AGAIN_S)
    job.turn("Running")
    wait_for("State is Running", lambda: job.all_conditions[-1][0] == "Running")


# ── faults ──


def test_f1_f2_a_budget_of_two_bears_three_generations(create):
    job = create(build_job(policy={"backoffLimit": 2}, Master=1, Worker=3))
    job.run(4)
    for version in ("1", "2"):
        before = job.uids
        job.lose()
        wait_for(
            "all are new",
            lambda b=before: len(job.uids) == 4 and not set(b.values()) & set(job.uids.values()),
        )
        assert set(job.versions().values()) == {version}
        job.turn("Running")
    job.lose()
    assert job.wait_reason("Failed", "JobFailed").endswith("reached the specified backoff limit")
    time.sleep(QUIET_S)
    assert not job.pods


def test_f3_a_survivor_of_the_old_generation(create):
    job = create(build_job(Master=1, Worker=3))
    job.run(4)
    for lost in ("j-worker-1", "j-worker-2"):
        before = job.uids
        job.lose(lost)
        wait_for("another", lambda n=lost, b=before: job.uids.get(n) not in {None, b[n]})
        job.turn("Running", lost)
    assert job.versions() == {
        "j-master-0": "0", "j-worker-0": "0", "j-worker-1": "1", "j-worker-2": "1",
    }  # fmt: skip


@pytest.fixture
def retries(admin):
    """Say how often Volcano would still restart a job: `retries(job, times)`."""
    meta = {"name": RETRIES, "namespace": "volcano-system"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    def say(job, times):
        uid = job.stored["metadata"]["uid"]
        entries = {f"{job.namespace}/{job.name}-{uid}": {"UUID": uid, "Times": times}}
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "volcano-system"},
        }
        admin.ensure(namespace)
        admin.apply(config_map | {"data": {"remain-retry-times": json.dumps(entries)}})

    yield say
    admin.ask("DELETE", path_of(config_map))


def test_f5_f7_retries_are_left_and_new_pods_end_the_restart(create, retries):
    job = create(build_job(labels={"fault-retry-times": "5"}))
    job.run(2)
    retries(job, 3)
    job.turn("Failed", "j-worker-0", code=1)
    message = job.wait_reason("Restarting", "JobRestarting")
    assert message.endswith("remain retry times is <3>.")
    assert "Failed" not in job.conditions
    job.lose()
    wait_for("new pods", lambda: set(job.versions().values()) == {"1"} and len(job.pods) == 2)
    job.turn("Running")
    job.wait_reason("Running", "JobRunning")
    assert "Restarting" not in {type_ for type_, _, _ in job.all_conditions}


def test_f6_no_retries_are_left(create, retries):
    job = create(build_job(labels={"fault-retry-times": "5"}))
    job.run(2)
    retries(job, 0)
    job.turn("Failed", "j-worker-0", code=1)
    job.wait_reason("Failed", "JobFailed", 60)


# ── run policy ──


def test_f11_a_job_goes_when_its_time_to_live_is_over(create):
    job = create(build_job(policy={"ttlSecondsAfterFinished": 3}))
    job.run(2)
    job.turn("Succeeded")
    job.wait("Succeeded")

    def gone():
        return job.admin.ask("GET", path_of(job.asked))[0] == 404

    assert not gone()
    wait_for("the job is gone", gone)
    job.wait_event("SuccessfulDeleteJob")


def test_f12_a_job_that_takes_longer_than_it_may_fails(create):
    job = create(build_job(policy={"activeDeadlineSeconds": 3}))
    job.run(2)
    job.wait_reason("Failed", "DeadlineExceeded")
    assert job.status["completionTime"]


def test_a_suspended_job_sleeps_and_wakes_without_a_loss_being_counted(create):
    """ascendjob:W-45"""
    job = create()
    job.run(2)
    job.edit({"spec": {"runPolicy": {"suspend": True}}})
    job.wait_reason("Suspended", "AscendJobSuspended")
    wait_for("it has nothing", lambda: not job.pods and not job.services and not job.pod_groups)
    job.edit({"spec": {"runPolicy": {"suspend": False}}})
    job.run(2)
    assert set(job.versions().values()) == {"0"}
    assert "Suspended" not in job.conditions


def test_a_job_of_another_controller_is_left_alone(create):
    job = create(build_job(policy={"managedBy": "kueue.x-k8s.io/multikueue"}))
    time.sleep(QUIET_S)
    assert not job.pod_groups and not job.status


def test_a_budget_that_is_used_up_ends_in_failed_before_the_time_to_live(create):
    """ascendjob:W-15: under the original such a job goes in circles."""
    job = create(build_job(policy={"backoffLimit": 1, "ttlSecondsAfterFinished": 4}))
    job.run(2)
    for _ in range(2):
        before = job.uids
        job.lose("j-worker-0")
        wait_for(
            "it is replaced, or the job has failed",
            lambda b=before: (
                job.uids.get("j-worker-0") not in {None, b["j-worker-0"]}
                or "Failed" in job.conditions
            ),
        )
    assert job.wait_reason("Failed", "JobFailed").endswith("reached the specified backoff limit")
    wait_for("the job is gone", lambda: job.admin.ask("GET", path_of(job.asked))[0] == 404)


# ── scaling ──


def test_g1_g2_g3_jobs_of_a_service_start_as_its_rule_says(admin, where, create):
    """With the rights that are generated; the phases are Volcano's word."""

    def job(name, group):
        labels = {
            "mind-cluster/scaling-rule": "sizes",
            "mind-cluster/group-name": group,
            "jobID": "svc",
            "app": "mindie",
        }
        return create(build_job(name, labels=labels))

    def size(**groups):
        return {
            "group_list": [
                {"group_name": name, "group_num": str(jobs), "server_num_per_group": "1"}
                for name, jobs in groups.items()
            ]
        }

    sizes = {"elastic_scaling_list": [size(prefill=2, decode=1), size(prefill=1, decode=1)]}
    rule = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sizes", "namespace": where},
        "data": {"elastic_scaling.json": json.dumps(sizes)},
    }
    first = job("p1", "prefill")
    first.phase_of_group("Inqueue")
    message = first.wait_reason("Created", "PodCreateFailed")
    assert f"ConfigMap {where}/sizes does not exist; make it" in message
    admin.create(rule)
    first.wait_pods(2)
    second = job("p2", "prefill")
    second.phase_of_group("Inqueue")
    message = second.wait_reason("Created", "PodCreateFailed")
    assert "1 of 1 jobs of group prefill have their place" in message
    decode = job("d1", "decode")
    decode.let_in(2)
    assert not second.pods
    for running in (first, decode):
        running.phase_of_group("Running")
    second.wait_pods(2)
