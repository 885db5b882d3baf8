# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Room is counted change by change, and is what one would count afresh."""

import pytest

from ascendop.api.observed import NodeView, QueueView
from ascendop.app.room import RoomCount
from ascendop.informer.change import Change

NPU = "huawei.com/Ascend910"


def node(name="a", npus="8", *, usable=True, **fields):
    defaults = {"namespace": "", "uid": name, "version": "1"}
    amounts = ((NPU, npus), ("memory", "512Gi"))
    return NodeView(**defaults | fields, name=name, usable=usable, allocatable=amounts)


def queue(name="q", npus="4", parent="root"):
    return QueueView(
        namespace="", name=name, uid=name, version="1", parent=parent, allocated=((NPU, npus),)
    )


def counted(count):
    room = count.room()
    return room.nodes.get(NPU, 0), str(room.total.get(NPU, 0)), str(room.held.get(NPU, 0))


@pytest.fixture
def count():
    """Of two nodes and one queue."""
    count = RoomCount()
    for name in "ab":
        count.node(Change(None, node(name), initial=True))
    count.queue(Change(None, queue(), initial=True))
    return count


def test_nodes_and_queues_are_added_up(count):
    assert counted(count) == (2, "16", "4")
    assert str(count.room().total["memory"]) == "1Ti"
    assert str(count.room().free(NPU)) == "12"


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(node("a"), node("a", "6"), (2, "14", "4"), id="a device has gone"),
        pytest.param(node("a"), node("a", "0"), (1, "8", "4"), id="all of them"),
        pytest.param(node("a"), node("a", usable=False), (1, "8", "4"), id="cordoned"),
        pytest.param(node("a"), None, (1, "8", "4"), id="gone"),
        pytest.param(None, node("a"), (2, "16", "4"), id="told again"),
        pytest.param(None, node("c"), (3, "24", "4"), id="another one"),
        pytest.param(None, node("c", "x"), (2, "16", "4"), id="an amount that is none"),
    ],
)
def test_a_node_changes(count, old, new, want):
    before = count.room()
    count.node(Change(old, new))
    assert counted(count) == want
    assert (before.nodes[NPU], str(before.total[NPU])) == (2, "16")


@pytest.mark.parametrize(
    ("new", "held"),
    [
        pytest.param(queue(npus="6"), "6", id="it holds more"),
        pytest.param(queue("root", "4", ""), "4", id="root holds the sum"),
        pytest.param(queue("part", "4", "q"), "4", id="what a part holds is counted above"),
        pytest.param(queue("other", "2", ""), "6", id="no parent is root"),
    ],
)
def test_what_a_queue_holds_is_counted_once(count, new, held):
    count.queue(Change(None, new))
    assert counted(count)[2] == held


def test_what_has_not_changed_is_not_counted_again(count):
    """Every pass over every job asks."""
    room = count.room()
    count.node(Change(node("a"), node("a", version="2")))
    count.queue(Change(queue(), queue()))
    assert count.room() is room
    count.queue(Change(queue(), None))
    assert count.room() is not room
