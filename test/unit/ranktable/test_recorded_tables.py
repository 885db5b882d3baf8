# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The tables that the original operator wrote, byte for byte."""

from pathlib import Path

import pytest
import yaml

from ascendop.api.job import ReplicaSpec
from ascendop.api.observed import PodView
from ascendop.ranktable.build import initializing, rank_table
from ascendop.ranktable.table import NotReady, Table, TableJob


def recordings():
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        case = yaml.safe_load(path.read_text())
        for number, written in enumerate(case["tables"]):
            yield pytest.param(case["job"], written, id=f"{path.stem}[{number}] {written['step']}")


def facts(job):
    replicas = [ReplicaSpec.model_validate(spec) for spec in job["replicas"].values()]
    return TableJob.of(replicas, job["labels"], job["annotations"])


def pods(recorded):
    for body in recorded:
        annotations = tuple(body["annotations"].items())
        yield PodView(**body | {"annotations": annotations}, namespace="ns", version="1")


@pytest.mark.parametrize(("job", "written"), list(recordings()))
def test_the_same_pods_give_the_same_table_as_the_original(job, written):
    """ascendjob:R1, ascendjob:R5, ascendjob:R7, ascendjob:R9, ascendjob:R10, ascendjob:R11."""
    got = rank_table(facts(job), pods(written["pods"]))
    if written["table"].startswith('{"status":"completed"'):
        assert got == Table(written["table"])
    else:
        assert isinstance(got, NotReady) and got.withdraw


@pytest.mark.parametrize(("job", "written"), list(recordings()))
def test_falling_back_writes_the_bare_status(job, written):
    """ascendjob:W-27: the original repeats the old lists; consumers look at the status only."""
    text = initializing(facts(job).version)
    assert text.startswith('{"status":"initializing"') and len(text) < 70
