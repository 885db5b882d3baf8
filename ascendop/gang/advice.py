# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is odd about a gang, though nothing forbids it: for warnings, before people wonder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ascendop.errors import Problem
from ascendop.gang.podgroup import GangSpec

ADMISSION = "GangNeverFits"
PRIORITY = "PriorityClassUnused"
UNKNOWN = "PriorityClassUnknown"


def gang_advice(gang: GangSpec, priorities: Mapping[str, int] | None) -> tuple[Problem, ...]:
    """Warnings about a gang that will be scheduled otherwise than its author may think.

    priorities:  value by name of PriorityClass, as for build_pod_group; None where they cannot be
                 read.
    Source:      scheduling.md SCH-10, SCH-65, SCH-67, SCH-74.
    """
    return (*_size(gang), *_classes(gang, priorities))


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
