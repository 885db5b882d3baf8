# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What kubeflow.org/v1 jobs have beyond other jobs: suspension stored, a queue that stays.

Source: kubeflow-v1-jobs.md 1.2 to 1.6.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from ascendop.api.job import RunPolicy, SchedulingPolicy
from ascendop.api.model import Int32, Model, Object


class KubeflowSchedulingPolicy(SchedulingPolicy):
    """How the gang is scheduled."""

    queue: str | None = Field(
        default=None,
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self == oldSelf",
                    "message": "spec.runPolicy.schedulingPolicy.queue is immutable",
                }
            ]
        },
    )
    """The scheduler's queue; it cannot be changed once it is set."""


class KubeflowRunPolicy(RunPolicy):
    """What the job as a whole may do."""

    scheduling_policy: KubeflowSchedulingPolicy | None = None
    """How the gang is scheduled."""
    suspend: bool | None = False
    """While true the job has no pods."""


class RendezvousSetting(Model):
    """One entry of the rendezvous configuration."""

    key: str | None = None
    """Its name."""
    value: str | None = None
    """Its value."""


Metric = Annotated[
    Object,
    WithJsonSchema(
        {
            "description": "A metric of the HorizontalPodAutoscaler.",
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": {"description": "Which source the metric has.", "type": "string"},
            },
            "x-kubernetes-preserve-unknown-fields": True,
        }
    ),
]


class ElasticPolicy(Model):
    """How the number of Workers may change while the job runs."""

    min_replicas: Int32 | None = None
    """Fewest Workers; the Workers' replicas when unset."""
    max_replicas: Int32 | None = None
    """Most Workers; the Workers' replicas when unset."""
    rdzv_backend: str | None = None
    """Rendezvous backend: c10d, etcd or etcd-v2."""
    rdzv_port: Int32 | None = None
    """Port of the rendezvous."""
    rdzv_host: str | None = None
    """Host of the rendezvous; Worker 0 when unset."""
    rdzv_id: str | None = None
    """Name of the rendezvous; the job's when unset."""
    rdzv_conf: list[RendezvousSetting] | None = None
    """Further configuration of the rendezvous."""
    standalone: bool | None = None
    """One node, with a rendezvous of its own."""
    n_proc_per_node: Int32 | None = None
    """Deprecated; use spec.nprocPerNode."""
    max_restarts: Int32 | None = None
    """Restarts of the worker group before a pod fails."""
    metrics: list[Metric] | None = None
    """What the HorizontalPodAutoscaler looks at; no autoscaler is made when unset."""
