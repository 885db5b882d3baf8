# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The image of the project itself, by its own Dockerfile, without an image registry.

What the Dockerfile installs comes as wheels, downloaded here by this environment's pip, which
knows from where; inside the build pip asks nobody else.
"""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path

from ascendop import __version__
from hack.node import images
from hack.node.layout import images as cached

ROOT = Path(__file__).resolve().parents[2]
IMAGE = f"docker.io/library/ascendop:{__version__}"
"""As the Deployment names it."""
PIP_CONF = """[global]
no-index = true
find-links = /wheels
"""


def build(archive: Path) -> None:
    """Build it and write it to a file. Raises subprocess.CalledProcessError."""
    images.make("venv")
    with tempfile.TemporaryDirectory(dir=cached(), prefix=".making-") as scratch:
        folder = Path(scratch)
        images.download(folder / "wheels", *_wanted(), constraints=ROOT / "constraints.txt")
        (folder / "pip.conf").write_text(PIP_CONF)
        mounts = (
            "-v",
            f"{folder / 'wheels'}:/wheels:ro",
            "-v",
            f"{folder / 'pip.conf'}:/etc/pip.conf:ro",
        )
        base = ("--build-arg", f"BASE={images.IMAGES['venv'].tag}")
        images.buildah("bud", "-q", "--isolation", "chroot", *base, *mounts, "-t", IMAGE, str(ROOT))
    archive.unlink(missing_ok=True)
    images.buildah("push", "-q", IMAGE, f"docker-archive:{archive}:{IMAGE}")
    images.buildah("rmi", "--prune", "--force")  # the one before, which has lost its name


def _wanted() -> list[str]:
    """What pip will ask for, but for what that asks for itself."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = found["project"]
    fast = project["optional-dependencies"]["fast"]
    return [*project["dependencies"], *fast, *found["build-system"]["requires"], "pip"]
