# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job as the original operator left it, made again of a recording: what a take-over finds.

Nothing here is asked of an operator: objects, statuses and annotations are those of the recording,
written by hand in the order in which they came to be.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from hack.admin import MERGE, Admin, path_of
from hack.byhand import JobByHand
from hack.jobs import Object, read_jobs
from hack.replay.kubelet import pod_status

Objects = dict[str, Object]
"""By "Kind/name"."""
_STEP_S = 60
_PATH = re.compile(r'\["(?P<quoted>[^"]*)"\]|\[(?P<index>\d+)\]|(?P<plain>[^.\[\]]+)')
_PLACEHOLDER = re.compile(
    r"CLUSTER_IP\((?P<service>[^)]*)\)|UNIX_TIME\(T(?P<unix>\d+)\)|UID\(Pod/(?P<pod>[^)]*)\)"
    r"|\bT(?P<time>\d+)\b|\b(?P<word>JOB_UID|OWNER|NS)\b"
)
_LATE = re.compile(r"UID\(Pod/")


def inherit(admin: Admin, namespace: str, case: Path, step: str) -> JobByHand:
    """Make the job and its children as they were after a step.

    case:  the recording, without the end of its name.
    step:  the beginning of the step's name; the last of that name counts.
    """
    recording = yaml.safe_load(case.with_name(f"{case.name}.want.yaml").read_text())
    entries = [{"step": "created", **recording["created"]}, *recording["steps"]]
    last = max(i for i, entry in enumerate(entries) if str(entry["step"]).startswith(step))
    objects: Objects = {}
    status: Object = {}
    for entry in entries[: last + 1]:
        _follow(objects, entry)
        status = (entry.get("job") or {}).get("status") or status
    (asked,) = read_jobs(case.with_name(f"{case.name}.job.yaml"))
    job = JobByHand(admin, namespace, asked)
    job.create()
    settings = _settings(case, [str(entry["step"]) for entry in entries[: last + 1]])
    _Made(admin, job, len(entries)).make(objects, settings, status)
    return job


def _follow(objects: Objects, entry: Mapping[str, Any]) -> None:
    """What a step did to the objects."""
    for obj in (*(entry.get("objects") or ()), *(entry.get("added") or ())):
        objects[f"{obj['kind']}/{obj['metadata']['name']}"] = copy.deepcopy(obj)
    for change in (*(entry.get("recreated") or ()), *(entry.get("changed") or ())):
        for path, value in change["set"].items():
            _set(objects[change["object"]], path, value)
    for gone in entry.get("removed") or ():
        objects.pop(gone, None)


def _set(obj: Object, path: str, value: Any) -> None:  # noqa: ANN401  YAML's
    """Follow a path such as `spec.containers[0].name` or `data.["hccl.json"]`."""
    *way, last = map(_key, _PATH.finditer(path))
    place: Any = obj
    for key in way:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[key]
    if value == "REMOVED":
        place.pop(last, None)
    else:
        place[last] = value


def _key(match: re.Match[str]) -> str | int:
    if match["index"]:
        return int(match["index"])
    return match["plain"] if match["quoted"] is None else match["quoted"]


def _settings(case: Path, steps: list[str]) -> list[tuple[str, Object]]:
    """What the steps said of pods, in order: a pattern of names, and what became of those pods."""
    found: list[tuple[str, Object]] = []
    for step in yaml.safe_load(case.with_name(f"{case.name}.steps.yaml").read_text()):
        if step["name"] in steps:
            steps.remove(step["name"])
            for setting in step.get("pods") or ():
                matches = setting["match"]
                patterns = [matches] if isinstance(matches, str) else matches
                found += [(pattern.replace("*", ".*"), setting) for pattern in patterns]
    return found


def _setting(settings: Sequence[tuple[str, Object]], name: str) -> Object:
    """The last word on a pod; where it is was perhaps said before."""
    found: Object = {}
    for pattern, setting in settings:
        if re.fullmatch(pattern, name):
            place: Object = {k: found[k] for k in ("node", "ip", "hostIP") if k in found}
            found = {**place, **setting}
    return found


class _Made:
    """Placeholders of the recording, and what they stand for in this cluster."""

    def __init__(self, admin: Admin, job: JobByHand, steps: int) -> None:
        self._admin = admin
        self._job = job
        self._uid: str = job.stored["metadata"]["uid"]
        self._addresses: dict[str, str] = {}
        self._uids: dict[str, str] = {}
        self._began = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=_STEP_S * steps)

    def make(
        self, objects: Objects, settings: Sequence[tuple[str, Object]], status: Object
    ) -> None:
        """Everything but the job, and then the job's status."""
        order = ("PodGroup", "ConfigMap", "Service", "Pod")
        for obj in sorted(objects.values(), key=lambda o: order.index(o["kind"])):
            if obj["kind"] == "Pod":
                self._pod(obj, settings)
            else:
                self._object(obj)
        for obj in objects.values():
            if obj["kind"] == "Pod":
                self._late(obj)
        path = f"{path_of(self._job.asked)}/status"
        self._admin.request("PATCH", path, {"status": self._filled(status)}, MERGE)

    def _object(self, obj: Object) -> Object:
        made: Object = self._filled(obj)
        made["metadata"]["namespace"] = self._job.namespace
        if made["kind"] == "Service":
            del made["spec"]["clusterIP"]
        answer = self._admin.create(made)
        if made["kind"] == "Service":
            self._addresses[answer["metadata"]["name"]] = answer["spec"]["clusterIP"]
        return answer

    def _pod(self, obj: Object, settings: Sequence[tuple[str, Object]]) -> None:
        name = obj["metadata"]["name"]
        setting = _setting(settings, name)
        early = copy.deepcopy(obj)
        notes = early["metadata"].get("annotations") or {}
        early["metadata"]["annotations"] = {k: v for k, v in notes.items() if not _LATE.search(v)}
        if setting.get("node"):
            early["spec"]["nodeName"] = setting["node"]
        answer = self._object(early)
        self._uids[name] = answer["metadata"]["uid"]
        if setting.get("phase"):
            path = f"{path_of(answer | {'apiVersion': 'v1', 'kind': 'Pod'})}/status"
            body = {"status": pod_status(answer, setting)}
            self._admin.request("PATCH", path, body, MERGE)

    def _late(self, obj: Object) -> None:
        """Annotations that name the UID that the pod has only now."""
        notes = obj["metadata"].get("annotations") or {}
        late = {key: value for key, value in notes.items() if _LATE.search(value)}
        if late:
            where = obj | {"metadata": {**obj["metadata"], "namespace": self._job.namespace}}
            body = {"metadata": {"annotations": self._filled(late)}}
            self._admin.request("PATCH", path_of(where), body, MERGE)

    def _filled(self, found: Any) -> Any:  # noqa: ANN401  whatever YAML holds
        return json.loads(_PLACEHOLDER.sub(self._value, json.dumps(found)))

    def _value(self, match: re.Match[str]) -> str:
        if match["service"]:
            return self._addresses.get(match["service"], "10.96.0.77")  # clusterd's, for one
        if match["pod"]:
            return self._uids[match["pod"]]
        if match["unix"]:
            return str(int(self._time(match["unix"]).timestamp()))
        if match["time"]:
            return self._time(match["time"]).strftime("%Y-%m-%dT%H:%M:%SZ")
        return self._job.namespace if match["word"] == "NS" else self._uid

    def _time(self, step: str) -> datetime:
        return self._began + timedelta(seconds=_STEP_S * int(step))
