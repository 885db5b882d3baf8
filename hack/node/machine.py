# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a node needs of its machine, and what it takes: programs, namespaces, cgroups."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "systemd")
NEEDED = (
    *("containerd", "runc", "ctr", "buildah", "debootstrap", "gcc"),
    *("iptables", "conntrack", "ip", "unshare", "nsenter"),
)
PACKAGES = (
    "containerd runc containernetworking-plugins buildah debootstrap iptables conntrack gcc "
    "libc6-dev iproute2 util-linux"
)
EMPTY_S = 2.5
POLL_S = 0.05


def why_not() -> str:
    """Why this machine cannot have a node; empty when it can."""
    if sys.platform != "linux":
        return "real nodes need Linux"
    if os.geteuid() != 0:
        return "real nodes need root"
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"real nodes need {', '.join(missing)}: apt-get install {PACKAGES}"
    if not (CGROUPS / "memory").is_dir():
        return "real nodes need cgroup v1, which this machine does not have"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else "this machine lets nobody make namespaces"


def make_cgroups(name: str) -> None:
    """A part of the machine's cgroups."""
    for controller in CONTROLLERS:
        above = CGROUPS / controller
        if above.is_dir():
            (above / name).mkdir(exist_ok=True)
    for file in ("cpuset.cpus", "cpuset.mems"):
        given = (CGROUPS / "cpuset" / file).read_text()
        (CGROUPS / "cpuset" / name / file).write_text(given)


def remove_cgroups(name: str) -> None:
    """All that is called so: kubelet makes itself at home under every controller."""
    for above in CGROUPS.iterdir():
        _remove(above / name)


def _remove(folder: Path) -> None:
    """From the leaves up; the kernel takes a moment to empty them."""
    until = time.monotonic() + EMPTY_S
    while folder.is_dir() and time.monotonic() < until:
        for path, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(path).rmdir()
        time.sleep(POLL_S)
