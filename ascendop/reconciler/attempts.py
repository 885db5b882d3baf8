# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which generation a job's pods belong to, so that no restart of ours forgets or doubles one.

A pod that is lost comes back with a higher `version` label, and the reschedule budget counts how
far that label got. The original counts in memory, from deletion events: an operator restart sets
it to zero (W-7). Here the count stands in an annotation of the job, written *before* the pods are
replaced, together with the slots that the newest generation consists of and which of them have
yet to be made: a crash at any moment neither loses a loss nor counts it twice. A pod that the job
has never had, because it is new in a scale-up or was taken away by a suspension, is not lost
either: that, too, stands there before the pods change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ascendop.api.observed import PodView
from ascendop.reconciler.pods import slot_name


class _Stored(msgspec.Struct, omit_defaults=True):
    attempt: int
    slots: list[str] | None = None
    made: bool = True
    pending: list[str] | None = None
    known: dict[str, int] | None = None
    unanswered_since: str = ""


NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Attempts:
    """The newest generation of a job's pods."""

    current: int = 0
    slots: frozenset[str] | None = None
    """Pods that were made for it; None for all."""
    pending: frozenset[str] | None = NONE
    """Those of them that have not been seen to exist; None for all of `slots`."""
    known: Mapping[str, int] | None = None
    """Pods of each role (in lower case) that the job has had, where no PodGroup says it."""
    unanswered_since: str = ""
    """When a failure began to wait for the scheduler plug-in's word; empty while none does."""

    @property
    def made(self) -> bool:
        """Every pod of it has been seen to exist."""
        return self.pending == NONE

    def text(self) -> str:
        """As the annotation has it."""
        slots = None if self.slots is None else sorted(self.slots)
        pending = sorted(self.pending) if self.pending else None
        known = None if self.known is None else dict(self.known)
        stored = _Stored(self.current, slots, self.made, pending, known, self.unanswered_since)
        return msgspec.json.encode(stored).decode()

    def unmade(self) -> Attempts:
        """The same, when all pods are about to go by our own doing: none of them will be lost."""
        return replace(self, slots=None, pending=None)


def read_attempts(annotation: str, pods: Iterable[PodView]) -> Attempts:
    """What is stored; without it, what the labels of the pods say, as they do after a take-over."""
    try:
        stored = msgspec.json.decode(annotation, type=_Stored) if annotation else None
    except (msgspec.DecodeError, msgspec.ValidationError):
        stored = None  # edited by hand: the pods know enough to go on
    if stored is not None:
        slots = None if stored.slots is None else frozenset(stored.slots)
        pending = None if stored.pending is None else frozenset(stored.pending)
        return Attempts(
            stored.attempt,
            slots,
            NONE if stored.made else pending,
            stored.known,
            stored.unanswered_since,
        )
    found = tuple(pods)
    newest = max((pod.attempt for pod in found), default=0)
    if newest <= 0:
        return Attempts()
    return Attempts(newest, frozenset(slot_name(pod) for pod in found if pod.attempt == newest))


def after_switches(
    before: Attempts,
    *,
    gone: Collection[str],
    made: Collection[str],
    renamed: Mapping[str, str],
) -> Attempts:
    """The generation after hot switches: whichever of the two pods goes, it counts as a loss.

    But no pod is made for it, so the new generation is empty at first, and that makes it safe to
    be asked again about the same switch. Source: ascendjob.md 7.6, 4.1.2.

    gone:     slots that a backup has just taken over, and backups that failed.
    made:     backups that are about to be made: as long as they are backups, they are members
              under their own names.
    renamed:  pods that are backups no more, but have a slot under a name of their own, and the
              slot's name.
    """
    members = frozenset(gone) if before.slots is None else before.slots.intersection(gone)
    if before.pending is not None and members - before.pending:
        return replace(before, current=before.current + 1, slots=frozenset(made), pending=NONE)
    if before.slots is None:
        return before
    named = (renamed.get(name, name) for name in before.slots)
    return replace(before, slots=frozenset((*named, *made)))


def next_attempts(
    before: Attempts,
    wanted: Iterable[str],
    existing: Iterable[str],
    *,
    started: bool,
    fresh: Iterable[str] = (),
    ending: Iterable[str] = (),
) -> Attempts:
    """The generation after these pods were found.

    wanted:    names of all pods that the job should have and has had before.
    existing:  names of those that exist.
    started:   all pods of the job have been made once; before that nothing can be lost.
    fresh:     names of pods that it should have now and has not had before.
    ending:    those of the existing that are being deleted: a generation that is yet to be made
               is not made of them, as after a suspension that was short.
    """
    if not started:
        return before
    everything, there = frozenset(wanted), frozenset(existing)
    newest = everything if before.slots is None else before.slots & everything
    pending = newest if before.pending is None else before.pending
    if added := frozenset(fresh) - there:
        slots = None if before.slots is None else before.slots | added
        return replace(before, slots=slots, pending=pending | added)
    lost = everything - there
    if lost & (newest - pending):
        slots = _named(lost, everything)
        return replace(before, current=before.current + 1, slots=slots, pending=None)
    if pending & everything <= there - frozenset(ending):
        before, pending = replace(before, pending=NONE), NONE
    joined = lost - newest
    if not joined or before.slots is None:
        return before
    # Survivors of older generations that are lost now come back as members of the newest.
    slots = _named(before.slots | joined, everything)
    return replace(before, slots=slots, pending=pending | joined)


def _named(slots: frozenset[str], everything: frozenset[str]) -> frozenset[str] | None:
    return None if slots >= everything else slots
