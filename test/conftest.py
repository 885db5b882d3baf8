# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is left out is said in one line, with the reason."""

import os
import shutil
import subprocess
from functools import cache

import pytest
from hypothesis import settings

# A busy machine is no failure, and a run says the same as the one before it.
settings.register_profile("ascendop", deadline=None, derandomize=True)
settings.load_profile("ascendop")


@cache
def can_make_namespaces():
    """As root, or in a user namespace where the machine allows one."""
    if not shutil.which("unshare"):
        return False
    flags = ["--net", "--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    done = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False)
    return done.returncode == 0


def pytest_collection_modifyitems(items):
    if can_make_namespaces():
        return
    why = pytest.mark.skip(reason="needs root, or user namespaces for everybody")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(why)


def pytest_terminal_summary(terminalreporter, config):
    skipped = terminalreporter.stats.get("skipped", [])
    if config.option.markexpr == "not long" and terminalreporter.stats.get("deselected"):
        count = len(terminalreporter.stats["deselected"])
        terminalreporter.write_line(f"left out: {count} tests that take longer: make test-long")
    for reason in sorted({report.longrepr[2] for report in skipped}):
        terminalreporter.write_line(f"left out: {reason.removeprefix('Skipped: ')}")
