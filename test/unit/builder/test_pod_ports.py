# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A container's ports as a Service takes them."""

import pytest

from ascendop.builder.pod import named_ports


@pytest.mark.parametrize(
    ("ports", "want"),
    [
        pytest.param(
            [("b", 2), ("a", 1, "UDP")], [("a", 1, "UDP"), ("b", 2, "TCP")], id="protocols"
        ),
        pytest.param([("", 1), ("", 2), ("a", 3)], [("a", 3, "TCP")], id="without a name"),
        pytest.param([("a", 1), ("a", 2)], [("a", 1, "TCP")], id="one name twice"),
        pytest.param([("a", 1), ("main", 1)], [("main", 1, "TCP")], id="one number twice"),
        pytest.param(
            [("a", 1), ("b", 1, "UDP")], [("a", 1, "TCP"), ("b", 1, "UDP")], id="per protocol"
        ),
        pytest.param([("a", None)], [], id="without a number"),
    ],
)
def test_a_service_gets_each_name_and_each_number_once(ports, want):
    """ascendjob:W-47: what a pod takes and a Service does not, costs the job no Service."""
    found = [
        {"name": name, "containerPort": number} | ({"protocol": rest[0]} if rest else {})
        for name, number, *rest in ports
    ]
    got = named_ports({"ports": found}, "main")
    assert [(p["name"], p["port"], p["protocol"]) for p in got] == want
