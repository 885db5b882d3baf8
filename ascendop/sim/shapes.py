# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a type looks like: one tree for built-in kinds and custom ones, resolved as it is walked."""

from __future__ import annotations

from functools import cache, cached_property
from importlib.resources import files
from typing import Any

import orjson

Raw = dict[str, Any]
MISSING: Any = object()
"""No default; None would be a possible one."""

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


@cache
def builtins() -> Raw:
    """What a Kubernetes 1.34 serves, as `hack/builtins.py` asked one: resources and schemas."""
    facts: Raw = orjson.loads(files("ascendop.sim").joinpath("builtins.json").read_bytes())
    return facts


class Shape:
    """One node of a schema.

    type:    as JSON schema has it; empty when anything goes.
    strict:  a custom kind: unknown fields go even where no field is known at all.
    """

    def __init__(self, raw: Raw, *, strict: bool) -> None:
        self.raw = raw
        self.strict = strict
        self.type: str = raw.get("type", "")
        self.list_type: str = raw.get("x-kubernetes-list-type", "atomic")
        self.keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        self.atomic = raw.get("x-kubernetes-map-type") == "atomic"
        self.default = raw.get("default", MISSING)
        self.nullable: bool = raw.get("nullable", False)
        self.int_or_string: bool = (
            raw.get("x-kubernetes-int-or-string", False) or raw.get("format") == "int-or-string"
        )
        self.embedded: bool = raw.get("x-kubernetes-embedded-resource", False)
        self.preserved: bool = raw.get("x-kubernetes-preserve-unknown-fields", False)
        self.merge_key: str = raw.get("x-kubernetes-patch-merge-key", "")
        strategy: str = raw.get("x-kubernetes-patch-strategy", "")
        self.patch_strategies = frozenset(strategy.split(","))

    @cached_property
    def properties(self) -> dict[str, Shape]:
        known = {name: self._below(raw) for name, raw in (self.raw.get("properties") or {}).items()}
        if self.embedded:
            known = {**_EMBEDDED(), **known, "metadata": object_meta()}
        return known

    @cached_property
    def values(self) -> Shape | None:
        """Of a map with free keys."""
        raw = self.raw.get("additionalProperties")
        if raw is True:
            return Shape({"x-kubernetes-preserve-unknown-fields": True}, strict=self.strict)
        return self._below(raw) if isinstance(raw, dict) else None

    @cached_property
    def items(self) -> Shape | None:
        raw = self.raw.get("items")
        return self._below(raw) if isinstance(raw, dict) else None

    @cached_property
    def open(self) -> bool:
        """Whether fields that nobody declared stay."""
        if self.preserved:
            return True
        return not self.strict and not self.properties and self.values is None

    @cached_property
    def defaulting(self) -> bool:
        """Whether this node has a property with a default; saves walks."""
        return any(below.default is not MISSING for below in self.properties.values())

    def child(self, name: str) -> Shape | None:
        """The shape of a field or of a map's value."""
        return self.properties.get(name) or self.values

    def _below(self, raw: Raw) -> Shape:
        reference = raw.get("$ref")
        if reference is None:
            return Shape(raw, strict=self.strict)
        name = reference.rpartition("/")[2]
        extra = {key: value for key, value in raw.items() if key != "$ref"}
        if not extra:
            return builtin(name)
        return Shape({**builtins()["schemas"][name], **extra}, strict=False)


@cache
def builtin(name: str) -> Shape:
    """A type of Kubernetes itself, by its name in the OpenAPI document."""
    return Shape(builtins()["schemas"].get(name, {}), strict=False)


def object_meta() -> Shape:
    return builtin(OBJECT_META)


def _EMBEDDED() -> dict[str, Shape]:  # noqa: N802  read once, like a constant
    text = Shape({"type": "string"}, strict=False)
    return {"apiVersion": text, "kind": text}


def custom(schema: Raw) -> Shape:
    """The shape of a custom kind, from a version's openAPIV3Schema."""
    root = Shape(schema, strict=True)
    root.properties.update(_EMBEDDED())
    root.properties["metadata"] = object_meta()
    return root
