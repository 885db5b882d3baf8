# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The shape of a job's status, for its schema; the reconciler writes it as a plain object.

Source: ascendjob.md 1.6, kubeflow-v1-jobs.md 1.7.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from ascendop.api.model import Int32, Model, OpenObject

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]


class ConditionShape(Model):
    """One fact about the job."""

    type: str
    """Created, Running, Restarting, Suspended, Succeeded or Failed."""
    status: str
    """True, False or Unknown."""
    reason: str | None = None
    """A code that programs can rely on."""
    message: str | None = None
    """A sentence for people."""
    last_update_time: Time | None = None
    """When the condition was last written."""
    last_transition_time: Time | None = None
    """When its status last changed."""


class ReplicaStatus(Model):
    """Pods of one role by what has become of them; a count of zero is left out."""

    active: Int32 | None = None
    """Pods that run."""
    succeeded: Int32 | None = None
    """Pods that ended well."""
    failed: Int32 | None = None
    """Pods that failed."""
    selector: str | None = None
    """Label selector of the role's pods, for autoscalers."""
    label_selector: OpenObject | None = None
    """Deprecated and never set; kept so that no stored object loses it."""


class JobStatus(Model):
    """How the job stands; written by the operator alone."""

    conditions: list[ConditionShape] | None = Field(
        default=None,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    """What has become of the job; the last one is its state."""
    replica_statuses: dict[str, ReplicaStatus] | None = None
    """Pods by role."""
    start_time: Time | None = None
    """When the job's pods were first allowed to start."""
    completion_time: Time | None = None
    """When the job succeeded or failed."""
    last_reconcile_time: Time | None = None
    """When the job was last seen waiting for its gang."""
