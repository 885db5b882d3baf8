# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The stages that ship, as pairs of an object and what becomes of it; and how they work."""

import functools
from datetime import UTC, datetime
from pathlib import Path
from random import Random  # noqa: TID251  the type; seeded

import pytest
import yaml

from ascendop.sim.jq import UnknownExpressionError
from ascendop.sim.nodes import ready_conditions
from ascendop.sim.stages import (
    draw,
    finalizers_after,
    load_stages,
    merge_status,
    parse_duration_s,
    parse_stages,
    quote,
    render_status,
    to_yaml,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = "2026-01-01T00:00:00Z"
FUNCTIONS = {
    "Quote": quote,
    "YAML": to_yaml,
    "Now": lambda: NOW,
    "NodeConditions": lambda: ready_conditions(NOW),
    "NodeIP": lambda: "10.10.0.1",
    "NodeIPWith": lambda node: "10.10.0.1",
    "PodIPWith": lambda node, host_network, uid, name, namespace: "10.244.0.1",
}
PAIRS = sorted((Path(__file__).parent / "stages").glob("*.input.yaml"))


@functools.cache
def stages():
    return load_stages("", "chaos", "finish", functions=FUNCTIONS)


@pytest.mark.parametrize("given", PAIRS, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_a_stage_turns_its_input_into_its_output(given):
    case = yaml.safe_load(given.read_text())
    want = yaml.safe_load(given.with_name(given.name.replace(".input.", ".output.")).read_text())
    stage = next(stage for stage in stages() if stage.name == want["stage"])
    assert stage.matches(case)
    status = render_status(stage, case)
    assert stage.next.delete == want.get("delete", False)
    assert (status and merge_status(case.get("status") or {}, status)) == want.get("status")


def test_every_stage_that_ships_has_a_pair():
    want = {
        yaml.safe_load(path.read_text())["stage"] for path in PAIRS[0].parent.glob("*.output.yaml")
    }
    assert {stage.name for stage in stages()} == want


def pod(phase="Running", **annotations):
    return {
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "annotations": {f"ascendop.io/{k}": v for k, v in annotations.items()},
        },
        "status": {"phase": phase, "podIP": "10.244.0.1"},
    }


def test_a_pod_that_ended_matches_no_stage():
    for phase in ("Succeeded", "Failed"):
        assert draw(stages(), pod(phase), Random(1)) is None


def test_the_outcome_that_is_annotated_wins_over_chance():
    for seed in range(20):
        assert draw(stages(), pod(outcome="succeed"), Random(seed)).name == "pod-succeed"
        assert draw(stages(), pod(outcome="fail"), Random(seed)).name == "pod-fail"


def test_chaos_is_drawn_by_its_weight_and_the_seed():
    names = [draw(stages(), pod(), Random(seed)).name for seed in range(300)]
    assert 5 <= names.count("pod-chaos") <= 60
    assert names == [draw(stages(), pod(), Random(seed)).name for seed in range(300)]
    always = pod(**{"chaos-weight": "1000000000"})
    assert draw(stages(), always, Random(1)).name == "pod-chaos"


@pytest.mark.parametrize(
    ("after", "want_s"),
    [("10s", 10.0), ("1m30s", 90.0), ("250ms", 0.25), ("soon", 1.0), (None, 1.0)],
)
def test_a_delay_comes_from_the_annotation_or_is_the_fixed_one(after, want_s):
    obj = pod(outcome="succeed", **({"after": after} if after else {}))
    stage = draw(stages(), obj, Random(1))
    assert stage.delay.draw_s(obj, MOMENT, Random(1)) == want_s


def test_a_delay_may_be_a_moment():
    obj = pod(outcome="succeed", after="2026-01-01T00:00:30Z")
    assert draw(stages(), obj, Random(1)).delay.draw_s(obj, MOMENT, Random(1)) == 30


@pytest.mark.parametrize(
    ("text", "want"), [("1h", 3600), ("1.5s", 1.5), ("", None), ("10", None), ("x1s", None)]
)
def test_durations_are_those_of_go(text, want):
    assert parse_duration_s(text) == want


def stage_text(**spec):
    return yaml.safe_dump(
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Stage",
            "metadata": {"name": "x"},
            "spec": {
                "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
                "selector": {},
                "next": {},
            }
            | spec,
        }
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"next": {"patches": []}}, "spec.next.patches"),
        ({"selector": {"matchExpressions": [{"cel": {"expression": "true"}}]}}, "CEL"),
        (
            {"selector": {"matchExpressions": [{"key": ".a | length", "operator": "Exists"}]}},
            "length",
        ),
        (
            {"selector": {"matchExpressions": [{"key": ".a", "operator": "Like"}]}},
            "Like",
        ),
        ({"next": {"statusTemplate": "a: {{ upper .x }}"}}, "upper"),
        ({"next": {"statusTemplate": "{{ if .x }}a"}}, "no end"),
    ],
)
def test_what_is_not_known_is_refused_by_name(spec, told):
    with pytest.raises(UnknownExpressionError, match=f"stage x: .*{told}"):
        parse_stages(stage_text(**spec), FUNCTIONS)


def test_finalizers_are_added_removed_and_emptied():
    def left(finalizers):
        [stage] = parse_stages(stage_text(next={"finalizers": finalizers}), FUNCTIONS)
        return finalizers_after(stage, ["a", "b"])

    assert left({"empty": True}) == []
    assert left({"remove": [{"value": "a"}]}) == ["b"]
    assert left({"add": [{"value": "b"}, {"value": "c"}]}) == ["a", "b", "c"]


def test_conditions_of_others_survive_a_stage():
    old = {
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "x"}]
    }
    new = merge_status(old, {"conditions": [{"type": "Ready", "status": "True"}]})
    assert new == {
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True"},
        ]
    }
