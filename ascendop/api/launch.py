# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a job is made of whose leader is a batch/v1 Job: objects that its pods share, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ascendop.api.model import Object

SSH_KEYS: Final = "ssh-keys"
"""Data that are made by whoever makes the object: a key pair, which no plan ever holds."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the pods have to know of the cluster that they run in."""

    domain: str = ""
    """Put behind host names; empty for names that the search list completes."""
    gang: str = ""
    """The scheduler that starts the pods as a gang; empty for pods that start one by one."""
    names_early: bool = False
    """Pods have their names from the start on, and not only when they are ready."""
    start_timeout_s: float = 0.0
    """A job that has not run for so long since its start has failed; 0 for no such limit."""
    deletes_expired: bool = False
    """The TTL of a job deletes the job itself, and not its launcher alone."""
    deletes_keys: bool = False
    """What the pods of a job trust each other by goes when the job has ended."""
    apart_on_host_network: bool = False
    """Pods that use the network of their node keep off the nodes of the job's others."""
    pokes_launcher: bool = False
    """The launcher's pod is annotated when its hosts change: kubelet then looks at once."""
    whole_requests: bool = False
    """A gang asks for all that its pods need, their start, side-cars and overhead included."""
    discovers_slots: bool = False
    """The script that finds running workers names them by their numbers, with their slots."""
    strict: bool = False
    """Only what the original makes, without what we add to it."""


NOWHERE: Final = Place()
"""Of an operator that runs no kind with a launcher."""


@dataclass(frozen=True, slots=True)
class Shared:
    """An object that all pods of a job share."""

    object: Object
    """As it should be."""
    filled: str = ""
    """Whose data it gets when it is made: SSH_KEYS; its own when empty."""
    keys: tuple[str, ...] = ()
    """Of the data that it is filled with: while it has just these, they are left alone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a launcher is told of the pods that serve it."""

    running: tuple[str, ...] = ()
    """Names of those that run and are not on their way out, in order of names."""
