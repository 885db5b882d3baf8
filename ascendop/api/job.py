# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the job kinds share: replicas, what the run as a whole may do, conditions."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from ascendop.api.model import Int32, Int64, Model, Object, Quantities
from ascendop.api.template import PodTemplate

MAX_REPLICAS = 20_000  # per role; the documented maximum of the AscendJob operator


class ReplicaSpec(Model):
    """The pods of one role."""

    replicas: Int32 | None = None
    """How many pods; 1 when unset."""
    restart_policy: str | None = None
    """Always, OnFailure, Never, or ExitCode (codes from 128 on are retried by the operator)."""
    template: PodTemplate = Field(default_factory=dict)
    """The pod template, as in a Deployment."""

    @property
    def count(self) -> int:
        return 1 if self.replicas is None else self.replicas

    @property
    def pod_spec(self) -> Object:
        """The template's spec; empty when the user wrote none."""
        spec = self.template.get("spec")
        return spec if isinstance(spec, dict) else {}

    @property
    def containers(self) -> list[Object]:
        return [c for c in self.pod_spec.get("containers") or () if isinstance(c, dict)]

    def container(self, name: str) -> Object | None:
        """The container of that name, or None."""
        return next((c for c in self.containers if c.get("name") == name), None)


class SchedulingPolicy(Model):
    """How the gang is scheduled."""

    min_available: Int32 | None = None
    """Pods that must fit at once; all pods when unset."""
    queue: str | None = None
    """The scheduler's queue."""
    priority_class: str | None = None
    """PriorityClass of the PodGroup."""
    min_resources: Quantities | None = None
    """What must be free before the gang is admitted; computed from the pods when unset."""
    schedule_timeout_seconds: Int32 | None = None
    """Accepted for compatibility; only some schedulers read it."""


class RunPolicy(Model):
    """What the job as a whole may do."""

    clean_pod_policy: str | None = None
    """Which pods go when the job ends: None, Running or All."""
    ttl_seconds_after_finished: Int32 | None = None
    """The finished job is deleted after so many seconds; never when unset."""
    active_deadline_seconds: Int64 | None = None
    """A job that has been active for longer fails."""
    backoff_limit: Int32 | None = None
    """Restarts before the job fails; unlimited when unset."""
    scheduling_policy: SchedulingPolicy | None = None
    """How the gang is scheduled."""
    suspend: bool | None = None
    """While true the job has no pods."""
    managed_by: str | None = None
    """Another controller that owns this job; ascendop then leaves it alone."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One element of status.conditions; the last one is what kubectl prints as State."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: str = ""
    last_transition_time: str = ""

    def as_object(self) -> Object:
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastUpdateTime": self.last_update_time,
            "lastTransitionTime": self.last_transition_time,
        }

    @classmethod
    def parse(cls, obj: Object) -> Condition:
        return cls(
            type=str(obj.get("type", "")),
            status=str(obj.get("status", "")),
            reason=str(obj.get("reason") or ""),
            message=str(obj.get("message") or ""),
            last_update_time=str(obj.get("lastUpdateTime") or ""),
            last_transition_time=str(obj.get("lastTransitionTime") or ""),
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods of one role by what has become of them; the shape of status.replicaStatuses.<Role>."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0

    def as_object(self) -> Object:
        """Zero counters are left out, as the original operators do."""
        found = {"active": self.active, "succeeded": self.succeeded, "failed": self.failed}
        return {name: count for name, count in found.items() if count}
