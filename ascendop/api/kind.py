# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What it takes to be a job kind: data, and functions without side effects."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from ascendop.api.job import Counts, ReplicaSpec, RunPolicy
from ascendop.api.launch import Place, Seen, Shared
from ascendop.api.life import Rule
from ascendop.api.model import Model, Object
from ascendop.api.observed import JobRow
from ascendop.errors import Problem

S = TypeVar("S", bound=Model)
T = TypeVar("T")

Env = Sequence[Object]
"""EnvVars as a container has them, in the order in which they are appended."""


@dataclass(frozen=True, slots=True)
class Role:
    """A key that the replica map may have."""

    name: str
    leader: bool = False
    most: int | None = None
    """The largest number of replicas; None for the general limit."""
    least: int = 0


@dataclass(frozen=True, slots=True)
class PodSlot:
    """A pod that should exist."""

    role: str
    index: int
    """Position within the role, from 0."""
    rank: int
    """Position within the job, from 0, as the kind counts."""
    name: str
    replica: ReplicaSpec
    leader: bool


@dataclass(frozen=True, slots=True)
class JobView(Generic[S]):
    """A job that can run: parsed, with roles in rank order under their canonical names."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: S
    run_policy: RunPolicy
    replicas: Mapping[str, ReplicaSpec]
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What `once` has made."""

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, made the first time it is asked for.

        A job is looked at ten times in its life, and what follows from it alone never changes:
        `make` must be pure, depend on nothing but this job and `what`, and its result is shared.
        """
        if what not in self._known:
            self._known[what] = make()
        return cast("T", self._known[what])

    @property
    def total(self) -> int:
        """Pods that the job has when all are there."""
        return sum(replica.count for replica in self.replicas.values())

    @property
    def owner(self) -> Object:
        """The one owner reference of everything that the job owns."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


@dataclass(frozen=True, slots=True)
class Site:
    """What a pod's environment needs to know beside the job itself."""

    addresses: Mapping[str, str]
    """ClusterIPs of the job's own Services, by name."""
    clusterd: str
    """Address of MindCluster's clusterd: a ClusterIP, or its domain while there is none."""
    gang: bool
    """Whether pods start as a gang."""
    attempt: int
    """The generation that new pods belong to."""


@dataclass(frozen=True, slots=True)
class GangStyle:
    """How a kind's PodGroup differs from the next kind's."""

    uid_in_name: bool
    """<job>-<uid>, or plainly <job>."""
    copies_labels: bool
    """Job labels go onto the PodGroup; annotations always do."""
    task_members: bool
    """minTaskMember is written."""
    extra_labels: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _annotations: {}
    """Labels that follow from the job's annotations."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the kind calls things that happen to every kind of job.

    Messages are format strings with {kind}, {namespace}, {job}.
    """

    created: tuple[str, str]
    """Reason and message of the first condition."""
    invalid: str
    """Reason of the Failed condition of a job that cannot run as written."""
    step_failed: Mapping[str, str]
    """Reason of a Created condition by the step that failed; a step without one only has Events."""
    pod_scheduler_event: str
    """Reason of the Event about a scheduler in a pod template that is not the gang's."""
    restart_policy_event: str
    """Reason of the Event about a restart policy in the pod template."""
    pods_refused: str = "{error}"
    """What that condition says of pods that could not be made, with {role} and {error} alone."""
    created_first: bool = False
    """The first condition is kept from the first pass on, not only while nothing else stands."""
    job_scheduler_event: str = ""
    """The same of a scheduler in the job's own spec."""
    unknown_queue: Callable[[str], Problem] | None = None
    """A queue that does not exist, as a mistake of the user's; None to let the scheduler wait."""
    service_events: bool = False
    """Services made are told by Events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(Generic[S]):
    """A leader that is a batch/v1 Job: it retries by itself, and its end is the job's end.

    The pods of the other roles only serve it. They are made once per slot and never judged; they
    all share some objects that are kept as they should be for as long as the launcher has not
    ended.
    """

    role: str
    """Whose pod the Job makes; it has no slot of its own."""
    manager: str
    """Value of runPolicy.managedBy that means us."""
    job_name: Callable[[str], str]
    """Name of the Job, by that of the job."""
    job: Callable[[JobView[S], Place], Object]
    """The Job."""
    pod: Callable[[JobView[S], PodSlot, Place], Object]
    """A pod that serves it."""
    shared: Callable[[JobView[S], Place, Seen], Sequence[Shared]]
    """What all of them share, in the order in which it is made."""
    metrics: tuple[str, str]
    """How the metrics of the original operator begin, and what it calls its jobs there."""
    waits: Callable[[JobView[S]], bool]
    """The launcher is made, or let go on, only when all others are ready."""
    overridden: Callable[[JobView[S], Place], str]
    """What of its template does not count, in a sentence; empty when all does."""


def no_problems(_row: JobRow, _spec: S, _replicas: Mapping[str, ReplicaSpec]) -> Sequence[Problem]:
    """A kind without rules of its own."""
    return ()


def never(_job: JobView[S]) -> bool:
    """Of no job of this kind."""
    return False


def no_scheduler(_job: JobView[S]) -> str:
    """A kind whose spec names no scheduler."""
    return ""


def no_retry(_job: JobView[S]) -> int:
    """No limit on attempts."""
    return 0


def plain_counts(_job: JobView[S], _role: str, counts: Counts) -> Object:
    """The shape of status.replicaStatuses.<Role> without additions."""
    return counts.as_object()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind(Generic[S]):
    """A job kind. No inheritance: a kind has an env, it is not an env-setter."""

    kind: str
    group: str
    version: str
    plural: str
    singular: str
    short_names: tuple[str, ...] = ()
    controller: str
    """Value of the operator-name label, and the source of its Events."""
    spec: type[S]
    replica_field: str
    """Field of the spec that holds the replica map, for the paths in messages."""
    scale_role: str = ""
    """Role whose replicas the scale subresource sets; empty for a kind without one."""
    replicas: Callable[[S], Mapping[str, ReplicaSpec] | None]
    run_policy: Callable[[S], RunPolicy]
    roles: Callable[[Mapping[str, str]], Sequence[Role]]
    """Roles in rank order, by the job's labels."""
    container: str
    """The container that gets the port, and whose exit code counts."""
    port_name: str
    port: int
    port_on_leaders_only: bool = False
    restart_policy: str
    """Of a replica that says nothing."""
    clean_pod_policy: str = "None"
    """Of a job that says nothing."""
    env: Callable[[JobView[S], PodSlot, Site], Env]
    init_containers: Callable[[JobView[S], PodSlot], Sequence[Object]] = lambda _job, _slot: ()
    """Init containers after the user's."""
    env_everywhere: bool = False
    """All containers get the environment, not only the main one."""
    rank: Callable[[JobView[S], str, int], int]
    pod_labels: Callable[[JobView[S], PodSlot, Site], Mapping[str, str]]
    pod_annotations: Callable[[JobView[S], PodSlot], Mapping[str, str]] = lambda _job, _slot: {}
    services: Callable[[JobView[S]], Sequence[Object]]
    waits_for_addresses: bool = False
    """Pods need the ClusterIPs of the Services in their environment."""
    address_variables: tuple[str, ...] = ()
    """Where in their environment it stands."""
    gang: GangStyle
    gang_by_default: bool = True
    """Pods start as a gang unless switched off; else only when switched on."""
    words: Words
    rules: tuple[Rule, ...]
    """The life of a job: first match wins."""
    validate: Callable[[JobRow, S, Mapping[str, ReplicaSpec]], Sequence[Problem]] = no_problems
    scheduler: Callable[[JobView[S]], str] = no_scheduler
    """Scheduler that the spec asks for; empty for the gang's own."""
    elastic: Callable[[JobView[S]], bool] = never
    """The job may run with fewer pods than it asks for."""
    counts: Callable[[JobView[S], str, Counts], Object] = plain_counts
    counts_terminating: bool = True
    """A running pod that is being deleted still counts as active; else as failed."""
    launch: Launch[S] | None = None
    """The leader is a batch/v1 Job, whose life replaces `rules`."""
    bare_spec: bool = False
    """A job without a spec is judged by `validate`, as one whose spec is empty."""
    attempts: bool = False
    """Lost pods come back as a new generation, which the version label and the limit count."""
    attempt_limit: Callable[[JobView[S]], int] = no_retry
    """Generations beyond the first that may be lost; 0 or less for no limit."""
    hot_switch: bool = False
    """clusterd may ask for a second pod that takes the place of a sick one."""
    scales_by_rule: bool = False
    """Jobs of an inference service start only where a rule has a place for them."""
    has_rank_table: Callable[[JobView[S]], bool] = never
    cleans_pending: bool = False
    """Pending pods go at the end whatever the policy: they hold a place that nobody will use."""
    replaces_failed: bool = False
    """Failed pods under Always and OnFailure are replaced too, not only under ExitCode."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"
