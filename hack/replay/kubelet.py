# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Stands in for the kubelet: the status that a pod has when a step says so."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, ARG005, C901, E731, FBT001, FBT002, PLR0912, PLR0915

from __future__ import annotations

import datetime as dt
from typing import Any


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod_status(pod: dict[str, Any], setting: dict[str, Any]) -> dict[str, Any]:
    """The status that one item of a step's `pods` stands for."""
    phase, at, status = setting.get("phase"), now(), {}
    names = [c["name"] for c in pod["spec"]["containers"]]
    main = setting.get("container", names[0])

    def containers(state: Any, ready: bool = False, **more: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": n,
                "image": "x",
                "imageID": "",
                "restartCount": setting.get("restarts", 0),
                "ready": ready,
                **more,
                "state": state(n),
            }
            for n in names
        ]

    def ended(name: str, code: int) -> dict[str, Any]:
        reason = "Error" if code or (name == main and "exit" in setting) else "Completed"
        return {
            "terminated": {"exitCode": code, "reason": reason, "startedAt": at, "finishedAt": at}
        }

    def conditions(**values: str) -> list[dict[str, Any]]:
        return [
            {"type": kind, "status": value, "lastTransitionTime": at}
            for kind, value in values.items()
        ]

    if phase:
        status["phase"] = phase
    for key, plural in (("ip", "podIP"), ("hostIP", "hostIP")):
        if setting.get(key):
            status |= {plural: setting[key], plural + "s": [{"ip": setting[key]}]}
    status |= {key: setting[key] for key in ("reason", "message") if key in setting}

    if phase == "Running":
        ready = setting.get("ready", True)
        status["containerStatuses"] = containers(
            lambda n: {"running": {"startedAt": at}}, ready, started=True
        )
        for each in status["containerStatuses"]:
            if "exit" in setting and each["name"] == main:
                each |= {"ready": False, "state": ended(main, setting["exit"])}
        status["conditions"] = conditions(
            PodScheduled="True", Initialized="True", ContainersReady=str(ready), Ready=str(ready)
        )
    elif phase == "Succeeded":
        status["containerStatuses"] = containers(lambda n: ended("", 0))
    elif phase == "Failed":
        failed = lambda n: ended(n, setting["exit"] if n == main else 0)
        status["containerStatuses"] = containers(failed) if "exit" in setting else None
    elif phase == "Pending" and setting.get("waiting"):
        status["containerStatuses"] = containers(
            lambda n: {
                "waiting": {
                    "reason": setting["waiting"],
                    "message": setting.get("waitingMessage", ""),
                }
            }
        )
    if phase in ("Succeeded", "Failed"):
        reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
        status["conditions"] = conditions(PodScheduled="True") + [
            {**c, "reason": reason} for c in conditions(ContainersReady="False", Ready="False")
        ]
    if setting.get("conditions"):
        status["conditions"] = status.get("conditions", []) + [
            {**c, "lastTransitionTime": at} for c in setting["conditions"]
        ]
    return status
