# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The address that running pods were told, for the Service that takes the place of a lost one.

A pod's environment holds the leader's ClusterIP as a literal, and never changes. Who deletes the
Service would part the pods that run from those that come (W-47, field-reports:FR-068), were it not
made again with the address that stands there: read from a living pod when it is needed, which is
seldom, so that nothing has to be kept for it, and no restart can forget it.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from typing import Final

from ascendop.api.model import Object
from ascendop.apply.plan import Create, Told
from ascendop.errors import AscendopError
from ascendop.kube.client import Client
from ascendop.kube.errors import NotFoundError, RejectedError
from ascendop.kube.resource import PODS

ASKED: Final = 3
"""Pods that are read at most; each of them knows, but one may go meanwhile."""


class AddressTakenError(AscendopError):
    """The address that running pods were told cannot be had any more."""


async def with_old_address(client: Client, write: Create) -> Object:
    """The Service as it is to be made: with the address of `write.told`, where a pod knows one."""
    service = write.object
    if write.told is None:
        return service
    for name in write.told.pods[:ASKED]:
        with suppress(NotFoundError):
            pod = await client.get(PODS, service["metadata"]["namespace"], name)
            address = _literal(pod, write.told)
            if address:
                return {**service, "spec": {**service["spec"], "clusterIP": address}}
    return service


def address_taken(error: RejectedError, service: Object) -> AddressTakenError | None:
    """The refusal in the words that a user needs, if it is of an address we asked for."""
    address = service["spec"].get("clusterIP")
    fields = [str(cause.get("field")) for cause in error.details.get("causes") or ()]
    if not address or not any(field.startswith("spec.clusterIP") for field in fields):
        return None
    return AddressTakenError(
        f"{address}, which the running pods have for their leader, cannot be had again: "
        f"{error.message}; free that address, or delete all pods of the job, "
        "and they start together at a new one"
    )


def _literal(pod: Object, told: Told) -> str:
    """The address in the pod's environment, empty for none; of equal names the last one counts."""
    found = ""
    for container in pod["spec"]["containers"]:
        for entry in container.get("env") or () if container["name"] == told.container else ():
            if entry["name"] in told.variables:
                found = str(entry.get("value") or "")
    try:
        return str(ipaddress.ip_address(found))
    except ValueError:
        return ""  # a name, or a field of the pod itself
