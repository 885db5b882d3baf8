# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""May another job of an inference service start: elastic scaling by a rule of the user's.

Several jobs form one service: so many for one part of the work, so many for another. A rule names
the sizes that make sense, the full one first. Where resources are short, the service grows from
the smallest size to the next, and never in a way that belongs to no size.

Source: ascendjob.md 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ascendop.api.observed import Pairs
from ascendop.builder import labels as keys
from ascendop.builder.integers import integer
from ascendop.errors import AscendopError

RULE_KEY: Final = "elastic_scaling.json"
"""Key of the ConfigMap that holds the rule."""

Service = tuple[str, str, str]
"""What the jobs of a service have in common: namespace, name of the rule, jobID."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another job of the same service, as its PodGroup and its pods show it."""

    pod_group: str
    group: str
    """Value of mind-cluster/group-name; empty when it has no such label."""
    runs: bool
    """The phase of its PodGroup is Running."""
    has_started: bool
    """It has pods, so it will run, or has a place that nobody else should take."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Sizes of a service, the full one first: how many jobs of each group run in it."""

    sizes: tuple[Mapping[str, int], ...]


class RuleError(AscendopError):
    """A rule that cannot be followed: where in it, what is wrong, what to write."""


class _Group(msgspec.Struct):
    group_name: str
    group_num: str | int
    server_num_per_group: str | int


class _Size(msgspec.Struct):
    group_list: list[_Group]


class _Stored(msgspec.Struct):
    elastic_scaling_list: list[_Size]


def service_of(namespace: str, labels: Pairs) -> Service | None:
    """The service that a job or PodGroup with these labels belongs to, if it has a rule."""
    found = dict(labels) if any(key == keys.SCALING_RULE for key, _ in labels) else {}
    if not found:
        return None
    return namespace, found[keys.SCALING_RULE], found.get(keys.INFERENCE_JOB, "")


def read_rule(text: str) -> Rule:
    """The rule that stands in a ConfigMap. Raises RuleError; `version` is not looked at."""
    try:
        stored = msgspec.json.decode(text, type=_Stored)
    except msgspec.DecodeError as error:
        raise RuleError(
            f"{RULE_KEY} is no rule: {error}; see elastic scaling in the docs"
        ) from None
    sizes = stored.elastic_scaling_list
    numbers = [dict(_numbers(size, at)) for at, size in enumerate(sizes)]
    for at in range(1, len(numbers)):
        _must_not_grow(numbers[at - 1], numbers[at], at)
    return Rule(tuple({name: jobs for name, (jobs, _) in size.items()} for size in numbers))


_Numbers = tuple[int, int]
"""Jobs of a group, and servers of each."""


def _numbers(size: _Size, at: int) -> Iterator[tuple[str, _Numbers]]:
    for n, group in enumerate(size.group_list):
        where = f"elastic_scaling_list[{at}].group_list[{n}]"
        yield (
            group.group_name,
            (
                _number(f"{where}.group_num", group.group_num),
                _number(f"{where}.server_num_per_group", group.server_num_per_group),
            ),
        )


def _number(where: str, given: str | int) -> int:
    found = given if isinstance(given, int) else integer(given)
    if found is None:
        raise RuleError(f'{RULE_KEY}: {where} is {given!r}, no whole number; write it like "2"')
    return found


def _must_not_grow(larger: Mapping[str, _Numbers], size: Mapping[str, _Numbers], at: int) -> None:
    for name, numbers in size.items():
        where = f"{RULE_KEY}: elastic_scaling_list[{at}]"
        if name not in larger:
            raise RuleError(
                f"{where} has group {name}, and the size before it has not; add it there"
            )
        for field, before, now in zip(
            ("group_num", "server_num_per_group"), larger[name], numbers, strict=True
        ):
            if now > before:
                raise RuleError(
                    f"{where} has {field} {now} for group {name}, the one before it {before}; "
                    "write the sizes from the full one to the smallest"
                )


def why_not(rule: Rule, group: str, peers: Iterable[Peer]) -> str:
    """Why a job of this group may not start now; empty when it may.

    The smallest size that does not run yet is what the service grows to. A job may start as long
    as fewer of its group have a place than that size has. Who has pods has a place, although it
    does not run yet: so two jobs that ask at once cannot both take the last one.
    """
    known = tuple(peers)
    nameless = [peer.pod_group for peer in known if not peer.group]
    if nameless:
        return f"PodGroup {nameless[0]} is of this service and has no label {keys.SCALING_GROUP}"
    running = Counter(peer.group for peer in known if peer.runs)
    size = _next_of(rule.sizes, running)
    if size is None:
        return "all jobs that the rule has in its full size run already"
    if group not in size:
        named = ", ".join(sorted(size)) or "none"
        return f"the next size of the rule has no group {group}, only {named}"
    placed = sum(peer.group == group and (peer.runs or peer.has_started) for peer in known)
    if placed < size[group]:
        return ""
    return (
        f"{placed} of {size[group]} jobs of group {group} have their place in the next size of the "
        f"rule; it has {_shown(size)}, and {_shown({name: running[name] for name in size})} run"
    )


def _next_of(
    sizes: Sequence[Mapping[str, int]], running: Mapping[str, int]
) -> Mapping[str, int] | None:
    for size in reversed(sizes):
        if any(running.get(name, 0) < jobs for name, jobs in size.items()):
            return size
    return None


def _shown(jobs_of: Mapping[str, int]) -> str:
    return ", ".join(f"{jobs} {name}" for name, jobs in sorted(jobs_of.items()))
