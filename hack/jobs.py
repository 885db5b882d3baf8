# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One job on a cluster, seen from outside, and what device plugin and trainers do to its pods."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import yaml

from ascendop.sim.devices import asked_npus, build_annotations, given_devices, has_devices
from hack.admin import MERGE, Admin, path_of, wait_for

Object = dict[str, Any]


def read_jobs(file: Path) -> list[Object]:
    """All documents of a YAML file."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


class Job:
    """A job in a namespace. Every property asks the server.

    outcome:  how its pods end by themselves ("succeed", "fail"), `after` a Go duration; None: they
              run until they are told.
    """

    def __init__(
        self,
        admin: Admin,
        namespace: str,
        job: Object,
        *,
        outcome: str | None = None,
        after: str = "1s",
    ) -> None:
        self.admin = admin
        self.namespace = namespace
        self.asked = copy.deepcopy(job)
        self.asked["metadata"]["namespace"] = namespace
        self.name: str = job["metadata"]["name"]
        self._outcome(outcome, after)

    def _outcome(self, outcome: str | None, after: str) -> None:
        replicas = next(v for k, v in self.asked["spec"].items() if k.lower().endswith("specs"))
        for role in replicas.values():
            meta = role["template"].setdefault("metadata", {})
            if outcome:
                annotations = meta.setdefault("annotations", {})
                annotations |= {"ascendop.io/outcome": outcome, "ascendop.io/after": after}

    def create(self) -> None:
        """Create it. Raises RefusedError."""
        self.admin.create(self.asked)

    def delete(self) -> None:
        """Delete it; its children are the garbage collector's business."""
        self.admin.request("DELETE", path_of(self.asked))

    # ------------------------------------------------------------ looking
    @property
    def stored(self) -> Object:
        """The job as it is."""
        return self.admin.request("GET", path_of(self.asked))

    @property
    def status(self) -> Object:
        """Empty until somebody wrote one."""
        found: Object = self.stored.get("status") or {}
        return found

    @property
    def conditions(self) -> dict[str, Object]:
        """By type, those that are true only."""
        listed = self.status.get("conditions") or []
        return {c["type"]: c for c in listed if c["status"] == "True"}

    def children(self, api_version: str, kind: str) -> list[Object]:
        """Objects of this kind in the namespace that the job owns, in the order of names."""
        meta = {"namespace": self.namespace}
        of_kind = {"apiVersion": api_version, "kind": kind, "metadata": meta}
        items = self.admin.request("GET", path_of(of_kind, collection=True))["items"]
        found = [
            {"apiVersion": api_version, "kind": kind, **item}
            for item in items
            if any(o["name"] == self.name for o in item["metadata"].get("ownerReferences", ()))
        ]
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    @property
    def pods(self) -> list[Object]:
        """Those that are not being deleted."""
        pods = self.children("v1", "Pod")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    @property
    def pod_groups(self) -> list[Object]:
        """One, while it is not finished."""
        return self.children("scheduling.volcano.sh/v1beta1", "PodGroup")

    @property
    def phases(self) -> dict[str, str]:
        """Pod to its phase."""
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in self.pods}

    @property
    def uids(self) -> dict[str, str]:
        """Pod to its uid: what a restart of the operator must not change."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods}

    @property
    def events(self) -> set[tuple[str, str]]:
        """Reason and text of its events."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return {
            (event["reason"], event.get("note", ""))
            for event in self.admin.request("GET", path)["items"]
            if event.get("regarding", {}).get("name") == self.name
        }

    def data_of(self, config_map: str) -> dict[str, str]:
        """Of a ConfigMap in the job's namespace."""
        meta = {"namespace": self.namespace, "name": config_map}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        found: dict[str, str] = self.admin.request("GET", path_of(wanted)).get("data") or {}
        return found

    # ------------------------------------------------------------ doing
    def give_devices(self) -> None:
        """What the device plugin does: every bound pod that asked for NPUs learns which it got."""
        pods = self.pods
        for pod in pods:
            node_name = pod["spec"].get("nodeName")
            if not node_name or has_devices(pod):
                continue
            node = self.admin.request("GET", f"/api/v1/nodes/{node_name}")
            neighbours = (p for p in pods if p["spec"].get("nodeName") == node_name)
            taken = {number for p in neighbours for number in given_devices(p)}
            free = (number for number in itertools.count() if number not in taken)
            mine = itertools.islice(free, asked_npus(pod)[1])
            given = build_annotations(pod, node, mine)
            pod["metadata"].setdefault("annotations", {}).update(given)
            self.patch(pod, {"metadata": {"annotations": given}})

    def tell(self, outcome: str, *names: str) -> None:
        """Let these pods end, or all of them: succeed or fail."""
        for pod in self.pods:
            if not names or pod["metadata"]["name"] in names:
                self.patch(pod, {"metadata": {"annotations": {"ascendop.io/outcome": outcome}}})

    def patch(self, obj: Object, change: Object) -> None:
        """A merge patch of a child."""
        self.admin.request("PATCH", path_of(obj), change, MERGE)

    # ------------------------------------------------------------ waiting
    def wait(self, condition: str, timeout_s: float = 40.0) -> Object:
        """Until the condition is true, while devices are given to pods; the condition."""

        def found() -> Object | None:
            self.give_devices()
            return self.conditions.get(condition)

        try:
            return wait_for(f"{self.name} is {condition}", found, timeout_s) or {}
        except TimeoutError as error:
            state = json.dumps({"status": self.status, "pods": self.phases}, indent=1)
            raise TimeoutError(f"{error}\n{state}") from error

    def wait_pods(self, count: int, phase: str = "", timeout_s: float = 40.0) -> dict[str, str]:
        """Until it has so many pods, all in this phase if one is named; their uids."""

        def right() -> bool:
            self.give_devices()
            phases = self.phases
            return len(phases) == count and (not phase or set(phases.values()) == {phase})

        wait_for(f"{self.name} has {count} pods {phase}", right, timeout_s)
        return self.uids
