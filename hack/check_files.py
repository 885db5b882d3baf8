# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Nothing committed knows one machine: no path of it, no address of a package registry."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from hack.check_docs import ROOT, tracked

REGISTRIES = ("pypi", "pythonhosted", "npmjs", "golang", "debian", "maven", "crates")
HOST = re.compile(rf"\b[a-z][\w-]*(?:\.[\w-]+)*\.?(?:{'|'.join(REGISTRIES)})\.(?:org|io)\b")
ALLOWED = ("google.golang.org",)  # begins the names of Go modules
PATHS = re.compile(
    r"(?<![\w.$})-])/(?:work/|root/(?!\.ssh)|home/(?!mpiuser|runner|me\b)\w+/|tmp/[a-z]+/)"
)
"""What follows an address, a variable or a dot is a path in something else; .ssh, in an image."""
INDEX = re.compile(r"--(?:extra-)?index-url|--find-links|GOPROXY=\S")
LARGEST_BYTES = 1_000_000


def problems(file: Path, root: Path = ROOT) -> Iterator[str]:
    """Every line of one text file that knows this machine."""
    where = file.relative_to(root)
    if file.stat().st_size > LARGEST_BYTES:
        yield f"{where}: larger than {LARGEST_BYTES} bytes"
        return
    if file.name == "go.sum" or file == Path(__file__):
        return
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), start=1):
        for pattern in (HOST, PATHS, INDEX):
            found = pattern.search(line)
            if found and not any(allowed in line for allowed in ALLOWED):
                yield f"{where}:{number}: {found[0]}"


def main() -> int:
    """Print one line for each problem; 1 when there is one."""
    found = [line for file in tracked() for line in problems(file)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
