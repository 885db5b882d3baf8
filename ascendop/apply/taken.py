# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whose an object is that already has the name of a child of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec

from ascendop.api.model import Object
from ascendop.builder import labels as keys
from ascendop.errors import AscendopError


class Claim(Enum):
    """What the object that is there means for the child that was to be made."""

    OURS = "the child itself: somebody made it before, most likely we"
    LEAVING = "the child's predecessor, on its way out; its end wakes the job"
    LEFTOVER = "a child of an earlier job of the same name, which the garbage collector takes"
    ORPHAN = "nobody's, with our name and our label: it may be adopted"
    FOREIGN = "somebody else's, and never touched"


class NameTakenError(AscendopError):
    """A child cannot be made because its name is taken."""

    def __init__(self, message: str, claim: Claim) -> None:
        super().__init__(message)
        self.claim = claim


@dataclass(frozen=True, slots=True)
class Taken:
    """The object that has the name."""

    uid: str
    version: str
    claim: Claim
    owner: str
    """Kind and name of its controller; empty for none."""
    owners: tuple[Object, ...]
    """All owner references as they stand."""
    hidden: Mapping[str, str]
    """Labels that it should be found by and is not, as they should be."""


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    resource_version: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    deletion_timestamp: str | None = None


class _Owned(msgspec.Struct):
    metadata: _Meta


_OWNED = msgspec.json.Decoder(_Owned)


def read_taken(body: bytes, wanted: Object, *, adopts: bool = True) -> Taken:
    """Judge an object of the server.

    body:    the object, as a GET answers it.
    wanted:  metadata of the child that was to be made, with its one owner.
    adopts:  one that nobody owns may be made ours.
    """
    meta = _OWNED.decode(body).metadata
    owner: Object = wanted["ownerReferences"][0]
    owners = meta.owner_references or []
    controller = next((found for found in owners if found.get("controller")), None)
    whose = f"{controller['kind']} {controller['name']}" if controller else ""
    if controller is not None:
        claim = _owned_claim(meta, controller, owner)
    elif not adopts or (meta.labels or {}).get(keys.JOB_NAME) != owner["name"]:
        claim = Claim.FOREIGN
    elif meta.deletion_timestamp is not None:
        claim = Claim.LEAVING
    elif gang := _other_gang(meta, wanted):
        claim, whose = Claim.FOREIGN, f"the gang {gang}"
    else:
        claim = Claim.ORPHAN
    hidden = _differing(meta.labels or {}, wanted.get("labels") or {})
    return Taken(meta.uid, meta.resource_version, claim, whose, tuple(owners), hidden)


def _differing(found: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
    # What is no pod's has few labels, and all of them are there to find it by.
    identity = keys.IDENTITY if keys.JOB_NAME in wanted else tuple(wanted)
    return {key: wanted[key] for key in identity if key in wanted and found.get(key) != wanted[key]}


def _owned_claim(meta: _Meta, controller: Object, owner: Object) -> Claim:
    if controller["uid"] == owner["uid"]:
        return Claim.LEAVING if meta.deletion_timestamp is not None else Claim.OURS
    if (controller["kind"], controller["name"]) == (owner["kind"], owner["name"]):
        return Claim.LEFTOVER
    return Claim.FOREIGN


def _other_gang(meta: _Meta, wanted: Object) -> str:
    """The gang of a pod that an earlier job of the name left behind; the rest would wait for it."""
    found = (meta.annotations or {}).get(keys.POD_GROUP, "")
    ours = (wanted.get("annotations") or {}).get(keys.POD_GROUP, "")
    return found if found != ours else ""
