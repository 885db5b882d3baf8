# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a kubelet writes about a pod, from what its processes did: containers, conditions; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ascendop.kube.resource import Object

OURS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclass(slots=True)
class ContainerState:
    """One container as its pod's runner knows it; `state` is the API's, whole."""

    spec: Object
    is_init: bool = False
    state: Object = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last_state: Object = field(default_factory=dict)
    ready: bool = False
    started: bool = False
    restarts: int = 0

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def exit_code(self) -> int | None:
        """None while it has not ended."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    @property
    def running(self) -> bool:
        return "running" in self.state


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the status is made of."""

    containers: Sequence[ContainerState]
    address: str
    host_address: str
    started_at: str
    initialized: bool
    has_sandbox: bool
    over: bool
    """Nothing will be started any more, and nothing runs."""
    reason: str = ""
    """Of the pod as a whole, e.g. DeadlineExceeded."""
    message: str = ""


def build_status(facts: PodFacts, old: Object, now: str) -> Object:
    """The part of the status that the node owns, ready for a merge patch."""
    phase = phase_of(facts)
    status: Object = {
        "phase": phase,
        "conditions": _conditions(facts, phase, old.get("conditions") or (), now),
        "hostIP": facts.host_address,
        "hostIPs": [{"ip": facts.host_address}],
        "startTime": facts.started_at,
    }
    if facts.address:
        status |= {"podIP": facts.address, "podIPs": [{"ip": facts.address}]}
    if facts.reason:
        status |= {"reason": facts.reason, "message": facts.message}
    for key, group in _by_list(facts.containers).items():
        if group:
            status[key] = [_container(container) for container in group]
    return status


def phase_of(facts: PodFacts) -> str:
    mains = [container for container in facts.containers if not container.is_init]
    if facts.over:
        failed = facts.reason or any(container.exit_code for container in facts.containers)
        return "Failed" if failed or any(c.exit_code is None for c in mains) else "Succeeded"
    if facts.initialized and any(c.running or c.restarts or c.exit_code is not None for c in mains):
        return "Running"
    return "Pending"


def _by_list(containers: Iterable[ContainerState]) -> Mapping[str, list[ContainerState]]:
    return {
        "initContainerStatuses": [c for c in containers if c.is_init],
        "containerStatuses": [c for c in containers if not c.is_init],
    }


def _container(container: ContainerState) -> Object:
    return {
        "name": container.name,
        "image": container.spec.get("image") or "",
        "imageID": "",
        "ready": container.ready,
        "started": container.started,
        "restartCount": container.restarts,
        "state": {
            kind: container.state.get(kind)
            for kind in ("waiting", "running", "terminated")
            if kind in container.state
        },
        "lastState": container.last_state,
    }


def _conditions(facts: PodFacts, phase: str, old: Sequence[Object], now: str) -> list[Object]:
    """Ours, then everybody else's; a time moves only with its status."""
    wanted = {
        "PodReadyToStartContainers": (facts.has_sandbox, "", ""),
        "Initialized": _initialized(facts, phase),
        "Ready": _ready(facts, phase),
        "ContainersReady": _ready(facts, phase),
    }
    before = {condition["type"]: condition for condition in old}
    conditions: list[Object] = []
    for kind, (holds, reason, message) in wanted.items():
        status = "True" if holds else "False"
        same = before.get(kind, {}).get("status") == status
        condition: Object = {
            "type": kind,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": before[kind]["lastTransitionTime"] if same else now,
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions.append(condition)
    return conditions + [condition for condition in old if condition["type"] not in OURS]


def _initialized(facts: PodFacts, phase: str) -> tuple[bool, str, str]:
    if facts.initialized:
        return True, "PodCompleted" if phase == "Succeeded" else "", ""
    waiting = [c.name for c in facts.containers if c.is_init and c.exit_code != 0]
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return False, "ContainersNotInitialized", message


def _ready(facts: PodFacts, phase: str) -> tuple[bool, str, str]:
    if phase == "Succeeded":
        return False, "PodCompleted", ""
    if phase == "Failed":
        return False, "PodFailed", ""
    unready = [c.name for c in facts.containers if not c.is_init and not c.ready]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return False, "ContainersNotReady", message
    return True, "", ""


def terminated(code: int, *, started_at: str, now: str, reason: str = "") -> Object:
    """Shape of a container's end."""
    usual = "Completed" if code == 0 else "Error"
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason or usual,
            "startedAt": started_at,
            "finishedAt": now,
        }
    }
