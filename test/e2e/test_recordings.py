# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The judge of the recordings is no rubber stamp: needs no cluster."""

import copy
from pathlib import Path

import pytest

from hack.replay.case import load_cases
from hack.replay.judge import Judge

CASES = {case.id: case for case in load_cases([Path(__file__).parent / "recorded"])}


def judged(case, got):
    judge = Judge(case.job["kind"], case.want, got, case.differs, case.steps)
    return [d for d in judge.verdict() if d.grade == "differs"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_recording_does_not_differ_from_itself(case):
    assert judged(case, copy.deepcopy(case.want)) == []


def first_pod(recording):
    return next(obj for obj in recording["steps"][0]["added"] if obj["kind"] == "Pod")


def without_a_variable(recording):
    first_pod(recording)["spec"]["containers"][0]["env"].pop()


def with_another_label(recording):
    first_pod(recording)["metadata"]["labels"]["fault"] = "mine"


def without_an_event(recording):
    recording["steps"][0]["events"].pop()


def with_another_condition(recording):
    recording["created"]["job"]["status"]["conditions"][0]["reason"] = "Mine"


@pytest.mark.parametrize(
    "spoil", [without_a_variable, with_another_label, without_an_event, with_another_condition]
)
def test_a_spoiled_recording_differs_once(spoil):
    case = CASES["ascendjob/01-sample-pytorch-2node"]
    got = copy.deepcopy(case.want)
    spoil(got)
    assert len(judged(case, got)) == 1
