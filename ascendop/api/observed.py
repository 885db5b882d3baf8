# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The cluster as the rules see it: flat, frozen, parsed once when it comes off the wire.

The structs of pods are `gc=False`: their fields are strings, numbers and tuples of those, so
nothing in them can point back, and a full collection does not visit a hundred thousand pods.
"""

from __future__ import annotations

import msgspec

Pairs = tuple[tuple[str, str], ...]
"""A string map that cannot be changed, in the order of the wire."""


class Failed(msgspec.Struct, frozen=True, gc=False):
    """How a container failed."""

    exit_code: int
    reason: str
    said: str
    """The last of its termination message."""


class ContainerView(msgspec.Struct, frozen=True, gc=False):
    """The status of one container."""

    name: str
    state: str
    """waiting, running, terminated, or empty when nothing was said."""
    ready: bool
    restarts: int
    exit_code: int
    """Meaningful when terminated."""
    reason: str
    finished: str = ""
    """RFC 3339, when terminated."""
    said: str = ""
    """The last of its termination message, when it failed."""
    before: Failed | None = None
    """The last time that it was restarted in place."""


class PodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod of ours."""

    namespace: str
    name: str
    uid: str
    version: str
    """resourceVersion."""
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    """The controller owner; empty for an orphan."""
    created: str = ""
    """RFC 3339; shared by pods of one second."""
    deleting: bool = False
    job: str = ""
    """Label training.kubeflow.org/job-name."""
    role: str = ""
    """Label training.kubeflow.org/replica-type: the role in lower case."""
    index: int = -1
    """Label training.kubeflow.org/replica-index; -1 when absent or no number."""
    attempt: int = -1
    """Label version: which run of the job the pod belongs to; -1 when absent or no number."""
    annotations: Pairs = ()
    """Only the keys in builder.labels.POD_ANNOTATIONS_READ."""
    phase: str = ""
    reason: str = ""
    message: str = ""
    ip: str = ""
    host_ip: str = ""
    node: str = ""
    npus: int = 0
    """Sum of the huawei.com/ requests of all containers."""
    ready: bool = False
    """Its Ready condition is true."""
    stuck: str = ""
    """What keeps the pod from starting: a container and why it waits, or that no node has room."""
    disrupted: str = ""
    """Reason of a true DisruptionTarget condition, e.g. PreemptionByScheduler."""
    containers: tuple[ContainerView, ...] = ()

    def annotation(self, key: str) -> str:
        """The annotation, or the empty string."""
        for name, value in self.annotations:  # asked six times for each pod in each pass
            if name == key:
                return value
        return ""

    def container(self, name: str) -> ContainerView | None:
        return next((c for c in self.containers if c.name == name), None)


class ServiceView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A Service of ours, or clusterd's."""

    namespace: str
    name: str
    uid: str
    version: str
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    deleting: bool = False
    job: str = ""
    """Label training.kubeflow.org/job-name."""
    cluster_ip: str = ""
    ports: tuple[tuple[str, int], ...] = ()
    """Name and number."""
    role: str = ""
    index: int = -1


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup."""

    namespace: str
    name: str
    uid: str
    version: str
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    deleting: bool = False
    labels: Pairs = ()
    annotations: Pairs = ()
    spec: bytes = b"{}"
    """JSON as stored."""
    phase: str = ""
    """Empty, Pending, Inqueue, Running, Unknown or Completed; an admission signal only."""
    created: str = ""
    """RFC 3339."""
    trouble: str = ""
    """Message of the newest Unschedulable condition that is true."""
    queue_taken: bool = False
    """Somebody else has written spec.queue since we applied it, and so owns it."""

    @property
    def members(self) -> dict[str, int]:
        """spec.minTaskMember: pods by role in lower case."""
        return self._asked().min_task_member or {}

    @property
    def size(self) -> int:
        """spec.minMember: pods that are placed together."""
        return self._asked().min_member or 0

    @property
    def queue(self) -> str:
        """spec.queue, as the job, the server's default or a webhook chose it."""
        return self._asked().queue or ""

    @property
    def resources(self) -> dict[str, str | int | float]:
        """spec.minResources."""
        return self._asked().min_resources or {}

    def _asked(self) -> _GroupSpec:
        return msgspec.json.decode(self.spec, type=_GroupSpec)


class _GroupSpec(msgspec.Struct, rename="camel"):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    min_resources: dict[str, str | int | float] | None = None


class LauncherView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A batch/v1 Job."""

    namespace: str
    name: str
    uid: str
    version: str
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    deleting: bool = False
    suspended: bool = False
    started: str = ""
    """status.startTime; while it stands the server lets nobody change the template."""
    failed: int = 0
    """Pods that failed."""
    end: str = ""
    """Complete or Failed; empty while it goes on."""
    ended: str = ""
    """When it did, RFC 3339, as far as that is known."""
    reason: str = ""
    message: str = ""
    """Of the Failed condition."""
    labels: tuple[str, ...] = ()
    """Keys in its template; likewise the next two."""
    annotations: tuple[str, ...] = ()
    node_selector: tuple[str, ...] = ()
    node_affinity: bool = False
    """It has one."""
    program: str = ""
    """See builder.content; empty where nobody has looked."""


class SharedView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A Service, ConfigMap or Secret beside the pods of a job; what is in it is not kept."""

    namespace: str
    name: str
    uid: str
    version: str
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    deleting: bool = False
    content: str = ""
    """See builder.content."""
    keys: tuple[str, ...] | None = None
    """Names of its data, or of the labels it selects by; None when nobody can tell."""


class QueueView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A Volcano Queue."""

    namespace: str
    name: str
    uid: str
    version: str
    state: str = ""
    """Open, Closed, Closing or Unknown; empty before Volcano's controllers have seen it."""
    parent: str = ""
    """Queue that this one is a part of; root for most."""
    capability: Pairs = ()
    """The most that its jobs may hold; what is not named here has no limit."""
    allocated: Pairs = ()
    """What its jobs hold, and those of the queues below it."""


class NodeView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node, as far as there is room on it."""

    namespace: str
    name: str
    uid: str
    version: str
    usable: bool = False
    """Ready, and not cordoned."""
    allocatable: Pairs = ()
    """All that it can give, whether it is in use or not."""


class PriorityView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PriorityClass."""

    namespace: str
    name: str
    uid: str
    version: str
    value: int = 0


class RetriesView(msgspec.Struct, frozen=True, kw_only=True):
    """What the NPU scheduler plug-in has left of fault-retry-times, of all jobs."""

    namespace: str
    name: str
    uid: str
    version: str
    times: tuple[tuple[str, int], ...] = ()
    """By PodGroup: <namespace>/<job>-<uid>."""

    def of(self, group: str) -> int | None:
        """Retries left for the job of this PodGroup; None when the plug-in knows none."""
        return next((times for name, times in self.times if name == group), None)


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job of any kind: its head parsed, spec and status as JSON until somebody asks.

    Kept as bytes, so that unknown fields survive and a cached job costs one allocation, not fifty.
    """

    namespace: str
    name: str
    uid: str
    version: str
    generation: int = 0
    created: str = ""
    deleting: bool = False
    labels: Pairs = ()
    annotations: Pairs = ()
    spec: bytes = b""
    """Empty when the object has no spec."""
    status: bytes = b""
