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


BARE = '{"status":"initializing","version":"1.0"}'

RIGHT: dict[str, Right] = {
    "ascendjob/05-sample-fault-retry": fault_retry,
    "ascendjob/34-hot-switch": hot_switch,
    "ascendjob/36-restart-running-with-table": restart_with_table,
}
