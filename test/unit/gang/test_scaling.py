# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which job of an inference service may start next; ascendjob.md 3.2 and 12.7."""

import json

import pytest

from ascendop.gang.scaling import Peer, RuleError, read_rule, service_of, why_not


def rule(*sizes, **fields):
    """Sizes as {group: (jobs, servers of each)}, the full one first, as a user writes them."""
    entries = [
        {
            "group_list": [
                {"group_name": name, "group_num": str(jobs), "server_num_per_group": str(servers)}
                for name, (jobs, servers) in size.items()
            ]
        }
        for size in sizes
    ]
    return json.dumps({"version": "1.0", "elastic_scaling_list": entries} | fields)


FULL = {"prefill": (2, 2), "decode": (1, 4)}
SMALL = {"prefill": (1, 2), "decode": (1, 4)}
RULE = rule(FULL, SMALL)


def running(**groups):
    return [
        Peer(f"{name}-{n}", name, runs=True, has_started=True)
        for name, count in groups.items()
        for n in range(count)
    ]


def started(**groups):
    return [
        Peer(f"{name}-{n}", name, runs=False, has_started=True)
        for name, count in groups.items()
        for n in range(count)
    ]


def may(group, *peers, text=RULE):
    return not why_not(read_rule(text), group, peers)


@pytest.mark.parametrize(
    ("there", "group", "allowed"),
    [
        pytest.param({}, "prefill", True, id="ascendjob:G1 nothing runs"),
        pytest.param({"prefill": 1}, "prefill", False, id="ascendjob:G2 it waits for the other"),
        pytest.param({"prefill": 1}, "decode", True, id="ascendjob:G2 the other comes first"),
        pytest.param({"prefill": 1, "decode": 1}, "prefill", True, id="ascendjob:G3 two in full"),
        pytest.param({"prefill": 1, "decode": 1}, "decode", False, id="ascendjob:G3 but not this"),
        pytest.param({"prefill": 2, "decode": 1}, "prefill", False, id="ascendjob:G4 full"),
        pytest.param({"prefill": 2, "decode": 1}, "decode", False, id="ascendjob:G4 and full"),
        pytest.param({}, "other", False, id="ascendjob:G6 a group of no size, W-2"),
        pytest.param(
            {"prefill": 1, "decode": 1}, "other", False, id="ascendjob:G6 nor of the next"
        ),
    ],
)
def test_a_service_grows_from_size_to_size(there, group, allowed):
    assert may(group, *running(**there)) is allowed


def test_who_has_pods_has_a_place_although_it_does_not_run_yet():
    """The phase comes when all pods run, which takes minutes; the original starts both."""
    assert not may("prefill", *started(prefill=1))
    assert may("decode", *started(prefill=1))


def test_the_next_size_is_begun_only_when_the_one_before_runs():
    both = started(prefill=1, decode=1)
    assert not may("prefill", *both)
    assert may("prefill", *running(prefill=1, decode=1))
    assert not may("prefill", *running(prefill=1, decode=1), *started(prefill=1))


def test_a_pod_group_without_a_group_stops_everybody():
    nameless = Peer("odd", "", runs=False, has_started=False)
    assert "PodGroup odd" in why_not(read_rule(RULE), "prefill", [nameless])


@pytest.mark.parametrize(
    ("peers", "group", "words"),
    [
        (started(prefill=1), "prefill", ("1 of 1", "1 decode, 1 prefill", "0 decode, 0 prefill")),
        (running(prefill=2, decode=1), "decode", ("full size run already",)),
        ([], "other", ("no group other", "decode, prefill")),
    ],
)
def test_who_may_not_start_learns_with_numbers_why(peers, group, words):
    text = why_not(read_rule(RULE), group, peers)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            rule(SMALL, FULL),
            ("elastic_scaling_list[1]", "group_num 2", "prefill", "from the full one"),
            id="ascendjob:G5 group_num grows",
        ),
        pytest.param(
            rule({"p": (1, 2)}, {"p": (1, 3)}), ("server_num_per_group 3",), id="servers grow"
        ),
        pytest.param(
            rule({"p": (1, 1)}, {"p": (1, 1), "q": (1, 1)}), ("group q",), id="a group comes late"
        ),
        pytest.param(
            rule({"p": ("two", 1)}), ("group_list[0].group_num is 'two'",), id="no number"
        ),
        pytest.param(rule({"p": (1, "")}), ("server_num_per_group is ''",), id="an empty number"),
        pytest.param("{", ("is no rule",), id="no JSON"),
        pytest.param("{}", ("elastic_scaling_list",), id="no list"),
        pytest.param(
            rule(elastic_scaling_list=[{"group_list": [{"group_name": "p", "group_num": "1"}]}]),
            ("server_num_per_group", "$.elastic_scaling_list[0].group_list[0]"),
            id="a number is missing",
        ),
    ],
)
def test_a_rule_that_cannot_be_followed_says_where(text, words):
    with pytest.raises(RuleError) as raised:
        read_rule(text)
    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_numbers_may_be_written_without_quotes_and_the_version_is_anything():
    text = json.loads(RULE)
    text["version"] = 7
    text["elastic_scaling_list"][0]["group_list"][0]["group_num"] = 2
    assert read_rule(json.dumps(text)) == read_rule(RULE)


def test_a_rule_without_sizes_lets_nobody_start():
    assert not may("prefill", text=rule())


def test_a_service_is_the_jobs_of_one_namespace_rule_and_id():
    labels = (("mind-cluster/scaling-rule", "r"), ("jobID", "svc"), ("framework", "pytorch"))
    assert service_of("ns", labels) == ("ns", "r", "svc")
    assert service_of("ns", labels[1:]) is None
