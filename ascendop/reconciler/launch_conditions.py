# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The conditions of a job with a launcher, as their list changes; and what its pods say of it.

Source: mpi-operator 0.8.2; mpijob.md section 5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ascendop.api.job import Condition
from ascendop.api.kind import PodSlot
from ascendop.api.observed import ContainerView, Failed, PodView
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.status import Conditions

LONGEST: Final = 1024
"""Bytes of a message that the original cuts."""
_ENDS: Final = ("Succeeded", "Failed")
_EVICTED: Final = "Evicted"


def put(before: Conditions, new: Condition, *, moment: str, began: str | None = None) -> Conditions:
    """The list after a condition was set; the list itself when it says that already.

    began:  when it became so, where that is not now.
    Source: mpijob.md 5.2.
    """
    old = next((c for c in before if c.type == new.type), None)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return before
    same = old is not None and old.status == new.status
    since = old.last_transition_time if old is not None and same else began or moment
    last = replace(new, last_update_time=began or moment, last_transition_time=since)
    opposite = {"Restarting": "Running", "Running": "Restarting"}.get(new.type)
    kept = [c for c in before if c.type not in {new.type, opposite}]
    if new.type in _ENDS:
        over = ("Running", "Failed")
        kept = [replace(c, status="False") if c.type in over else c for c in kept]
    return (*kept, last)


def is_final(conditions: Conditions, *types: str) -> bool:
    return any(c.type in (types or _ENDS) and c.status == "True" for c in conditions)


def ended_for_good(s: AnySnapshot) -> bool:
    """The end is written down with its time; the original leaves the latter out at an eviction."""
    return is_final(s.conditions) and bool(s.status.get("completionTime"))


def ready(wanted: Sequence[PodSlot], pods: Iterable[PodView]) -> bool:
    """Whether every slot has a pod that is ready and not on its way out."""
    there = {pod.name for pod in pods if pod.ready and not pod.deleting}
    return all(slot.name in there for slot in wanted)


def addressed(wanted: Sequence[PodSlot], pods: Iterable[PodView]) -> bool:
    """Whether every slot has a pod with an address."""
    there = {pod.name for pod in pods if pod.ip and not pod.deleting}
    return all(slot.name in there for slot in wanted)


def evicted(pods: Iterable[PodView], spared: Collection[str] = ()) -> int:
    """Pods that were, but for those on their way out and those that get a successor."""
    gone = (pod for pod in pods if pod.phase == "Failed" and pod.reason == _EVICTED)
    return sum(not pod.deleting and pod.uid not in spared for pod in gone)


def cut(text: str) -> str:
    """No more than the original's length in bytes, with dots at its end; never half a letter."""
    data = text.encode()
    if len(data) <= LONGEST:
        return text
    return data[: LONGEST - 3].decode(errors="ignore") + "..."


def last_words(pod: PodView, *, room: int, killed: bool = False) -> str:
    """How a container of a failed pod ended, and the end of what it had said, in so many bytes.

    What went wrong comes last, in logs and in what mpirun makes of them.

    killed:  its containers were started once more in vain: what counts is how they failed before.
    """
    ended = [
        (not last.said, container.finished, container.name, last)
        for container in pod.containers
        if (last := _failure_of(container, killed=killed)) is not None
    ]
    if not ended:
        return ""
    _, _, name, first = min(ended, key=lambda found: found[:2])
    why = f" ({first.reason})" if first.reason else ""
    how = f"container {name} exited with code {first.exit_code}{why}"
    said = first.said.strip().encode()
    left = room - len(f"{how}: ".encode())
    if len(said) > left:
        said = b"..." + said[-max(left - 3, 1) :]
    return f"{how}: {said.decode(errors='ignore')}" if said else how


def _failure_of(container: ContainerView, *, killed: bool) -> Failed | None:
    if killed and container.before is not None:
        return container.before
    if container.state == "terminated" and container.exit_code != 0:
        return Failed(container.exit_code, container.reason, container.said)
    return None
