# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is to be done, as data: it can be printed, compared, tested and refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ascendop.api.model import Object
from ascendop.kube.resource import Resource
from ascendop.ranktable.table import NotReady

StepName = Literal[
    "attempt",
    "group",
    "services",
    "pods",
    "switch",
    "backup",
    "clean",
    "ungroup",
    "job",
    "ranks",
    "shared",
    "launcher",
]


@dataclass(frozen=True, slots=True)
class Told:
    """Where living pods have the address of a Service in their environment."""

    pods: tuple[str, ...]
    container: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object under its fixed name; one that is there already and ours is success."""

    resource: Resource
    object: Object
    told: Told | None = None
    """A Service that pods know already comes back with the address that they were told."""
    filled: str = ""
    """Whose data it gets; they are made when it is, and no plan holds them."""
    adopts: bool = True
    """One that nobody owns is made ours; else it is in the way."""

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of our fields only; everybody else's stay."""

    resource: Resource
    object: Object

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Patch:
    """Merge patch, safe on a stale read by uid and resourceVersion."""

    resource: Resource
    name: str
    uid: str
    version: str
    body: Object
    subresource: str | None = None
    filled: str = ""
    """As for Create: these come to the data in the body."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly this object: one of the same name with another uid is left alone."""

    resource: Resource
    name: str
    uid: str
    version: str = ""
    """Where the state of the object was the reason: one that has changed since is left alone."""
    grace_s: int | None = None
    told: bool = True
    """Whether an Event tells of it."""


Write = Create | Apply | Patch | Delete


@dataclass(frozen=True, slots=True)
class Step:
    """Writes that may go out side by side. Steps follow each other; a failed one stops the rest."""

    name: StepName
    writes: tuple[Write, ...]


def with_writes(*steps: Step) -> tuple[Step, ...]:
    """Those of the steps that have something to write."""
    return tuple(step for step in steps if step.writes)


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that was refused."""

    step: StepName
    write: Write
    message: str
    waits: bool = False
    """Nothing is wrong: what is in the way is on its way out."""
    leftover: bool = False
    """In the way is a child of an earlier job of this name; it must not be there for long."""
    reason: str = ""
    """Code where it is not simply that this write failed."""
    retry_s: float | None = None
    """Not tried again before; None when only an edit helps, or nothing does."""


@dataclass(frozen=True, slots=True)
class Written:
    """A write that changed something."""

    step: StepName
    write: Write
    uid: str = ""
    """Of the object that a Create made."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of the steps."""

    written: tuple[Written, ...] = ()
    """Writes that changed something, in order; one that found its object there is not in it."""
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class EventNote:
    """An Event about the job."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str
    action: str = "Reconcile"
    pod: str = ""
    """Name of the pod that it is also about; one of equal text for another pod is another Event."""
    pod_uid: str = ""
    outcome: bool = False
    """What a user waits to hear: it is lost to no budget."""
    ends: bool = False
    """It tells that the job has failed; only kinds with a launcher say so."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How the job stands after the steps."""

    status: Object
    """The whole status as it should be; the executor sends the difference, or nothing."""
    events: tuple[EventNote, ...] = ()
    at_once: bool = False
    """The next decision needs it, so it is not put off."""


Concluder = Callable[[Done], Conclusion | None]
"""Pure: how the job stands after the steps; None when nothing is to be said."""


@dataclass(frozen=True, slots=True)
class TableWish:
    """The rank table as it should be, in whichever places the user provides for it."""

    content: str
    """JSON."""
    config_map: str
    """Name of the user's ConfigMap; it is never made, only filled."""
    directory: str
    """<namespace>.<job> below the shared root; empty when no pod mounts one."""
    only_over_completed: bool = False
    """Write only where a completed table stands: one that never was is not called lost."""
    mounted: bool = False
    """Pods mount the ConfigMap: without it they do not start."""
    lacks: NotReady | None = field(default=None, repr=False, compare=False)
    """Why there is no table yet; no part of what is wished."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An object that the cache does not have, and whose absence decides."""

    resource: Resource
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Question:
    """A key of a ConfigMap that decides, and that nobody keeps a copy of."""

    namespace: str
    name: str
    key: str
    turn: str
    """Who asks with an equal one decides and acts alone: the next sees what came of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    to: Question
    text: str = ""
    trouble: str = ""
    """Why there is no text, and what to do."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the reconciler decided; nothing in it depends on when or how often it is executed."""

    conclude: Concluder
    steps: tuple[Step, ...] = ()
    table: TableWish | None = None
    destructive: bool = False
    """Something is deleted or counted: the cache must have seen our own last writes."""
    absent: Absent | None = None
    """The plan holds only if the server has no such object either: the cache may lag."""
    question: Question | None = None
    """Nothing is decided yet: decide again with the answer."""
    again_after_s: float | None = None
    """Look again after so many seconds: a deadline, a TTL."""
    at_once: bool = field(default=False)
    """Look again as soon as the steps have worked: the next ones need their answers."""


def nothing(_done: Done) -> None:
    """The conclusion of a plan that leaves the status alone."""
