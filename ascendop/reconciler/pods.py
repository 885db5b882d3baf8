# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which pods are to be made and which to go: slots against pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ascendop.api.kind import JobKind, JobView, PodSlot, S
from ascendop.api.observed import PodView
from ascendop.builder import labels as keys
from ascendop.builder.names import pod_name

RETRYABLE_FROM: Final = 128  # a signal's doing; smaller codes are the program's own word
NO_CODE: Final = 48879  # evicted or lost with its node: nobody said why, so it may be tried again


@dataclass(frozen=True, slots=True)
class PodDiff:
    """What stands between the pods there are and the pods there should be."""

    missing: tuple[PodSlot, ...]
    surplus: tuple[PodView, ...]
    """Beyond the replicas of their role, or in another one's slot."""
    replaced: tuple[PodView, ...]
    """Failed in a way that another try may mend."""

    def without(self, doubles: Sequence[PodView]) -> PodDiff:
        """The same, with pods that stand in another one's slot.

        One whose own slot is empty is not too many: its labels lie, and making it sets them right.
        """
        if not doubles:
            return self
        empty = {slot.name for slot in self.missing}
        going = (pod for pod in doubles if not pod.deleting and pod.name not in empty)
        return replace(self, surplus=(*self.surplus, *going))

    def roles_replaced(self, roles: Mapping[str, object]) -> tuple[str, ...]:
        """Canonical names of the roles of which pods are replaced, in rank order."""
        found = {pod.role for pod in self.replaced}
        return tuple(role for role in roles if role.lower() in found)


def slots(kind: JobKind[S], job: JobView[S]) -> tuple[PodSlot, ...]:
    """Every pod that the job should have, in rank order."""
    return job.once("slots", lambda: tuple(_slots(kind, job)))


def _slots(kind: JobKind[S], job: JobView[S]) -> Iterator[PodSlot]:
    leaders = {role.name for role in kind.roles(job.labels) if role.leader}
    for role, replica in job.replicas.items():
        for index in range(replica.count):
            yield PodSlot(
                role=role,
                index=index,
                rank=kind.rank(job, role, index),
                name=pod_name(job.name, role, index),
                replica=replica,
                leader=role in leaders,
            )


def slot_name(pod: PodView) -> str:
    """What the pod of this slot is called when it is made; one that took it over is not."""
    return pod_name(pod.job, pod.role, pod.index)


def one_per_slot(
    pods: Sequence[PodView],
) -> tuple[tuple[PodView, ...], tuple[PodView, ...]]:
    """Pods that count, and those that stand in another one's slot.

    The newest by attempt counts; of two of one attempt the one that the operator has named.
    Source:  fault-tolerance.md D-18. Backups of a hot switch are not among `pods`.
    """
    found: dict[tuple[str, int], list[PodView]] = {}
    for pod in pods:
        found.setdefault((pod.role, pod.index), []).append(pod)
    if len(found) == len(pods):
        return tuple(pods), ()
    best = {max(rivals, key=_newest).uid for rivals in found.values()}
    kept = tuple(pod for pod in pods if pod.uid in best)
    return kept, tuple(pod for pod in pods if pod.uid not in best)


def _newest(pod: PodView) -> tuple[int, bool, str]:
    return pod.attempt, pod.name == slot_name(pod), pod.name


def is_backup(pod: PodView) -> bool:
    """A hot-switch backup takes no slot and no part in counters."""
    return pod.annotation(keys.POD_TYPE) == keys.BACKUP


def diff_pods(kind: JobKind[S], job: JobView[S], pods: Sequence[PodView]) -> PodDiff:
    """Slots without a pod, pods without a slot, and failed pods that get another try."""
    by_lower = {role.lower(): replica for role, replica in job.replicas.items()}
    taken = {(pod.role, pod.index) for pod in pods}
    names = job.once("names", lambda: frozenset(slot.name for slot in slots(kind, job)))
    surplus, replaced = [], []
    for pod in pods:
        replica = by_lower.get(pod.role)
        if pod.deleting:
            continue
        if replica is None or not 0 <= pod.index < replica.count:
            if pod.name not in names:  # else its labels lie, and making it sets them right
                surplus.append(pod)
        elif pod.phase == "Failed" and _tried_again(kind, replica.restart_policy or "", pod):
            replaced.append(pod)
    missing = (s for s in slots(kind, job) if (s.role.lower(), s.index) not in taken)
    return PodDiff(tuple(missing), tuple(surplus), tuple(replaced))


def _tried_again(kind: JobKind[S], policy: str, pod: PodView) -> bool:
    if policy == "ExitCode":
        return exit_code(kind, pod) >= RETRYABLE_FROM
    return kind.replaces_failed and policy in {"Always", "OnFailure"}


def roles_beyond_repair(
    kind: JobKind[S], job: JobView[S], pods: Sequence[PodView]
) -> tuple[str, ...]:
    """Roles under ExitCode of which a pod has failed by the program's own word, in rank order.

    Not of one that is on its way out: whoever deletes a pod gives it its exit code.
    """
    found = {
        pod.role
        for pod in pods
        if pod.phase == "Failed" and not pod.deleting and exit_code(kind, pod) < RETRYABLE_FROM
    }
    return tuple(
        role
        for role, replica in job.replicas.items()
        if replica.restart_policy == "ExitCode" and role.lower() in found
    )


def exit_code(kind: JobKind[S], pod: PodView) -> int:
    """Exit code of the main container, or NO_CODE when it has none to show."""
    main = pod.container(kind.container)
    return main.exit_code if main is not None and main.state == "terminated" else NO_CODE
