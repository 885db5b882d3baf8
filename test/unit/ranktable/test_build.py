# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods in, a table or a reason out."""

import json
from pathlib import Path

import pytest
import yaml

from ascendop.api.job import ReplicaSpec
from ascendop.ranktable.build import initializing, rank_table
from ascendop.ranktable.choose import Version
from ascendop.ranktable.table import NotReady, Table, TableJob

from . import make  # noqa: TID252  the standard library has a package called test

A3_SAMPLE = Path(__file__).parents[2] / "e2e/recorded/ascendjob/04-sample-a3-superpod.job.yaml"


def table(job, *pods):
    got = rank_table(job, pods)
    assert isinstance(got, Table), got
    return json.loads(got.content)


def reason(job, *pods):
    got = rank_table(job, pods)
    assert isinstance(got, NotReady)
    return got


def ranks(found):
    return [device["rank_id"] for server in found["server_list"] for device in server["device"]]


def backup(rank, **fields):
    return make.pod(
        rank, name=f"w-{rank}-hot-1", uid="hot", annotations={"podType": "backup"}, **fields
    )


class TestWhoTakesPart:
    def test_r1_two_pods_on_two_nodes(self):
        """ascendjob:R1."""
        eight = [make.pod(r, config=make.config(r, make.devices(r, 8)), npus=8) for r in (0, 1)]
        found = table(make.job(), *eight)
        assert (found["status"], found["version"]) == ("completed", "1.0")
        assert found["server_count"] == "2"
        assert ranks(found) == [str(rank) for rank in range(16)]
        assert [s["server_id"] for s in found["server_list"]] == ["10.10.0.0", "10.10.0.1"]
        assert [s["host_ip"] for s in found["server_list"]] == ["10.10.0.0", "10.10.0.1"]

    def test_r2_two_pods_on_one_node_are_told_apart_by_their_uids(self):
        """ascendjob:R2."""
        others = make.config(1, [make.devices(1, 8)[i] for i in (4, 5)])
        found = table(make.job(), make.pod(0, node="n"), make.pod(1, node="n", config=others))
        assert [s["server_id"] for s in found["server_list"]] == ["uid-0", "uid-1"]
        assert [s["host_ip"] for s in found["server_list"]] == ["10.10.0.0", "10.10.0.1"]

    def test_a_leader_without_npus_neither_delays_the_table_nor_shifts_a_rank(self):
        """ascendjob:W-5, ascendjob:W-24: ranks start at 0 whatever rank index comes first."""
        leader = make.pod(0, name="m", npus=0, ip="", config=None)
        found = table(make.job(), leader, make.pod(1), make.pod(2))
        assert ranks(found) == ["0", "1", "2", "3"]

    def test_a_leader_without_npus_may_share_a_node_with_a_worker(self):
        """ascendjob:W-49: the rule of one pod per node looks at pods with NPUs only."""
        leader = make.pod(0, name="m", npus=0, node="node-1", config=None)
        found = table(make.job(), leader, make.pod(1), make.pod(2))
        assert [s["server_id"] for s in found["server_list"]] == ["10.10.0.1", "10.10.0.2"]

    @pytest.mark.parametrize("version", list(Version))
    def test_r24_every_version_is_built_from_workers_beside_a_scheduler_without_npus(self, version):
        """ascendjob:R24 field-reports:FR-060."""
        leader = make.pod(0, name="s", npus=0, config=None)
        job, workers = make.job(version=version), [make.pod(0), make.pod(1)]
        found = rank_table(job, [leader, *workers])
        assert isinstance(found, Table)
        assert found == rank_table(job, workers), "it is in none of its lines"

    def test_r15_a_pod_that_is_being_deleted_is_gone(self):
        """ascendjob:R15 field-reports:FR-058."""
        got = reason(make.job(), make.pod(0), make.pod(1, deleting=True))
        assert got.reason == "PodsMissing" and got.withdraw
        assert got.message == "1 of 2 pods have devices; 1 do not exist"

    def test_r16_a_replaced_pod_gives_the_table_of_the_new_pods(self):
        """ascendjob:R16."""
        moved = make.pod(1, uid="new", node="node-9", config=make.config(9))
        found = table(make.job(), make.pod(0), moved)
        assert found["server_list"][1]["host_ip"] == "10.10.0.9"

    def test_r17_a_hot_switch_backup_changes_nothing_while_its_source_lives(self):
        """ascendjob:R17."""
        pods = [make.pod(0), make.pod(1)]
        spare = backup(1, node="node-9")
        assert rank_table(make.job(), [spare, *pods]) == rank_table(make.job(), pods)

    def test_a_hot_switch_backup_takes_the_place_of_a_source_that_is_going(self):
        spare = backup(1, node="node-9", config=make.config(9))
        found = table(make.job(), make.pod(0), make.pod(1, deleting=True), spare)
        assert found["server_list"][1]["host_ip"] == "10.10.0.9"

    def test_devices_may_stand_in_the_annotation_of_the_newer_generation(self):
        found = table(make.job(), make.pod(0, annotation=make.NPU), make.pod(1))
        assert ranks(found) == ["0", "1", "2", "3"]


class TestWhyThereIsNone:
    def test_a_pod_without_devices(self):
        """field-reports:FR-057, scheduling:SCH-36: which, and where; of thousands not all."""
        pods = [make.pod(rank, config=None if rank > 1 else make.config) for rank in range(9)]
        got = reason(make.job(pods=9), *pods)
        assert got.message == (
            "2 of 9 pods have devices; none yet: w-2 (on node-2), w-3 (on node-3), "
            "w-4 (on node-4), w-5 (on node-5), w-6 (on node-6) and 2 more"
        )
        assert not got.fault

    def test_r3_a_pod_without_ip(self):
        """ascendjob:R3 field-reports:FR-057: built at the event that brings the address."""
        got = reason(make.job(), make.pod(0), make.pod(1, ip="", node=""))
        assert got.reason == "PodIpMissing"
        assert got.message == "1 of 2 pods have no IP yet: w-1 (on no node)"
        assert isinstance(rank_table(make.job(), [make.pod(0), make.pod(1)]), Table)

    def test_surplus_pods_leave_the_written_table_alone(self):
        got = reason(make.job(), *map(make.pod, range(3)))
        assert got.reason == "PodsSurplus" and not got.withdraw
        assert "3 pods" in got.message and "has 2" in got.message

    def test_a_job_without_npus_has_no_table(self):
        """field-reports:FR-060"""
        got = reason(make.job(pods=0), make.pod(0, npus=0))
        assert got.reason == "NoNpus" and not got.withdraw

    @pytest.mark.parametrize("index", ["", "first", "-1", "1.0"])
    def test_a_rank_that_is_no_number(self, index):
        pod = make.pod(1, annotations={"hccl/rankIndex": index})
        got = reason(make.job(), make.pod(0), pod)
        assert got.reason == "RankUnknown" and "w-1" in got.message and repr(index) in got.message

    def test_two_pods_of_one_rank(self):
        got = reason(make.job(), make.pod(0), make.pod(0, name="x"))
        assert (got.reason, got.message) == ("RankTwice", "pods w-0 and x both have rank 0")

    def test_an_unreadable_annotation_names_pod_and_field(self):
        got = reason(make.job(), make.pod(0), make.pod(1, config='{"devices":[{"device_id":1}]}'))
        assert got.reason == "DevicesUnreadable"
        assert "pod w-1" in got.message and "$.devices[0].device_id" in got.message

    @pytest.mark.parametrize("version", list(Version))
    def test_a_pod_whose_list_of_devices_is_empty(self, version):
        pods = [make.pod(0), make.pod(1, config=make.config(1, []))]
        got = reason(make.job(version=version), *pods)
        assert got.reason == "DevicesUnreadable" and "w-1" in got.message

    @pytest.mark.parametrize("ids", [("0", "0"), ("3", "7", "3")])
    def test_a_pod_that_has_a_device_twice(self, ids):
        """field-reports:FR-063: the table would give two ranks to one chip."""
        found = [make.devices(1, 1, device_id=id_)[0] for id_ in ids]
        got = reason(make.job(), make.pod(0), make.pod(1, config=make.config(1, found)))
        assert got.reason == "DeviceTwice" and got.fault and got.withdraw
        assert f"pod w-1 (on node-1): annotation {make.ASCEND_910} has device {ids[0]} twice" in (
            got.message
        )

    def test_two_pods_of_one_node_that_have_the_same_device(self):
        """field-reports:FR-063"""
        pods = [make.pod(0, node="n"), make.pod(1, node="n")]
        got = reason(make.job(), *pods)
        assert got.reason == "DeviceTwice" and "pods w-0 and w-1 (on n) both have" in got.message

    def test_chips_that_are_shared_may_be_given_twice(self):
        pods = [make.pod(0, node="n"), make.pod(1, node="n")]
        assert isinstance(rank_table(make.job(shared_chips=True), pods), Table)


class TestDevices:
    def test_devices_stay_in_the_order_of_the_annotation_and_keep_their_address(self):
        """field-reports:FR-063: neither sorted as numbers nor as text."""
        ids = ("10", "2", "0", "15")
        found = [make.devices(1, 16)[int(id_)] for id_ in ids]
        got = rank_table(make.job(pods=1), [make.pod(0, config=make.config(1, found))])
        assert got.content == (
            '{"status":"completed","server_list":[{"device":['
            '{"device_id":"10","device_ip":"192.168.1.10","rank_id":"0"},'
            '{"device_id":"2","device_ip":"192.168.1.2","rank_id":"1"},'
            '{"device_id":"0","device_ip":"192.168.1.0","rank_id":"2"},'
            '{"device_id":"15","device_ip":"192.168.1.15","rank_id":"3"}],'
            '"server_id":"10.10.0.1","host_ip":"10.10.0.1","container_ip":"10.244.0.0"}],'
            '"server_count":"1","version":"1.0"}'
        )

    def test_servers_are_in_the_order_of_their_numbers(self):
        """field-reports:FR-063: the tenth comes after the second."""
        pods = [make.pod(rank) for rank in reversed(range(12))]
        found = table(make.job(pods=12), *pods)
        hosts = [f"10.10.0.{rank}" for rank in range(12)]
        assert [server["host_ip"] for server in found["server_list"]] == hosts

    def test_unequal_numbers_of_devices_are_counted_through(self):
        """ascendjob:W-24."""
        sizes = [3, 1, 2]
        pods = [make.pod(r, config=make.config(r, make.devices(r, n))) for r, n in enumerate(sizes)]
        assert ranks(table(make.job(pods=3), *pods)) == list("012345")

    @pytest.mark.parametrize(
        ("version", "super_pods", "built"),
        [
            pytest.param(Version.V1_0, 0, False, id="1.0 needs every address"),
            pytest.param(Version.V1_2, 2, False, id="1.2 needs them between super-pods"),
            pytest.param(Version.V1_2, 1, True, id="1.2 does not inside one super-pod"),
            pytest.param(Version.V2_0, 2, True, id="2.0 has addresses of its own"),
        ],
    )
    def test_r4_an_address_that_could_not_be_read(self, version, super_pods, built):
        """ascendjob:R4."""
        broken = make.config(1, make.devices(1, device_ip="-1"))
        job = make.job(version=version, super_pods=super_pods)
        got = rank_table(job, [make.pod(0), make.pod(1, config=broken)])
        assert isinstance(got, Table) is built
        if isinstance(got, NotReady):
            assert got.reason == "DeviceIpUnreadable" and "w-1" in got.message

    @pytest.mark.parametrize("address", ["", "127.0.0.1"])
    def test_no_address_and_a_local_one_are_addresses(self, address):
        pods = [
            make.pod(r, config=make.config(r, make.devices(r, device_ip=address))) for r in (0, 1)
        ]
        assert table(make.job(), *pods)["server_list"][0]["device"][0]["device_ip"] == address

    def test_super_device_ids_are_for_super_pods(self):
        pods = [make.pod(0), make.pod(1)]
        assert "super_device_id" not in rank_table(make.job(), pods).content
        assert '"super_device_id":"101"' in rank_table(make.job(version=Version.V1_2), pods).content

    def test_r26_hardware_types_are_for_inference(self):
        """ascendjob:R26."""
        pods = [make.pod(r, annotations={"mind-cluster/hardware-type": "800I"}) for r in (0, 1)]
        assert "hardware_type" not in rank_table(make.job(), pods).content
        server = table(make.job(inference=True), *pods)["server_list"][0]
        assert server["hardware_type"] == "800I"
        assert list(server) == ["device", "hardware_type", "server_id", "host_ip", "container_ip"]


class TestSuperPods:
    def lists(self, job, *pods):
        found = table(job, *pods)
        return {
            entry["super_pod_id"]: [s["server_id"][-1] for s in entry["server_list"]]
            for entry in found["super_pod_list"]
        }

    @pytest.mark.parametrize(
        ("block", "want"),
        [
            pytest.param(4, {"0": ["0", "1"], "1": ["2", "3"]}, id="ascendjob:R5 two pods each"),
            pytest.param(0, {"0": ["0", "1", "2", "3"]}, id="ascendjob:R6 without a block"),
            pytest.param(1, {str(r): [str(r)] for r in range(4)}, id="a block below one pod"),
        ],
    )
    def test_pods_are_dealt_to_super_pods_by_rank(self, block, want):
        """field-reports:FR-066"""
        job = make.job(version=Version.V1_2, pods=4, block=block)
        assert self.lists(job, *map(make.pod, range(4))) == want

    def test_r5_the_sample_has_two_super_pods_of_two_servers_and_64_ranks(self):
        """ascendjob:R5."""
        obj = yaml.safe_load(A3_SAMPLE.read_text())
        replicas = [ReplicaSpec.model_validate(r) for r in obj["spec"]["replicaSpecs"].values()]
        job = TableJob.of(replicas, obj["metadata"]["labels"], obj["metadata"]["annotations"])
        pods = [make.pod(r, config=make.config(r, make.devices(r, 16)), npus=16) for r in range(4)]
        found = table(job, *pods)
        assert (found["version"], found["server_count"]) == ("1.2", "4")
        assert ranks(found) == [str(rank) for rank in range(64)]
        assert found["super_pod_list"] == [
            {"super_pod_id": "0", "server_list": [{"server_id": f"10.10.0.{r}"} for r in (0, 1)]},
            {"super_pod_id": "1", "server_list": [{"server_id": f"10.10.0.{r}"} for r in (2, 3)]},
        ]

    def soft(self, *super_pod_ranks):
        job = make.job(version=Version.V1_2, pods=len(super_pod_ranks), soft_affinity=True)
        return job, [
            make.pod(rank, annotations={"super-pod-rank": text} if text is not None else {})
            for rank, text in enumerate(super_pod_ranks)
        ]

    def test_r9_with_soft_affinity_the_scheduler_deals(self):
        """ascendjob:R9."""
        job, pods = self.soft("1", "0", "1", "0")
        assert list(self.lists(job, *pods).items()) == [("0", ["1", "3"]), ("1", ["0", "2"])]

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            pytest.param(("0", "2"), "are 0, 2; wanted 0 to 1", id="a hole"),
            pytest.param(("0", "-1"), "are -1, 0; wanted 0 to 1", id="a negative rank"),
            pytest.param(("0", "one"), "pod w-1: super-pod-rank is 'one'", id="a word"),
            pytest.param(("0", None), "pod w-1: super-pod-rank is ''", id="none yet"),
        ],
    )
    def test_super_pod_ranks_with_a_hole_are_refused(self, texts, message):
        """ascendjob:W-28."""
        job, pods = self.soft(*texts)
        got = reason(job, *pods)
        assert got.reason == "SuperPodUnknown" and message in got.message

    def test_more_than_nine_super_pods_are_in_numeric_order(self):
        job, pods = self.soft(*map(str, reversed(range(12))))
        assert list(self.lists(job, *pods)) == [str(rank) for rank in range(12)]

    def test_inference_groups_by_physical_super_pod_in_the_order_of_first_ranks(self):
        """ascendjob:W-28."""
        job = make.job(version=Version.V1_2, pods=3, inference=True)
        pods = [make.pod(r, annotations={"super-pod-id": s}) for r, s in enumerate("757")]
        assert list(self.lists(job, *pods).items()) == [("7", ["0", "2"]), ("5", ["1"])]
        got = reason(job, *pods[:2], make.pod(2))
        assert got.reason == "SuperPodUnknown" and "w-2" in got.message


INNER = [(0, "UB"), (1, "UB")]
UB = tuple(INNER)


class TestLayers:
    def layers(self, *ports, scaleout="", others=()):
        """Layers of the first device, as (number, who offered it)."""
        job = make.job(version=Version.V2_0, scaleout=scaleout)
        first, second = ({"levelList": make.levels(*p)} for p in (ports, others or ports))
        pods = [
            make.pod(0, config=make.config(0, make.devices(0, **first))),
            make.pod(1, config=make.config(1, make.devices(1, **second))),
        ]
        entries = table(job, *pods)["rank_list"][0].get("level_list", [])
        return [(e["net_layer"], e["net_instance_id"]) for e in entries]

    @pytest.mark.parametrize(
        ("ports", "scaleout", "want"),
        [
            pytest.param(((2, "UBOE"), (3, "ROCE")), "", [(3, "ROCE")], id="ascendjob:R10"),
            pytest.param(((2, "UBOE"), (3, "ROCE")), "UBOE", [(2, "UBOE")], id="ascendjob:R11"),
            pytest.param(((2, "UBG"),), "", [(2, "UBG")], id="ascendjob:R12 no label"),
            pytest.param(((2, "UBG"),), "UBOE", [(2, "UBG")], id="ascendjob:R12 with the label"),
            pytest.param((), "ROCE", [(3, "CLUSTER1")], id="ascendjob:R13 a filler"),
            pytest.param((), "UBOE", [(2, "CLUSTER1")], id="a filler of the other type"),
            pytest.param((), "", [], id="ascendjob:R14"),
        ],
    )
    def test_the_layer_between_super_pods(self, ports, scaleout, want):
        assert self.layers(*UB, *ports, scaleout=scaleout) == INNER + want

    def test_the_port_type_is_chosen_for_the_whole_table(self):
        got = self.layers(*UB, others=(*UB, (3, "ROCE")))
        assert got == [*INNER, (3, "CLUSTER1")]

    def test_inner_layers_that_a_device_has_not_are_left_out(self):
        assert self.layers((1, "UB")) == [(1, "UB")]
        assert self.layers() == []

    def test_the_filler_has_an_empty_list_and_absent_lists_are_null(self):
        level = {"level": 0, "info": {"UB": {"net_layer": 0}}}
        pods = [
            make.pod(r, config=make.config(r, make.devices(r, levelList=[level]))) for r in (0, 1)
        ]
        content = rank_table(make.job(version=Version.V2_0, scaleout="ROCE"), pods).content
        assert (
            '[{"net_layer":0,"net_instance_id":"","net_type":"","net_attr":"","rank_addr_list":null},'
            '{"net_layer":3,"net_instance_id":"CLUSTER1","net_type":"CLOS","net_attr":"",'
            '"rank_addr_list":[]}]'
        ) in content

    def test_x7_an_unknown_scaleout_type_never_gives_a_table(self):
        """ascendjob:X7."""
        got = reason(make.job(version=Version.V2_0, scaleout="IB"), make.pod(0), make.pod(1))
        assert got.reason == "ScaleoutTypeUnknown" and "'IB'" in got.message and not got.withdraw

    def test_a_device_id_has_to_be_a_number(self):
        named = make.config(1, make.devices(1, 1, device_id="npu-0"))
        job = make.job(version=Version.V2_0)
        got = reason(job, make.pod(0), make.pod(1, config=named))
        assert got.reason == "DevicesUnreadable" and "npu-0" in got.message


def test_the_bare_status_has_the_keys_that_are_never_left_out():
    """ascendjob:W-27."""
    assert {version: initializing(version) for version in Version} == {
        Version.V1_0: '{"status":"initializing","version":"1.0"}',
        Version.V1_2: '{"status":"initializing","version":"1.2","super_pod_list":[]}',
        Version.V2_0: '{"status":"initializing","version":"2.0"}',
    }


def test_the_facts_of_a_job_are_read_from_its_replicas_labels_and_annotations():
    def replica(replicas, **requests):
        spec = {"containers": [{"name": "ascend", "resources": {"requests": requests}}]}
        return ReplicaSpec(replicas=replicas, template={"spec": spec})

    labels = {"super-pod-affinity": "soft", "scaleout-type": " RoCE ", "jobID": "a", "app": ""}
    roles = [replica(1, cpu=4), replica(3, **{"huawei.com/Ascend910": 16})]
    assert TableJob.of(roles, labels, {"sp-block": "32"}) == TableJob(
        version=Version.V1_2,
        pods=3,
        block=32,
        super_pods=1,
        soft_affinity=True,
        inference=True,
        scaleout="ROCE",
    )
