# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the API server serves, and where: group, version, plural; and keys of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]
"""A raw Kubernetes object, as JSON has it. The only spelling of one."""


class Key(NamedTuple):
    """One job: what the queue hands out. It carries its kind: no reconciler has to probe."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Resource:
    """One served group, version and plural."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    view: str = ""
    """Which of several caches keeps it, where not all of its objects are looked at alike."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As RBAC and messages name it, e.g. podgroups.scheduling.volcano.sh."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path; without a namespace that of all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if namespace is not None and self.namespaced:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part is not None)
        return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects of a resource: the same for every list and watch of one informer."""

    namespace: str | None = None
    """None for all namespaces."""
    labels: str = ""
    """Label selector, as in a query."""
    fields: str = ""
    """Field selector, as in a query."""
    metadata_only: bool = False
    """Ask for PartialObjectMetadata; where the server has no such thing, take whole objects."""


PODS = Resource("", "v1", "pods", "Pod")
SERVICES = Resource("", "v1", "services", "Service")
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SHARED_SERVICES = Resource("", "v1", "services", "Service", view="shared")
SHARED_CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", view="shared")
"""Objects beside the pods of a job, found by their label `app`; Secrets are that only."""
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CORE_EVENTS = Resource("", "v1", "events", "Event")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
"""Those of scheduler-plugins, which Volcano does not know."""
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
VOLCANO_JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
