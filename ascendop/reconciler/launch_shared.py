# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""An object that the pods of a job share, and what makes it what it should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ascendop.api.launch import Shared
from ascendop.api.model import Object
from ascendop.api.observed import SharedView
from ascendop.apply.plan import Create, Patch, Write
from ascendop.builder.content import content_of
from ascendop.kube.resource import SECRETS, SHARED_CONFIGMAPS, SHARED_SERVICES, Resource

_RESOURCES: Final = {
    "Service": SHARED_SERVICES,
    "ConfigMap": SHARED_CONFIGMAPS,
    "Secret": SECRETS,
}


def resource_of_shared(wanted: Shared) -> Resource:
    return _RESOURCES[wanted.object["kind"]]


def kept(wanted: Shared, found: SharedView | None, owner: str) -> Write | None:
    """The write that makes a shared object what it should be; None when it is."""
    obj = wanted.object
    resource = resource_of_shared(wanted)
    if found is None or found.owner_uid != owner or found.deleting:
        # One that is somebody else's is in the way, and making it finds out whose it is.
        return Create(resource, obj, filled=wanted.filled, adopts=False)
    if wanted.filled:
        if found.keys is None or set(found.keys) == set(wanted.keys):
            return None
        body: Object = {"data": _without(found, wanted.keys)}
    elif found.content == content_of(obj):
        return None
    elif obj["kind"] == "Service":
        spec = obj["spec"]
        selector = {**_without(found, spec["selector"]), **spec["selector"]}
        ready_only = spec["publishNotReadyAddresses"]
        body = {"spec": {"selector": selector, "publishNotReadyAddresses": ready_only}}
    else:
        body = {"data": {**_without(found, obj["data"]), **obj["data"]}}
    return Patch(resource, found.name, found.uid, found.version, body, filled=wanted.filled)


def _without(found: SharedView, wanted: Sequence[str] | Object) -> Object:
    """What takes away the keys that are too many, in a merge patch."""
    return dict.fromkeys(key for key in found.keys or () if key not in wanted)
