# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where a node keeps what, and which addresses it has."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack import tools

API = "10.96.0.1"
DNS = "10.96.0.10"
SERVICES = "10.96.0.0/24"
VARIABLE = "ASCENDOP_NODE"
NAMED = re.compile(r"(?P<name>[a-z][a-z0-9]{0,13}):(?P<number>[0-9]{1,3})")
"""A link of this name is in the machine's network, and the second node's has one letter more."""
LARGEST = 254


def images() -> Path:
    """The folder of image archives, beside the tools and outside every work tree."""
    return tools.cache().parent / "images"


@dataclass(frozen=True, slots=True)
class Layout:
    """One node.

    name:     of the Node object, of the link into its network, and of its cgroup: one a machine.
    run:      everything that it writes; goes with it.
    store:    containerd's root; stays, so that an image is unpacked once. Not for two at a time.
    number:   its addresses follow from it.
    control:  the node that has the control plane; None when this is the one.
    """

    name: str
    run: Path
    store: Path
    number: int = 0
    control: Layout | None = None

    @property
    def ip(self) -> str:
        """Of the node."""
        return f"10.253.{self.number}.2"

    @property
    def gateway(self) -> str:
        """Of the other end of its link."""
        return f"10.253.{self.number}.1"

    @property
    def pods(self) -> str:
        """Network of its pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def api(self) -> str:
        """Of the control plane, as everybody outside of pods reaches it."""
        return f"https://{(self.control or self).ip}:443"

    @property
    def containerd(self) -> Path:
        """Its socket. Short: a socket's path has 107 characters."""
        return self.run / "containerd.sock"

    def kubeconfig(self, user: str = "admin") -> Path:
        return (self.control or self).run / f"{user}.kubeconfig"

    def log(self, part: str) -> Path:
        return self.run / "logs" / f"{part}.log"

    def ended(self, part: str) -> Path:
        """Its exit status, once it has ended by itself or was killed."""
        return self.run / "ended" / part

    def joined(self) -> Layout:
        """A second node of the same cluster."""
        return Layout(
            f"{self.name}b",
            self.run.with_name(f"{self.run.name}-b"),
            self.store.with_name(f"{self.store.name}-b"),
            self.number + 1,
            self,
        )


def as_json(node: Layout) -> dict[str, Any]:
    """For another process."""
    return {
        "name": node.name,
        "run": str(node.run),
        "store": str(node.store),
        "number": node.number,
        "control": None if node.control is None else as_json(node.control),
    }


def from_json(said: Mapping[str, Any]) -> Layout:
    """What `as_json` made of it."""
    control = said["control"] and from_json(said["control"])
    return Layout(said["name"], Path(said["run"]), Path(said["store"]), said["number"], control)


def default_layout() -> Layout:
    """The node of this user; beside it another one may run, as ASCENDOP_NODE says.

    Raises ValueError when nobody can have what it says.
    """
    home = tools.cache().parent / "node"
    said = os.environ.get(VARIABLE, "")
    if not said:
        return Layout("ascendop0", home / "run", home / "store")
    found = NAMED.fullmatch(said)
    if not found or int(found["number"]) > LARGEST:
        raise ValueError(
            f"{VARIABLE} is {said!r}: NAME:NUMBER is wanted, with a name of up to 14 small letters "
            f"and digits, and a number of up to {LARGEST}; a second node has the number after it"
        )
    name = found["name"]
    return Layout(name, home / f"run-{name}", home / f"store-{name}", int(found["number"]))
