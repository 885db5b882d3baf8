# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The device annotations have the shapes that the operator and its neighbours read."""

import json

import pytest

from ascendop.errors import UsageError
from ascendop.sim.devices import (
    CONFIGURATION_910,
    CONFIGURATION_NPU,
    asked_npus,
    build_annotations,
    choose,
    devices_of,
    has_devices,
)
from ascendop.sim.nodes import NodeSpec, build_nodes, parse_nodes

NOW = "2026-01-01T00:00:00Z"


def pod(resource="huawei.com/Ascend910", count=2, **annotations):
    resources = {"limits": {resource: str(count)}} if count else {}
    return {
        "metadata": {"name": "demo-worker-0", "uid": "5e0c", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def nodes(text):
    return build_nodes(parse_nodes(text), now=NOW)


def config(annotations):
    return json.loads(annotations.get(CONFIGURATION_910) or annotations[CONFIGURATION_NPU])


def test_a_910b_pod_gets_addresses_and_no_super_pod():
    """ascendjob:6.2"""
    annotations = build_annotations(pod(), nodes("2x8 910B")[1], [1, 0])
    assert annotations["huawei.com/Ascend910"] == "Ascend910-0,Ascend910-1"
    assert annotations["huawei.com/AscendReal"] == "Ascend910-0,Ascend910-1"
    assert config(annotations) == {
        "pod_name": "demo-worker-0",
        "server_id": "5e0c",
        "server_ip": "10.10.0.2",
        "host_ip": "10.10.0.2",
        "super_pod_id": -1,
        "rack_id": -1,
        "server_index": "-1",
        "devices": [
            {"device_id": "0", "device_ip": "192.168.102.10", "super_device_id": "-2"},
            {"device_id": "1", "device_ip": "192.168.102.11", "super_device_id": "-2"},
        ],
    }


def test_an_a3_pod_knows_its_super_pod():
    """ascendjob:6.2"""
    third = nodes("4x16 A3")[2]
    found = config(build_annotations(pod(), third, [0]))
    assert (found["super_pod_id"], found["rack_id"], found["server_index"]) == (1, 0, "3")
    assert found["devices"][0]["super_device_id"] == str(37748736 + 2 * 65536)


def test_an_a5_pod_has_levels_under_the_npu_key():
    """ascendjob:6.2"""
    annotations = build_annotations(pod("huawei.com/npu"), nodes("1x8 A5")[0], [4, 5])
    assert annotations["huawei.com/npu"] == "npu-4,npu-5"
    assert CONFIGURATION_910 not in annotations
    levels = config(annotations)["devices"][0]["levelList"]
    assert [level["level"] for level in levels] == [0, 3]
    [address] = levels[1]["info"]["ROCE"]["rank_addr_list"]
    assert address["addr"] == "192.168.101.14" and address["addr_type"] == "IP"


def test_no_two_devices_of_a_cluster_share_an_address():
    found = [
        device["device_ip"]
        for node in nodes("300x16 A3")
        for device in config(build_annotations(pod(), node, range(16)))["devices"]
    ]
    assert len(set(found)) == len(found) == 4800


def test_devices_are_the_lowest_free_ones_or_none():
    node = nodes("1x4")[0]
    assert choose(node, "huawei.com/Ascend910", 2, {0}) == (1, 2)
    assert choose(node, "huawei.com/Ascend910", 4, {0}) is None


def test_what_was_written_is_read_back():
    annotations = build_annotations(pod(), nodes("1x8")[0], [3, 6])
    assert devices_of(pod(**annotations)) == (3, 6)
    assert has_devices(pod(**annotations)) and not has_devices(pod())


def test_a_pod_that_asks_for_nothing_needs_nothing():
    assert asked_npus(pod(count=0)) == ("", 0)
    assert has_devices(pod(count=0))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("3", NodeSpec(3)),
        ("2x8", NodeSpec(2, 8, "910B")),
        ("2x16 a3", NodeSpec(2, 16, "A3")),
        (" 1x8 A5 ", NodeSpec(1, 8, "A5")),
    ],
)
def test_node_specs(text, want):
    assert parse_nodes(text) == want


@pytest.mark.parametrize("text", ["", "x8", "2x8 910C", "0x8", "two"])
def test_a_wrong_node_spec_is_told_in_one_sentence(text):
    with pytest.raises(UsageError, match="write"):
        parse_nodes(text)


def test_specs_are_numbered_through():
    names = [node["metadata"]["name"] for node in build_nodes(NodeSpec(2, 8), NodeSpec(1), now=NOW)]
    assert names == ["node-1", "node-2", "node-3"]
