# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What README, docs and examples say is true: commands print what stands there, links lead on."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from ascendop.cli.main import main
from ascendop.kinds import load_kinds

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
PURE = ("manifests", "render", "simulate", "version")
"""Verbs that need neither a cluster nor processes."""
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = ("FILE", "BROKEN")
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
ELLIPSIS = "…"
CODES = {"→ 0": 0, "→ 2": 2, "→ 5": 5, "→ 6": 6}


@dataclass
class Typed:
    """A command of a page, and what the page says of it."""

    page: str
    command: str
    shown: list[str]

    def __str__(self):
        return f"{self.page}: {self.command}"

    @property
    def words(self):
        return [word.strip("'\"") for word in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", self.command)]

    @property
    def runs_here(self):
        return self.words[0] == "ascendop" and self.words[1] in PURE and "|" not in self.words


def typed():
    """Every command behind a dollar sign, with the lines below it."""
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            found = []
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append(Typed(str(page.relative_to(ROOT)), line[2:], []))
                else:
                    found[-1].shown.append(line)
            yield from found


def write_files(folder, text):
    """FILE is the YAML of the page, and BROKEN the same with a framework that is none."""
    for example in EXAMPLE.findall(text)[:1]:
        (folder / "FILE").write_text(example)
        (folder / "BROKEN").write_text(example.replace("pytorch\n", "mempool\n"))


RUNNABLE = [one for one in typed() if one.runs_here]


def pattern(line):
    """A line of a page as a regular expression: blanks are alike, an ellipsis is anything."""
    parts = (re.escape(part.strip()) for part in re.split(ELLIPSIS, " ".join(line.split())))
    return re.compile(r"\s*" + ".*".join(parts).replace(r"\ ", r"\s+") + r"\s*")


@pytest.mark.real_time
@pytest.mark.parametrize("one", RUNNABLE, ids=str)
def test_a_command_of_a_page_prints_what_the_page_shows(one, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    folder = f"{tmp_path}/"
    write_files(tmp_path, (ROOT / one.page).read_text())
    code = main([folder + word if word in FILES else word for word in one.words[1:]])
    out, err = capsys.readouterr()
    lines = [line.replace(folder, "") for line in (*err.splitlines(), *out.splitlines())]
    at = 0
    for shown in one.shown:
        if shown in CODES:
            assert code == CODES[shown]
        elif shown != ELLIPSIS:
            found = (i for i in range(at, len(lines)) if pattern(shown).fullmatch(lines[i]))
            at = next(found, None)
            assert at is not None, f"{shown!r} is not printed:\n" + "\n".join(lines)
            at += 1


def test_there_are_commands_to_check():
    assert len(RUNNABLE) >= 8
    assert {one.page for one in RUNNABLE} >= {"README.md", "docs/concepts/gang.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    linked = [name for name in LINK.findall(page.read_text()) if "://" not in name]
    missing = [name for name in linked if not (page.parent / name).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_can_be_reached_from_the_index(page):
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        here = todo.pop()
        if here in seen or here.suffix != ".md":
            continue
        seen.add(here)
        todo += [
            (here.parent / name).resolve()
            for name in LINK.findall(here.read_text())
            if "://" not in name
        ]
    assert page in seen


def test_the_table_of_kinds_is_the_generated_one():
    index = (ROOT / "docs" / "reference" / "kinds" / "index.md").read_text()
    rows = re.findall(r"^\| \[.*$", index, re.MULTILINE)
    assert rows
    readme = (ROOT / "README.md").read_text()
    for row in rows:
        assert row.replace("](", "](docs/kinds/") in readme


def test_news_are_one_sentence_each_under_a_name_that_towncrier_knows():
    for fragment in (ROOT / "changelog.d").iterdir():
        name, kind, suffix = fragment.name.split(".")
        assert name, fragment
        assert kind in {"added", "changed", "fixed", "removed", "security"}, fragment
        assert suffix == "md", fragment
        text = fragment.read_text().strip()
        assert text.endswith("."), fragment
        assert "\n" not in text, fragment


@pytest.mark.parametrize("kind", load_kinds())
def test_every_kind_has_a_page_with_an_example_and_a_runnable_file(kind):
    page = (ROOT / "docs" / "kinds" / f"{kind.lower()}.md").read_text()
    assert f"kind: {kind}" in page
    assert list((ROOT / "examples").glob(f"{kind.lower()}-*.yaml"))


@pytest.mark.real_time
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_ends_well_in_virtual_time(file, capsys):
    assert main(["simulate", str(file)]) == 0
    assert main(["render", str(file)]) == 0
    assert capsys.readouterr().err == ""
