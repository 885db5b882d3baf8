# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A command leaves no trace: it configures logging for the whole process, and takes ports."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _log():
    root, ours = logging.getLogger(), logging.getLogger("ascendop")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    root.handlers = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture(autouse=True)
def _ports(monkeypatch):
    """Somebody else may have them; nobody asks these operators for anything."""
    for name in ("METRICS", "HEALTH"):
        monkeypatch.setenv(f"ASCENDOP_{name}_LISTEN", "")
