# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The fields of each cached resource that are read, and the flat view made of them.

What is not named here never becomes a Python object: the decoder skips it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from ascendop.api.observed import (
    ContainerView,
    Failed,
    GroupView,
    JobRow,
    NodeView,
    Pairs,
    PodView,
    PriorityView,
    QueueView,
    RetriesView,
    ServiceView,
)
from ascendop.builder import labels as keys
from ascendop.builder.integers import integer
from ascendop.informer.change import Row
from ascendop.informer.metadata import Meta, Owner
from ascendop.informer.pool import Pool
from ascendop.informer.represent import StructForm
from ascendop.kube.quantity import Quantity, QuantityError


class Wire(msgspec.Struct, rename="camel", gc=False):
    """A part of an object, in the spelling of the API."""


class Whole(Wire):
    """An object."""

    metadata: Meta


_NOBODY: Final = Owner()
LAST_WORDS: Final = 1024
"""Letters of what a failed container said that are kept: as many as a condition can show."""


class Terminated(Wire):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class Waiting(Wire):
    reason: str = ""


class Running(Wire):
    """That it is there says all that is read."""


class State(Wire):
    terminated: Terminated | None = None
    waiting: Waiting | None = None
    running: Running | None = None


class ContainerStatus(Wire):
    name: str
    ready: bool = False
    restart_count: int = 0
    state: State | None = None
    last_state: State | None = None


class PodCondition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""


class PodStatus(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Resources(Wire):
    requests: dict[str, str | int | float] | None = None


class Container(Wire):
    resources: Resources | None = None


class PodSpec(Wire):
    node_name: str = ""
    containers: list[Container] | None = None


class Pod(Whole):
    spec: PodSpec | None = None
    status: PodStatus | None = None


class ServicePort(Wire):
    port: int = 0
    name: str = ""


class ServiceSpec(Wire):
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: list[ServicePort] | None = None


class Service(Whole):
    spec: ServiceSpec | None = None


class GroupCondition(Wire):
    type: str = ""
    status: str = ""
    message: str = ""


class GroupStatus(Wire):
    phase: str = ""
    conditions: list[GroupCondition] | None = None


class GroupSpecFields(Wire):
    queue: dict[str, object] | None = msgspec.field(default=None, name="f:queue")


class GroupFields(Wire):
    spec: GroupSpecFields | None = msgspec.field(default=None, name="f:spec")


class GroupManager(Wire):
    """Who owns which fields."""

    operation: str = ""
    fields: GroupFields | None = msgspec.field(default=None, name="fieldsV1")


class GroupMeta(Meta):
    managed_fields: list[GroupManager] | None = None


class Group(Whole):
    metadata: GroupMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: GroupStatus | None = None


Amounts = dict[str, str | int | float]


class QueueSpec(Wire):
    parent: str = ""
    capability: Amounts | None = None


class QueueStatus(Wire):
    state: str = ""
    allocated: Amounts | None = None


class Queue(Whole):
    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class NodeSpec(Wire):
    unschedulable: bool = False


class NodeCondition(Wire):
    type: str = ""
    status: str = ""


class NodeStatus(Wire):
    allocatable: Amounts | None = None
    conditions: list[NodeCondition] | None = None


class Node(Whole):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Priority(Whole):
    value: int = 0


class Retries(Whole):
    data: dict[str, str] | None = None


class Remaining(msgspec.Struct):
    """One entry of remain-retry-times. Source: ascendjob.md 7.3."""

    times: int = msgspec.field(name="Times")


_ENTRIES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REMAINING = msgspec.json.Decoder(Remaining)


class Job(Whole):
    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")


def pod_row(pod: Pod, pool: Pool) -> PodView:
    meta, owner = pod.metadata, pod.metadata.controller() or _NOBODY
    labels, status, spec = meta.labels or {}, pod.status or PodStatus(), pod.spec or PodSpec()
    return PodView(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_kind=pool(owner.kind),
        owner_name=pool(owner.name),
        owner_uid=pool(owner.uid),
        created=pool(meta.creation_timestamp or ""),
        deleting=meta.deletion_timestamp is not None,
        job=pool(labels.get(keys.JOB_NAME, "")),
        role=pool(labels.get(keys.REPLICA_TYPE, "")),
        index=_number(labels.get(keys.REPLICA_INDEX) or labels.get(keys.SHORT_REPLICA_INDEX)),
        attempt=_number(labels.get(keys.ATTEMPT)),
        annotations=_read(meta.annotations, pool),
        phase=pool(status.phase),
        reason=pool(status.reason),
        message=status.message,
        ip=status.pod_ip,
        host_ip=pool(status.host_ip),
        node=pool(spec.node_name),
        ready=_is_ready(status),
        npus=sum(map(_npus, spec.containers or ())),
        stuck=pool(_stuck(status)),
        disrupted=_disrupted(status),
        containers=tuple([_container(c, pool) for c in status.container_statuses or ()]),
    )


def _read(annotations: Mapping[str, str] | None, pool: Pool) -> Pairs:
    if not annotations:
        return ()
    read = keys.POD_ANNOTATIONS_READ
    return tuple([(pool(key), value) for key, value in annotations.items() if key in read])


def _container(found: ContainerStatus, pool: Pool) -> ContainerView:
    state = found.state or State()
    name, code, reason, finished, said = "", 0, "", "", ""
    if state.terminated is not None:
        name, code, reason = "terminated", state.terminated.exit_code, state.terminated.reason
        finished = state.terminated.finished_at or ""
        said = state.terminated.message[-LAST_WORDS:] if code else ""
    elif state.waiting is not None:
        name, reason = "waiting", state.waiting.reason
    elif state.running is not None:
        name = "running"
    return ContainerView(
        name=pool(found.name),
        state=name,
        ready=found.ready,
        restarts=found.restart_count,
        exit_code=code,
        reason=pool(reason),
        finished=pool(finished),
        said=said,
        before=_failed(found.last_state, pool) if found.last_state is not None else None,
    )


def _failed(state: State, pool: Pool) -> Failed | None:
    ended = state.terminated
    if ended is None or not ended.exit_code:
        return None
    return Failed(ended.exit_code, pool(ended.reason), ended.message[-LAST_WORDS:])


def _npus(container: Container) -> int:
    requests = container.resources.requests if container.resources else None
    if not requests:
        return 0
    return sum(_amount(value) for key, value in requests.items() if keys.NPU_PREFIX in key)


def _amount(value: str | float) -> int:
    try:
        return Quantity.parse(value).whole
    except QuantityError:
        return 0  # the API server refuses such a pod; a row must not fail over it


STUCK: Final = {
    "ErrImagePull": "ImagePullBackOff",  # the two take turns
    "ImagePullBackOff": "ImagePullBackOff",
    "InvalidImageName": "InvalidImageName",
    "ErrImageNeverPull": "ErrImageNeverPull",
    "CreateContainerConfigError": "CreateContainerConfigError",
    "CreateContainerError": "CreateContainerError",
    "RunContainerError": "RunContainerError",
    "CrashLoopBackOff": "CrashLoopBackOff",
}
"""Reasons of a waiting container that seldom go by themselves, and what they are called here."""


def _is_ready(status: PodStatus) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in status.conditions or ())


def _stuck(status: PodStatus) -> str:
    if status.phase not in {"", "Pending", "Running"}:
        return ""
    for found in (*(status.init_container_statuses or ()), *(status.container_statuses or ())):
        waiting = found.state.waiting if found.state else None
        if waiting is not None and waiting.reason in STUCK:
            return f"{found.name}: {STUCK[waiting.reason]}"
    for condition in status.conditions or ():
        if (condition.type, condition.status) == ("PodScheduled", "False"):
            return condition.reason
    return ""


def _disrupted(status: PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return condition.reason
    return ""


def _number(text: str | None) -> int:
    found = integer(text or "")
    return -1 if found is None else found


def service_row(service: Service, pool: Pool) -> ServiceView:
    meta, spec = service.metadata, service.spec or ServiceSpec()
    owner, labels = meta.controller() or _NOBODY, meta.labels or {}
    return ServiceView(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_kind=pool(owner.kind),
        owner_name=pool(owner.name),
        owner_uid=pool(owner.uid),
        deleting=meta.deletion_timestamp is not None,
        job=pool(labels.get(keys.JOB_NAME, "")),
        cluster_ip="" if spec.cluster_ip == "None" else spec.cluster_ip,
        ports=tuple([(pool(port.name), port.port) for port in spec.ports or ()]),
        role=pool(labels.get(keys.REPLICA_TYPE, "")),
        index=_number(labels.get(keys.REPLICA_INDEX)),
    )


def group_row(group: Group, pool: Pool) -> GroupView:
    meta, status = group.metadata, group.status or GroupStatus()
    owner = meta.controller() or _NOBODY
    return GroupView(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        owner_kind=pool(owner.kind),
        owner_name=pool(owner.name),
        owner_uid=pool(owner.uid),
        deleting=meta.deletion_timestamp is not None,
        labels=_pairs(meta.labels),
        annotations=_pairs(meta.annotations),
        spec=bytes(group.spec),
        phase=pool(status.phase),
        created=meta.creation_timestamp or "",
        trouble=_trouble(status),
        queue_taken=_is_queue_taken(meta.managed_fields or ()),
    )


def _is_queue_taken(managers: Iterable[GroupManager]) -> bool:
    """Others update; only we apply."""
    owners = [
        found.operation
        for found in managers
        if found.fields and found.fields.spec and found.fields.spec.queue is not None
    ]
    return bool(owners) and "Apply" not in owners


def _trouble(status: GroupStatus) -> str:
    for condition in reversed(status.conditions or ()):
        if condition.type == "Unschedulable" and condition.status == "True":
            return condition.message
    return ""


def queue_row(queue: Queue, pool: Pool) -> QueueView:
    meta, spec, status = queue.metadata, queue.spec or QueueSpec(), queue.status or QueueStatus()
    return QueueView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        state=pool(status.state),
        parent=pool(spec.parent),
        capability=_amounts(spec.capability, pool),
        allocated=_amounts(status.allocated, pool),
    )


def node_row(node: Node, pool: Pool) -> NodeView:
    meta, spec, status = node.metadata, node.spec or NodeSpec(), node.status or NodeStatus()
    ready = any(c.type == "Ready" and c.status == "True" for c in status.conditions or ())
    return NodeView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        usable=ready and not spec.unschedulable,
        allocatable=_amounts(status.allocatable, pool),
    )


def _amounts(found: Mapping[str, str | int | float] | None, pool: Pool) -> Pairs:
    """Amounts that many objects have alike, as text."""
    return tuple([(pool(name), pool(str(each))) for name, each in (found or {}).items()])


def priority_row(priority: Priority, _pool: Pool) -> PriorityView:
    meta = priority.metadata
    return PriorityView(
        namespace="",
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        value=priority.value,
    )


def retries_row(found: Retries, _pool: Pool) -> RetriesView:
    meta = found.metadata
    text = (found.data or {}).get("remain-retry-times") or "{}"
    return RetriesView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        times=tuple(_remaining(text)),
    )


def _remaining(text: str) -> Iterator[tuple[str, int]]:
    """Retries by PodGroup: the plug-in's own format, of which what cannot be read says nothing."""
    try:
        entries = _ENTRIES.decode(text)
    except msgspec.DecodeError:
        return
    for group, entry in entries.items():
        try:
            yield group, _REMAINING.decode(entry).times
        except msgspec.DecodeError:
            continue  # one entry, and no other job's


def job_row(job: Job, pool: Pool) -> JobRow:
    meta = job.metadata
    return JobRow(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        labels=_pairs(meta.labels),
        annotations=_pairs(meta.annotations),
        spec=bytes(job.spec),
        status=bytes(job.status),
    )


def _pairs(found: Mapping[str, str] | None) -> Pairs:
    return tuple(found.items()) if found else ()


W = TypeVar("W", bound=Whole)
R = TypeVar("R", bound=Row)


def form(wire: type[W], row: Callable[[W, Pool], R]) -> StructForm[W, R]:
    """The row of an object of the wrong shape is that of one with nothing but its metadata."""
    return StructForm(wire, row, lambda meta, pool: row(wire(metadata=meta), pool))


def pods_form() -> StructForm[Pod, PodView]:
    """How pods are cached; the other forms likewise."""
    return form(Pod, pod_row)


def services_form() -> StructForm[Service, ServiceView]:
    return form(Service, service_row)


def groups_form() -> StructForm[Group, GroupView]:
    return StructForm(Group, group_row, _bare_group)


def _bare_group(meta: Meta, pool: Pool) -> GroupView:
    return group_row(Group(metadata=GroupMeta(**msgspec.structs.asdict(meta))), pool)


def queues_form() -> StructForm[Queue, QueueView]:
    return form(Queue, queue_row)


def nodes_form() -> StructForm[Node, NodeView]:
    return form(Node, node_row)


def priorities_form() -> StructForm[Priority, PriorityView]:
    return form(Priority, priority_row)


def retries_form() -> StructForm[Retries, RetriesView]:
    return form(Retries, retries_row)


def jobs_form() -> StructForm[Job, JobRow]:
    return form(Job, job_row)
