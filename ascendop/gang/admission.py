# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""May pods be created yet, and if not, why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ascendop.api.observed import GroupView, QueueView
from ascendop.kube.resource import POD_GROUPS

# Reasons and messages are the contract of ascend-operator; ascendjob.md 1.8.
NO_PHASE: Final = "PodGroupNotInitialized"
NO_PHASE_TEXT: Final = (
    "volcano-scheduler is maybe not running, execute command to check the status: "
    "kubectl get pod -n volcano-system -l app=volcano-scheduler"
)
PENDING: Final = "PodGroupPending"
PENDING_TEXT: Final = "the cluster resource is not enough"
NOT_SERVED: Final = "SyncPodGroupFailed"
NOT_SERVED_TEXT: Final = (
    f"the API server does not serve {POD_GROUPS.name}: install Volcano, or turn gang scheduling off"
)
UNHEEDED_S: Final = 30.0
"""Volcano sets the first phase within a cycle, a second, whoever is to place the pods."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """All missing pods may be created, at once."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """No pod may be created, for this reason."""

    reason: str
    message: str
    """The text of the contract, word for word."""
    detail: str = ""
    """What is known beside the contract; may be empty."""
    at_most_s: float | None = None
    """After so many seconds the answer is another, even if nothing happens."""


def admission(
    *,
    gang: bool,
    served: bool,
    group: GroupView | None,
    pods_alive: int,
    queue: QueueView | None = None,
    queues_known: bool = False,
    unheeded_s: float | None = None,
) -> Admitted | Waiting:
    """Whether the scheduler lets the gang in.

    gang:        whether this job starts as a gang at all.
    served:      whether the API server knows PodGroups.
    group:       the job's PodGroup; None when there is none, or none that our cache has seen.
    pods_alive:  pods of the job that are not being deleted. One is enough: what is missing is
                 then a replacement, and the scheduler needs it to get out of Pending or Unknown.
    queue:       the job's queue, where we may read it: a closed one is why nothing moves.
    queues_known: whether a queue that we do not see does not exist.
    unheeded_s:  how long the PodGroup has been there, if another scheduler than Volcano places all
                 pods: that one may not care for PodGroups, and nobody would ever set a phase.
    Not:         a wait for Running, which needs the pods.
    Source:      scheduling.md SCH-1 to SCH-4, SCH-12; field-reports.md FR-031.
    """
    if not gang or pods_alive > 0:
        return Admitted()
    if not served:
        return Waiting(NOT_SERVED, NOT_SERVED_TEXT)
    if group is None:
        return Waiting(NO_PHASE, NO_PHASE_TEXT, "there is no PodGroup yet")
    return _by_phase(group, _barred(group.queue, queue, known=queues_known), unheeded_s)


def _by_phase(group: GroupView, barred: str, unheeded_s: float | None) -> Admitted | Waiting:
    if group.deleting:
        gone = f"PodGroup {group.namespace}/{group.name} is being deleted"
        return Waiting(NO_PHASE, NO_PHASE_TEXT, gone)
    if group.phase == "Pending":
        return Waiting(PENDING, PENDING_TEXT, barred)
    if not group.phase:
        left_s = None if unheeded_s is None else UNHEEDED_S - unheeded_s
        if left_s is not None and left_s <= 0:
            return Admitted()
        return Waiting(NO_PHASE, NO_PHASE_TEXT, barred, left_s)
    return Admitted()


def _barred(name: str, queue: QueueView | None, *, known: bool) -> str:
    """Why the queue lets nobody in, however much room there is; empty when it does."""
    if queue is None:
        missing = f"there is no queue {name}; create it, or name another in schedulingPolicy.queue"
        return missing if known and name else ""
    if queue.state == "Open":
        return ""
    state = queue.state or "not open yet: is vc-controller-manager running?"
    return f"queue {queue.name} is {state}"
