# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which gangs are admitted, and which pod goes where: the decisions of the scheduler, pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ascendop.kube.resource import Object
from ascendop.sim.amounts import Amounts, minus, parse_amounts, requests_of, short_of, total

GROUP: Final = "scheduling.k8s.io/group-name"
ROLE: Final = "volcano.sh/task-spec"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
ADMITTED: Final = frozenset({"Inqueue", "Running", "Unknown"})


@dataclass(frozen=True, slots=True)
class World:
    """All that a decision may look at."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    groups: Sequence[Object]
    queues: Mapping[str, str]
    """Queue name to state."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """PriorityClass name to value."""
    assumed: Mapping[str, str] = field(default_factory=dict)
    """Pod UID to node name: bindings that were sent and are not seen yet."""
    _by_group: dict[tuple[str, str], list[Object]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for pod in self.pods:
            name = (pod["metadata"].get("annotations") or {}).get(GROUP)
            if name:
                namespace = pod["metadata"].get("namespace", "")
                self._by_group.setdefault((namespace, name), []).append(pod)

    def members(self, group: Object) -> list[Object]:
        return self._by_group.get(_key(group), [])

    def node_of(self, pod: Object) -> str:
        return pod["spec"].get("nodeName") or self.assumed.get(pod["metadata"]["uid"], "")


@dataclass(slots=True)
class Decisions:
    """What one cycle wants done."""

    bind: list[tuple[Object, str]] = field(default_factory=list)
    """Pod and node name."""
    status: list[tuple[Object, Object]] = field(default_factory=list)
    """PodGroup and its new status, where it is new."""
    refused: list[tuple[Object, str]] = field(default_factory=list)
    """PodGroup that is not admitted, and the sentence why."""
    unschedulable: list[tuple[Object, str]] = field(default_factory=list)
    """Pod that found no node, and the sentence why."""


def decide(world: World, *, now: str) -> Decisions:
    """One cycle: admit, place, recompute the phases. Same world, same decisions."""
    wants = Decisions()
    free = free_by_node(world)
    groups = sorted(world.groups, key=lambda group: _order(group, world.priorities))
    phases = _admit(world, groups, free, wants)
    for group in groups:
        gang = Gang.of(group, world)
        admitted = phases[_key(group)] in ADMITTED
        refusal = _place_gang(gang, free, world, wants) if admitted else None
        status = _status(gang, phases[_key(group)], refusal, wants, now)
        if status != (group.get("status") or {}):
            wants.status.append((group, status))
    for pod in sorted(_alone(world), key=lambda pod: _order(pod, world.priorities)):
        node, why = find_node(pod, free, world.nodes)
        if node:
            wants.bind.append((pod, node))
        else:
            wants.unschedulable.append((pod, why))
    return wants


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a gang was not placed: the reason and message of its condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGroup and its pods, by what the phase counts."""

    group: Object
    pending: Sequence[Object]
    """May be placed now."""
    held: int
    """Not placed, and not to be placed: schedulingGates, being deleted."""
    bound: Sequence[Object]
    """Have a node and have not finished."""
    running: int
    succeeded: int
    failed: int

    @classmethod
    def of(cls, group: Object, world: World) -> Gang:
        pods = sorted(world.members(group), key=lambda pod: _order(pod, world.priorities))
        phases = Counter((pod.get("status") or {}).get("phase") for pod in pods)
        alive = [p for p in pods if (p.get("status") or {}).get("phase") not in FINISHED]
        waiting = [pod for pod in alive if not world.node_of(pod)]
        pending = [pod for pod in waiting if _may_be_placed(pod)]
        return cls(
            group=group,
            pending=pending,
            held=len(waiting) - len(pending),
            bound=[pod for pod in alive if world.node_of(pod)],
            running=phases["Running"],
            succeeded=phases["Succeeded"],
            failed=phases["Failed"],
        )

    @property
    def min_member(self) -> int:
        return int((self.group.get("spec") or {}).get("minMember") or 0)

    @property
    def scheduled(self) -> int:
        return len(self.bound) + self.succeeded + self.failed

    @property
    def size(self) -> int:
        return self.scheduled + len(self.pending) + self.held

    @property
    def valid(self) -> int:
        """A failed pod is not valid: a strict gang waits until it has been replaced."""
        return len(self.bound) + self.succeeded + len(self.pending)


def free_by_node(world: World) -> dict[str, Amounts]:
    """Allocatable minus what unfinished pods hold, for nodes that take pods."""
    free = {
        node["metadata"]["name"]: parse_amounts((node.get("status") or {}).get("allocatable"))
        for node in world.nodes
    }
    for pod in world.pods:
        name = world.node_of(pod)
        if name in free and (pod.get("status") or {}).get("phase") not in FINISHED:
            free[name] = minus(free[name], requests_of(pod))
    return free


def held_by_queue(world: World) -> dict[str, Amounts]:
    """What the placed pods of each queue's gangs ask for: status.allocated, as Volcano keeps it."""
    held: dict[str, list[Amounts]] = {name: [] for name in world.queues}
    for group in world.groups:
        queue = _queue_of(group)
        for pod in world.members(group) if queue in held else ():
            if world.node_of(pod) and (pod.get("status") or {}).get("phase") not in FINISHED:
                held[queue].append(requests_of(pod))
    return {name: total(parts) for name, parts in held.items()}


def find_node(pod: Object, free: dict[str, Amounts], nodes: Iterable[Object]) -> tuple[str, str]:
    """The first node by order where the pod fits, which is charged for it; or why there is none."""
    wanted = requests_of(pod)
    reasons: Counter[str] = Counter()
    for node in nodes:
        name = node["metadata"]["name"]
        missing = short_of(wanted, free[name])
        if refusal := _refusal(pod, node):
            reasons[refusal] += 1
        elif missing:
            reasons.update(f"Insufficient {resource}" for resource in missing)
        else:
            free[name] = minus(free[name], wanted)
            return name, ""
    numbers = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return "", f"0/{len(free)} nodes are available" + (f": {numbers}." if numbers else ".")


def _refusal(pod: Object, node: Object) -> str:
    spec, meta = node.get("spec") or {}, node["metadata"]
    labels = meta.get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    conditions = (node.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "Ready" and c["status"] != "True" for c in conditions):
        return "node(s) were not ready"
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    if any(labels.get(key) != value for key, value in wanted.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    taints = [t for t in spec.get("taints") or () if t.get("effect") != "PreferNoSchedule"]
    if not all(_tolerated(taint, pod["spec"].get("tolerations") or ()) for taint in taints):
        return "node(s) had untolerated taint(s)"
    return ""


def _tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    return any(
        t.get("key") in {None, "", taint["key"]}
        and t.get("effect") in {None, "", taint["effect"]}
        and (t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""))
        for t in tolerations
    )


def _admit(
    world: World, groups: Sequence[Object], free: dict[str, Amounts], wants: Decisions
) -> dict[tuple[str, str], str]:
    """Phase of every group after admission; the cluster counts as one big node."""
    phases: dict[tuple[str, str], str] = {}
    room = total(free.values())
    for group in groups:
        phase = (group.get("status") or {}).get("phase") or "Pending"
        if phase == "Inqueue":
            room = minus(room, _reserved(group, world))
        phases[_key(group)] = phase
    for group in groups:
        if phases[_key(group)] != "Pending":
            continue
        why = _refused(group, world, room)
        if why:
            wants.refused.append((group, why))
            continue
        phases[_key(group)] = "Inqueue"
        room = minus(room, _reserved(group, world))
    return phases


def _refused(group: Object, world: World, room: Amounts) -> str:
    spec = group.get("spec") or {}
    queue = _queue_of(group)
    if queue not in world.queues:
        return f"queue {queue} is missing"
    if "minResources" not in spec:
        return ""
    if world.queues[queue] != "Open":
        return f"queue {queue} is not open"
    short = short_of(_reserved(group, world), room)
    return f"resource in cluster is overused: short of {', '.join(short)}" if short else ""


def _queue_of(group: Object) -> str:
    return (group.get("spec") or {}).get("queue") or "default"


def _reserved(group: Object, world: World) -> Amounts:
    """What the group was promised and does not hold yet."""
    promised = parse_amounts((group.get("spec") or {}).get("minResources"))
    held = total(requests_of(pod) for pod in world.members(group) if world.node_of(pod))
    return {name: max(0, amount - held.get(name, 0)) for name, amount in promised.items()}


def _place_gang(
    gang: Gang, free: dict[str, Amounts], world: World, wants: Decisions
) -> Refusal | None:
    """Bind what fits if that makes a gang, else nothing; None or why not."""
    if not gang.pending:
        return None
    if gang.valid < gang.min_member:
        message = f"{gang.valid} valid pods of the {gang.min_member} that the gang needs"
        return Refusal("NotEnoughTasks", message)
    tentative = {name: dict(amounts) for name, amounts in free.items()}
    placed: list[tuple[Object, str]] = []
    lost: list[tuple[Object, str]] = []
    for pod in gang.pending:
        node, why = find_node(pod, tentative, world.nodes)
        (placed if node else lost).append((pod, node or why))
    ready = len(gang.bound) + gang.succeeded + len(placed)
    if ready >= gang.min_member and _roles_met(gang, placed):
        free.update(tentative)
        wants.bind.extend(placed)
        wants.unschedulable.extend(lost)
        return None
    wants.unschedulable.extend(lost or [(pod, "the gang is not complete") for pod, _ in placed])
    unready = len(gang.pending) + gang.held
    reasons = "; ".join(sorted({why for _, why in lost}))
    return Refusal(
        "NotEnoughResources",
        f"{unready}/{gang.size} tasks in gang unschedulable: pod group is not ready, "
        f"{unready} Pending, {gang.min_member} minAvailable; "
        f"Pending: {len(lost)} Unschedulable, {len(placed)} Schedulable; {reasons}",
    )


def _roles_met(gang: Gang, placed: Sequence[tuple[Object, str]]) -> bool:
    """The minimum of each role, which counts only when the gang is as large as their sum."""
    minima: dict[str, int] = (gang.group.get("spec") or {}).get("minTaskMember") or {}
    if gang.min_member < sum(minima.values()):
        return True
    # A finished pod of a role cannot be told from the counters; the gang size has covered it.
    there = Counter(_role(pod) for pod in [*gang.bound, *(pod for pod, _ in placed)])
    missing = sum(max(0, least - there[role]) for role, least in minima.items())
    return missing <= gang.succeeded


def _status(gang: Gang, phase: str, refusal: Refusal | None, wants: Decisions, now: str) -> Object:
    """The rest of the cycle: phase, counters, one condition; equal facts keep the old condition."""
    status = dict(gang.group.get("status") or {})
    bound_now = {pod["metadata"]["uid"] for pod, _ in wants.bind}
    newly = sum(pod["metadata"]["uid"] in bound_now for pod in gang.pending)
    scheduled, finished = gang.scheduled + newly, gang.succeeded + gang.failed
    if refusal and gang.running:
        phase = "Unknown"
    elif scheduled >= gang.min_member:
        phase = "Completed" if scheduled == finished else "Running"
    elif phase != "Inqueue":
        phase = "Pending"
    status["phase"] = phase
    for name, count in (
        ("running", gang.running),
        ("succeeded", gang.succeeded),
        ("failed", gang.failed),
    ):
        if count or name in status:
            status[name] = count
    condition = _condition(gang, refusal, scheduled)
    if condition:
        status["conditions"] = _merged(status.get("conditions") or [], condition, now)
    return status


def _condition(gang: Gang, refusal: Refusal | None, scheduled: int) -> Object | None:
    if refusal:
        return {
            "type": "Unschedulable",
            "status": "True",
            "reason": refusal.reason,
            "message": refusal.message,
        }
    if gang.size and scheduled >= gang.min_member:
        reason = "tasks in gang are ready to be scheduled"
        return {"type": "Scheduled", "status": "True", "reason": reason}
    return None


def _merged(old: list[Object], new: Object, now: str) -> list[Object]:
    """One condition per type; it moves only when it says something else."""
    mine = next((c for c in old if c["type"] == new["type"]), None)
    if mine is not None and all(mine.get(key) == value for key, value in new.items()):
        return old
    number = int(mine["transitionID"]) + 1 if mine and mine["transitionID"].isdigit() else 1
    new = {**new, "lastTransitionTime": now, "transitionID": str(number)}
    return [c for c in old if c["type"] != new["type"]] + [new]


def _alone(world: World) -> list[Object]:
    return [
        pod
        for pod in world.pods
        if _may_be_placed(pod)
        and not world.node_of(pod)
        and not (pod["metadata"].get("annotations") or {}).get(GROUP)
        and (pod.get("status") or {}).get("phase") not in FINISHED
    ]


def _may_be_placed(pod: Object) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and not pod["spec"].get("schedulingGates")


def _role(pod: Object) -> str:
    meta = pod["metadata"]
    return str(
        (meta.get("annotations") or {}).get(ROLE) or (meta.get("labels") or {}).get(ROLE) or ""
    )


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _order(obj: Object, priorities: Mapping[str, int]) -> tuple[int, str, str, str]:
    """More important first, then older, then by name: no two cycles differ by chance."""
    spec = obj.get("spec") or {}
    priority = spec.get("priority")
    if priority is None:
        priority = priorities.get(spec.get("priorityClassName") or "", 0)
    return -int(priority), obj["metadata"].get("creationTimestamp") or "", *_key(obj)
