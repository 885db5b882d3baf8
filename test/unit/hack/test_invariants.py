# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Each invariant of gangs is noticed when it is broken, and nothing else is."""

import copy

import pytest

from hack.invariants import AT_REST_S, Gangs


def owner(kind="AscendJob", name="j", uid="U", **more):
    return {"kind": kind, "name": name, "uid": uid, "controller": True} | more


def group(name="j-U", least=2, uid="group", managers=(), **owned):
    meta = {"name": name, "namespace": "ns", "uid": uid, "managedFields": list(managers)}
    meta["ownerReferences"] = [owner(blockOwnerDeletion=True) | owned]
    return {"kind": "PodGroup", "metadata": meta, "spec": {"minMember": least}, "status": {}}


def pod(index=0, node="", phase="Pending", rank=None, name="", **annotations):
    keys = {
        "scheduling.k8s.io/group-name": "j-U",
        "volcano.sh/task-spec": "worker",
        "hccl/rankIndex": str(index if rank is None else rank),
    }
    found = {key: value for key, value in (keys | annotations).items() if value is not None}
    name = name or f"j-worker-{index}"
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}-{rank}",
            "labels": {"training.kubeflow.org/replica-type": "worker"},
            "annotations": found,
            "ownerReferences": [owner()],
        },
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"resources": {"requests": {"npu": "8"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": phase},
    }


def job(active, *conditions):
    return {
        "kind": "AscendJob",
        "metadata": {"name": "j", "namespace": "ns", "uid": "U"},
        "status": {
            "replicaStatuses": {"Worker": {"active": active} if active else {}},
            "conditions": [{"type": type_, "status": "True"} for type_ in conditions],
        },
    }


def written_by(operation, **fields):
    return {"manager": "ascendop", "operation": operation, "fieldsV1": {"f:spec": {}} | fields}


def broken(*changes, at_end=0.0):
    gangs = Gangs()
    for moment, change in enumerate(changes):
        type_, obj = change if isinstance(change, tuple) else ("MODIFIED", change)
        gangs.saw(type_, copy.deepcopy(obj), moment / 1000)
    gangs.look(at_end)
    gangs.rest("ns")
    return [line.split(":")[0] for line in gangs.broken]


WHOLE = (group(managers=[written_by("Apply")]), pod(0, "n"), pod(1, "n"))


@pytest.mark.parametrize(
    ("changes", "at_end", "want"),
    [
        pytest.param(WHOLE, 100, [], id="a gang that is placed whole"),
        pytest.param((group(), pod(0, "n"), pod(1)), 100, ["I1"], id="half a gang"),
        pytest.param((group(), pod(0, "n"), pod(1)), AT_REST_S / 2, [], id="on its way"),
        pytest.param((group(), pod(0), pod(1)), 100, [], id="nothing of it"),
        pytest.param(
            (*WHOLE, ("DELETED", pod(1, "n")), pod(1, rank=1)), 100, [], id="one was lost later"
        ),
        pytest.param(
            (*WHOLE, ("DELETED", group()), group(uid="other"), ("DELETED", pod(1, "n"))),
            100,
            [],
            id="and the PodGroup is another one",
        ),
        pytest.param((group(), group("j-V", uid="other")), 0, ["I2"], id="two PodGroups"),
        pytest.param((group(), ("DELETED", group()), group(uid="other")), 0, [], id="in turn"),
        pytest.param((group(controller=False),), 0, ["I2"], id="an owner that is no controller"),
        pytest.param(
            (pod(**{"scheduling.k8s.io/group-name": None}),), 0, ["I3"], id="a pod of no gang"
        ),
        pytest.param((pod(**{"volcano.sh/task-spec": None}),), 0, ["I3"], id="of no role"),
        pytest.param((group(managers=[written_by("Update")]),), 0, ["I4"], id="a PUT"),
        pytest.param(
            (group(managers=[written_by("Apply", **{"f:status": {}})]),), 0, ["I4"], id="a status"
        ),
        pytest.param((pod(0), pod(1, rank=0)), 0, ["I5"], id="two pods of one rank"),
        pytest.param((pod(0), ("DELETED", pod(0)), pod(0, rank=1)), 0, ["I5"], id="another rank"),
        pytest.param(
            (pod(name="s", rank=0, **{"volcano.sh/task-spec": "scheduler"}), pod(0)),
            0,
            [],
            id="a scheduler has none of its own",
        ),
        pytest.param((job(1), pod(0, "n", "Running")), 0, [], id="one runs, one is active"),
        pytest.param((job(2), pod(0, "n", "Running")), 0, ["I6"], id="one more is said to run"),
        pytest.param((job(0), pod(0, "n", "Running")), 0, ["I6"], id="one is not counted"),
        pytest.param((job(2, "Failed"), pod(0, "n", "Running")), 0, [], id="after the end"),
    ],
)
def test_what_is_wrong_with_gangs(changes, at_end, want):
    """scheduling:I1 scheduling:I2 scheduling:I3 scheduling:I4 scheduling:I5 scheduling:I6"""
    assert broken(*changes, at_end=at_end) == want


def test_what_is_held_is_what_bound_pods_ask_for():
    gangs = Gangs()
    for found in (pod(0, "n", "Running"), pod(1), pod(2, "n", "Succeeded")):
        gangs.saw("ADDED", found, 0)
    assert gangs.held("npu") == gangs.held("npu", "ns") == 8
    assert gangs.held("npu", "elsewhere") == 0
