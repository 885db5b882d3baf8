# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where the answers to our own writes go, so that the next read is never older than they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

import msgspec

from ascendop.informer.change import T
from ascendop.informer.represent import StructForm
from ascendop.informer.store import Store
from ascendop.kube.resource import Resource


class _Head(msgspec.Struct):
    kind: str = ""


_HEAD = msgspec.json.Decoder(_Head)


class Cache(Generic[T]):
    """One cached resource, as a writer sees it."""

    def __init__(self, store: Store[T], form: StructForm[Any, T]) -> None:
        self._store = store
        self._form = form

    def wrote(self, body: bytes) -> T:
        """A write was answered with this object."""
        row = self._form.decode_object(body)
        self._store.note(row)
        return row

    def deleted(self, namespace: str, name: str, uid: str, body: bytes) -> T | None:
        """A DELETE was answered: by the object, on its way out, or by a Status, if it is gone."""
        if body and _HEAD.decode(body).kind not in {"", "Status"}:
            return self.wrote(body)
        self.gone(namespace, name, uid)
        return None

    def gone(self, namespace: str, name: str, uid: str) -> None:
        """Somebody who asked the server knows that it is not there any more."""
        self._store.note_gone(namespace, name, uid)


Caches = Mapping[Resource, Cache[Any]]
