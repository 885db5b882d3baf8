# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a Lease says, what we saw of it and when, and whether it may be taken; no network."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from random import Random  # noqa: TID251  the type of an argument
from typing import Any

from ascendop.clock import rfc3339_micro
from ascendop.errors import UsageError
from ascendop.kube.resource import Object

RELEASED_S = 1
"""leaseDurationSeconds of a Lease given back; an empty holder alone may be an edit."""
MOST = 2**31 - 1
"""leaseTransitions has 32 bits: one more would be refused, and nobody could lead ever after."""
SAFETY_FACTOR = 1.2
"""A follower waits up to this much longer than `retry_s`: they shall not march in step."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a silent leader is believed, tries to renew, and pauses between tries; in seconds.

    Raises UsageError unless lease_s > renew_s > 1.2 · retry_s and all are at least 1: with other
    numbers a leader either never finds out that it lost or never manages to renew.
    """

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        shortest = min(self.lease_s, self.renew_s, self.retry_s)
        if shortest >= 1.0 and self.lease_s > self.renew_s > SAFETY_FACTOR * self.retry_s:
            return
        raise UsageError(
            f"lease_s={self.lease_s:g}, renew_s={self.renew_s:g}, retry_s={self.retry_s:g}: "
            "write values of at least 1 with lease_s > renew_s > 1.2 x retry_s, such as 15, 10, 2"
        )

    def pause_s(self, rng: Random) -> float:
        """How long a follower waits until it looks again."""
        return self.retry_s * rng.uniform(1.0, SAFETY_FACTOR)


def identity(*, pod_name: str, pod_uid: str, hostname: str, rng: Random) -> str:
    """Who holds a Lease: different for every process that ever asks.

    Never the bare host name: a restarted container would take its predecessor's lease over while
    the predecessor's last writes are still on their way.
    """
    if pod_name and pod_uid:
        return f"{pod_name}_{pod_uid}_{rng.getrandbits(32):08x}"
    return f"{hostname}_{rng.getrandbits(64):016x}"


@dataclass(slots=True)
class Sight:
    """One Lease as one replica has seen it. Only the replica's own clock counts.

    Promises:  a record that names a holder is not taken before that replica itself has seen it
               unchanged for as long as it says, whatever the times written in it.
    Not:       a fence: who paused for longer than its lease finds that out only when it looks.
    """

    me: str
    lease_s: float
    """Believed of a record that says no duration."""
    found: Object | None = None
    """The Lease as last seen, whole; None when it is not there."""
    held_until: float = 0.0
    """Loop time until which the last holder that we saw must be believed."""
    _seen: tuple[object, str] | None = None
    _ours: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=8))
    """The last specs that we sent: the answer of one may have been lost."""

    def observe(self, lease: Object | None, now: float) -> None:
        """Take in what the server showed at loop time `now`; the same record again changes nothing.

        A lease that vanished, or whose holder was edited away, is believed for its whole time once
        more: its holder may not have noticed yet. Only one that was given back is free at once,
        and one that was never there.
        """
        vanished = lease is None and self.found is not None
        self.found = lease
        if vanished:
            self.held_until, self._seen = now + self.lease_s, None
        record = (spec_of(lease), version_of(lease))
        if lease is None or record == self._seen:
            return
        self._seen = record
        self.held_until = now + self._believed_s(spec_of(lease))

    def _believed_s(self, spec: dict[str, Any]) -> float:
        """How long this record must be believed from now."""
        if self._is_ours(spec) or _is_free(spec):
            return 0.0
        return float(spec.get("leaseDurationSeconds") or self.lease_s)

    def may_take(self, now: float) -> bool:
        """Whether nobody else can still believe that the lease is theirs."""
        return now >= self.held_until

    @property
    def holder(self) -> str:
        """Who holds it, as last seen; empty for nobody."""
        return str(spec_of(self.found).get("holderIdentity") or "")

    @property
    def transitions(self) -> int:
        """How often the holder changed: an epoch for systems outside that can refuse lower ones."""
        return int(spec_of(self.found).get("leaseTransitions") or 0)

    def claim(self, namespace: str, name: str, wall: datetime) -> Object:
        """The Lease to send so that it is ours: fields that we do not know stay as they are."""
        spec = dict(spec_of(self.found))
        if spec.get("holderIdentity") != self.me:
            spec["acquireTime"] = rfc3339_micro(wall)
            spec["leaseTransitions"] = min(self.transitions + (self.found is not None), MOST)
        spec["holderIdentity"] = self.me
        spec["leaseDurationSeconds"] = math.ceil(
            self.lease_s
        )  # never less than we believe ourselves
        spec["renewTime"] = rfc3339_micro(wall)
        self._ours.append(spec)
        return self._lease(namespace, name, spec)

    def release(self, namespace: str, name: str, wall: datetime) -> Object:
        """The Lease to send so that the next may take it at once."""
        spec = dict(spec_of(self.found))
        spec["holderIdentity"] = ""
        spec["leaseDurationSeconds"] = RELEASED_S
        spec["renewTime"] = rfc3339_micro(wall)
        return self._lease(namespace, name, spec)

    def _lease(self, namespace: str, name: str, spec: dict[str, Any]) -> Object:
        base = self.found or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
        }
        return {**base, "spec": spec}

    def _is_ours(self, spec: dict[str, Any]) -> bool:
        """Whether we wrote it; a name of ours alone may come from somebody's editor."""
        return any(
            spec.get("holderIdentity") == self.me and spec.get("renewTime") == sent["renewTime"]
            for sent in self._ours
        )


def spec_of(lease: Object | None) -> dict[str, Any]:
    """The spec, or an empty one."""
    return (lease or {}).get("spec") or {}


def version_of(lease: Object | None) -> str:
    """The resourceVersion, or an empty one."""
    return str((lease or {}).get("metadata", {}).get("resourceVersion", ""))


def _is_free(spec: dict[str, Any]) -> bool:
    """Whether it was given back, or never held."""
    given_back = spec.get("leaseDurationSeconds") == RELEASED_S
    return not spec.get("holderIdentity") and (given_back or not spec.get("renewTime"))
