# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The normal form: what differs between any two runs is a placeholder, or left out."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, C901, PLR0912, PLR2004

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

POD_DEFAULTS = {
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
}
CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "resources": {},
}
SERVICE_NOISE = (
    "clusterIPs",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
)
METADATA_NOISE = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "namespace",
    "generateName",
)
UNIX_TIME = re.compile(r"\d{9,}")


def without_pod_defaults(spec: dict) -> None:
    for key, default in POD_DEFAULTS.items():
        if spec.get(key) == default:
            del spec[key]
    for container in spec.get("containers", []) + spec.get("initContainers", []):
        for key, default in CONTAINER_DEFAULTS.items():
            if container.get(key) == default:
                del container[key]
        if container.get("imagePullPolicy") in ("Always", "IfNotPresent"):
            del container["imagePullPolicy"]
    own = [
        t
        for t in spec.pop("tolerations", [])
        if not (
            t.get("tolerationSeconds") == 300 and t.get("key", "").startswith("node.kubernetes.io/")
        )
    ]
    if own:
        spec["tolerations"] = own
    spec.pop("nodeName", None)


def seconds(time: str | int) -> float:
    return time if isinstance(time, int) else dt.datetime.fromisoformat(time).timestamp()


class Normal:
    """Knows namespace, uids, addresses, random names of one case; takes them out of values."""

    def __init__(self, namespace: str, job: dict, addresses: dict[str, str]) -> None:
        self.namespace = namespace
        self.job = (job["kind"], job["metadata"]["name"])
        self.known = dict(addresses)  # uid or address -> placeholder
        self.random: dict[
            str, str
        ] = {}  # name of a pod of a Job, or of a hot-switch backup -> placeholder
        self.starts: list[float] = []  # when each entry began

    def learn(self, obj: dict) -> None:
        meta = obj["metadata"]
        name, uid, prefix = meta["name"], meta["uid"], meta.get("generateName")
        if (obj["kind"], name) == self.job:
            self.known[uid] = "JOB_UID"
        else:
            self.known.setdefault(uid, f"UID({obj['kind']}/{name})")
        if obj["kind"] == "Service" and obj["spec"].get("clusterIP") not in (None, "", "None"):
            self.known[obj["spec"]["clusterIP"]] = f"CLUSTER_IP({name})"
        if obj["kind"] == "Pod" and name not in self.random:
            if prefix and any(
                owner.get("kind") == "Job" for owner in meta.get("ownerReferences", [])
            ):
                self.random[name] = (
                    f"{prefix}RAND{1 + sum(r.startswith(prefix) for r in self.random.values())}"
                )
            if backup := re.match(r"(.*-hot-)\d+$", name):
                self.random[name] = backup[1] + "RAND"

    def when(self, time: str | int) -> str:
        stamp = seconds(time)
        return (
            f"T{max([i for i, start in enumerate(self.starts) if start - 1.0 <= stamp], default=0)}"
        )

    def text(self, text: str) -> str:
        for name, placeholder in self.random.items():
            text = text.replace(name, placeholder)
        for value in sorted(self.known, key=len, reverse=True):
            if re.fullmatch(r"[\d.]+", value):
                text = re.sub(rf"(?<![\d.]){re.escape(value)}(?![\d.])", self.known[value], text)
            else:
                text = text.replace(value, self.known[value])
        return text.replace(self.namespace, "NS")

    def tree(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.text(k): self.tree(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.tree(v) for v in value]
        return self.text(value) if isinstance(value, str) else value

    def object(self, obj: dict) -> dict:
        obj = copy.deepcopy(obj)
        meta, kind = obj["metadata"], obj["kind"]
        for key in METADATA_NOISE:
            meta.pop(key, None)
        if "deletionTimestamp" in meta:
            meta["deletionTimestamp"] = "SET"
            meta.pop("deletionGracePeriodSeconds", None)
        self._mark_owner(meta)
        status = obj.pop("status", None) or {}
        if kind == "Pod":
            without_pod_defaults(obj["spec"])
        elif kind == "Job" and obj["apiVersion"].startswith("batch/"):
            template = obj["spec"]["template"]
            without_pod_defaults(template["spec"])
            template.setdefault("metadata", {}).pop("creationTimestamp", None)
            self._mark_owner(template["metadata"])
        elif kind == "Service":
            for key in SERVICE_NOISE:
                obj["spec"].pop(key, None)
        elif kind == "Secret":
            obj["data"] = dict.fromkeys(sorted(obj.get("data", {})), "REDACTED")
        elif kind == "PodGroup":
            if status.get("phase"):
                obj["status"] = {"phase": status["phase"]}
        elif kind == "ConfigMap" and UNIX_TIME.fullmatch(
            str(obj.get("data", {}).get("version", ""))
        ):
            obj["data"]["version"] = self.unix_time(obj["data"]["version"])
        return self.tree(obj)

    def unix_time(self, text: str) -> str:
        return f"UNIX_TIME({self.when(int(text))})"

    def status(self, status: dict | None) -> dict:
        status = copy.deepcopy(status or {})
        for key in ("startTime", "completionTime", "lastReconcileTime"):
            if status.get(key):
                status[key] = self.when(status[key])
        for condition in status.get("conditions") or []:
            for key in ("lastUpdateTime", "lastTransitionTime"):
                if condition.get(key):
                    condition[key] = self.when(condition[key])
        return self.tree(status)

    def _mark_owner(self, meta: dict) -> None:
        for owner in meta.get("ownerReferences", []):
            if self.known.get(owner.get("uid")) == "JOB_UID":
                owner["uid"] = "OWNER"


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves by path; an empty map or list is a leaf."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            step = f'["{key}"]' if re.search(r"[./]", key) else key
            yield from flat(inner, f"{path}.{step}" if path else step)
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            yield from flat(inner, f"{path}[{i}]")
    else:
        yield path, value


def changes(old: Any, new: Any) -> dict[str, Any]:
    before, after = dict(flat(old)), dict(flat(new))
    out = {
        path: value for path, value in after.items() if path not in before or before[path] != value
    }
    for path in before:
        if path not in after and not any(p.startswith(path) for p in after):
            out[path] = "REMOVED"
    return out
