# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What has to be there where a recording shows a fault of the original, or its luck.

That a difference is expected says only that ours may differ; here is what it has to be.
"""

# Values are whatever YAML and JSON hold: types and names would hide them.
# ruff: noqa: ANN401

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hack.replay.compare import NONE, Difference, Entry, entries

Right = Callable[[list[Entry]], Iterator[Difference]]


def wrong(case: str, got: dict) -> list[Difference]:
    """Where what was seen of a case is not what has to be there; empty for most cases."""
    check = RIGHT.get(case)
    return list(check(entries(got))) if check and "stopped" not in got else []


def _must(at: int, what: str, found: Any, wanted: Any) -> Iterator[Difference]:
    if found not in (wanted if isinstance(wanted, set) else {wanted}):
        said = f"one of {sorted(wanted)}" if isinstance(wanted, set) else wanted
        yield Difference(at, "right", "", "", what, said, found)


def _label(entry: Entry, pod: str, key: str) -> str:
    found = entry.objects.get(f"Pod/{pod}") or {"metadata": {"labels": {}}}
    return str(found["metadata"]["labels"].get(key, NONE))


def _condition(entry: Entry, type_: str) -> dict:
    job = entry.data["job"]
    listed = job["status"].get("conditions") or [] if isinstance(job, dict) else []
    return next((c for c in listed if c["type"] == type_), {})


def _told(at: list[Entry], reason: str) -> int:
    return sum(n for e in at for (_, told, _), n in e.events.items() if told == reason)


def fault_retry(seen: list[Entry]) -> Iterator[Difference]:
    """Each step that deletes all pods takes one of the newest generation with it: one more.

    Which version a pod of before comes back with depends on which deletion is seen first, with the
    original, too; but never the version of the pod of the newest generation.
    """
    job = "qwen-pretrain-4x8"
    others = (f"{job}-master-0", f"{job}-worker-0", f"{job}-worker-2")
    for at, count in ((5, 2), (8, 3)):
        newest = f"{job}-worker-1"
        yield from _must(
            at, f"version of {newest}", _label(seen[at], newest, "version"), f"{count}"
        )
        for pod in others:
            found = _label(seen[at], pod, "version")
            yield from _must(at, f"version of {pod}", found, {f"{count - 1}", f"{count}"})
    for reason in ("JobRestarting", "JobFailed"):
        yield from _must(10, f"events {reason}", _told(seen, reason), 1)


def hot_switch(seen: list[Entry]) -> Iterator[Difference]:
    """ascendjob.md W-11: the backup has the index of its source, and so takes its slot."""
    backup = "hot-worker-1-hot-RAND"
    made = seen[3].objects.get(f"Pod/{backup}")
    if made is None:
        yield from _must(3, backup, NONE, "there")
        return
    for key in ("replica-index", "training.kubeflow.org/replica-index"):
        yield from _must(3, f"label {key} of {backup}", _label(seen[3], backup, key), "1")
    rank = made["metadata"]["annotations"].get("hccl/rankIndex")
    yield from _must(3, f"rank of {backup}", rank, "2")
    env = {e["name"]: e.get("value") for e in made["spec"]["containers"][0]["env"]}
    yield from _must(3, f"RANK of {backup}", env.get("RANK"), "2")
    there = {label for label in seen[5].objects if label.startswith("Pod/")}
    wanted = {"Pod/hot-master-0", "Pod/hot-worker-0", f"Pod/{backup}"}
    yield from _must(5, "pods", ", ".join(sorted(there)), ", ".join(sorted(wanted)))
    counts = seen[5].data["job"]["status"]["replicaStatuses"]
    yield from _must(5, "active Workers", counts["Worker"].get("active"), 2)


def restart_with_table(seen: list[Entry]) -> Iterator[Difference]:
    """ascendjob.md W-7: one loss before the restart and one after it are two, and one was free."""
    table = "ConfigMap/rings-config-rst"
    before, after = (seen[at].objects[table]["data"]["version"] for at in (4, 5))
    yield from _must(5, "version of the table after a restart", after, before)
    failed = _condition(seen[6], "Failed")
    yield from _must(6, "condition Failed", failed.get("reason"), "JobFailed")
    said = "Job rst has failed because it has reached the specified backoff limit"
    yield from _must(6, "its message", failed.get("message"), said)
    yield from _must(
        6, "rst-worker-0", "there" if "Pod/rst-worker-0" in seen[6].objects else NONE, NONE
    )
    yield from _must(6, "table", seen[6].objects[table]["data"]["hccl.json"], BARE)
    yield from _must(
        7, "rst-master-0", "there" if "Pod/rst-master-0" in seen[7].objects else NONE, NONE
    )


def _there(entry: Entry, label: str) -> str:
    return "there" if label in entry.objects else NONE


def waits_asleep(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-02: the launcher is made when both workers are ready, and not before."""
    for at, found in ((0, NONE), (1, NONE), (2, NONE), (3, "there")):
        yield from _must(at, "Job ww-launcher", _there(seen[at], "Job/ww-launcher"), found)


def evicted_for_good(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-04: Failed, with its time, and nothing that happens later changes it."""
    for at in range(2, len(seen)):
        failed = _condition(seen[at], "Failed")
        yield from _must(at, "Failed", failed.get("status"), "True")
        yield from _must(at, "its reason", failed.get("reason"), "MPIJobEvicted")
        ended = seen[at].data["job"]["status"].get("completionTime")
        yield from _must(at, "completionTime", ended, "T2")
        job = seen[at].objects["Job/evi-launcher"]["spec"]
        yield from _must(at, "suspended launcher", job.get("suspend"), wanted=True)


def conflict_in_status(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-06: created once, and Created says what is in the way for as long as it is."""
    text = 'Resource "clash" of Kind "" already exists and is not managed by MPIJob'
    for at, said in ((0, text), (1, "MPIJob NS/clash is created.")):
        created = _condition(seen[at], "Created")
        yield from _must(at, "reason of Created", created.get("reason"), "MPIJobCreated")
        yield from _must(at, "its message", created.get("message"), said)
    yield from _must(0, "events MPIJobCreated", _told(seen, "MPIJobCreated"), 1)


def nobody_left_asleep(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-10."""
    pods = sorted(label for label in seen[3].objects if label.startswith("Pod/"))
    yield from _must(3, "pods", ", ".join(pods), "")


def only_the_tail_goes(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-01."""
    label = next(label for label in sorted(seen[1].objects) if label.endswith("-worker-1"))
    same = "replaced" if label in seen[2].replaced else _there(seen[2], label)
    yield from _must(2, label, same, "there")


def gang_without_launcher(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-03."""
    yield from _must(0, "minMember", _group(seen[0])["minMember"], 2)
    last = _group(seen[-1])["minMember"]
    yield from _must(len(seen) - 1, "minMember", last, 3)


def launcher_counts_once(seen: list[Entry]) -> Iterator[Difference]:
    """mpijob.md W-28."""
    yield from _must(0, "cpu", str(_group(seen[0])["minResources"]["cpu"]), "17")


def _group(entry: Entry) -> dict:
    return next(obj["spec"] for obj in entry.objects.values() if obj["kind"] == "PodGroup")


BARE = '{"status":"initializing","version":"1.0"}'

RIGHT: dict[str, Right] = {
    "ascendjob/05-sample-fault-retry": fault_retry,
    "ascendjob/34-hot-switch": hot_switch,
    "ascendjob/36-restart-running-with-table": restart_with_table,
    "mpijob/15-worker-evicted": evicted_for_good,
    "mpijob/17-wait-for-workers-suspended": waits_asleep,
    "mpijob/18-suspend-with-failed-worker-policy-running": nobody_left_asleep,
    "mpijob/19-raw-scale-down": only_the_tail_goes,
    "mpijob/25-resource-conflict": conflict_in_status,
    "mpijob/27-gang-wait-for-workers": gang_without_launcher,
    "mpijob/28-gang-min-available": launcher_counts_once,
}
