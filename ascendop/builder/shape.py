# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether what we read of a pod template has the shape that Kubernetes gives it.

The schema leaves templates open, so that they may use fields newer than this operator; a field of
the wrong shape would else be found by a line of code that reads it, which helps nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ascendop.api.job import ReplicaSpec, RunPolicy
from ascendop.api.model import Object
from ascendop.errors import Problem
from ascendop.kube.quantity import Quantity, QuantityError

REASON: Final = "InvalidTemplate"


class _Part(msgspec.Struct, rename="camel"):
    """A part of a template: the fields that some line of ours reads."""


class _Named(_Part):
    name: str | None = None


class _Variable(_Part):
    name: str


class _Port(_Part):
    container_port: int
    name: str | None = None
    protocol: str | None = None


class _Resources(_Part):
    limits: dict[str, int | float | str] | None = None
    requests: dict[str, int | float | str] | None = None


class _Container(_Part):
    name: str
    image: str | None = None
    env: list[_Variable] | None = None
    ports: list[_Port] | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Metadata(_Part):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None


class _Spec(_Part):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[_Named] | None = None
    node_selector: dict[str, str] | None = None
    overhead: dict[str, int | float | str] | None = None
    resources: _Resources | None = None
    host_network: bool | None = None
    priority_class_name: str | None = None
    scheduler_name: str | None = None
    restart_policy: str | None = None


class _Template(_Part):
    metadata: _Metadata | None = None
    spec: _Spec | None = None


def shape_problems(
    field: str, replicas: Mapping[str, ReplicaSpec], policy: RunPolicy
) -> Iterator[Problem]:
    """What would keep us from reading a job, at most one mistake of shape per template.

    field:  path of the replica map, e.g. spec.replicaSpecs.
    """
    for role in sorted(replicas):
        for where, said, fix in _template_mistakes(replicas[role].template):
            text = f"{role} replicaSpec is not valid: {where} {said}"
            yield Problem(f"{field}.{role}.{where}", text, fix, REASON)
    if policy.scheduling_policy is not None:
        given = policy.scheduling_policy.min_resources
        for where, said, fix in _amounts("schedulingPolicy.minResources", given):
            yield Problem(f"spec.runPolicy.{where}", f"{where} {said}", fix, REASON)


_Mistake = tuple[str, str, str]
"""Where, what, and what to do."""


def _template_mistakes(template: Object) -> Iterator[_Mistake]:
    try:
        found = msgspec.convert(template, _Template)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        yield f"template{where.rstrip('`')}", _said(text), _wanted(text)
        return
    spec = found.spec or _Spec()
    yield from _amounts("template.spec.overhead", spec.overhead)
    yield from _requests("template.spec", spec.resources)
    for kind, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for container in containers or ():
            yield from _requests(f"template.spec.{kind}[{container.name}]", container.resources)


def _requests(path: str, resources: _Resources | None) -> Iterator[_Mistake]:
    if resources is not None:
        yield from _amounts(f"{path}.resources.limits", resources.limits)
        yield from _amounts(f"{path}.resources.requests", resources.requests)


def _amounts(path: str, given: Mapping[str, object] | None) -> Iterator[_Mistake]:
    for name, amount in (given or {}).items():
        try:
            found = Quantity.parse(amount)
        except QuantityError:
            yield f"{path}.{name}", f"is {amount!r}, no amount", "write it like 8, 500m or 16Gi"
            continue
        if found.nanos < 0:
            yield f"{path}.{name}", f"is {amount!r}, less than nothing", "write 0 or more"


_TYPES: Final = {
    "array": "a list",
    "object": "a map",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>\w+)`")
_OTHER: Final = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<got>\w+)`")


def _said(text: str) -> str:
    """A mistake in our words; the library's own where it says something unforeseen."""
    if found := _MISSING.fullmatch(text):
        return f"has no {found['name']}"
    if found := _OTHER.fullmatch(text):
        return f"is {_TYPES.get(found['got'], found['got'])}"
    return text


def _wanted(text: str) -> str:
    if found := _OTHER.fullmatch(text):
        wanted = [_TYPES[word] for word in found["wanted"].split(" | ") if word in _TYPES]
        return "write " + " or ".join(word for word in wanted if word != "nothing")
    return "write it" if _MISSING.fullmatch(text) else ""
