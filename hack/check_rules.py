# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which rules of hack/rules/*.txt no test names, and which names in tests are no rules.

A test names the rules that it would notice broken, as `runtime:W-5`, in its docstring or its id.

    python -m hack.check_rules             fail when a rule has no test
    python -m hack.check_rules --not-yet   only print them
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from hack.check_cases import cases

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"\b([a-z][a-z-]*):([A-Z]{1,3}-?\d+[a-z]?)\b")


def rules(document: Path) -> dict[str, str]:
    """Rule to its phrase; those that something else checks are left out, with "" as phrase."""
    found = {}
    for line in document.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        rule, phrase = line.split(maxsplit=1)
        found[rule] = "" if " | " in phrase else phrase
    return found


def named(folder: Path) -> dict[str, set[str]]:
    """Document to the rules of it that tests below this folder name."""
    found: dict[str, set[str]] = {}
    for file in folder.rglob("*.py"):
        for document, rule in NAMED.findall(file.read_text()):
            found.setdefault(document, set()).add(rule)
    return found


def cases_of(document: Path) -> set[str]:
    """Names of the conformance cases: hack/check_cases.py demands their tests."""
    return {case.name for case in cases(document)} if document.exists() else set()


def main() -> int:
    """Print what is missing; 1 when something is, 0 otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--not-yet", action="store_true", help="end with 0 whatever is missing")
    arguments = parser.parse_args()
    in_tests = named(ROOT / "test")
    wrong = []
    for document in sorted((ROOT / "hack" / "rules").glob("*.txt")):
        all_rules, name = rules(document), document.stem
        tested = in_tests.get(name, set())
        missing = [rule for rule, phrase in all_rules.items() if phrase and rule not in tested]
        wrong += [f"{name}:{rule} has no test: {all_rules[rule]}" for rule in missing]
        known = all_rules.keys() | cases_of(ROOT / "hack" / "cases" / document.name)
        wrong += [f"{name}:{rule} is no rule" for rule in sorted(tested - known)]
        print(f"{name}: {len(all_rules)} rules, {len(missing)} without a test")
    print(*wrong, sep="\n")
    return 1 if wrong and not arguments.not_yet else 0


if __name__ == "__main__":
    sys.exit(main())
