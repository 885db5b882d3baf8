# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Each check bites: what it is there to find is found."""

import ast
from pathlib import Path

import pytest

from hack import check_cases, check_docs, check_files, check_names, check_rules

LICENCE = "".join(f"# {line}" for line in check_docs.SPDX)


def found(check, root, name, text):
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return list(check.problems(file, root))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(LICENCE + '"""Who is due, once."""\n', 0, id="a sentence after the licence"),
        pytest.param('"""Who is due, once."""\n', 1, id="no licence"),
        pytest.param(LICENCE + "x = 1\n", 1, id="no docstring"),
        pytest.param(LICENCE + f'"""{"a" * 98}"""\n', 1, id="a first line that is too long"),
        pytest.param(LICENCE + '"""Module queue."""\n', 1, id="a docstring that says module"),
        pytest.param(LICENCE + '"""The work_queue of all."""\n', 1, id="the name of the file"),
    ],
)
def test_docstrings(text, want, tmp_path):
    problems = found(check_docs, tmp_path, "ascendop/work_queue.py", text)
    assert len(problems) == want


@pytest.mark.parametrize(
    ("name", "text", "want"),
    [
        pytest.param("ascendop/queue.py", "def f(after_s): ...\n", 0, id="a unit"),
        pytest.param("ascendop/queue.py", "def f(timeout): ...\n", 1, id="an argument"),
        pytest.param("ascendop/queue.py", "class C:\n    delay: int\n", 1, id="a field"),
        pytest.param("ascendop/queue.py", "def f(*, delay: Delay): ...\n", 0, id="no number"),
        pytest.param("ascendop/queue.py", "size = 1  # N3: theirs\n", 0, id="an excuse"),
        pytest.param("ascendop/utils.py", "", 1, id="a file called utils"),
        pytest.param("ascendop/common/queue.py", "", 1, id="a room called common"),
    ],
)
def test_names(name, text, want, tmp_path):
    assert len(found(check_names, tmp_path, name, text)) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("see /" + "work/main/x", 1, id="a work tree"),
        pytest.param("see /" + "root/.ssh of the image", 0, id="a path in an image"),
        pytest.param("from https://" + "files.python" + "hosted.org/x", 1, id="a registry"),
        pytest.param("require google.golang.org/grpc v1", 0, id="the name of a Go module"),
        pytest.param("pip install --index" + "-url=x", 1, id="another index"),
    ],
)
def test_files(text, want, tmp_path):
    assert len(found(check_files, tmp_path, "docs/x.md", text)) == want


def test_a_rule_is_covered_by_the_name_of_its_document(tmp_path):
    document = tmp_path / "runtime.txt"
    document.write_text("# head\n\nW-1  one\nW-2  two | mypy\n")
    (tmp_path / "test_x.py").write_text('"""runtime' + ":W-1, mpijob" + ':C37"""')
    assert check_rules.rules(document) == {"W-1": "one", "W-2": ""}
    assert check_rules.named(tmp_path) == {"runtime": {"W-1"}, "mpijob": {"C37"}}


def test_every_rule_of_the_runtime_has_one_line():
    lines = (check_rules.ROOT / "hack/rules/runtime.txt").read_text().splitlines()
    names = [line.split()[0] for line in lines if line and not line.startswith("#")]
    counts = {"I": 46, "Q": 23, "W": 22, "L": 13, "E": 7, "H": 20, "O": 11, "P": 23, "S": 9}
    assert names == [f"{letter}-{i}" for letter, n in counts.items() for i in range(1, n + 1)]


CASES = """# head

P4   unit         one
D1   unit+server  two
V1   unit         three
X9   unit         four
"""
TESTS = """
def test_p4_p5_of_one_name(): ...
def test_the_d1_in_the_middle(): ...
pytest.param(1, id="ascendjob:V1 no framework")
pytest.param(1, id="jaxjob:X9 of another document")
pytest.param(1, id="D1 ascendjob:D2 of several")
"""


def test_a_case_is_covered_by_the_name_of_a_test_or_of_a_parameter(tmp_path):
    document = tmp_path / "ascendjob.txt"
    document.write_text(CASES)
    for place in check_cases.PLACES.values():
        (tmp_path / place).mkdir(parents=True)
    file = tmp_path / "test/unit/test_x.py"
    file.write_text(TESTS)
    assert check_cases.named(file, "ascendjob") == {"P4", "P5", "V1", "D1", "D2"}
    assert list(check_cases.missing(document, tmp_path)) == [
        f"{document.stem}:X9 has no test in test/unit with its name: four",
        f"{document.stem}:D1 has no test in test/e2e with its name: two",
    ]


def test_the_scripts_parse_on_the_oldest_python_that_is_supported():
    for file in Path(check_rules.ROOT, "hack").rglob("*.py"):
        ast.parse(file.read_text(), feature_version=(3, 11))
