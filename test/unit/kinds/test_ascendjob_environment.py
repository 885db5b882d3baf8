# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The variables of an AscendJob's pods; ascendjob.md 5 and 12.4. The samples: test_recorded.py."""

import pytest

from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..make import CLUSTERD_IP, LEADER_IP, container, job, replica  # noqa: TID252  likewise

DOMAIN = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
NPU_A5 = "huawei.com/npu"
VISIBLE = {"ASCEND_VISIBLE_DEVICES": "<metadata.annotations['huawei.com/Ascend910']>"}
RECOVERS = {"PROCESS_RECOVER": "on", "ELASTIC_PROCESS_RECOVER_ENABLE": "1"}


def env(obj, pod="j-master-0", **of_world):
    return make.env_of(make.created(decide(make.snapshot(obj, **of_world)))[pod])


def recovery(framework, *, labels=None, strategy=None, user=()):
    """The recovery variables that a job's leader gets."""
    leader = {"pytorch": "Master", "mindspore": "Scheduler", "tensorflow": "Chief"}[framework]
    notes = {} if strategy is None else {"recover-strategy": strategy}
    roles = {leader: replica(1, env=list(user))}
    obj = job(framework, labels=labels, annotations=notes, roles=roles)
    names = {
        "HIGH_AVAILABILITY", "HCCL_ASYNC_ERROR_HANDLING", "PROCESS_RECOVER", "MS_ENABLE_TFT",
        "ELASTIC_PROCESS_RECOVER_ENABLE", "ENABLE_RESTART_FAULT_PROCESS", "MINDIO_FOR_MINDSPORE",
        "MS_ENABLE_THM",
    }  # fmt: skip
    found = env(obj, f"j-{leader.lower()}-0")
    return {name: found[name] for name in sorted(found) if name in names}


def test_e5_a_worker_of_tensorflow_is_told_where_the_chief_is():
    """ascendjob:E5"""
    obj = job("tensorflow", Chief=replica(1, npus=2), Worker=replica(1, npus=2))
    found = env(obj, "j-worker-0", services=[make.service("j-chief-0")])
    assert found["CM_CHIEF_IP"] == LEADER_IP
    assert (found["CM_LOCAL_WORKER"], found["CM_WORKER_SIZE"], found["CM_RANK"]) == ("2", "4", "1")


STRATEGIES = "recover,retry,dump"
BRACES = {"MINDIO_FOR_MINDSPORE": "1", "MS_ENABLE_THM": "{HCCL_WATCHDOG:0}"}


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(
            recovery("mindspore", strategy=STRATEGIES, labels={"pod-rescheduling": "on"}),
            {"MS_ENABLE_TFT": "{ARF:1,HCCE:1,RSC:1,TTP:1,UCE:1}", **BRACES, **RECOVERS},
            id="ascendjob:E8 all words of MindSpore",
        ),
        pytest.param(
            recovery("pytorch", strategy="recover-in-place"),
            {
                "HIGH_AVAILABILITY": "recover",
                "HCCL_ASYNC_ERROR_HANDLING": "0",
                "ENABLE_RESTART_FAULT_PROCESS": "on",
                **RECOVERS,
            },
            id="ascendjob:E9 in place",
        ),
        pytest.param(
            recovery("pytorch", strategy="elastic-training"),
            {
                "HIGH_AVAILABILITY": "elastic-training",
                "HCCL_ASYNC_ERROR_HANDLING": "0",
                "PROCESS_RECOVER": "on",
            },
            id="ascendjob:E10 elastic training alone recovers no process",
        ),
        pytest.param(
            recovery("pytorch", strategy="retry, dump"),
            {
                "HIGH_AVAILABILITY": "dump,retry",
                "HCCL_ASYNC_ERROR_HANDLING": "0",
                **RECOVERS,
            },
            id="ascendjob:E11 blanks are no part of a word",
        ),
        pytest.param(
            recovery("mindspore", strategy="foo"),
            {"MS_ENABLE_TFT": "{}", **BRACES},
            id="ascendjob:E12 no known word",
        ),
        pytest.param(
            recovery("pytorch", labels={"subHealthyStrategy": "hotSwitch"}),
            {"HIGH_AVAILABILITY": "recover", **RECOVERS},
            id="ascendjob:E13 hot switch alone",
        ),
        pytest.param(
            recovery(
                "mindspore", labels={"subHealthyStrategy": "hotSwitch", "pod-rescheduling": "on"}
            ),
            {"MS_ENABLE_TFT": "{ARF:1,RSC:1}", "MINDIO_FOR_MINDSPORE": "1", **RECOVERS},
            id="ascendjob:E14 hot switch and rescheduling",
        ),
        pytest.param(
            recovery("pytorch", labels={"subHealthyStrategy": "hotSwitch"}, strategy="dump"),
            {
                "HIGH_AVAILABILITY": "dump,recover",
                "HCCL_ASYNC_ERROR_HANDLING": "0",
                **RECOVERS,
            },
            id="ascendjob:E15 hot switch and a word",
        ),
        pytest.param(recovery("pytorch", strategy=""), {}, id="ascendjob:P7 an empty strategy"),
        pytest.param(
            recovery("pytorch", strategy="exit,unheard-of"),
            {"HIGH_AVAILABILITY": "recover", "HCCL_ASYNC_ERROR_HANDLING": "0", **RECOVERS},
            id="to exit is to be recovered",
        ),
        pytest.param(
            recovery(
                "mindspore",
                labels={"pod-rescheduling": "on"},
                user=[{"name": "MS_ENABLE_TFT", "value": "{TTP:1}"}],
            ),
            {"MS_ENABLE_TFT": "{TTP:1}"},
            id="rescheduling leaves the user's word alone",
        ),
        pytest.param(
            recovery(
                "mindspore",
                labels={"subHealthyStrategy": "hotSwitch"},
                user=[{"name": "MS_ENABLE_TFT", "value": "{ UCE:1 , TTP:1 }"}],
            ),
            {"MS_ENABLE_TFT": "{ARF:1,TTP:1,UCE:1}", "MINDIO_FOR_MINDSPORE": "1", **RECOVERS},
            id="hot switch adds to the user's word",
        ),
        pytest.param(
            recovery(
                "pytorch",
                labels={"subHealthyStrategy": "hotSwitch"},
                user=[
                    {"name": "HIGH_AVAILABILITY", "value": "retry"},
                    {"name": "PROCESS_RECOVER", "value": "off"},
                ],
            ),
            {"HIGH_AVAILABILITY": "recover,retry", **RECOVERS},
            id="hot switch adds to the user's words",
        ),
        pytest.param(
            recovery("tensorflow", labels={"subHealthyStrategy": "hotSwitch"}),
            {},
            id="TensorFlow switches nothing",
        ),
        pytest.param(recovery("tensorflow", strategy="dump"), {}, id="TensorFlow recovers nothing"),
    ],
)
def test_recovery_variables_follow_the_job_s_words(got, want):
    assert got == dict(sorted(want.items()))


def test_e16_an_inference_job_gets_its_four_variables_and_no_other():
    """ascendjob:E16"""
    found = env(job(labels={"jobID": "svc-a", "app": "mindie-ms-server"}))
    assert list(found.items()) == [
        ("MINDX_TASK_ID", "svc-a"),
        ("APP_TYPE", "mindie-ms-server"),
        ("MINDX_SERVER_IP", CLUSTERD_IP),
        ("MINDX_SERVER_DOMAIN", DOMAIN),
    ]


SOFT_SHARE = {
    f"huawei.com/scheduler.softShareDev.{key}": "1" for key in ("aicoreQuota", "hbmQuota", "policy")
}


def test_e17_a_shared_chip_is_one_process():
    """ascendjob:E17"""
    half = replica(1, npus=50)
    obj = job(labels=SOFT_SHARE, Master=half, Worker=half | {"replicas": 2})
    found = env(obj, "j-worker-1")
    assert "ASCEND_VISIBLE_DEVICES" not in found
    assert (found["LOCAL_WORLD_SIZE"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "3", "0")
    assert (found["RANK"], found["HCCL_LOGIC_SUPERPOD_ID"]) == ("2", "0")


def test_e18_a_chip_that_is_cut_on_demand_has_no_sizes():
    """ascendjob:E18"""
    found = env(job(Master=replica(1, npus=4, resource="huawei.com/npu-core")))
    assert not {"LOCAL_WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK"} & set(found)
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["RANK"]) == (LEADER_IP, "2222", "0")
    assert found["HCCL_LOGIC_SUPERPOD_ID"] == "0"


def test_e19_a_virtual_chip_is_not_made_visible_by_us():
    """ascendjob:E19 field-reports:FR-061"""
    found = env(job(Master=replica(1, npus=1, resource="huawei.com/Ascend910-6c.1cpu.16g")))
    assert "ASCEND_VISIBLE_DEVICES" not in found
    assert (found["LOCAL_WORLD_SIZE"], found["WORLD_SIZE"], found["LOCAL_RANK"]) == ("1", "1", "0")


def test_e20_every_node_has_a_rank_of_its_own_under_a_master_without_chips():
    """ascendjob:E20"""
    obj = job(Master=replica(1, npus=0), Worker=2)
    found = {name: env(obj, name) for name in ("j-master-0", "j-worker-0", "j-worker-1")}
    assert [e["RANK"] for e in found.values()] == ["0", "1", "2"]
    assert {e["WORLD_SIZE"] for e in found.values()} == {"16"}
    assert "HCCL_LOGIC_SUPERPOD_ID" not in found["j-master-0"]


def test_e21_a_job_without_chips_gets_the_general_variables_only():
    """ascendjob:E21"""
    cpu = container(npus=0, resources={"requests": {"cpu": "4"}})
    found = env(job(Master=replica(1, cpu)))
    assert list(found) == [
        "MINDX_TASK_ID", "MINDX_SERVER_IP", "MINDX_SERVER_DOMAIN", "HostNetwork", "REPLICA_TYPE",
    ]  # fmt: skip


def super_pod(pod, chips, *, labels=None, resource=make.ASCEND_910, workers=3, **annotations):
    role = replica(1, npus=chips, resource=resource)
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    obj = job(labels=labels, annotations=notes, Master=role, Worker=role | {"replicas": workers})
    return env(obj, pod)


SOFT = {"super-pod-affinity": "soft"}


def test_e22_under_soft_affinity_the_scheduler_names_the_logical_super_pod():
    """ascendjob:E22"""
    found = super_pod("j-master-0", 16, labels=SOFT, sp_block="32")
    assert found["HCCL_LOGIC_SUPERPOD_ID"] == "<metadata.annotations['super-pod-rank']>"


def test_e23_under_soft_affinity_an_a5_pod_counts_for_itself():
    """ascendjob:E23"""
    found = super_pod("j-worker-2", 8, labels=SOFT, resource=NPU_A5, sp_block="16")
    assert found["ASCEND_VISIBLE_DEVICES"] == "<metadata.annotations['huawei.com/npu']>"
    assert found["HCCL_LOGIC_SUPERPOD_ID"] == "1"


def test_e24_a_multilevel_policy_counts_in_pods():
    """ascendjob:E24"""
    role = replica(1, npus=16)
    notes = {
        "huawei.com/schedule_policy": "multilevel",
        "huawei.com/affinity-config": "level1=2,level2=4",
    }
    obj = job(annotations=notes, Master=role, Worker=role | {"replicas": 7})
    found = env(obj, "j-worker-4")
    assert (found["RANK"], found["HCCL_LOGIC_SUPERPOD_ID"]) == ("5", "2")


def test_e25_a_block_smaller_than_a_pod_is_a_pod():
    """ascendjob:E25"""
    assert super_pod("j-worker-2", 8, sp_block="4")["HCCL_LOGIC_SUPERPOD_ID"] == "3"


def test_e26_without_clusterd_its_domain_stands_for_its_address():
    """ascendjob:E26"""
    assert env(job(), clusterd=DOMAIN)["MINDX_SERVER_IP"] == DOMAIN


def test_e27_a_side_car_keeps_its_environment():
    """ascendjob:E27"""
    side = {"name": "side", "image": "s:1", "env": [{"name": "A", "value": "1"}]}
    obj = job(Master=replica(1, container(), side))
    pod = make.created(decide(make.snapshot(obj)))["j-master-0"]
    assert pod["spec"]["containers"][1] == side


def test_e28_the_contract_s_variable_comes_after_the_user_s_and_wins():
    """ascendjob:E28"""
    obj = job(Master=replica(1, env=[{"name": "MASTER_PORT", "value": "1"}]))
    pod = make.created(decide(make.snapshot(obj)))["j-master-0"]
    found = [e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "MASTER_PORT"]
    assert found == ["1", "2222"]


def test_what_goes_beyond_the_contract_leaves_the_user_s_variable_alone():
    obj = job(Master=replica(1, env=[{"name": "PET_NNODES", "value": "1"}]))
    pod = make.created(decide(make.snapshot(obj)))["j-master-0"]
    found = [e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "PET_NNODES"]
    assert found == ["1"]


def test_a_visible_devices_of_the_user_is_not_doubled():
    """field-reports:FR-061"""
    obj = job(Master=replica(1, env=[{"name": "ASCEND_VISIBLE_DEVICES", "value": "0-7"}]))
    assert env(obj)["ASCEND_VISIBLE_DEVICES"] == "0-7"
