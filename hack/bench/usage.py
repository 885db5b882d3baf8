# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a process has used, as the kernel counts it; and the machine it ran on."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_UTIME: Final = 11  # fields of /proc/PID/stat behind the name, which may hold spaces
_STIME: Final = 12


@dataclass(frozen=True, slots=True)
class Usage:
    """One moment of a process."""

    cpu_s: float
    """User and system time of all its threads."""
    resident_mb: float
    peak_mb: float


def usage_of(pid: int) -> Usage:
    """Of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    status = Path(f"/proc/{pid}/status").read_text()
    return Usage(
        (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S,
        _kb(status, "VmRSS") / 1000,
        _kb(status, "VmHWM") / 1000,
    )


def _kb(status: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) * 1024 // 1000 if found else 0


def machine() -> str:
    """In one line, for whoever compares figures."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    parts = (
        f"{os.cpu_count()} cores ({model[1] if model else platform.machine()})",
        f"{memory_gb:.0f} GB",
        f"{platform.system()} {platform.release().split('-')[0]}",
        f"Python {platform.python_version()}",
    )
    return ", ".join(parts)
