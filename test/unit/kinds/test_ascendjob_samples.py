# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the samples of ascendjob.md become: PodGroups, pods, Services and variables, row by row.

The samples are those of test/e2e/recorded. Expected are the values of section 12, written out, so
that a recording that is made anew cannot take a mistake of ours along.
"""

from functools import cache
from pathlib import Path

import pytest
import yaml

from ascendop.kube.resource import POD_GROUPS, SERVICES
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after  # noqa: TID252  likewise
from ..make import CLUSTERD_IP, LEADER_IP  # noqa: TID252  likewise

RECORDED = Path(__file__).parents[2] / "e2e" / "recorded" / "ascendjob"
PYTORCH = "01-sample-pytorch-2node"
MINDSPORE = "02-sample-mindspore"
TENSORFLOW = "03-sample-tensorflow"
SUPER_POD = "04-sample-a3-superpod"
RETRY = "05-sample-fault-retry"
NFS = "06-sample-nfs-ranktable"
NPUS = "huawei.com/Ascend910"
DOMAIN = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
GENERAL = {
    "MINDX_TASK_ID": "U",
    "MINDX_SERVER_IP": CLUSTERD_IP,
    "MINDX_SERVER_DOMAIN": DOMAIN,
    "HostNetwork": "false",
}


@cache
def sample(name):
    return yaml.safe_load((RECORDED / f"{name}.job.yaml").read_text())


def group_of(name):
    obj = sample(name)
    seen = make.snapshot(obj, group=make.group("", name="another"))
    (made,) = make.created(decide(seen), POD_GROUPS).values()
    return made


def made_for(name):
    """Pods and Services, by name."""
    seen = make.snapshot(sample(name), services=())
    plan = decide(seen)
    services = make.created(plan, SERVICES)
    return make.created(decide(after(seen, plan))), services


def set_by_us(name, pod):
    """The variables of a pod that the sample does not write itself, in order."""
    found = make.env_of(made_for(name)[0][pod])
    role = pod.rsplit("-", 2)[-2].capitalize()
    containers = sample(name)["spec"]["replicaSpecs"][role]["template"]["spec"]["containers"]
    users = {entry["name"] for c in containers for entry in c.get("env") or ()}
    return {key: value for key, value in found.items() if key not in users}


# ── PodGroups ──


def test_p1_the_group_of_the_pytorch_sample():
    found, obj = group_of(PYTORCH), sample(PYTORCH)
    assert found["metadata"]["name"] == "vit-pretrain-2x8-U"
    assert found["spec"] == {
        "minMember": 2,
        "minTaskMember": {"master": 1, "worker": 1},
        "queue": "default",
        "minResources": {NPUS: "16"},
    }
    assert found["metadata"]["labels"] == obj["metadata"]["labels"]
    assert len(obj["metadata"]["labels"]) == 3
    assert found["metadata"]["annotations"] == {"huawei.com/schedule_policy": "chip8-node8"}
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "name": "vit-pretrain-2x8",
            "uid": "U",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_p2_the_group_of_the_mindspore_sample():
    assert group_of(MINDSPORE)["spec"] == {
        "minMember": 3,
        "minTaskMember": {"scheduler": 1, "worker": 2},
        "queue": "nlp-queue",
        "priorityClassName": "training-normal",
        "minResources": {"cpu": "196", "memory": "1040Gi", NPUS: "16"},
    }


def test_p3_the_group_of_the_tensorflow_sample_asks_for_no_queue():
    """A queue that nobody named is looked up by nobody: the job goes on without it."""
    found = group_of(TENSORFLOW)["spec"]
    assert (found["minMember"], found["minTaskMember"]) == (1, {"chief": 1})
    assert found["minResources"] == {NPUS: "1"}
    assert not found.get("queue") and not found.get("priorityClassName")
    assert decide(make.snapshot(sample(TENSORFLOW), queue=None)).absent is None


def test_p5_resources_that_the_user_gives_are_taken_as_they_are():
    """A number becomes the text that the original sends, too; nothing is added to it."""
    asked = sample(NFS)["spec"]["runPolicy"]["schedulingPolicy"]["minResources"]
    assert asked == {NPUS: 16}
    assert group_of(NFS)["spec"]["minResources"] == {NPUS: "16"}


def test_p6_every_word_of_the_job_is_on_its_group_and_the_recovery_mark():
    found, obj = group_of(RETRY)["metadata"], sample(RETRY)["metadata"]
    assert (len(obj["labels"]), len(obj["annotations"])) == (6, 3)
    assert found["labels"] == {**obj["labels"], "process-recover-enable": "on"}
    assert found["annotations"] == obj["annotations"]


# ── pods and Services ──


def test_d1_the_pods_of_the_pytorch_sample():
    assert list(made_for(PYTORCH)[0]) == ["vit-pretrain-2x8-master-0", "vit-pretrain-2x8-worker-0"]


def labels(role, **more):
    return {
        "training.kubeflow.org/operator-name": "ascendjob-controller",
        "group-name": "mindxdl.gitee.com",
        "training.kubeflow.org/job-name": "vit-pretrain-2x8",
        "job-name": "vit-pretrain-2x8",
        "training.kubeflow.org/replica-type": role,
        "replica-type": role,
        "training.kubeflow.org/replica-index": "0",
        "replica-index": "0",
        "version": "0",
        "team": "vision",
        "ring-controller.atlas": "ascend-910b",
        **more,
    }


def annotations(role, rank):
    return {
        "hccl/rankIndex": rank,
        "scheduling.k8s.io/group-name": "vit-pretrain-2x8-U",
        "volcano.sh/task-spec": role,
    }


def test_d2_the_labels_and_annotations_of_a_worker():
    """field-reports:FR-059 field-reports:FR-105"""
    found = made_for(PYTORCH)[0]["vit-pretrain-2x8-worker-0"]["metadata"]
    assert found["labels"] == labels("worker")
    assert found["annotations"] == annotations("worker", "1")


def test_d3_the_labels_and_annotations_of_a_master():
    found = made_for(PYTORCH)[0]["vit-pretrain-2x8-master-0"]["metadata"]
    role = {"training.kubeflow.org/job-role": "master"}
    assert found["labels"] == labels("master", **role)
    assert found["annotations"] == annotations("master", "0")


def test_d4_a_scheduler_without_chips_shares_rank_zero_with_the_first_worker():
    pods = made_for(MINDSPORE)[0]
    assert {n: pod["metadata"]["annotations"]["hccl/rankIndex"] for n, pod in pods.items()} == {
        "pangu-sft-scheduler-0": "0",
        "pangu-sft-worker-0": "0",
        "pangu-sft-worker-1": "1",
    }


def test_d8_a_leader_that_names_no_port_gains_one():
    pods, services = made_for(TENSORFLOW)
    (container,) = pods["tf-mnist-1x1-chief-0"]["spec"]["containers"]
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("ascendjob-port", 2222)
    spec = services["tf-mnist-1x1-chief-0"]["spec"]
    assert [(port["name"], port["port"]) for port in spec["ports"]] == [("ascendjob-port", 2222)]


def test_d9_the_service_of_a_scheduler_has_its_port_and_selects_by_its_eight_labels():
    (found,) = made_for(MINDSPORE)[1].values()
    assert found["metadata"]["name"] == "pangu-sft-scheduler-0"
    ports = [(port["name"], port["port"]) for port in found["spec"]["ports"]]
    assert ports == [("ascendjob-port", 8118)]
    assert found["spec"].get("type", "ClusterIP") == "ClusterIP"
    assert "clusterIP" not in found["spec"], "the server assigns one"
    wanted = {
        "training.kubeflow.org/operator-name": "ascendjob-controller",
        "group-name": "mindxdl.gitee.com",
        "training.kubeflow.org/job-name": "pangu-sft",
        "job-name": "pangu-sft",
        "training.kubeflow.org/replica-type": "scheduler",
        "replica-type": "scheduler",
        "training.kubeflow.org/replica-index": "0",
        "replica-index": "0",
    }
    assert found["spec"]["selector"] == found["metadata"]["labels"] == wanted


# ── variables ──


def in_order(found, wanted):
    """The variables of the contract, in its order; ours come after them."""
    return list(found.items())[: len(wanted)] == list(wanted.items())


def test_e1_a_worker_of_pytorch():
    wanted = {
        "ASCEND_VISIBLE_DEVICES": "<metadata.annotations['huawei.com/Ascend910']>",
        **GENERAL,
        "HCCL_LOGIC_SUPERPOD_ID": "0",
        "REPLICA_TYPE": "Worker",
        "LOCAL_WORLD_SIZE": "8",
        "WORLD_SIZE": "16",
        "LOCAL_RANK": "0,1,2,3,4,5,6,7",
        "MASTER_ADDR": LEADER_IP,
        "MASTER_PORT": "2222",
        "RANK": "1",
    }
    found = set_by_us(PYTORCH, "vit-pretrain-2x8-worker-0")
    assert in_order(found, wanted), found


def test_e2_a_scheduler_of_mindspore_without_chips():
    wanted = {
        **GENERAL,
        "REPLICA_TYPE": "Scheduler",
        "MS_SCHED_HOST": "<status.podIP>",
        "MS_LOCAL_WORKER": "8",
        "MS_WORKER_NUM": "16",
        "MS_NODE_RANK": "0",
        "MS_SCHED_PORT": "8118",
        "MS_SERVER_NUM": "0",
        "MS_ROLE": "MS_SCHED",
        "NPU_POD": "false",
        "MS_ENABLE_TFT": "{RSC:1}",
    }
    found = set_by_us(MINDSPORE, "pangu-sft-scheduler-0")
    assert in_order(found, wanted), found
    assert not {"ASCEND_VISIBLE_DEVICES", "HCCL_LOGIC_SUPERPOD_ID"} & set(found)


def test_e3_a_worker_of_mindspore_that_makes_its_devices_visible_itself():
    found = set_by_us(MINDSPORE, "pangu-sft-worker-1")
    wanted = {
        "HCCL_LOGIC_SUPERPOD_ID": "0",
        "MS_SCHED_HOST": LEADER_IP,
        "MS_NODE_RANK": "1",
        "MS_ROLE": "MS_WORKER",
        "NPU_POD": "true",
    }
    assert found.items() >= wanted.items()
    pod = made_for(MINDSPORE)[0]["pangu-sft-worker-1"]
    names = [entry["name"] for entry in pod["spec"]["containers"][0]["env"]]
    assert names.count("ASCEND_VISIBLE_DEVICES") == 1


def test_e4_a_chief_of_tensorflow():
    found = set_by_us(TENSORFLOW, "tf-mnist-1x1-chief-0")
    wanted = {
        "CM_CHIEF_IP": "<status.podIP>",
        "CM_LOCAL_WORKER": "1",
        "CM_WORKER_SIZE": "1",
        "CM_CHIEF_PORT": "2222",
        "CM_RANK": "0",
        "CM_CHIEF_DEVICE": "0",
        "CM_WORKER_IP": "<status.podIP>",
    }
    assert found.items() >= wanted.items()
    assert [name for name in found if name.startswith("CM_")] == list(wanted)


def test_e6_two_pods_of_the_a3_sample_share_a_logical_super_pod():
    found = set_by_us(SUPER_POD, "moe-a3-4x16-worker-2")
    wanted = {
        "HostNetwork": "true",
        "HCCL_LOGIC_SUPERPOD_ID": "1",
        "LOCAL_WORLD_SIZE": "16",
        "WORLD_SIZE": "64",
        "MASTER_PORT": "29500",
        "RANK": "3",
    }
    assert found.items() >= wanted.items()
    pods = ("master-0", "worker-0", "worker-1")
    ids = [set_by_us(SUPER_POD, f"moe-a3-4x16-{pod}")["HCCL_LOGIC_SUPERPOD_ID"] for pod in pods]
    assert ids == ["0", "0", "1"]


@pytest.mark.parametrize("pod", ["master-0", "worker-0", "worker-1", "worker-2"])
def test_e7_every_pod_of_a_job_that_recovers(pod):
    found = set_by_us(RETRY, f"qwen-pretrain-4x8-{pod}")
    recovery = {
        "ELASTIC_PROCESS_RECOVER_ENABLE": "1",
        "HCCL_ASYNC_ERROR_HANDLING": "0",
        "HIGH_AVAILABILITY": "dump,recover,retry",
        "PROCESS_RECOVER": "on",
    }
    assert found.items() >= recovery.items()
    assert [name for name in found if name in recovery] == list(recovery), "sorted by name"
