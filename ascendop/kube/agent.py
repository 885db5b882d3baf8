# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How we introduce ourselves, so that an audit log tells which part of us did what."""

from __future__ import annotations

import platform
import sys

from ascendop import __version__


def user_agent(component: str = "ascendop", *, commit: str = "") -> str:
    """Shape: ascendop/<version> (<os>/<arch>) python/<version> <commit> <component>."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = [
        f"ascendop/{__version__}",
        f"({sys.platform}/{platform.machine()})",
        f"python/{python}",
        commit,
        component,
    ]
    return " ".join(part for part in parts if part)
