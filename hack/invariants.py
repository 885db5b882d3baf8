# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What must hold of gangs whatever happens, found out from nothing but the changes of objects.

Source: scheduling.md 8.3. Fed by a watch of a real server, or by the simulator's own changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

Object = dict[str, Any]

GROUP: Final = "scheduling.k8s.io/group-name"
ROLE: Final = "volcano.sh/task-spec"
RANK: Final = "hccl/rankIndex"
SOURCE: Final = "backupSourcePodName"
TYPE: Final = "training.kubeflow.org/replica-type"
VOLCANO: Final = "volcano"
ENDED: Final = frozenset({"Succeeded", "Failed"})
JOBS: Final = frozenset({"AscendJob"})
AT_REST_S: Final = 10.0
"""Many cycles of the scheduler, on a busy machine too."""


class Gangs:
    """All pods, PodGroups and jobs as far as they were seen, and what was wrong with them.

    manager:  field manager of the operator.
    settle_s: for how long a gang may stand half bound, between two bindings.
    """

    def __init__(self, manager: str = "ascendop", settle_s: float = AT_REST_S) -> None:
        self.broken: list[str] = []
        """Sentences, each with the invariant's number first; in the order in which it was seen."""
        self._manager = manager
        self._settle_s = settle_s
        self._seen: dict[str, dict[str, Object]] = {"Pod": {}, "PodGroup": {}, "AscendJob": {}}
        self._names: dict[tuple[str, str], str] = {}
        self._ranks: dict[tuple[str, str], str] = {}
        self._ran: set[str] = set()
        """Owners whose gang was bound once: what is lost later comes back pod by pod."""
        self._half: dict[str, float] = {}
        """Owner to the moment since which a part of its gang is bound."""

    def saw(self, type_: str, obj: Object, at: float) -> None:
        """A change: ADDED, MODIFIED or DELETED, in the order of the server, at `at` seconds."""
        kind, uid = obj["kind"], obj["metadata"]["uid"]
        if type_ == "DELETED":
            self._seen[kind].pop(uid, None)
        else:
            first = uid not in self._seen[kind]
            self._seen[kind][uid] = obj
            if kind == "Pod" and first:
                self._new_pod(obj)
            elif kind == "PodGroup":
                self._group(obj)
        self.look(at)

    def look(self, at: float) -> None:
        """I1: no part of a gang is bound at rest."""
        for group in self._seen["PodGroup"].values():
            owner = _owner(group).get("uid", "")
            pods = [pod for pod in self._members(group) if not _ends(pod)]
            bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
            least = int((group.get("spec") or {}).get("minMember") or 0)
            if bound >= least:
                self._ran.add(owner)
            if not 0 < bound < least or owner in self._ran:
                self._half.pop(owner, None)
            elif at - self._half.setdefault(owner, at) > self._settle_s:
                self._say(1, group, f"{bound} of {least} pods stay bound")
                self._half[owner] = at

    def rest(self, namespace: str) -> None:
        """What holds of a namespace in which nothing moves any more: I6."""
        for job in self._seen["AscendJob"].values():
            if job["metadata"]["namespace"] != namespace or _has_ended(job):
                continue
            for role, said in ((job.get("status") or {}).get("replicaStatuses") or {}).items():
                there = sum(
                    (pod.get("status") or {}).get("phase") == "Running"
                    for pod in self._pods_of(job)
                    if pod["metadata"]["labels"].get(TYPE) == role.lower()
                )
                active = int((said or {}).get("active") or 0)
                if active != there:
                    self._say(6, job, f"{role}: active is {active}, and {there} pods run")

    def held(self, name: str, namespace: str = "") -> int:
        """How much of a resource the bound pods ask for that have not ended."""
        return sum(
            int(container.get("resources", {}).get("requests", {}).get(name, 0))
            for pod in self._seen["Pod"].values()
            if pod["spec"].get("nodeName") and not _ends(pod)
            if namespace in {"", pod["metadata"]["namespace"]}
            for container in pod["spec"]["containers"]
        )

    # ------------------------------------------------------------ at each change
    def _new_pod(self, pod: Object) -> None:
        """I3 and I5, of a pod as it was made."""
        owner, meta = _owner(pod), pod["metadata"]
        if owner.get("kind") not in JOBS:
            return
        annotations = meta.get("annotations") or {}
        if pod["spec"].get("schedulerName") == VOLCANO:
            for key in (GROUP, ROLE):
                if not annotations.get(key):
                    self._say(3, pod, f"was made without {key}")
        # A backup of a hot switch has the rank of its source, and another name is all it has.
        name = annotations.get(SOURCE) or meta["name"]
        rank, uid = annotations.get(RANK), owner["uid"]
        if rank is None or annotations.get(ROLE) == "scheduler":
            return  # MindSpore's Scheduler shares a rank with a worker: ascendjob.md D4
        if self._names.setdefault((uid, rank), name) != name:
            self._say(5, pod, f"has rank {rank}, which {self._names[uid, rank]} had")
        if self._ranks.setdefault((uid, name), rank) != rank:
            self._say(5, pod, f"has rank {rank}, and had {self._ranks[uid, name]}")

    def _group(self, group: Object) -> None:
        """I2 and I4."""
        owner = _owner(group)
        if owner.get("kind") not in JOBS:
            return
        if not (owner.get("controller") and owner.get("blockOwnerDeletion")):
            self._say(2, group, "has an owner that is no controller, or does not block deletion")
        twins = sorted(
            other["metadata"]["name"]
            for other in self._seen["PodGroup"].values()
            if _owner(other).get("uid") == owner["uid"] and not _deleting(other)
        )
        if len(twins) > 1:
            self._say(2, group, f"is one of {len(twins)} of its job: {', '.join(twins)}")
        for entry in group["metadata"].get("managedFields") or ():
            if entry["manager"] != self._manager:
                continue
            if entry["operation"] != "Apply":
                self._say(4, group, f"was written by {entry['operation']}, not by apply")
            if "f:status" in entry.get("fieldsV1", {}):
                self._say(4, group, "has a status of ours")

    # ------------------------------------------------------------ looking
    def _members(self, group: Object) -> Iterator[Object]:
        meta = group["metadata"]
        for pod in self._seen["Pod"].values():
            found = pod["metadata"]
            named = (found.get("annotations") or {}).get(GROUP)
            if named == meta["name"] and found["namespace"] == meta["namespace"]:
                yield pod

    def _pods_of(self, job: Object) -> Iterable[Object]:
        uid = job["metadata"]["uid"]
        return [pod for pod in self._seen["Pod"].values() if _owner(pod).get("uid") == uid]

    def _say(self, number: int, obj: Object, what: str) -> None:
        meta = obj["metadata"]
        text = f"I{number}: {obj['kind']} {meta['namespace']}/{meta['name']} {what}"
        if text not in self.broken:
            self.broken.append(text)


def _owner(obj: Object) -> Object:
    owners: list[Object] = obj["metadata"].get("ownerReferences") or [{}]
    return owners[0]


def _deleting(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _ends(pod: Object) -> bool:
    """A pod that succeeded holds nothing, and counts for its gang; one that failed does not."""
    return (pod.get("status") or {}).get("phase") in ENDED


def _has_ended(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ENDED and c["status"] == "True" for c in conditions)
