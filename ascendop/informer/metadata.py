# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What every object has: names, version, labels, owner; and a row of nothing else."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from ascendop.informer.pool import Pool

Pairs = tuple[tuple[str, str], ...]
"""A string map that cannot be changed, in the order of the wire."""


class Owner(msgspec.Struct, rename="camel", frozen=True):
    """An ownerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class Meta(msgspec.Struct, rename="camel"):
    """What every object has, as the wire spells it. For the structs of kinds to build on."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    finalizers: list[str] | None = None

    def controller(self) -> Owner | None:
        """The one owner that controls the object."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class MetaRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An object of which only the metadata matters."""

    namespace: str
    name: str
    uid: str
    version: str
    """resourceVersion."""
    generation: int = 0
    created: str = ""
    deleting: bool = False
    owner_kind: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    """The controller owner; empty for an orphan."""
    labels: Pairs = ()
    annotations: Pairs = ()
    """Those that were asked for."""
    finalizers: tuple[str, ...] = ()

    def label(self, key: str) -> str:
        """The label, or the empty string."""
        return next((value for name, value in self.labels if name == key), "")

    def annotation(self, key: str) -> str:
        """The annotation, or the empty string."""
        return next((value for name, value in self.annotations if name == key), "")


class MetaObject(msgspec.Struct, kw_only=True):
    """Any object, read for its metadata; PartialObjectMetadata and whole objects alike."""

    metadata: Meta = msgspec.field(default_factory=Meta)


def meta_row(meta: Meta, pool: Pool, annotations: Collection[str] = ()) -> MetaRow:
    """The row of any object's metadata."""
    owner = meta.controller()
    return MetaRow(
        namespace=pool(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        created=meta.creation_timestamp or "",
        deleting=meta.deletion_timestamp is not None,
        owner_kind=pool(owner.kind) if owner else "",
        owner_name=pool(owner.name) if owner else "",
        owner_uid=pool(owner.uid) if owner else "",
        labels=pool.pairs(meta.labels),
        annotations=pool.pairs(meta.annotations, annotations),
        finalizers=tuple(pool(name) for name in meta.finalizers or ()),
    )
