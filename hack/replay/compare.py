# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Two recordings of one case become the list of their differences, each with its place."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, B905, C901, E731, PLR0912, PLR0915, PLR2004

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

NONE = "(none)"
LABELS = {  # lists whose items have a name: compared item by item, and their order apart
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "name",
    "conditions": "type",
    "ownerReferences": "name",
}
UNORDERED = re.compile(r"^Service spec\.ports$")
RECOVERY = {  # variables that ascend-operator takes from a map
    "PROCESS_RECOVER",
    "ELASTIC_PROCESS_RECOVER_ENABLE",
    "ENABLE_RESTART_FAULT_PROCESS",
    "HCCL_ASYNC_ERROR_HANDLING",
    "HIGH_AVAILABILITY",
    "MS_ENABLE_TFT",
    "MINDIO_FOR_MINDSPORE",
    "MS_ENABLE_THM",
}
RANDOM_NAME = re.compile(
    r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?![\w-])"
)  # generateName's alphabet; the recorder left these in `result`
MANAGED_BY = re.compile(
    r'(managedBy: Unsupported value: "[^"]*": supported values: )("[^"]*"), ("[^"]*")'
)


@dataclasses.dataclass
class Difference:
    entry: int  # 0: created, 1: steps[0], ...
    section: str  # job, objects, events, files, result, denied, warnings, case
    kind: str  # of the object, or of the event: its reason
    name: str
    path: str
    want: Any
    got: Any
    order: bool = False  # same content in another order
    grade: str = "differs"  # differs, order, expected, follows
    note: str = ""

    @property
    def place(self) -> str:
        return (
            f"{self.kind}/{self.name} {self.path}".strip()
            if self.section == "objects"
            else f"{self.section} {self.name}{self.path}".strip()
        )

    @property
    def family(self) -> str:
        """The kind of place, e.g. Pod.spec.containers[].env or status.conditions[].reason."""
        path = re.sub(r"\.env\[.*", ".env", self.path)
        path = re.sub(r"\[(?!\")[^\]]*\]", "[]", path).split(" json")[0]
        if self.section == "events":
            return "events missing" if self.got == NONE else "events extra"
        if self.section == "objects":
            return (
                f"{self.kind}.{path}"
                if path
                else f"{self.kind} {'missing' if self.got == NONE else 'extra'}"
            )
        return path if self.section == "job" and path else f"{self.section} {path}".strip()

    def key(self) -> tuple:
        return self.section, self.kind, self.name, self.path, repr(self.want), repr(self.got)


@dataclasses.dataclass
class Entry:
    """All there was at one moment; recordings hold only what changed."""

    title: str
    data: dict
    objects: dict[str, dict]
    replaced: set[str]
    files: dict[str, str]
    events: dict[tuple[str, str, str], int]  # (type, reason, message) -> count


def entries(recording: dict) -> list[Entry]:
    out: list[Entry] = []
    objects: dict[str, dict] = {}
    files: dict[str, str] = {}
    for i, data in enumerate([recording["created"], *recording.get("steps", [])]):
        objects = copy.deepcopy(objects)
        for obj in data.get("objects" if i == 0 else "added", []):
            objects[f"{obj['kind']}/{obj['metadata']['name']}"] = obj
        for label in data.get("removed", []):
            objects.pop(label, None)
        for change in data.get("recreated", []) + data.get("changed", []):
            put(objects[change["object"]], change.get("set", {}))
        files = data.get("files", files)
        events: dict[tuple[str, str, str], int] = {}
        for event in data.get("events", []):
            key = (event["type"], event["reason"], event["message"])
            events[key] = events.get(key, 0) + event.get("count", 1)
        title = "created" if i == 0 else f"steps[{i - 1}] {data['step']}"
        out.append(
            Entry(
                title,
                data,
                copy.deepcopy(objects),
                {x["object"] for x in data.get("recreated", [])},
                files,
                events,
            )
        )
    return out


def put(obj: dict, changed: dict[str, Any]) -> None:
    """Undoes `normal.changes`: path to new value."""
    tokens = lambda path: [
        key or name or int(index)
        for key, name, index in re.findall(r'\["([^"]*)"\]|([^.\[\]]+)|\[(\d+)\]', path)
    ]
    gone = sorted(
        (tokens(path) for path, value in changed.items() if value == "REMOVED"),
        key=lambda t: [str(x).zfill(6) for x in t],
        reverse=True,
    )
    for path in gone:
        trail: list = [obj]
        try:
            for token in path[:-1]:
                trail.append(trail[-1][token])
            del trail[-1][path[-1]]
        except (KeyError, IndexError):
            continue
        for holder, token in zip(reversed(trail[:-1]), reversed(path[:-1])):
            if holder[token] not in ({}, []):
                break
            del holder[token]
    for path, value in changed.items():
        if value == "REMOVED":
            continue
        at: Any = obj
        *way, last = tokens(path)
        for token, after in zip(way, [*way[1:], last]):
            empty: Any = [] if isinstance(after, int) else {}
            if isinstance(at, list) and token >= len(at):
                at.append(empty)
            elif isinstance(at, dict) and (token not in at or at[token] in ({}, [])):
                at[token] = empty
            at = at[token]
        if isinstance(at, list) and last >= len(at):
            at.append(copy.deepcopy(value))
        else:
            at[last] = copy.deepcopy(value)


# ---------------------------------------------------------------- two trees
def walk(want: Any, got: Any, kind: str, path: str = "") -> Iterator[tuple[str, Any, Any, bool]]:
    """(path, want, got, is it only the order) for every place where the two differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in [*want, *(k for k in got if k not in want)]:
            step = f'["{key}"]' if re.search(r"[./]", key) else f".{key}" if path else key
            yield from walk(want.get(key, NONE), got.get(key, NONE), kind, path + step)
        return
    field = path.rsplit(".", 1)[-1]
    if isinstance(want, list) and isinstance(got, list):
        if field in LABELS and all(isinstance(x, dict) and LABELS[field] in x for x in want + got):
            yield from walk_named(want, got, kind, path, field)
        elif all(isinstance(x, dict) for x in want + got):
            for i in range(max(len(want), len(got))):
                yield from walk(
                    *(side[i] if i < len(side) else NONE for side in (want, got)),
                    kind,
                    f"{path}[{i}]",
                )
        elif want != got:
            yield path, want, got, False
        return
    if type(want) is type(got) and want == got:
        return
    if isinstance(want, str) and isinstance(got, str):
        if sort_values(want) == sort_values(got):
            return
        if want[:1] in "[{" and got[:1] == want[:1]:
            try:
                inner = list(walk(json.loads(want), json.loads(got), kind))
            except ValueError:
                inner = [("", want, got, False)]
            yield from (
                (f"{path} json {p}".rstrip(), w, g, o)
                for p, w, g, o in inner or [("", want, got, True)]
            )
            return
    yield path, want, got, False


def walk_named(
    want: list[dict], got: list[dict], kind: str, path: str, field: str
) -> Iterator[tuple[str, Any, Any, bool]]:
    def named(items: list[dict]) -> dict[str, dict]:
        out: dict[str, dict] = {}
        for item in items:
            name, n = item[LABELS[field]], 2
            while name in out:
                name, n = f"{item[LABELS[field]]}#{n}", n + 1
            out[name] = item
        return out

    left, right = named(want), named(got)
    for name in [*left, *(n for n in right if n not in left)]:
        yield from walk(left.get(name, NONE), right.get(name, NONE), kind, f"{path}[{name}]")
    rank = lambda names, others: [
        "recovery" if n in RECOVERY and field == "env" else n for n in names if n in others
    ]
    orders = rank(left, right), rank(right, left)
    if orders[0] != orders[1] and not UNORDERED.match(f"{kind} {path}"):
        yield path, orders[0], orders[1], True


def sort_values(text: str) -> str:
    return MANAGED_BY.sub(lambda m: m[1] + ", ".join(sorted((m[2], m[3]))), text)


# ---------------------------------------------------------------- two recordings
def compare(want: dict, got: dict) -> list[list[Difference]]:
    """Differences by entry; those of status, objects, files are in every entry where they hold."""
    if "stopped" in got:
        return [[Difference(0, "case", "", "", "", "a reaction", got["stopped"])]]
    lefts, rights = entries(want), entries(got)
    out = [
        list(compare_entry(i, left, right)) for i, (left, right) in enumerate(zip(lefts, rights))
    ]
    if warned := list(walk(sorted(want.get("warnings", [])), sorted(got.get("warnings", [])), "")):
        out[0] += [Difference(0, "warnings", "", "", path, w, g) for path, w, g, _ in warned]
    if (
        len(lefts) != len(rights)
        and "denied" not in lefts[0].data
        and "denied" not in rights[0].data
    ):
        out[-1].append(Difference(len(out) - 1, "case", "", "", "entries", len(lefts), len(rights)))
    return out


def compare_entry(i: int, left: Entry, right: Entry) -> Iterator[Difference]:
    denied = [side.data.get("denied", NONE) for side in (left, right)]
    if denied != [NONE, NONE]:
        shown = ["accepted" if d == NONE else d for d in denied]
        for path, want, got, _ in walk(
            *shown, ""
        ):  # one text lists several defects, and the peers take them from maps
            yield Difference(
                i,
                "denied",
                "",
                "",
                path,
                want,
                got,
                order=path == "message" and defects(want) == defects(got),
            )
        return
    for key in ("neverQuiet", "problems", "result"):
        sides = [answers(key, side.data.get(key, [])) for side in (left, right)]
        if sides[0] != sides[1]:
            yield Difference(
                i,
                "neverQuiet" if key == "neverQuiet" else "result",
                "",
                "",
                "",
                left.data.get(key, NONE),
                right.data.get(key, NONE),
            )
    yield from compare_job(i, left.data["job"], right.data["job"])
    for label in sorted({*left.objects, *right.objects}):
        kind, name = label.split("/", 1)
        mine, theirs = left.objects.get(label, NONE), right.objects.get(label, NONE)
        if NONE in (mine, theirs):
            yield Difference(
                i,
                "objects",
                kind,
                name,
                "",
                *("there" if side != NONE else NONE for side in (mine, theirs)),
            )
            continue
        yield from (
            Difference(i, "objects", kind, name, *found) for found in walk(mine, theirs, kind)
        )
        if (label in left.replaced) != (label in right.replaced):
            same = [
                "replaced" if label in side.replaced else "not replaced" for side in (left, right)
            ]
            yield Difference(i, "objects", kind, name, "uid", *same)
    for name in sorted({*left.files, *right.files}):
        found = walk(left.files.get(name, NONE), right.files.get(name, NONE), "")
        yield from (
            Difference(i, "files", "", name, " " * bool(path) + path.strip(), w, g, o)
            for path, w, g, o in found
        )
    for event in sorted({*left.events} ^ {*right.events}):
        text = f"{event[0]} {event[1]}: {event[2]}"
        yield Difference(
            i, "events", event[1], "", "", *((text, NONE) if event in left.events else (NONE, text))
        )


def defects(text: str) -> list[str]:
    return sorted(re.findall(r"[^\s,\[\]]+", text))


def answers(key: str, value: Any) -> list[str]:
    """Comparable; an object outside the namespace may be there from an earlier case or run."""
    items = [
        x
        for x in (value if isinstance(value, list) else [value])
        if key != "problems" or x.get("code") != 409
    ]
    return sorted(
        RANDOM_NAME.sub("-RAND", sort_values(json.dumps(x, sort_keys=True, ensure_ascii=False)))
        for x in items
    )


def compare_job(i: int, left: dict | str, right: dict | str) -> Iterator[Difference]:
    if isinstance(left, str) or isinstance(right, str):
        if left != right:
            yield Difference(
                i,
                "job",
                "",
                "",
                "",
                *(side if isinstance(side, str) else "there" for side in (left, right)),
            )
        return
    for key in ("metadata", "specAsStored", "specChanged", "status"):
        for path, want, got, order in walk(left.get(key, {}), right.get(key, {}), "job", key):
            if path != "status.lastReconcileTime":
                yield Difference(i, "job", "", "", path, want, got, order)
