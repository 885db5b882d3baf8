# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A gang that waits is told how much it asks for, and how much there is."""

import pytest

from ascendop.api.observed import QueueView
from ascendop.gang.room import SAID_CHARS, Room, explain
from ascendop.kube.quantity import Quantity

from . import make  # noqa: TID252  the standard library has a package called test

NPU = "huawei.com/Ascend910"
ASKED = b'{"minMember":3,"minResources":{"cpu":"30","huawei.com/Ascend910":"24"}}'


def group(spec=ASKED, **fields):
    return make.group("Pending", spec=spec, **fields)


def room(npus, held=0, nodes=2, cpu=128, cpu_held=0):
    return Room(
        nodes={NPU: nodes, "cpu": nodes},
        total={NPU: Quantity.parse(npus), "cpu": Quantity.parse(cpu)},
        held={NPU: Quantity.parse(held), "cpu": Quantity.parse(cpu_held)},
    )


def queue(**fields):
    defaults = {"namespace": "", "name": "q", "uid": "q", "version": "1", "state": "Open"}
    return QueueView(**defaults | fields)


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(
            room(16),
            "the gang of 3 pods asks for 24 huawei.com/Ascend910, and 2 nodes have 16 in all",
            id="more than there is",
        ),
        pytest.param(
            room(32, held=16, nodes=4),
            "the gang of 3 pods asks for 24 huawei.com/Ascend910, and 16 of 32 on 4 nodes are free",
            id="more than is free",
        ),
        pytest.param(
            room(8, held=8, nodes=1, cpu=20),
            "the gang of 3 pods asks for 24 huawei.com/Ascend910, and 1 node have 8 in all; "
            "30 cpu, and 1 node have 20 in all",
            id="NPUs first, then the rest",
        ),
        pytest.param(
            room(32, cpu_held="100500m"),
            "the gang of 3 pods asks for 30 cpu, and 27500m of 128 on 2 nodes are free",
            id="only what is short",
        ),
        pytest.param(
            Room(),
            "the gang of 3 pods asks for 24 huawei.com/Ascend910, and no node has any; "
            "30 cpu, and no node has any",
            id="a resource that no node has",
        ),
        pytest.param(
            room(32, held=8),
            "the gang of 3 pods asks for 24 huawei.com/Ascend910, "
            "and 24 of 32 on 2 nodes are free, but in pieces too small for a pod, "
            "or promised to gangs that were let in before",
            id="enough, as it seems",
        ),
    ],
)
def test_numbers(found, want):
    """scheduling:SCH-4"""
    assert explain(group(), found, None) == want.replace("1 node have", "1 node has")


@pytest.mark.parametrize(
    ("limit", "holds", "left"), [("16", "0", "16 of its 16"), ("32", "16", "16 of its 32")]
)
def test_a_queue_that_may_not_hold_more_is_named(limit, holds, left):
    """scheduling:SCH-12, scheduling:P8"""
    full = queue(capability=((NPU, limit),), allocated=((NPU, holds),))
    want = f"the gang of 3 pods asks for 24 {NPU}, and queue q has {left} left"
    assert explain(group(), room(64), full) == want


def test_what_the_scheduler_says_comes_last_and_not_at_any_length():
    """scheduling:SCH-31: also what the NPU plug-in has found wrong with the job."""
    said = "JobValidateFailed: sp-block is 3 " + "x" * 1000
    told = explain(group(trouble=said), room(16), None)
    numbers, _, last = told.partition("; Volcano says: ")
    assert numbers.endswith("2 nodes have 16 in all")
    assert last == said[:SAID_CHARS]


def test_without_nodes_to_look_at_the_scheduler_alone_speaks():
    assert explain(group(), None, None) == ""
    assert explain(group(trouble="full"), None, None) == "Volcano says: full"


def test_nothing_is_guessed_of_a_job_that_ran_before():
    """Its pods have gone a moment ago, and may still be counted."""
    assert explain(group(), room(32), None, guess=False) == ""
    assert "and 2 nodes have 16" in explain(group(), room(16), None, guess=False)


@pytest.mark.parametrize("spec", [b"{}", b'{"minResources":{"cpu":"plenty"}}'])
def test_a_group_that_asks_for_nothing_readable_gets_no_numbers(spec):
    assert explain(group(spec), room(16), None) == ""


def test_one_pod_is_no_gang():
    one = group(b'{"minMember":1,"minResources":{"huawei.com/Ascend910":"24"}}')
    assert explain(one, room(16), None).startswith("the one pod asks for 24 ")
