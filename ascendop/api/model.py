# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The base of every model: camelCase outside, snake_case inside, frozen."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

Object = dict[str, Any]
"""A raw Kubernetes object, as JSON has it."""

OpenObject = Annotated[
    Object, WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]
"""An object whose fields are Kubernetes' business, not ours."""

Int32 = Annotated[int, WithJsonSchema({"type": "integer", "format": "int32"})]
Int64 = Annotated[int, WithJsonSchema({"type": "integer", "format": "int64"})]

_EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}

IntOrString = Annotated[int | str, WithJsonSchema(_EITHER)]
"""A number, or a word in its place."""

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_AMOUNT = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"

Quantities = dict[str, Annotated[int | str, WithJsonSchema({**_EITHER, "pattern": _AMOUNT})]]
"""Amounts by the name of their resource, e.g. cpu: 500m."""


class Model(BaseModel):
    """A read-only view of what a user wrote.

    Never sent back: writing it would drop the fields that we do not know.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )
