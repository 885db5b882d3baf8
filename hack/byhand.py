# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""An AscendJob where neither scheduler nor kubelet is: what they would do is done by hand."""

from __future__ import annotations

import json
from typing import Any

from hack.admin import MERGE, Admin, path_of, wait_for
from hack.jobs import Job, Object
from hack.replay.kubelet import pod_status

NPUS = "huawei.com/Ascend910"


def build_job(
    name: str = "j",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    policy: Object | None = None,
    restart: str = "Never",
    volumes: list[Object] | None = None,
    **roles: int,
) -> Object:
    """A PyTorch job whose pods ask for two NPUs each; `Master=1, Worker=3` counts them."""
    container = {
        "name": "ascend",
        "image": "train:1",
        "resources": {"requests": {NPUS: 2}, "limits": {NPUS: 2}},
    }
    spec = {"containers": [container], **({"volumes": volumes} if volumes else {})}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {
            "name": name,
            "labels": {"framework": "pytorch", **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {
            "runPolicy": policy or {},
            "replicaSpecs": {
                role: {"replicas": count, "restartPolicy": restart, "template": {"spec": spec}}
                for role, count in (roles or {"Master": 1, "Worker": 1}).items()
            },
        },
    }


class JobByHand(Job):
    """A job, and hands for what the rest of the cluster would do to its children."""

    def __init__(self, admin: Admin, namespace: str, job: Object) -> None:
        super().__init__(admin, namespace, job)

    def give_devices(self) -> None:
        """Nobody does, unless a test calls `annotate`."""

    # ------------------------------------------------------------ doing
    def phase_of_group(self, phase: str) -> None:
        """Volcano's word, once the PodGroup is there."""
        (group,) = wait_for(f"the PodGroup of {self.name}", lambda: self.pod_groups)
        self.patch(group, {"status": {"phase": phase}})  # the kind has no subresource

    def let_in(self, pods: int) -> dict[str, str]:
        """The gang is let in, and all pods are made; their uids."""
        self.phase_of_group("Inqueue")
        return self.wait_pods(pods)

    def turn(self, phase: str, *names: str, code: int | None = None) -> None:
        """What a kubelet says of these pods, or of all."""
        ended = {} if code is None else {"exit": code}
        for pod in self.pods:
            if not names or pod["metadata"]["name"] in names:
                ip = f"10.244.0.{len(pod['metadata']['name'])}"
                setting = {"phase": phase, "container": "ascend", "ip": ip, **ended}
                self._status(pod, pod_status(pod, setting))

    def run(self, pods: int) -> dict[str, str]:
        """Let in, made, running, and known to run; the uids."""
        uids = self.let_in(pods)
        self.turn("Running")
        self.wait("Running")
        return uids

    def annotate(self) -> None:
        """What the device plugin writes, for the pods that have nothing yet."""
        for number, pod in enumerate(self.pods):
            key = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
            if key in (pod["metadata"].get("annotations") or {}):
                continue
            configuration = {
                "pod_name": pod["metadata"]["name"],
                "server_id": pod["metadata"]["uid"],
                "host_ip": f"10.10.0.{number}",
                "devices": [
                    {"device_id": str(device), "device_ip": f"192.168.{number}.{device}"}
                    for device in range(2)
                ],
            }
            self.patch(pod, {"metadata": {"annotations": {key: json.dumps(configuration)}}})

    def lose(self, *names: str) -> None:
        """Somebody deletes these pods, or all."""
        for pod in self.pods:
            if not names or pod["metadata"]["name"] in names:
                self.admin.request("DELETE", path_of(pod), {"gracePeriodSeconds": 0})

    def edit(self, change: Object) -> None:
        """A merge patch of the job."""
        self.admin.request("PATCH", path_of(self.asked), change, MERGE)

    def _status(self, obj: Object, status: Object) -> None:
        path = f"{path_of(obj)}/status"
        self.admin.request("PATCH", path, {"status": status}, MERGE)

    # ------------------------------------------------------------ looking
    @property
    def all_conditions(self) -> list[tuple[str, str, str]]:
        """Type, status and reason, in their order."""
        found = self.status.get("conditions") or []
        return [(c["type"], c["status"], c.get("reason", "")) for c in found]

    @property
    def services(self) -> dict[str, Object]:
        """By name."""
        return {s["metadata"]["name"]: s for s in self.children("v1", "Service")}

    def environment(self, pod: str) -> dict[str, str]:
        """Of its ascend container, as the server keeps it; a field in angle brackets."""
        (found,) = (p for p in self.pods if p["metadata"]["name"] == pod)
        entries: list[Any] = found["spec"]["containers"][0].get("env") or []
        return {
            e["name"]: f"<{e['valueFrom']['fieldRef']['fieldPath']}>"
            if "valueFrom" in e
            else e.get("value", "")
            for e in entries
        }

    def versions(self) -> dict[str, str]:
        """The generation of each pod."""
        return {p["metadata"]["name"]: p["metadata"]["labels"]["version"] for p in self.pods}

    def wait_reason(self, type_: str, reason: str, timeout_s: float = 30.0) -> str:
        """Until a condition is true for this reason; its message."""

        def found() -> Object | None:
            condition = self.conditions.get(type_) or {}
            return condition if condition.get("reason") == reason else None

        what = f"{self.name} is {type_} for {reason}"
        return str((wait_for(what, found, timeout_s) or {}).get("message", ""))

    def wait_event(self, reason: str) -> str:
        """Until there is an event of this reason; its text."""
        found = wait_for(f"event {reason}", lambda: [n for r, n in self.events if r == reason])
        return found[0]
