# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Addresses for Services: free ones of the service range, given back when a Service goes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from ascendop.kube.resource import Object
from ascendop.sim.answers import Cause, invalid
from ascendop.sim.registry import Served
from ascendop.sim.storage import Change, Storage, Table

RANGE = "10.96.0.0/16"
_FIRST = 10
"""Addresses below are left for what clusters give fixed ones: kubernetes is .1, DNS is .10."""


class ClusterIps:
    """Who has which address. Follows the table of Services by itself."""

    def __init__(self, storage: Storage, network: str = RANGE) -> None:
        self._network = ipaddress.ip_network(network)
        self._used: set[str] = set()
        self._next = _FIRST
        storage.listeners.append(self._hear)

    def assign(self, service: Object, served: Served) -> None:
        """Give a new Service its address, unless it wants none or one of its own."""
        spec = service["spec"]
        if spec["type"] == "ExternalName":
            return
        wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if wanted not in ("", "None"):
            self._check(wanted, service, served)
        address = wanted or self._free()
        spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _check(self, wanted: str, service: Object, served: Served) -> None:
        why = ""
        if wanted in self._used:
            why = "provided IP is already allocated"
        else:
            try:
                if ipaddress.ip_address(wanted) not in self._network:
                    why = f"the provided IP ({wanted}) is not in the valid range: {self._network}"
            except ValueError:
                why = "must be a valid IP address"
        if why:
            message = f'Invalid value: ["{wanted}"]: failed to allocate IP {wanted}: {why}'
            cause = Cause("FieldValueInvalid", message, "spec.clusterIPs")
            raise invalid(served.resource, service["metadata"]["name"], [cause])

    def _free(self) -> str:
        size = self._network.num_addresses
        for _ in range(size):
            self._next = self._next + 1 if self._next < size - 2 else _FIRST
            address = str(self._network[self._next])
            if address not in self._used:
                return address
        raise RuntimeError(f"no free address in {self._network}")

    def _hear(self, table: Table, change: Change) -> None:
        if table.name != "services":
            return
        self._used.difference_update(_addresses(change.old.obj if change.old else {}))
        self._used.update(_addresses(change.new.obj if change.new else {}))


def _addresses(service: Object) -> Iterator[str]:
    address = (service.get("spec") or {}).get("clusterIP", "")
    if address not in ("", "None"):
        yield address
