# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A node that does not come up says which part of it is to blame."""

import pytest

from hack.node.cluster import Node, NodeError, direct
from hack.node.layout import Layout


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
