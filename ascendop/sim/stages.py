# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a pod or node does next, as data: files in the format of kwok's Stage, evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Any, Final

import yaml

from ascendop.clock import parse_time
from ascendop.errors import UsageError
from ascendop.kube.resource import Object
from ascendop.sim.gotemplate import Function, Template
from ascendop.sim.jq import Query, UnknownExpressionError

API_VERSION: Final = "kwok.x-k8s.io/v1alpha1"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One matchExpression."""

    query: Query
    operator: str
    values: frozenset[str]

    def holds(self, obj: Object) -> bool:
        found = self.query.values(obj)
        match self.operator:
            case "In" | "NotIn":
                # Numbers never match, as in kwok: JSON gives it floats and it compares integers.
                texts = {_text(value) for value in found}
                return (self.operator == "In") is bool(self.values & texts)
            case _:
                return (self.operator == "Exists") is bool(found)


@dataclass(frozen=True, slots=True)
class Delay:
    """How long the stage waits once it matches; both parts may be read from the object."""

    fixed_ms: int | None = None
    source: Query | None = None
    jitter_ms: int | None = None
    jitter_source: Query | None = None

    def draw_s(self, obj: Object, now: datetime, rng: Random) -> float:
        """The jitter is the upper end; one that is not above the delay replaces it."""
        delay_s = _duration_s(self.source, self.fixed_ms, obj, now) or 0.0
        jitter_s = _duration_s(self.jitter_source, self.jitter_ms, obj, now)
        if jitter_s is not None:
            delay_s = jitter_s if jitter_s <= delay_s else rng.uniform(delay_s, jitter_s)
        return max(0.0, delay_s)


@dataclass(frozen=True, slots=True)
class Next:
    """What the stage changes."""

    status: Template | None = None
    event: Mapping[str, str] = field(default_factory=dict)
    delete: bool = False
    finalizers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One Stage: for what, when, after how long, what."""

    name: str
    kind: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requirements: Sequence[Requirement]
    weight: int
    weight_source: Query | None
    delay: Delay
    next: Next
    immediate: bool = False

    def matches(self, obj: Object) -> bool:
        meta = obj["metadata"]
        return (
            obj.get("kind") == self.kind
            and self.labels.items() <= (meta.get("labels") or {}).items()
            and self.annotations.items() <= (meta.get("annotations") or {}).items()
            and all(requirement.holds(obj) for requirement in self.requirements)
        )

    def weight_for(self, obj: Object) -> int:
        for text in self.weight_source.values(obj) if self.weight_source else ():
            if isinstance(text, str) and re.fullmatch(r"-?\d+", text):
                return int(text)
        return self.weight


def draw(stages: Iterable[Stage], obj: Object, rng: Random) -> Stage | None:
    """The stage that comes next: by weight among those that match; all weights 0 are equal."""
    matching = [stage for stage in stages if stage.matches(obj)]
    if len(matching) <= 1:
        return matching[0] if matching else None
    weights = [max(0, stage.weight_for(obj)) for stage in matching]
    return rng.choices(matching, weights if any(weights) else None)[0]


def render_status(stage: Stage, obj: Object) -> Object | None:
    """The part of the status that the stage writes, or None when it writes none."""
    if stage.next.status is None:
        return None
    rendered = stage.next.status.render(obj)
    try:
        status = yaml.load(rendered, Loader=_Loader)  # noqa: S506  a SafeLoader
    except yaml.YAMLError as error:
        raise UnknownExpressionError(f"stage {stage.name} renders no YAML: {error}") from error
    return status or {}


_MERGED_BY: Final = {"conditions": "type", "addresses": "type", "podIPs": "ip", "hostIPs": "ip"}


def merge_status(old: Object, new: Object) -> Object:
    """A merge patch that does to `old` what kwok's strategic patch does.

    Lists with a merge key are merged by it; all other lists are replaced.
    """
    patch = dict(new)
    for name, by in _MERGED_BY.items():
        if isinstance(new.get(name), list):
            items = {item[by]: item for item in old.get(name) or ()}
            items.update({item[by]: {**items.get(item[by], {}), **item} for item in new[name]})
            patch[name] = list(items.values())
    return patch


def finalizers_after(stage: Stage, found: Sequence[str]) -> list[str]:
    """The object's finalizers as the stage leaves them."""
    wanted = stage.next.finalizers
    removed = {item["value"] for item in wanted.get("remove") or ()}
    left = [] if wanted.get("empty") else [name for name in found if name not in removed]
    added = [item["value"] for item in wanted.get("add") or ()]
    return left + [name for name in added if name not in left]


# Reading.


def load_stages(*sets: str, functions: Mapping[str, Function]) -> tuple[Stage, ...]:
    """The stages that ship, by set: "" (what every cluster needs), "chaos", "finish"."""
    root = resources.files("ascendop.sim") / "stages"
    stages: list[Stage] = []
    for name in sets:
        folder = root / name if name else root
        if not folder.is_dir():
            raise UsageError(f"there is no set of stages called {name!r}")
        stages.extend(load_folder(folder, functions))
    return tuple(stages)


def load_folder(folder: Traversable, functions: Mapping[str, Function]) -> list[Stage]:
    """Every Stage in the *.yaml files of a folder, in the order of their names."""
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    return [stage for file in files for stage in parse_stages(file.read_text(), functions)]


def parse_stages(text: str, functions: Mapping[str, Function]) -> list[Stage]:
    """Raises UnknownExpressionError for what this evaluator does not know."""
    return [_parse(doc, functions) for doc in yaml.load_all(text, Loader=_Loader) if doc]


_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "spec": frozenset(
        ["resourceRef", "selector", "weight", "weightFrom", "delay", "next", "immediateNextStage"]
    ),
    "spec.selector": frozenset(["matchLabels", "matchAnnotations", "matchExpressions"]),
    "spec.delay": frozenset(
        ["durationMilliseconds", "durationFrom", "jitterDurationMilliseconds", "jitterDurationFrom"]
    ),
    "spec.next": frozenset(["event", "finalizers", "delete", "statusTemplate"]),
}


def _parse(doc: Object, functions: Mapping[str, Function]) -> Stage:
    if doc.get("apiVersion") != API_VERSION or doc.get("kind") != "Stage":
        raise UnknownExpressionError(
            f"a {doc.get('kind')} of {doc.get('apiVersion')} is no Stage of {API_VERSION}"
        )
    name = doc["metadata"]["name"]
    spec = doc["spec"]
    _refuse_unknown(name, spec)
    try:
        return _stage(name, spec, functions)
    except UnknownExpressionError as error:
        raise UnknownExpressionError(f"stage {name}: {error}") from error


def _refuse_unknown(name: str, spec: Object) -> None:
    for path, known in _KNOWN.items():
        part: Any = spec
        for step in path.split(".")[1:]:
            part = part.get(step) or {}
        if unknown := sorted(set(part) - known):
            raise UnknownExpressionError(f"stage {name}: {path}.{unknown[0]} is not known here")


def _stage(name: str, spec: Object, functions: Mapping[str, Function]) -> Stage:
    selector, delay, then = spec["selector"], spec.get("delay") or {}, spec["next"]
    template = then.get("statusTemplate")
    return Stage(
        name=name,
        kind=spec["resourceRef"]["kind"],
        labels=selector.get("matchLabels") or {},
        annotations=selector.get("matchAnnotations") or {},
        requirements=[_requirement(each) for each in selector.get("matchExpressions") or ()],
        weight=int(spec.get("weight") or 0),
        weight_source=_source(spec.get("weightFrom")),
        delay=Delay(
            delay.get("durationMilliseconds"),
            _source(delay.get("durationFrom")),
            delay.get("jitterDurationMilliseconds"),
            _source(delay.get("jitterDurationFrom")),
        ),
        next=Next(
            status=Template(template.strip(), functions) if template else None,
            event=then.get("event") or {},
            delete=bool(then.get("delete")),
            finalizers=then.get("finalizers") or {},
        ),
        immediate=bool(spec.get("immediateNextStage")),
    )


def _requirement(expression: Object) -> Requirement:
    if "cel" in expression:
        raise UnknownExpressionError("CEL expressions are not known here; write a key")
    expression = expression.get("jq") or expression
    operator, values = expression["operator"], expression.get("values") or ()
    if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
        raise UnknownExpressionError(f"operator {operator!r} is not known")
    return Requirement(Query(expression["key"]), operator, frozenset(map(str, values)))


def _source(source: Object | None) -> Query | None:
    if not source:
        return None
    if "cel" in source:
        raise UnknownExpressionError("CEL expressions are not known here; write expressionFrom")
    return Query(source.get("expressionFrom") or source["jq"]["expression"])


_Fastest: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Fastest):  # type: ignore[misc]
    """Times stay texts, as JSON has them. In C where it can be: every status goes through here."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if not tag.endswith(":timestamp")]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


# Values.

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNIT_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration_s(text: str) -> float | None:
    """As Go writes them: 1m30s, 500ms. None for what is none."""
    if not text or _DURATION.sub("", text):
        return None
    return sum(float(number) * _UNIT_S[unit] for number, unit in _DURATION.findall(text))


def _duration_s(
    source: Query | None, fixed_ms: int | None, obj: Object, now: datetime
) -> float | None:
    """What the object says, as a duration or as a moment; else the fixed value."""
    fixed_s = None if fixed_ms is None else fixed_ms / 1000
    for text in source.values(obj)[:1] if source else ():
        if not isinstance(text, str):
            continue
        if not text:
            return None
        if (duration_s := parse_duration_s(text)) is not None:
            return duration_s
        try:
            return (parse_time(text) - now).total_seconds()
        except ValueError:
            return fixed_s
    return fixed_s


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else ""


def quote(value: Any) -> str:
    """Kwok's Quote: a JSON string, whatever comes in."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def to_yaml(value: Any, indent: int = 0) -> str:
    """Kwok's YAML: each step of the indent is two blanks, and begins on a line of its own."""
    text = yaml.safe_dump(value, default_flow_style=False)
    pad = " " * (2 * indent)
    return ("\n" + text).replace("\n", "\n" + pad) if indent else text
