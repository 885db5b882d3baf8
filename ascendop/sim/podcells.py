# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The one word that kubectl shows for a pod, and the numbers beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.ages import age

Status = dict[str, Any]


def ready(pod: Object) -> str:
    """As in 1/2."""
    statuses = _statuses(pod, "containerStatuses")
    running = sum(bool(s.get("ready")) and "running" in (s.get("state") or {}) for s in statuses)
    return f"{running}/{len((pod.get('spec') or {}).get('containers') or ())}"


def word(pod: Object) -> str:
    """The reason that says most: of an init container, of a container, of the pod."""
    status = pod.get("status") or {}
    said = status.get("reason") or status.get("phase") or "Unknown"
    said = _init_word(pod) or _container_word(_statuses(pod, "containerStatuses"), said)
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(said)


def restarts(pod: Object, now: datetime) -> str:
    """How often, and how long ago the last time."""
    statuses = _statuses(pod, "containerStatuses")
    count = sum(status.get("restartCount", 0) for status in statuses)
    ends = [
        end
        for status in statuses
        if (end := ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt"))
    ]
    return f"{count} ({age(max(ends), now)} ago)" if count and ends else str(count)


def _init_word(pod: Object) -> str:
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if ended is not None:
            return "Init:" + _ended_word(ended)
        reason = (state.get("waiting") or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{total}"
    return ""


def _container_word(statuses: Sequence[Status], said: str) -> str:
    running = False
    for status in reversed(statuses):
        state = status.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            said = waiting["reason"]
        elif ended is not None:
            said = _ended_word(ended)
        elif status.get("ready") and "running" in state:
            running = True
    return "Running" if running and said == "Completed" else said


def _ended_word(ended: Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _statuses(pod: Object, part: str) -> Sequence[Status]:
    return (pod.get("status") or {}).get(part) or ()
