# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Everything that one decision may look at, read in one go and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic

from ascendop.api.job import Condition
from ascendop.api.kind import JobKind, JobView, S
from ascendop.api.launch import NOWHERE, Place
from ascendop.api.model import Object
from ascendop.api.observed import (
    GroupView,
    JobRow,
    LauncherView,
    PodView,
    QueueView,
    ServiceView,
    SharedView,
)
from ascendop.apply.plan import Answer
from ascendop.apply.standing import Standing
from ascendop.errors import InvalidJobError
from ascendop.gang.room import Room
from ascendop.gang.scaling import Peer


@dataclass(frozen=True, slots=True)
class World:
    """What a decision needs to know of the cluster beside the job and its children."""

    gang: bool
    """Gang scheduling is on for this kind."""
    groups_served: bool
    """The cluster has PodGroups, that is, Volcano is installed."""
    queues_known: bool
    """The list of queues can be trusted: without it a missing one is no mistake of the user's."""
    queue: QueueView | None
    """The queue that the job names, or else the one that its PodGroup stands in."""
    priorities: Mapping[str, int]
    """Values of the PriorityClasses that the job's templates name."""
    priorities_known: bool
    """A class that is not among them does not exist; else we only may not read it."""
    clusterd: str
    """Address of MindCluster's clusterd, or its domain."""
    retries_left: int | None = None
    """What the NPU scheduler plug-in has left of fault-retry-times; None when it says nothing."""
    peers: tuple[Peer, ...] = ()
    """Other jobs of the inference service that the job is of, if it is of one with a rule."""
    answer: Answer | None = None
    """To the question that decided before; None as long as nothing was asked."""
    retry_grace_s: float = 0.0
    """How long a failure waits for the plug-in's word where it says nothing."""
    stop_survivors: bool = False
    """Running pods of a failed job that names no cleanPodPolicy go."""
    room: Room | None = None
    """What the nodes have and the queues hold; None where they cannot be read."""
    place: Place = NOWHERE
    """For jobs with a launcher."""


@dataclass(frozen=True, slots=True)
class Launched:
    """What a job with a launcher has beside its pods, whoever's the names may be."""

    known: bool = True
    """The caches of all of this are filled."""
    job: LauncherView | None = None
    """What has the name of the launcher's Job."""
    pods: tuple[PodView, ...] = ()
    """Of that Job."""
    gone: PodView | None = None
    """The last of its pods that is there no more, as it was last seen."""
    shared: Mapping[str, SharedView] = field(default_factory=dict)
    """By kind."""
    alien_group: bool = False
    """Somebody else's PodGroup has the name of the job's."""


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[S]):
    """A job, its children and the world at one moment."""

    kind: JobKind[S]
    row: JobRow
    job: JobView[S] | InvalidJobError
    """The job, or everything that keeps it from running as written."""
    status: Object
    """As stored; fields that we do not know are kept."""
    pods: tuple[PodView, ...]
    """Pods whose controller is this very job, by uid; in order of role and index."""
    services: tuple[ServiceView, ...]
    group: GroupView | None
    world: World
    now: datetime
    held: frozenset[str] = frozenset()
    """Names of missing pods that others have, most often an earlier job of the same name."""
    table: Standing | None = None
    """How the rank table stood at the end of the last pass; None when nothing is known of it."""
    launched: Launched = field(default_factory=Launched)
    """Empty for kinds without a launcher."""

    conditions: tuple[Condition, ...] = field(init=False, repr=False, compare=False)
    """Of the status; parsed once, for every rule asks."""

    def __post_init__(self) -> None:
        found = self.status.get("conditions") or ()
        parsed = tuple([Condition.parse(c) for c in found if isinstance(c, dict)])
        object.__setattr__(self, "conditions", parsed)

    @property
    def finished(self) -> bool:
        """Ended stays ended."""
        final = {"Succeeded", "Failed"}
        return any(c.type in final and c.status == "True" for c in self.conditions)


AnySnapshot = Snapshot[Any]
