# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every file says whose it is, and every module what it is for, in its first lines."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 100
SPDX = "SPDX-FileCopyrightText: The ascendop authors\n", "SPDX-License-Identifier: Apache-2.0\n"
LICENSED = {".py", ".sh", ".yaml", ".yml", ".toml"}
DATA = ("test/e2e/recorded/", "manifests/", "test/unit/golden/")
"""Taken over or generated: what is in them is decided elsewhere."""
OPENERS = ("this module", "module ", "this file", "this package")


def tracked() -> list[Path]:
    """Every file that git knows, or would add."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in sorted(set(names.splitlines())) if (ROOT / name).is_file()]


def licence_problems(file: Path) -> Iterator[str]:
    """Whether the two SPDX lines are among the first four, after `#!` or a comment at most."""
    first = "".join(f"{line}\n" for line in file.read_text().splitlines()[:4])
    if not all(line in first for line in SPDX):
        yield "the two SPDX lines are missing at its start"


def docstring_problems(file: Path) -> Iterator[str]:
    """Whether the first line of the docstring says something, in one breath, without the name."""
    docstring = ast.get_docstring(ast.parse(file.read_text()))
    if not docstring:
        yield "the module has no docstring"
        return
    first = docstring.splitlines()[0]
    name = file.parent.name if file.stem in {"__init__", "__main__"} else file.stem
    if len(first) + len('"""') > LONGEST:
        yield f"the docstring's first line has {len(first)} characters, {LONGEST} at most"
    if first.lower().startswith(OPENERS):
        yield "the docstring begins with what the reader sees: it is a module"
    # A name with an underscore is nobody's word: a sentence that has it repeats the file's name.
    if "_" in name and re.search(rf"\b{re.escape(name)}\b", first):
        yield f"the docstring's first line repeats the name {name}"


def problems(file: Path, root: Path = ROOT) -> Iterator[str]:
    """Everything that is wrong with one file."""
    name = file.relative_to(root).as_posix()
    if name.startswith(DATA):
        return
    if file.suffix in LICENSED and file.name != ".pre-commit-config.yaml":
        yield from licence_problems(file)
    if file.suffix == ".py":
        yield from docstring_problems(file)


def main() -> int:
    """Print one line for each problem; 1 when there is one."""
    found = [(file, what) for file in tracked() for what in problems(file)]
    for file, what in found:
        print(f"{file.relative_to(ROOT)}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
