# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods that do not start, are lost with their node, or failed: named, so that nobody searches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ascendop.api.kind import S
from ascendop.api.observed import ContainerView, PodView
from ascendop.apply.plan import EventNote
from ascendop.reconciler.lives import NOT_STARTED, created_anew
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import Conditions, put_condition, with_message, with_state_last
from ascendop.times import parse_time

PATIENCE_S: Final = 30.0
"""An image is pulled again, a volume comes late: what goes by itself is not told."""
NAMED: Final = 3
"""Pods; what many have in common, a few show."""
MOST: Final = 1024
"""Characters of an Event's text."""
LOST: Final = "NodeLost"
TAINTED: Final = "DeletionByTaintManager"
"""Why a pod leaves a node that does not answer; there nobody says when it is gone."""
SILENT: Final = frozenset({"", "Error", "Completed"})
"""Reasons that add nothing to an exit code, of which another Event tells."""


def say_stalled(
    before: Conditions, s: Snapshot[S], pods: Sequence[PodView]
) -> tuple[Conditions, tuple[EventNote, ...]]:
    """Conditions that name the pods that do not start, or no longer do; and the same as an Event.

    Source:  field-reports.md FR-012, FR-015.
    """
    text = stalled_words(s, pods)
    if not text:
        said = any(c.type == "Created" and c.reason == NOT_STARTED for c in before)
        return (created_anew(s, before) if said else before), ()
    after = put_condition(before, "Created", NOT_STARTED, text, s.now)
    after = with_message(after, "Created", text, s.now)
    for state in ("Running", "Restarting"):
        after = with_state_last(after, state)
    note = EventNote("Warning", NOT_STARTED, text, "Observe")
    return after, (note,) if after != before else ()


def stalled_words(s: Snapshot[S], pods: Sequence[PodView]) -> str:
    """Which pods do not start, or no longer do, and why; empty for none."""
    return _named([f"{pod.name} ({why})" for pod in pods if (why := _why(s, pod))])


def stalled_in_s(s: Snapshot[S], pods: Sequence[PodView]) -> float | None:
    """Seconds until a pod that does not start is worth a word; None when nothing is to come."""
    left = (PATIENCE_S - _age_s(s, pod) for pod in pods if pod.stuck)
    return min((seconds for seconds in left if seconds > 0), default=None)


def failure_notes(pods: Sequence[PodView]) -> Iterator[EventNote]:
    """Which pods failed a job, the first one first, where more than an exit code is known.

    Source:  field-reports.md FR-006.
    """
    failed = sorted((pod for pod in pods if pod.phase == "Failed"), key=_ended_at)
    if any(pod.reason or any(_says_more(c) for c in pod.containers) for pod in failed):
        yield EventNote("Warning", "PodsFailed", _named(list(map(_failure, failed))), outcome=True)


def _why(s: Snapshot[S], pod: PodView) -> str:
    if pod.deleting:
        lost = pod.reason == LOST or (pod.disrupted == TAINTED and not pod.ready)
        return f"lost with node {pod.node}" if lost else ""
    return pod.stuck if pod.stuck and _age_s(s, pod) >= PATIENCE_S else ""


def _age_s(s: Snapshot[S], pod: PodView) -> float:
    return (s.now - parse_time(pod.created)).total_seconds() if pod.created else 0.0


def _named(found: Sequence[str]) -> str:
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(found[:NAMED])[: MOST - len(more)] + more


def _failure(pod: PodView) -> str:
    where = f" on {pod.node}" if pod.node else ""
    what = [
        f"container {c.name} exited with code {c.exit_code} ({c.reason or 'no reason given'})"
        for c in pod.containers
        if c.state == "terminated" and c.exit_code != 0
    ]
    if pod.reason:
        what.append(f"{pod.reason}: {pod.message}" if pod.message else pod.reason)
    return f"{pod.name}{where}: {', '.join(what) or 'nobody said why'}"


def _says_more(container: ContainerView) -> bool:
    ended = container.state == "terminated" and container.exit_code != 0
    return ended and container.reason not in SILENT


def _ended_at(pod: PodView) -> tuple[bool, str]:
    """Pods whose end has no time come last."""
    first = min((c.finished for c in pod.containers if c.finished and c.exit_code), default="")
    return not first, first
