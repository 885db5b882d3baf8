# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which cases of hack/cases/*.txt no test has in its name.

A case is one row of a kind's conformance table. A test has it in its name as `test_p4_...`, for
several `test_p4_p13_...`, or at the head of the id of a parameter, as "ascendjob:P4 ..." or
"P4 ...". Where the list says that a server has to answer, test/e2e has such a test, too.

    python -m hack.check_cases             fail when a case has no test
    python -m hack.check_cases --not-yet   only print them
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACES = {"unit": "test/unit", "server": "test/e2e"}
_CASE = re.compile(r"[a-z]\d+")
_IN_ID = re.compile(r"(?:(?P<document>[a-z][a-z-]*):)?(?P<case>[A-Z]\d+)\b[ ,]*")


@dataclass(frozen=True, slots=True)
class Case:
    """One row."""

    name: str
    places: tuple[str, ...]
    """Where it is tested: "unit", and "server" where a real one has to answer."""
    phrase: str


def cases(document: Path) -> list[Case]:
    """The rows of a list: name, places with a plus between them, a few words."""
    found = []
    for line in document.read_text().splitlines():
        if line and not line.startswith("#"):
            name, places, phrase = line.split(maxsplit=2)
            found.append(Case(name, tuple(places.split("+")), phrase))
    return found


def named(file: Path, document: str) -> set[str]:
    """Cases of the document that tests of this file have in their names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= set(_in_function(node.name))
        elif isinstance(node, ast.keyword) and node.arg in {"id", "ids"}:
            for text in ast.walk(node.value):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    found |= set(_in_id(text.value, document))
    return found


def _in_function(name: str) -> Iterator[str]:
    first, *words = name.split("_")
    for word in words if first == "test" else ():
        if not _CASE.fullmatch(word):
            return
        yield word.upper()


def _in_id(text: str, document: str) -> Iterator[str]:
    at = 0
    while match := _IN_ID.match(text, at):
        if match["document"] in {None, document}:
            yield match["case"]
        at = match.end()


def missing(document: Path, root: Path) -> Iterator[str]:
    """A line for each case and place without a test."""
    for place, folder in PLACES.items():
        tested: set[str] = set()
        for file in sorted((root / folder).rglob("test_*.py")):
            tested |= named(file, document.stem)
        for case in cases(document):
            if place in case.places and case.name not in tested:
                where = f"{document.stem}:{case.name} has no test in {folder}"
                yield f"{where} with its name: {case.phrase}"


def main() -> int:
    """Print what is missing; 1 when something is, 0 otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--not-yet", action="store_true", help="end with 0 whatever is missing")
    arguments = parser.parse_args()
    wrong: list[str] = []
    for document in sorted((ROOT / "hack" / "cases").glob("*.txt")):
        lacking = list(missing(document, ROOT))
        print(f"{document.stem}: {len(cases(document))} cases, {len(lacking)} without a test")
        wrong += lacking
    print(*wrong, sep="\n")
    return 1 if wrong and not arguments.not_yet else 0


if __name__ == "__main__":
    sys.exit(main())
