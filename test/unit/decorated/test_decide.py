# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The decision about a workload: which ranks are given, which table is wished, who is told."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.decorated.decide import decide
from ascendop.decorated.kinds import DEPLOYMENT, STATEFUL_SET, VOLCANO_JOB

from . import make  # noqa: TID252  the standard library has a package called test

SERVE = make.deployment()


def decided(pods, workload=SERVE, **more):
    kind = make.KINDS[workload["kind"]]
    return decide(kind, make.row(workload), pods, **more)


def ranks(decision):
    return {
        patch.name: patch.body["metadata"]["annotations"][make.RANK] for patch in decision.ranks
    }


def table(decision):
    return json.loads(decision.table.content)


def members(*numbers, workload=SERVE, **more):
    return [make.member(workload, number, **more) for number in numbers]


def ranked(*pairs, workload=SERVE, **more):
    return [make.member(workload, number, rank=rank, **more) for number, rank in pairs]


# ── ranks ──


def test_x1_pods_without_ranks_get_the_smallest_in_the_order_of_their_names():
    """ascendjob:W-49: in any order of the list."""
    for pods in itertools.permutations(members(1, 2, 3)):
        got = decided(pods, make.deployment(replicas=3))
        assert ranks(got) == {"p-1": "0", "p-2": "1", "p-3": "2"} and got.table is None


def test_x2_a_pod_in_the_place_of_rank_1_gets_1():
    pods = [*ranked((1, 0), (3, 2)), *members(2)]
    assert ranks(decided(pods, make.deployment(replicas=3))) == {"p-2": "1"}


def test_a_patch_holds_for_this_pod_as_it_was_seen_only():
    """Who gave it a rank meanwhile, or made another pod of the name, is not written over."""
    (patch, _) = decided(members(1, 2)).ranks
    assert (patch.name, patch.uid, patch.version) == ("p-1", "uid-1", "1")


def test_a_rank_that_is_no_number_is_never_changed_and_taken_by_nobody():
    """6.4: it is ignored where ranks are counted; no table can come of it."""
    pods = [*ranked((1, "first")), *members(2)]
    assert ranks(decided(pods)) == {"p-2": "0"}
    got = decided(ranked((1, "first"), (2, 0)))
    assert got.ranks == () and "RankUnknown: pod p-1" in got.note.note


def test_no_rank_is_given_before_every_pod_has_devices():
    """6.3: they are a part of the building of the table."""
    pods = [*members(1), *members(2, config=None)]
    assert decided(pods).ranks == () and "1 of 2 pods have devices" in decided(pods).waits


def test_two_pods_of_one_rank_are_told_and_left_as_they_are():
    got = decided(ranked((1, 0), (2, 0)))
    assert got.ranks == () and "RankTwice" in got.note.note


@given(
    st.lists(st.sampled_from([None, "0", "1", "2", "5", "-1", "x", "07"]), max_size=8),
    st.randoms(use_true_random=False),
)
def test_a_rank_that_is_there_stays_and_none_is_given_twice(found, dice):
    """For any ranks that pods come with, and any order of the list."""
    pods = [
        make.member(SERVE, number, rank=rank, annotations={}) for number, rank in enumerate(found)
    ]
    dice.shuffle(pods)
    given_ = ranks(decided(pods, make.deployment(replicas=len(found))))
    without = [f"p-{number}" for number, rank in enumerate(found) if rank is None]
    assert sorted(given_) == sorted(without)
    new = [int(rank) for rank in given_.values()]
    there = {int(rank) for rank in found if rank is not None and rank.lstrip("-").isdigit()}
    assert len(set(new)) == len(new) and not there & set(new)
    wanted = itertools.filterfalse(there.__contains__, itertools.count())
    assert sorted(new) == list(itertools.islice(wanted, len(new)))


# ── which pods are the workload's ──


@pytest.mark.parametrize(
    ("kind", "name"),
    [("ReplicaSet", "serve2-5d8f7c9b6"), ("ReplicaSet", "serve-b-5d8f7c9b6"), ("Job", "serve-1")],
)
def test_a_foreign_pod_that_carries_the_label_is_none_of_the_workload(kind, name):
    owner = {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": "F", "controller": True}
    pods = [*ranked((1, 0), (2, 1)), *members(3, owners=[owner])]
    assert table(decided(pods))["server_count"] == "2"


def test_a_pod_that_nobody_controls_is_known_by_its_label():
    """decorated/01: nothing else says whose it is."""
    pods = ranked((1, 0), (2, 1), owners=[])
    assert table(decided(pods))["status"] == "completed"


@pytest.mark.parametrize("workload", [make.stateful_set(replicas=2, labels=make.MARK),
                                      make.volcano_job()])  # fmt: skip
def test_pods_of_a_set_and_of_a_volcano_job_are_controlled_by_it(workload):
    before = [{**make.owner(workload), "uid": "the one before"}]
    old = make.member(workload, 1, rank=0, owners=before)
    new = make.member(workload, 2, rank=1)
    assert decided([old, new], workload).waits == "PodsMissing: 1 of 2 pods have devices"


def test_a_replica_set_s_name_ends_with_a_hash_without_a_dash():
    pod = make.member(SERVE, 1)
    assert DEPLOYMENT.has(pod, "serve", "any")
    assert not DEPLOYMENT.has(pod, "serv", "any") and not DEPLOYMENT.has(pod, "", "any")


def test_a_pod_that_has_ended_is_counted_only_where_nobody_makes_another():
    """An evicted pod of a Deployment stays, and its successor would be one too many."""
    pods = [*ranked((1, 0), phase="Failed"), *ranked((2, 0), (3, 1))]
    assert table(decided(pods))["server_count"] == "2"
    job = make.volcano_job()
    done = [
        make.member(job, 1, rank=0, phase="Succeeded"),
        make.member(job, 2, rank=1),
    ]
    assert table(decided(done, job))["status"] == "completed"


def test_w_49_pods_without_npus_neither_count_nor_get_a_rank():
    pods = [*ranked((1, 0), (2, 1)), make.member(SERVE, 3, npus=0)]
    assert table(decided(pods))["server_count"] == "2"


# ── the table ──


def test_x1_the_table_is_1_0_and_goes_where_the_user_wants_it():
    got = decided(ranked((1, 0), (2, 1)))
    found = table(got)
    assert (found["version"], found["status"], found["server_count"]) == ("1.0", "completed", "2")
    ids = [device["rank_id"] for server in found["server_list"] for device in server["device"]]
    assert ids == [str(number) for number in range(16)]
    assert (got.table.config_map, got.table.directory) == ("rings-config-serve", "")


def test_x3_the_volume_alone_asks_for_the_file():
    """W-48: one directory for one workload."""
    workload = make.stateful_set(volume=True)
    got = decided(ranked((1, 0), workload=workload), workload)
    assert got.table.directory == "default.store"


def test_x5_an_annotation_of_the_template_chooses_the_version():
    workload = make.deployment(on_pods={"sp-block": "16"})
    assert table(decided(ranked((1, 0), (2, 1)), workload))["version"] == "1.2"


def test_r15_a_table_is_withdrawn_when_a_pod_goes():
    """W-27: to the bare status, and only where a completed one stands."""
    wish = decided(ranked((1, 0))).table
    assert wish.content == '{"status":"initializing","version":"1.0"}'
    assert wish.only_over_completed
    assert decided([*ranked((1, 0)), *ranked((2, 1), deleting=True)]).table == wish


def test_r16_a_pod_with_another_uid_gives_another_table():
    before, after = ranked((1, 0), (2, 1)), ranked((1, 0), (3, 1))
    assert table(decided(after))["status"] == "completed"
    assert decided(before).table != decided(after).table


def test_r17_one_pod_too_many_changes_nothing():
    """A rolling update: the new one gets its rank when an old one has gone."""
    got = decided([*ranked((1, 0), (2, 1)), *members(3)])
    assert (got.ranks, got.table, got.note) == ((), None, None)
    after = decided([*ranked((2, 1)), *members(3)])
    assert ranks(after) == {"p-3": "0"}


def test_r26_the_hardware_type_is_that_of_inference():
    labels = {**make.MARK, "jobID": "9", "app": "mindie"}
    workload = make.deployment(labels=labels)
    pods = ranked((1, 0), (2, 1), annotations={"mind-cluster/hardware-type": "800I-A2-64G"})
    servers = table(decided(pods, workload))["server_list"]
    assert [server["hardware_type"] for server in servers] == ["800I-A2-64G"] * 2


def test_a_workload_of_no_replicas_has_no_table_and_needs_none():
    got = decided([], make.deployment(replicas=0))
    assert (got.ranks, got.table, got.note) == ((), None, None)


def test_the_pods_of_all_tasks_are_in_the_table():
    workload = make.volcano_job(tasks=(1, 2))
    pods = ranked((1, 0), (2, 1), (3, 2), workload=workload)
    assert table(decided(pods, workload))["server_count"] == "3"
    assert decided(pods[:2], workload).waits == "PodsMissing: 2 of 3 pods have devices"


# ── who is told ──


@pytest.mark.parametrize("pods", [[], members(1, 2), ranked((1, 0), (2, 1))])
def test_x7_a_network_that_nobody_knows_never_gives_a_table_and_the_user_is_told(pods):
    workload = make.deployment(
        labels={**make.MARK, "scaleout-type": "ib"}, resource="huawei.com/npu"
    )
    got = decided(pods, workload)
    assert got.table is None
    if not got.ranks:
        assert got.note.type == "Warning"
        assert "ScaleoutTypeUnknown: scaleout-type is 'IB'" in got.note.note


def test_a_label_for_another_generation_of_devices_means_nothing():
    workload = make.deployment(labels={**make.MARK, "scaleout-type": "ib"})
    assert table(decided(ranked((1, 0), (2, 1)), workload))["status"] == "completed"


def test_what_goes_by_itself_is_for_the_log_alone():
    for pods in ([], ranked((1, 0)), ranked((1, 0), (2, 1), config=None)):
        assert decided(pods).note is None and decided(pods).waits


def test_a_device_annotation_that_cannot_be_read_is_told_with_pod_and_place():
    pods = [*ranked((1, 0)), *ranked((2, 1), config='{"devices": 7}')]
    note = decided(pods).note.note
    assert "pod p-2" in note and "$.devices" in note


def test_w_10_a_rival_keeps_the_table_and_the_user_is_told():
    """ascendjob:W-10"""
    got = decided(ranked((1, 0), (2, 1)), rival="AscendJob")
    assert got.table is None and "belongs to the AscendJob serve" in got.note.note


def test_a_workload_that_is_going_is_left_alone():
    workload = make.deployment()
    workload["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decided(members(1, 2), workload) == decide(
        STATEFUL_SET, make.row(make.deployment(labels={})), members(1, 2)
    )


def test_kinds_are_named_so_that_a_job_of_volcano_is_not_one_of_kubernetes():
    assert VOLCANO_JOB.name == "VolcanoJob"
