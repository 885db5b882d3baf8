# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the linter cannot say about tasks, errors and imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ascendop

PACKAGE = Path(ascendop.__file__).parent
TREES = {
    str(file.relative_to(PACKAGE)): ast.parse(file.read_text()) for file in PACKAGE.rglob("*.py")
}


def nodes(type_):
    return [
        (where, node) for where, tree in TREES.items() for node in ast.walk(tree)
        if isinstance(node, type_)
    ]  # fmt: skip


def test_every_task_is_made_by_a_group():
    """runtime:P-1: the loop's own create_task is not on the linter's list."""
    made = {
        (where, ast.unparse(node.func.value))
        for where, node in nodes(ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "create_task"
    }
    assert made
    assert [found for found in made if "loop" in found[1] or found[1] == "asyncio"] == []


def test_nothing_swallows_a_cancellation():
    """runtime:P-3: who catches everything raises it again, or ends the process."""
    swallowing = [
        f"{where}:{node.lineno}"
        for where, node in nodes(ast.ExceptHandler)
        if (node.type is None or ast.unparse(node.type) in {"BaseException", "CancelledError"})
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    ]
    suppressing = [
        f"{where}:{node.lineno}"
        for where, node in nodes(ast.Call)
        if ast.unparse(node.func).endswith("suppress")
        and any(
            "BaseException" in ast.unparse(a) or "Cancelled" in ast.unparse(a) for a in node.args
        )
    ]
    assert swallowing == [] == suppressing


def test_no_finally_returns():
    """runtime:P-3 runtime:P-7: a return there eats whatever was on its way out."""
    found = [
        f"{where}:{inner.lineno}"
        for where, node in nodes(ast.Try)
        for statement in node.finalbody
        for inner in ast.walk(statement)
        if isinstance(inner, ast.Return)
    ]
    assert found == []


def test_nothing_is_eager():
    assert not [where for where, node in nodes(ast.Attribute) if node.attr == "eager_task_factory"]


PROGRAM = """
import importlib, pkgutil, sys, threading
import ascendop.cli.main
lean = not {"cryptography", "kubernetes_asyncio"} & sys.modules.keys()
for found in pkgutil.walk_packages(ascendop.__path__, "ascendop."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print(threading.active_count(), lean)
"""


@pytest.mark.real_time
def test_importing_everything_starts_nothing_and_says_nothing():
    """And what weighs many megabytes comes only where a kubeconfig is used or keys are made."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True, text=True, timeout=100, check=False, cwd=PACKAGE.parent,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("1 True\n", "")
