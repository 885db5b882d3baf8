# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is odd about a gang, though nothing forbids it: for warnings, before people wonder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ascendop.builder.labels import NPU_PREFIX
from ascendop.builder.npus import containers, npu_requests
from ascendop.errors import Problem
from ascendop.gang.podgroup import GangSpec

ADMISSION = "GangNeverFits"
PRIORITY = "PriorityClassUnused"
UNKNOWN = "PriorityClassUnknown"
NPUS = "NpusNotCounted"


def gang_advice(gang: GangSpec, priorities: Mapping[str, int] | None) -> tuple[Problem, ...]:
    """Warnings about a gang that will be scheduled otherwise than its author may think.

    priorities:  value by name of PriorityClass, as for build_pod_group; None where they cannot be
                 read.
    Source:      scheduling.md SCH-10, SCH-26, SCH-65, SCH-67, SCH-74.
    """
    return (*_size(gang), *_classes(gang, priorities), *_counted(gang))


def mixed_npus(gang: GangSpec) -> Problem | None:
    """Two kinds of NPU in one gang, of which the scheduler would see whichever its map gives first.

    Not:     where the user has said what the gang asks for: that is taken as it is.
    Source:  scheduling.md SCH-26.
    """
    names = _npus(gang)
    if len(names) <= 1 or _by_hand(gang) is not None:
        return None
    path = f"spec.replicaSpecs.{gang.roles[-1].name}.template.spec.containers"
    what = f"the pods of one gang ask for {len(names)} kinds of NPU: {', '.join(names)}"
    fix = "ask for one kind in all roles, or write schedulingPolicy.minResources yourself"
    return Problem(path, what, fix)


def _counted(gang: GangSpec) -> Iterator[Problem]:
    """What the user wrote has to name the one kind of NPU that the pods ask for."""
    written = _by_hand(gang)
    if written is None or not (npus := _npus(gang)):
        return
    named = [name for name in written if NPU_PREFIX in name]
    if len(named) != 1:
        path = "schedulingPolicy.minResources"
        what = f"names {len(named)} kinds of NPU, and the pods ask for {', '.join(npus)}"
        fix = "name exactly one: the NPU scheduler plug-in takes the first that it finds for all"
        yield Problem(path, what, fix, NPUS)


def _by_hand(gang: GangSpec) -> Mapping[str, object] | None:
    return gang.policy.min_resources if gang.policy else None


def _npus(gang: GangSpec) -> list[str]:
    """Names of all NPU resources that pods of the gang ask for."""
    found = (
        request.name
        for role in gang.roles
        if role.replicas
        for container in containers(role.pod_spec)
        for request in npu_requests(container)
    )
    return sorted(set(found))


def _size(gang: GangSpec) -> Iterator[Problem]:
    path = "schedulingPolicy.minAvailable"
    asked = gang.policy.min_available if gang.policy else None
    pods = sum(role.replicas for role in gang.roles)
    at_first = sum(role.replicas for role in gang.roles if not role.delayed)
    if asked is None:
        return
    if asked > pods:
        what = f"is {asked}, but the job has {pods} pods: the gang never fits"
        yield Problem(path, what, f"write at most {pods}", ADMISSION)
    elif asked > at_first:
        what = f"is {asked}, but only {at_first} pods are made before the others are ready"
        yield Problem(path, what, f"write at most {at_first}, or leave it out", ADMISSION)


def _classes(gang: GangSpec, priorities: Mapping[str, int] | None) -> Iterator[Problem]:
    on_gang = gang.policy.priority_class if gang.policy else None
    for role in gang.roles:
        if not role.priority_class:
            continue
        path = f"{role.name}.template.spec.priorityClassName"
        if priorities is not None and role.priority_class not in priorities:
            what = f"no PriorityClass is called {role.priority_class!r}; it counts as 0"
            yield Problem(path, what, "create it, or name another", UNKNOWN)
        elif not on_gang:
            what = "a class on the pods orders roles inside the job, and does not order jobs"
            yield Problem(path, what, "set schedulingPolicy.priorityClass as well", PRIORITY)
