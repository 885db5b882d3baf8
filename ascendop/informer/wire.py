# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The shapes of lists and watch lines around the objects of a kind."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "other"]

INITIAL_END = "k8s.io/initial-events-end"
"""Annotation of the BOOKMARK that ends the initial events; its value is "true"."""


class ListMeta(
    msgspec.Struct, rename={"resource_version": "resourceVersion", "continue_": "continue"}
):
    resource_version: str = ""
    continue_: str | None = None


class RawList(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class RawEvent(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class BookmarkObject(msgspec.Struct):
    metadata: BookmarkMeta = msgspec.field(default_factory=BookmarkMeta)


class Bookmark(msgspec.Struct, tag="BOOKMARK", tag_field="type"):
    object: BookmarkObject


class Error(msgspec.Struct, tag="ERROR", tag_field="type"):
    object: msgspec.Raw


class StatusCode(msgspec.Struct):
    code: int = 0
    reason: str = ""


RAW_LIST = msgspec.json.Decoder(RawList)
RAW_EVENT = msgspec.json.Decoder(RawEvent)
STATUS_CODE = msgspec.json.Decoder(StatusCode)
OBJECT_TYPES: tuple[EventType, ...] = ("ADDED", "MODIFIED", "DELETED")
TYPES = (*OBJECT_TYPES, "BOOKMARK", "ERROR")


@cache
def event_type(wire: type[Any]) -> Any:  # noqa: ANN401  a type made at run time
    """The union of a kind's events, told apart by `type` wherever it stands in the line."""
    union: Any = Bookmark | Error
    for name in OBJECT_TYPES:
        union |= msgspec.defstruct(
            f"{name}_{wire.__name__}", [("object", wire)], tag=name, tag_field="type"
        )
    return union


@cache
def list_type(wire: type[Any]) -> Any:  # noqa: ANN401  a type made at run time
    item_list: Any = list[wire] | None  # type: ignore[valid-type]
    return msgspec.defstruct(
        f"List_{wire.__name__}",
        [
            ("metadata", ListMeta, msgspec.field(default_factory=ListMeta)),
            ("items", item_list, None),
        ],
    )
