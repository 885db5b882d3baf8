# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a difference means: not contract, only the order, expected, following, or a failure."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ARG001, B905, C901, E731, FBT001, FBT002, PLR0911, PLR0912

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from hack.replay.compare import NONE, Difference, Entry, compare, entries

# ---------------------------------------------------------------- places named in .differs.yaml
ENTRY = re.compile(r"created|steps\[(\d+)(?:\.\.(\d+))?\]( and later| on\b)?|last step(s)?")
FILLER = {"of", "the", "and", "label", "any", "pass", "with", "from", "is", "still", "there"}
SHORT = {"HPA": "HorizontalPodAutoscaler"}
KINDS = {"Pod", "Service", "ConfigMap", "Secret", "PodGroup", "Job", "HorizontalPodAutoscaler"}
OBJECTS = {"objects", "added", "removed", "recreated", "changed"}


@dataclasses.dataclass
class Place:
    entries: range
    words: list[str]
    wanted: str

    def covers(self, d: Difference) -> bool:
        return d.entry in self.entries and all(self._word(word, d) for word in self.words)

    @staticmethod
    def _word(word: str, d: Difference) -> bool:
        if word.startswith("job."):
            return d.section == "job" and f"job.{d.path}".startswith(word)
        if word in OBJECTS:
            return d.section == "objects"
        if word == "podNames":
            return (
                d.section == "objects"
                and d.kind == "Pod"
                and d.path in ("", "metadata.deletionTimestamp")
            )
        if word in ("events", "files", "result"):
            return d.section == word
        # "any pass with Volcano": only the events show how often a PodGroup was written.
        if word == "Volcano":
            return d.section == "events" and "PodGroup" in d.kind
        if word in KINDS:
            return d.section == "objects" and d.kind == word
        return ".env" in d.path if word == "env" else word in f"{d.name} {d.path}"


def places(differs: list[dict], count: int) -> list[Place]:
    """`at` lists entries, each with words that narrow it, or else with those of the next one."""
    words = lambda text: [
        SHORT.get(w, w)
        for w in (x.lstrip(".") for x in re.findall(r"[\w.-]*\w", text))
        if w not in FILLER
    ]
    out: list[Place] = []

    def span(mark: re.Match) -> range:
        if mark[0] == "created":
            return range(1)
        if mark[1] is None:
            return range(count - (2 if mark[4] else 1), count)
        first = int(mark[1]) + 1
        return range(first, count if mark[3] else int(mark[2] or mark[1]) + 2)

    for item in differs:
        start = len(out)
        for group in item["at"].split(";"):
            marks = list(ENTRY.finditer(group))
            if not marks:
                out.append(Place(range(count), words(group), item["want"]))
                continue
            head, waiting = words(group[: marks[0].start()]), []
            for mark, after in zip(marks, [*marks[1:], None]):
                waiting.append(range(count) if "any pass" in group else span(mark))
                tail = words(group[mark.end() : after.start() if after else None])
                if tail or after is None:
                    out += [Place(each, head + tail, item["want"]) for each in waiting]
                    waiting = []
        for mark in re.finditer(
            ENTRY.pattern + r"(?=:)", item["want"]
        ):  # "...; steps[4]: version file is removed"
            if mark[1]:
                out.append(Place(span(mark), out[start].words, item["want"]))
    return out


# ---------------------------------------------------------------- the recordings' README
EVICTED = 2  # entry in which a worker is evicted
HOT_SWITCH_ENDS = 5  # entry in which the source is deleted
BUDGET = 25  # events that client-go lets through per object
REPEATED = re.compile(
    r"ExitedWithCode|Invalid\w+|JobRunning|MPIJobRunning|MPIJobEvicted|MPIJobCreated|\w+Suspended|JobTerminated|SuccessfulDeletePodGroup"
)
STALE = re.compile(r"FailedCreatePod|FailedCreateService|MPIJobFailed")
NO_COMPLETION = {"PyTorchJob", "PaddleJob", "JAXJob", "AscendJob"}
DECORATED = {"Deployment", "StatefulSet", "Job"}
TIME = re.compile(r"status\.(?:(?:start|completion)Time|conditions\[(\w+)\]\.last\w+Time)$")
VERDICT = re.compile(r"status\.conditions\[(Failed|Succeeded|Suspended)\](\.status)?$")


class Judge:
    """Grades what `compare` finds in one case."""

    def __init__(
        self,
        kind: str,
        want: dict,
        got: dict,
        differs: list[dict],
        steps: list[dict],
        strict_events: bool = False,
    ) -> None:
        self.kind, self.steps, self.strict = kind, steps, strict_events
        self.case = want.get("case", "")
        self.found = compare(want, got)
        self.want, self.got = entries(want), entries(got) if "stopped" not in got else []
        self.places = places(differs, len(self.want))
        self.past: dict[tuple, Difference] = {}  # expected ones so far
        self.moved: set[str] = (
            set()
        )  # objects that are, or were, there on one side only, as expected

    def verdict(self) -> list[Difference]:
        """Each difference once, where it begins."""
        out: list[Difference] = []
        lasting: dict[tuple, Difference] = {}
        for found in self.found:
            fresh, still = [], {}
            for d in found:
                if self.not_contract(d):
                    continue
                lasts = (
                    d.section in ("objects", "files", "job")
                    and d.path != "uid"
                    and not d.path.startswith("specChanged")
                )
                if lasts and d.key() in lasting:
                    still[d.key()] = lasting[d.key()]
                    continue
                self.grade(d)
                fresh.append(d)
                if lasts:
                    still[d.key()] = d
            expected = [d for d in [*still.values(), *fresh] if d.grade in ("expected", "follows")]
            for d in fresh:
                if d.grade == "differs" and (why := self.follows(d, expected)):
                    d.grade, d.note = "follows", why
                if d.grade in ("expected", "follows"):
                    self.past[d.key()] = d
                    if d.section == "objects" and d.path == "":
                        self.moved.add(d.name)
            lasting = still
            out += fresh
        return out

    def grade(self, d: Difference) -> None:
        if place := next((place for place in self.places if place.covers(d)), None):
            d.grade, d.note = "expected", place.wanted
        elif d.key() in self.past:
            d.grade, d.note = "expected", self.past[d.key()].note
        elif d.order and (d.path.endswith(".env") or " json" in d.path or d.section == "denied"):
            d.grade = "order"
        elif why := next((why for rule in RULES if (why := rule(self, d))), None):
            d.grade, d.note = "expected", why
        elif d.section == "events":
            side = self.got if d.got == NONE else self.want
            text = d.want if d.got == NONE else d.got
            if seen := [e.title.split()[0] for e in side if text in texts(e)]:
                d.note = f"{'seen' if d.got == NONE else 'wanted'} in {', '.join(seen)}"

    # ------------------------------------------------------------ not contract
    def not_contract(self, d: Difference) -> bool:
        if d.section == "job" and d.path == "status.conditions[Failed].message":
            return d.got in {f"{reason}: {message}" for reason, message in self.defects()}
        if d.section != "events":
            return False
        text = d.want if d.got == NONE else d.got
        if d.kind == "Unschedulable" or (STALE.fullmatch(d.kind) and "already exists" in text):
            return True
        if (d.kind, text.split(": ", 1)[1]) in self.defects():
            return d.got != NONE or any(
                (e[1], e[2]) in self.defects() for e in self.got[d.entry].events
            )
        if self.strict:
            return False
        wanted_before, got_before = (
            any(text in texts(e) for e in side[: d.entry]) for side in (self.want, self.got)
        )
        if d.want == NONE:
            return wanted_before or got_before
        return wanted_before and got_before and bool(REPEATED.fullmatch(d.kind))

    def defects(self) -> set[tuple[str, str]]:
        """What an AscendJob was failed for, where that was several things: any one will do."""
        events = {
            (reason, message)
            for _, reason, message in self.want[0].events
            if reason.startswith("Invalid")
        }
        return events if self.kind == "AscendJob" and len(events) > 1 else set()

    # ------------------------------------------------------------ consequences
    def follows(self, d: Difference, expected: list[Difference]) -> str:
        """Why `d` cannot be judged by the recording: something expected came before it."""
        here = [e for e in expected if e.section == "job"]
        if any(VERDICT.match(e.path) or e.path == "" for e in here):
            return "the outcome differs as expected from here on"
        if (
            d.section == "job"
            and d.path == ""
            and any(e.path == "status.completionTime" for e in here)
        ):
            return "the job's end is known by its completionTime"
        if d.section == "events":
            text = d.want if d.got == NONE else d.got
            if any(
                d.kind in str((e.want, e.got))
                for e in here
                if e.path.startswith("status.conditions")
            ):
                return "event of a condition that differs as expected"
            if any(e.section == "events" and text in (e.want, e.got) for e in self.past.values()):
                return "the event came at another time, as expected"
            if any(
                re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", text) for name in self.moved
            ):
                return "event of an object that differs as expected"
        if d.section == "objects" and d.name in self.moved and d.path in ("", "uid"):
            return "the object was there at another time, as expected"
        time = TIME.match(d.path)
        if time and re.fullmatch(r"T\d+", str(d.got)):  # noqa: SIM102  two questions
            if any(
                e.entry == int(d.got[1:])
                and e.section == "job"
                and (time[1] or "status.") in e.path
                for e in self.past.values()
            ):
                return "time of a change that was expected"
        return ""


def texts(entry: Entry) -> set[str]:
    return {f"{kind} {reason}: {message}" for kind, reason, message in entry.events}


def conditions(entry: Entry) -> list[dict]:
    job = entry.data.get("job")
    return (job["status"].get("conditions") or []) if isinstance(job, dict) else []


# Faults of the peers that the README lists for many recordings: the difference is wanted.
def completion_time(judge: Judge, d: Difference) -> str:
    failed = any(
        c["type"] == "Failed" and c["status"] == "True" for c in conditions(judge.want[d.entry])
    )
    fits = (
        d.path == "status.completionTime"
        and d.want == NONE
        and failed
        and judge.kind in NO_COMPLETION
    )
    return "README: completionTime is set with Failed" if fits else ""


def stale_suspended(judge: Judge, d: Difference) -> str:
    listed = conditions(judge.want[d.entry]) if d.path.startswith("status.conditions") else []
    if not any(c["type"] == "Suspended" and c["status"] == "False" for c in listed):
        return ""
    if d.order:
        fits = [t for t in d.want if t != "Suspended"] == [t for t in d.got if t != "Suspended"]
    else:
        fits = (
            listed[-1]["type"] == "Suspended"
            and (d.want == NONE or (d.got == NONE and "[Suspended]" in d.path))
            and d.path.count(".") == 1
        )
    return (
        "README: after a resume Suspended=False should not be the last condition (W-14)"
        if fits
        else ""
    )


def seeming_restart(judge: Judge, d: Difference) -> str:
    step = judge.steps[d.entry - 1] if d.entry else {}
    deleted = any("match" in item for item in step.get("delete", []))
    claimed = any(reason.endswith("Restarting") for _, reason, _ in judge.want[d.entry].events)
    shown = (d.section == "events" and d.kind.endswith("Restarting")) or re.match(
        r"status\.conditions(\[(Restarting|Running)\]|$)", d.path
    )
    return (
        "README: a pod that was deleted by hand need not be shown as Restarting"
        if deleted and claimed and shown
        else ""
    )


def used_up(judge: Judge, d: Difference) -> str:
    total = sum(sum(e.events.values()) for e in judge.want[: d.entry + 1])
    fits = d.section == "events" and d.want == NONE and total >= BUDGET
    return f"README: the peer had used up its {BUDGET} events for this job" if fits else ""


def lagging_version(judge: Judge, d: Difference) -> str:
    if not (
        (d.section == "files" and d.name.endswith("/version"))
        or (d.kind == "ConfigMap" and d.path == "data.version")
    ):
        return ""
    times = [
        int(m[1]) if (m := re.fullmatch(r"UNIX_TIME\(T(\d+)\)", str(value))) else -1
        for value in (d.want, d.got)
    ]
    return (
        "README: the peer's version lags behind the table"
        if 0 <= times[0] < times[1] <= d.entry
        else ""
    )


def written_once(judge: Judge, d: Difference) -> str:
    first = d.kind == "ConfigMap" and d.path == "data.version" and str(d.got) == "0"
    return (
        "ascendjob.md W-5: the peer wrote its first table more than once"
        if first and str(d.want) == f"UNIX_TIME(T{d.entry})"
        else ""
    )


def visible_devices(judge: Judge, d: Difference) -> str:
    added = d.want == NONE and d.path.endswith(".env[ASCEND_VISIBLE_DEVICES]")
    return "ascendjob.md W-23: cpu in the requests hides no devices" if added else ""


ADDED = re.compile(
    r"\.env\[(MS_NODE_ID|MS_TOPO_TIMEOUT|PADDLE_RANK|PET_\w+|PRTE_MCA_\w+|HYDRA_LAUNCHER_EXTRA_ARGS)\]|\[\"?ascendop\.io/"
)


def addition(judge: Judge, d: Difference) -> str:
    return (
        "an addition: frameworks.md sections 10 and 11, mpijob W-20, or under our own prefix"
        if d.want == NONE and (ADDED.search(d.path) or _ours_alone(d))
        else ""
    )


def _ours_alone(d: Difference) -> bool:
    """A whole map of annotations that the original did not write, with keys of ours only."""
    return (
        d.path.endswith("metadata.annotations")
        and isinstance(d.got, dict)
        and all(key.startswith("ascendop.io/") for key in d.got)
    )


def seen_sooner(judge: Judge, d: Difference) -> str:
    """The whole object, or the file, is what the recording shows one entry later."""
    if judge.kind not in DECORATED or d.entry + 1 >= len(judge.want):
        return ""
    got, later, label = judge.got[d.entry], judge.want[d.entry + 1], f"{d.kind}/{d.name}"
    if d.section == "files":
        same = d.got != NONE and later.files.get(d.name) == d.got
    else:
        same = d.section == "objects" and got.objects.get(label) == later.objects.get(label)
    return (
        "the peer sees pods that nobody controls when their workload is touched; we do at once"
        if same
        else ""
    )


def selector_by_chance(judge: Judge, d: Difference) -> str:
    return (
        "this tool's README: by chance in the peer"
        if re.fullmatch(r"status\.replicaStatuses\.\w+\.selector", d.path)
        else ""
    )


def bare_status(judge: Judge, d: Difference) -> str:
    withdrawn = d.got == NONE and re.search(r"json (server_list|server_count|rank_list)", d.path)
    if not withdrawn:
        return ""
    table = judge.got[d.entry].objects.get(f"{d.kind}/{d.name}", {}).get("data", {})
    says = '"status":"initializing"' in table.get("hccl.json", "")
    return "README: the bare status, without the old lists" if says else ""


# Three cases, where `right.py` says what has to be there instead.
def first_loss_seen(judge: Judge, d: Difference) -> str:
    fits = (
        judge.case == "ascendjob/05-sample-fault-retry"
        and d.kind == "Pod"
        and d.path == "metadata.labels.version"
    )
    return "which of the deleted pods was missed first is chance" if fits else ""


def backup_takes_over(judge: Judge, d: Difference) -> str:
    fits = (
        judge.case == "ascendjob/34-hot-switch"
        and d.entry == HOT_SWITCH_ENDS
        and (
            d.path == "status.replicaStatuses.Worker.active"
            or "hot-worker-1" in (d.name, str(d.want).rpartition(" ")[2])
        )
    )
    return "ascendjob.md W-11: the backup has the index of its source" if fits else ""


def budget_survives(judge: Judge, d: Difference) -> str:
    fits = judge.case == "ascendjob/36-restart-running-with-table" and VERDICT.match(d.path)
    return "ascendjob.md W-7: the budget survives the restart, and is spent" if fits else ""


# mpijob.md W-02, W-04, W-06, W-10, W-15: likewise.
def launcher_is_not_made(judge: Judge, d: Difference) -> str:
    fits = (
        judge.case == "mpijob/17-wait-for-workers-suspended"
        and d.path == "status.replicaStatuses.Launcher"
    )
    return "mpijob.md W-02: no launcher is made before the workers are ready" if fits else ""


def eviction_ends_it(judge: Judge, d: Difference) -> str:
    fits = judge.case == "mpijob/15-worker-evicted" and d.entry >= EVICTED
    return "mpijob.md W-04: the eviction is the end of the job" if fits else ""


def nobody_sleeps_on(judge: Judge, d: Difference) -> str:
    fits = (
        judge.case == "mpijob/18-suspend-with-failed-worker-policy-running"
        and d.path == "status.replicaStatuses.Worker.failed"
    )
    return "mpijob.md W-10: the worker that had failed comes back, too" if fits else ""


def conflict_is_told(judge: Judge, d: Difference) -> str:
    fits = judge.case == "mpijob/25-resource-conflict" and (
        d.entry == 0 or d.path.startswith("status.conditions[Created]")
    )
    told = fits and d.path.startswith(("status.conditions", "status.replicaStatuses"))
    return "mpijob.md W-06: Created is kept, and says what is in the way" if told else ""


def kept_is_told(_judge: Judge, d: Difference) -> str:
    told = d.section == "events" and d.want == NONE and str(d.got).startswith("Warning PodsKept: ")
    return "mpijob.md W-15: who leaves pods running at the end is told once" if told else ""


RULES: list[Callable[[Judge, Difference], str]] = [
    completion_time,
    stale_suspended,
    seeming_restart,
    used_up,
    lagging_version,
    written_once,
    visible_devices,
    addition,
    seen_sooner,
    selector_by_chance,
    bare_status,
    first_loss_seen,
    backup_takes_over,
    budget_survives,
    launcher_is_not_made,
    eviction_ends_it,
    nobody_sleeps_on,
    conflict_is_told,
    kept_is_told,
]
