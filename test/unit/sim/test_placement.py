# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Gangs are admitted when they fit, and placed together or not at all."""

import pytest

from ascendop.sim.amounts import whole
from ascendop.sim.placement import World, decide, held_by_queue

NPU = "huawei.com/Ascend910"


def node(name, npus=8, **spec):
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", NPU: str(npus)}
    return {
        "metadata": {"name": name, "labels": {"accelerator-type": "module"}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(name, npus=8, *, group="g", on=None, phase="Pending", age="2026-01-01T00:00:00Z", **spec):
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    container = {"name": "c", "resources": {"requests": {NPU: str(npus), "cpu": "500m"}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": age,
            "annotations": annotations,
        },
        "spec": {"containers": [container], **({"nodeName": on} if on else {}), **spec},
        "status": {"phase": phase},
    }


def group(name="g", phase=None, npus=None, age="2026-01-01T00:00:00Z", **spec):
    if npus is not None:
        spec["minResources"] = {NPU: str(npus)}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": age},
        "spec": {"minMember": 1, **spec},
        "status": {"phase": phase} if phase else {},
    }


def cycle(nodes, pods, groups, queues=None, **more):
    queues = {"default": "Open"} if queues is None else queues
    world = World(nodes=nodes, pods=pods, groups=groups, queues=queues, **more)
    return decide(world, now="2026-01-01T00:00:00Z")


def phases(wants, groups):
    written = {g["metadata"]["name"]: s["phase"] for g, s in wants.status}
    return [written.get(g["metadata"]["name"], g["status"].get("phase", "")) for g in groups]


def bound(wants):
    return {p["metadata"]["name"]: on for p, on in wants.bind}


def test_a_group_is_admitted_when_its_resources_are_free():
    groups = [group(npus=16, minMember=2)]
    assert phases(cycle([node("a"), node("b")], [], groups), groups) == ["Inqueue"]


def test_a_group_that_does_not_fit_waits_and_an_event_says_what_is_short():
    groups = [group(npus=17, minMember=2)]
    wants = cycle([node("a"), node("b")], [], groups)
    assert phases(wants, groups) == ["Pending"]
    [(_, why)] = wants.refused
    assert why == f"resource in cluster is overused: short of {NPU}"
    assert "conditions" not in wants.status[0][1]


def test_a_refused_group_does_not_block_a_smaller_one_behind_it():
    groups = [group("big", npus=17), group("small", npus=8, age="2026-01-02T00:00:00Z")]
    assert phases(cycle([node("a")], [], groups), groups)[1] == "Inqueue"


def test_what_is_admitted_is_reserved_before_its_pods_exist():
    groups = [group("first", npus=8, phase="Inqueue", minMember=1), group("second", npus=8)]
    assert phases(cycle([node("a")], [], groups), groups) == ["Inqueue", "Pending"]


def test_the_more_important_group_is_admitted_first():
    groups = [group("a", npus=8), group("b", npus=8, priorityClassName="high")]
    wants = cycle([node("n")], [], groups, priorities={"high": 10})
    assert phases(wants, groups) == ["Pending", "Inqueue"]


@pytest.mark.parametrize(
    ("queues", "npus", "want"),
    [
        pytest.param({"default": "Closed"}, 8, "Pending", id="a closed queue admits nothing"),
        pytest.param({"default": "Closed"}, None, "Inqueue", id="but what asks for nothing"),
        pytest.param({}, None, "Pending", id="a missing queue drops the group"),
    ],
)
def test_queues(queues, npus, want):
    groups = [group(npus=npus, minMember=1)]
    assert phases(cycle([node("a")], [], groups, queues), groups) == [want]


def test_a_gang_is_bound_whole():
    groups = [group(phase="Inqueue", npus=16, minMember=2)]
    wants = cycle([node("a"), node("b")], [pod("p0"), pod("p1")], groups)
    assert bound(wants) == {"p0": "a", "p1": "b"}
    assert phases(wants, groups) == ["Running"]
    assert wants.status[0][1]["conditions"][0]["type"] == "Scheduled"


def test_a_gang_that_does_not_fit_is_not_bound_at_all():
    groups = [group(phase="Inqueue", npus=8, minMember=3)]
    wants = cycle([node("a"), node("b")], [pod(f"p{i}") for i in range(3)], groups)
    assert wants.bind == []
    [condition] = wants.status[0][1]["conditions"]
    assert condition["reason"] == "NotEnoughResources"
    assert condition["message"].startswith("3/3 tasks in gang unschedulable: pod group is not re")
    assert f"0/2 nodes are available: 2 Insufficient {NPU}." in condition["message"]
    [(lost, why)] = wants.unschedulable
    assert lost["metadata"]["name"] == "p2" and "2 Insufficient" in why


def test_nothing_new_writes_nothing():
    groups = [group(phase="Inqueue", npus=8, minMember=3)]
    nodes, pods = [node("a")], [pod(f"p{i}") for i in range(3)]
    wants = cycle(nodes, pods, groups)
    groups[0]["status"] = wants.status[0][1]
    assert cycle(nodes, pods, groups).status == []


def test_too_few_pods_are_no_gang_yet():
    groups = [group(phase="Inqueue", minMember=3)]
    wants = cycle([node("a")], [pod("p0", 1)], groups)
    assert wants.bind == []
    assert wants.status[0][1]["conditions"][0]["reason"] == "NotEnoughTasks"


def test_a_failed_pod_is_not_a_valid_one():
    groups = [group(phase="Running", minMember=2)]
    pods = [pod("p0", 1, on="a", phase="Failed"), pod("p1", 1)]
    assert cycle([node("a")], pods, groups).bind == []


def test_a_replacement_joins_its_gang():
    groups = [group(phase="Running", minMember=2)]
    pods = [pod("p0", 1, on="a", phase="Running"), pod("p1", 1)]
    wants = cycle([node("a")], pods, groups)
    assert bound(wants) == {"p1": "a"} and phases(wants, groups) == ["Running"]


def test_a_running_gang_whose_rest_finds_no_room_is_unknown():
    groups = [group(phase="Running", minMember=2)]
    pods = [pod("p0", 8, on="a", phase="Running"), pod("p1", 8)]
    assert phases(cycle([node("a")], pods, groups), groups) == ["Unknown"]


def test_a_gang_whose_pods_have_all_finished_is_completed():
    groups = [group(phase="Running", minMember=2)]
    pods = [pod("p0", on="a", phase="Succeeded"), pod("p1", on="a", phase="Failed")]
    wants = cycle([node("a")], pods, groups)
    assert phases(wants, groups) == ["Completed"]
    assert wants.status[0][1]["succeeded"] == 1 and wants.status[0][1]["failed"] == 1


def test_a_gang_of_nobody_is_completed_at_once_as_in_volcano():
    groups = [group(minMember=0)]
    assert phases(cycle([node("a")], [], groups), groups) == ["Completed"]


def test_a_role_below_its_minimum_keeps_the_gang_waiting():
    groups = [group(phase="Inqueue", minMember=2, minTaskMember={"master": 1, "worker": 1})]
    pods = [pod("w0", 1), pod("w1", 1)]
    for each in pods:
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = "worker"
    assert cycle([node("a")], pods, groups).bind == []


def test_a_pending_group_places_nothing():
    groups = [group(npus=99, minMember=1)]
    assert cycle([node("a")], [pod("p0", 1)], groups).bind == []


def test_pods_without_a_group_are_bound_one_by_one_in_order():
    pods = [
        pod("late", group=None, age="2026-01-02T00:00:00Z"),
        pod("early", group=None),
        pod("urgent", group=None, priority=5, age="2026-01-03T00:00:00Z"),
    ]
    wants = cycle([node("a"), node("b")], pods, [])
    assert bound(wants) == {"urgent": "a", "early": "b"}
    assert [p["metadata"]["name"] for p, _ in wants.unschedulable] == ["late"]


def test_a_binding_that_was_sent_counts_before_it_is_seen():
    wants = cycle([node("a")], [pod("p", group=None)], [], assumed={"uid-p": "a"})
    assert wants.bind == [] and wants.unschedulable == []


@pytest.mark.parametrize(
    ("the_node", "spec", "why"),
    [
        (node("a", unschedulable=True), {}, "1 node(s) were unschedulable"),
        (node("a"), {"nodeSelector": {"accelerator-type": "x"}}, "affinity/selector"),
        (
            node("a", taints=[{"key": "k", "effect": "NoSchedule"}]),
            {"tolerations": [{"key": "other", "operator": "Exists"}]},
            "untolerated taint(s)",
        ),
        (node("a", npus=4), {}, f"1 Insufficient {NPU}"),
    ],
)
def test_a_node_that_refuses_says_why(the_node, spec, why):
    [(_, told)] = cycle([the_node], [pod("p", group=None, **spec)], []).unschedulable
    assert why in told


def test_tolerated_taints_and_matching_labels_are_no_refusal():
    tainted = node("a", taints=[{"key": "k", "effect": "NoSchedule"}])
    tolerant = pod(
        "p",
        group=None,
        tolerations=[{"key": "k", "operator": "Exists"}],
        nodeSelector={"accelerator-type": "module"},
    )
    assert bound(cycle([tainted], [tolerant], [])) == {"p": "a"}


def test_gates_and_deletion_keep_a_pod_where_it_is():
    gated = pod("gated", group=None, schedulingGates=[{"name": "g"}])
    going = pod("going", group=None)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    wants = cycle([node("a")], [gated, going], [])
    assert wants.bind == [] and wants.unschedulable == []


def test_a_queue_holds_what_its_placed_pods_ask_for():
    groups = [group("g"), group("other", queue="q"), group("lost", queue="nowhere")]
    pods = [
        pod("p0", on="a"),
        pod("p1", on="a", phase="Succeeded"),
        pod("p2"),
        pod("q0", 2, group="other", on="b"),
        pod("q1", 2, group="other"),
        pod("x", group="lost", on="b"),
    ]
    world = World(
        nodes=[node("a"), node("b")],
        pods=pods,
        groups=groups,
        queues={"default": "Open", "q": "Open", "idle": "Open"},
        assumed={"uid-q1": "b"},
    )
    npus = {name: whole(amounts, NPU) for name, amounts in held_by_queue(world).items()}
    assert npus == {"default": 8, "q": 4, "idle": 0}
