# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Everything that is rendered, against what was reviewed; `make golden` rewrites it."""

import io
import os
from pathlib import Path

import pytest

from ascendop.cli.files import load_objects
from ascendop.cli.render import Rendering
from ascendop.kinds import load_kinds
from ascendop.schema.generated import yaml_file

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(GOLDEN.glob("*/*.job.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
ABOUT = "Written by `make golden`; read the difference before you commit it."


def rendered(file):
    return Rendering(load_kinds()).objects(load_objects([str(file)], io.StringIO()))


def kinds_in(files):
    return {found.kind for file in files for found in load_objects([str(file)], io.StringIO())}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.relative_to(GOLDEN)))
def test_a_job_renders_as_it_was_reviewed(case):
    """field-reports:FR-098"""
    want = case.with_name(case.name.replace(".job.", ".want."))
    got = yaml_file(rendered(case), about=(ABOUT,), sort=True)
    if os.environ.get("GOLDEN") == "write":
        want.write_text(got)
    assert got == want.read_text()


def test_every_kind_has_a_golden_case():
    assert {case.parent.name for case in CASES} == set(load_kinds())


def test_every_golden_case_lies_with_its_kind():
    assert all(case.parent.name in kinds_in([case]) for case in CASES)


def test_no_golden_result_is_without_its_job():
    jobs = {case.name.replace(".job.", ".want.") for case in CASES}
    assert {want.name for want in GOLDEN.glob("*/*.want.yaml")} == jobs


def test_every_kind_has_an_example():
    assert set(load_kinds()) <= kinds_in(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_renders(example):
    assert rendered(example)
