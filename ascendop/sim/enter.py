# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""First process of a container: makes its mounts, then becomes its init. Run as a script.

Started as PID 1 of new mount and PID namespaces, with one argument: a file with a JSON object
    binds             [[source, target, read_only], …]   in the order in which they are mounted
    argv, env, cwd    of the main process
    scratch           an empty folder of the container's own
It imports nothing of this package: it starts in a few milliseconds, and often.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
CANNOT_START = 128  # what Kubernetes shows when the runtime could not start the command
# PID 1 only waits: so the main process has the usual answers to signals, and whatever it leaves
# behind is killed by the kernel when PID 1 ends. The shell's own words go nowhere.
INIT = 'exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); exit $?'
ROOT = Path("/")

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Raises OSError."""
    done = _libc.mount(
        source.encode(), bytes(target), kind.encode() or None, flags, options.encode() or None
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}: mount on {target}")


class Mounts:
    """Binds files where the container wants them, also where this machine has no such path."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._layers = 0

    def bind_all(self, binds: list[tuple[str, str, bool]]) -> None:
        # Opened before anything moves: a source seen through an overlay would miss later changes.
        opened = [os.open(source, os.O_PATH) for source, _, _ in binds]
        tops = {Path(target).parts[1] for _, target, _ in binds}
        if any(not os.path.lexists(ROOT / top) for top in tops):
            self._new_root()
        for fd, (_, name, read_only) in zip(opened, binds, strict=True):
            source, target = Path(f"/proc/self/fd/{fd}"), Path(name)
            self._make_target(target, is_folder=source.is_dir())
            mount(str(source), target, flags=MS_BIND | MS_REC)
            if read_only:
                mount("", target, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)
            os.close(fd)

    def _tmpfs(self) -> Path:
        self._layers += 1
        folder = self._scratch / f"layer-{self._layers}"
        folder.mkdir(exist_ok=True)
        mount("tmpfs", folder, "tmpfs", options="mode=0755")
        return folder

    def _new_root(self) -> None:
        """A root of our own with all that is in the old one, so that folders can be added."""
        os.chroot(self._filled(ROOT))
        os.chdir(ROOT)

    def _filled(self, folder: Path) -> Path:
        """A folder of our own with all that is in another one, as far as we may see it."""
        mine = self._tmpfs()
        seen = list(folder.iterdir()) if os.access(folder, os.R_OK | os.X_OK) else []
        for old in seen:
            new = mine / old.name
            if old.is_symlink():
                new.symlink_to(old.readlink())
                continue
            if old.is_dir():
                new.mkdir()
            else:
                new.touch()
            mount(str(old), new, flags=MS_BIND | MS_REC)
        return mine

    def _make_target(self, target: Path, *, is_folder: bool) -> None:
        if os.path.exists(target):  # noqa: PTH110  Path.exists raises below a closed folder
            return
        there = next(parent for parent in target.parents if os.path.exists(parent))  # noqa: PTH110
        if there != ROOT:  # the root is ours by now
            self._overlay(there)
        (target if is_folder else target.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            target.touch()

    def _overlay(self, folder: Path) -> None:
        """What is in the folder stays visible; what is made in it is the container's alone."""
        if not os.access(folder, os.R_OK | os.X_OK) or _has_mounts(folder):
            # Who is not root may not lay anything over these.
            mount(str(self._filled(folder)), folder, flags=MS_BIND | MS_REC)
            return
        layer = self._tmpfs()
        upper, work = layer / "upper", layer / "work"
        upper.mkdir(folder.stat().st_mode & 0o7777)
        work.mkdir()
        options = f"lowerdir={folder},upperdir={upper},workdir={work}"
        mount("overlay", folder, "overlay", options=options)


def _has_mounts(folder: Path) -> bool:
    """Whether something is mounted below it."""
    below = f"{folder}/"
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split(" ")[1].startswith(below) for line in lines)


def fail(message: str) -> NoReturn:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
    os._exit(CANNOT_START)


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_bytes())
    try:
        Mounts(Path(spec["scratch"])).bind_all(spec["binds"])
        Path(spec["cwd"]).mkdir(parents=True, exist_ok=True)
        os.chdir(spec["cwd"])
    except OSError as error:
        denied = error.errno in {errno.EPERM, errno.EACCES, errno.EROFS}
        hint = "; make the folder beforehand, or mount somewhere else" if denied else ""
        fail(f"cannot set up the container: {error}{hint}")
    command = spec["argv"][0]
    if shutil.which(command, path=spec["env"].get("PATH")) is None:
        fail(f'exec: "{command}": executable file not found on this machine')
    os.execve("/bin/sh", ["sh", "-c", INIT, "init", *spec["argv"]], spec["env"])  # noqa: S606


if __name__ == "__main__":
    main()
