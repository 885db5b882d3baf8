# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A duration says its unit, and no room is called after nothing in particular."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hack.check_docs import ROOT, tracked

EMPTY = {
    *("util", "utils", "common", "misc", "core", "lib", "manager", "info", "data", "types"),
    *("helper", "helpers"),
}
UNITLESS = {"timeout", "delay", "size", "interval", "duration", "period"}
CODE = ("ascendop/", "hack/")
EXCUSE = "# N3: "
"""Before the reason why a name is not ours to choose."""


def defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every argument, field and constant that is a number, or may be one."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=kind) if is_number(kind):
                yield node.lineno, name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if is_number(kind):
                yield node.lineno, name
            case ast.ClassDef(body=body) | ast.Module(body=body):
                for inner in body:
                    if isinstance(inner, ast.Assign) and isinstance(inner.targets[0], ast.Name):
                        yield inner.lineno, inner.targets[0].id
            case _:
                pass


def is_number(annotation: ast.expr | None) -> bool:
    """Whether a type has int or float in it; nothing said may mean that too."""
    if annotation is None:
        return True
    return bool({"int", "float"} & set(re.findall(r"\w+", ast.unparse(annotation))))


def problems(file: Path, root: Path = ROOT) -> Iterator[str]:
    """Everything that is wrong with the names of one file, its own included."""
    where = file.relative_to(root)
    yield from (f"{where}: {part}: say what is inside" for part in empty_parts(where))
    if file.suffix == ".py" and where.as_posix().startswith(CODE):
        text = file.read_text()
        excused = {i for i, line in enumerate(text.splitlines(), start=1) if EXCUSE in line}
        for line, name in defined(ast.parse(text)):
            if name.lower().strip("_") in UNITLESS and line not in excused:
                yield f"{where}:{line}: {name} has no unit: {name}_s, {name}_bytes"


def empty_parts(where: Path) -> list[str]:
    """Names in a path that say nothing."""
    return [part for part in where.with_suffix("").parts if part.lower() in EMPTY]


def main() -> int:
    """Print one line for each problem; 1 when there is one."""
    found = [line for file in tracked() for line in problems(file)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
