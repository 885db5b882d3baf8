# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The judge of the recordings is no rubber stamp: needs no cluster."""

import copy
from pathlib import Path

import pytest

from hack.replay.case import load_cases
from hack.replay.judge import Judge
from hack.replay.right import RIGHT, wrong

CASES = {case.id: case for case in load_cases([Path(__file__).parent / "recorded"])}


def judged(case, got):
    judge = Judge(case.job["kind"], case.want, got, case.differs, case.steps)
    return [d for d in judge.verdict() if d.grade == "differs"]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_recording_does_not_differ_from_itself(case):
    assert judged(case, copy.deepcopy(case.want)) == []


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_original_did_there_is_not_right(name):
    """ascendjob:W-7, ascendjob:W-11: an operator that does the same does not pass."""
    assert wrong(name, CASES[name].want)


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


def one_step_sooner(recording):
    """The table is there before its workload is touched."""
    first, second = recording["steps"][:2]
    first["changed"] += second.pop("changed")
    first["files"] = second.pop("files")


def with_another_rank(recording):
    for change in recording["steps"][0]["changed"]:
        change["set"] |= {
            key: "7" for key in change["set"] if key == 'metadata.annotations.["hccl/rankIndex"]'
        }


def test_a_table_of_a_workload_may_come_sooner_but_has_to_be_the_same():
    case = CASES["decorated/02-decorated-vcjob"]
    got = copy.deepcopy(case.want)
    one_step_sooner(got)
    assert judged(case, got) == []
    with_another_rank(got)
    assert {d.name for d in judged(case, got)} == {"vtrain-w-0", "vtrain-w-1"}
