# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""PID 1 of a node: private mounts, addresses, then every part once. Nothing restarts a part.

python -m hack.node.init LAYOUT     a Layout as JSON; only inside its namespaces
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from hack.node.layout import DNS, Layout, from_json
from hack.node.parts import CONTROL_PLANE, SYSCTLS, command

PATIENCE_S = 110.0
STAYS_S = 1.0
OK = 200
PARTS: dict[int, str] = {}
"""What PID 1 has started, by PID."""
ENDED: dict[int, int] = {}
"""Exit statuses of children, by PID."""


def main() -> int:
    """Runs until it is killed, and the kernel then ends everything that it has started."""
    said = json.loads(sys.argv[1])
    node, toleration_s = from_json(said["node"]), int(said["toleration_s"])
    _mount()
    _run("ip", "link", "set", "lo", "up")
    if node.control is None:
        _run("ip", "address", "add", f"{DNS}/32", "dev", "lo")  # no pod, and so no Service
    (node.run / "namespaces").touch()
    _until((node.run / "link").exists)
    _run("ip", "address", "add", f"{node.ip}/30", "dev", "eth0")
    _run("ip", "link", "set", "eth0", "up")
    _run("ip", "route", "add", "default", "via", node.gateway)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    signal.signal(signal.SIGCHLD, lambda *_: _reap(node))
    start(node, "containerd", toleration_s)
    if node.control is None:
        for part in CONTROL_PLANE:
            if part == "kcm":  # it, and those after it, end when the server is slow to serve
                _until(lambda: _serves(node))
            start(node, part, toleration_s)
    _until(node.containerd.exists)
    start(node, "proxy", toleration_s)
    _until(lambda: _stays(start(node, "kubelet", toleration_s, told=False)))
    while True:
        signal.pause()


def start(node: Layout, part: str, toleration_s: int, *, told: bool = True) -> int:
    """Start a part in the background, as this PID; its output goes to its log.

    told:  its end is told to those outside.
    """
    with node.log(part).open("ab") as log:
        started = subprocess.Popen(  # nobody waits for it but PID 1
            command(node, part, toleration_s=toleration_s),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    if told:
        PARTS[started.pid] = part
        _tell(node)
    return started.pid


def _stays(pid: int) -> bool:
    """Whether kubelet has not ended at once: containerd listens before it can be used."""
    until = time.monotonic() + STAYS_S
    while time.monotonic() < until:
        if pid in ENDED:
            return False
        time.sleep(0.05)
    PARTS[pid] = "kubelet"
    return True


def _mount() -> None:
    """Nothing of the node is to be seen outside, and kubelet changes nothing of the machine."""
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    Path("/run/lock").mkdir()
    for folder in ("/var/log/containers", "/var/lib/cni"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "tmpfs", folder)
    for name, value in SYSCTLS.items():
        shown = Path("/run") / f"sysctl.{name.replace('/', '.')}"
        shown.write_text(value + "\n")
        _run("mount", "--bind", str(shown), f"/proc/sys/{name}")


def _run(*arguments: str) -> None:
    subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL)


def _until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > until:
            sys.exit("gave up")
        time.sleep(0.05)


def _serves(node: Layout) -> bool:
    context = ssl.create_default_context(cafile=str(node.run / "pki" / "ca.crt"))
    direct = urllib.request.ProxyHandler({})
    opener = urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(f"{node.api}/readyz", timeout=5) as answer:
            return bool(answer.status == OK)
    except (OSError, urllib.error.URLError):
        return False


def _reap(node: Layout) -> None:
    """Orphans of the whole node end here."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            ENDED[ended[0]] = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        pass
    _tell(node)


def _tell(node: Layout) -> None:
    """Which parts have ended, for those outside."""
    for pid in PARTS.keys() & ENDED.keys():
        node.ended(PARTS[pid]).write_text(str(ENDED[pid]))


if __name__ == "__main__":
    sys.exit(main())
