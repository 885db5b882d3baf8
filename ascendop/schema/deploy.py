# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator in a cluster: two replicas, one of which leads, and what keeps them alive."""

from __future__ import annotations

from typing import Final

from ascendop import __version__
from ascendop.api.model import Object
from ascendop.schema.rbac import LABELS, NAME, NAMESPACE
from ascendop.settings import ENV_PREFIX, Settings, parse_listen

_DEFAULTS: Final = Settings()
PORT: Final = parse_listen(_DEFAULTS.metrics_listen)[1]
HEALTH_PORT: Final = parse_listen(_DEFAULTS.health_listen)[1]
RANK_TABLES: Final = _DEFAULTS.rank_table_dir
UID: Final = 9000
"""The user of the original, who owns the shared directory of rank tables on existing hosts."""
GRACE_S: Final = int(_DEFAULTS.grace_s) + 25  # events, the lease, and the kubelet take some too
_SELECTOR: Final = {"app.kubernetes.io/name": NAME}


def namespace() -> Object:
    """The operator's own; its pods meet the strictest of the pod security standards."""
    level = "restricted"
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": level}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels},
    }


def deployment() -> Object:
    """Two replicas on two nodes where there are two."""
    return _object(
        "apps/v1",
        "Deployment",
        {
            "replicas": 2,
            "selector": {"matchLabels": dict(_SELECTOR)},
            # The new pod is ready, with a warm cache, before the old one hands the lease over.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod_spec()},
        },
    )


def disruption_budget() -> Object:
    """A drain leaves one replica."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": dict(_SELECTOR)}}
    return _object("policy/v1", "PodDisruptionBudget", spec)


def metrics_service() -> Object:
    """For Prometheus: every replica, by its own address."""
    found = _object(
        "v1",
        "Service",
        {
            "clusterIP": "None",
            "selector": dict(_SELECTOR),
            "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics"}],
        },
        name=f"{NAME}-metrics",
    )
    found["metadata"]["annotations"] = {
        "prometheus.io/scrape": "true",
        "prometheus.io/path": "/metrics",
        "prometheus.io/port": str(PORT),
    }
    return found


def flow_schemas() -> list[Object]:
    """Which queue of the API server takes our requests, so that others' trouble is not ours.

    Source:  runtime.md H-14.
    """
    every = ["*"]
    leases = _requests(["coordination.k8s.io"], ["leases"])
    events = _requests(["", "events.k8s.io"], ["events"])
    return [
        _flow_schema("lease", "leader-election", 200, leases, None),
        _flow_schema("events", "workload-low", 300, events, None),
        _flow_schema("jobs", "workload-high", 400, _requests(every, every), "ByNamespace"),
    ]


def rank_table_patch() -> Object:
    """For jobs that take their rank table from a file: the shared directory, from the host."""
    return _object(
        "apps/v1",
        "Deployment",
        {
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": NAME,
                            "env": [{"name": _variable("rank_table_dir"), "value": RANK_TABLES}],
                            "volumeMounts": [{"name": "rank-tables", "mountPath": RANK_TABLES}],
                        }
                    ],
                    "volumes": [
                        {
                            "name": "rank-tables",
                            "hostPath": {"path": RANK_TABLES, "type": "DirectoryOrCreate"},
                        }
                    ],
                }
            }
        },
    )


def mpi_keys_patch() -> Object:
    """For who wants the keys of MPIJobs gone when the jobs have ended."""
    env = [{"name": _variable("mpi_delete_keys"), "value": "true"}]
    containers = [{"name": NAME, "env": env}]
    return _object("apps/v1", "Deployment", {"template": {"spec": {"containers": containers}}})


def _pod_spec() -> Object:
    return {
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(_SELECTOR)},
            }
        ],
        "containers": [_container()],
    }


def _container() -> Object:
    return {
        "name": NAME,
        "image": f"ascendop:{__version__}",
        "args": ["run"],
        "env": [
            _own_field("pod_name", "metadata.name"),
            _own_field("pod_uid", "metadata.uid"),
            _own_field("pod_namespace", "metadata.namespace"),
            # Nowhere to write them; see rank-table-files.
            {"name": _variable("rank_table_dir"), "value": ""},
        ],
        "ports": [
            {"name": "metrics", "containerPort": PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": {**_probe("/healthz"), "failureThreshold": 3},
        "readinessProbe": _probe("/readyz"),
        # Lists of a large cluster are long; until then there is nothing to be alive for.
        "startupProbe": {**_probe("/healthz"), "failureThreshold": 30},
        "resources": {
            "requests": {"cpu": "200m", "memory": "256Mi"},
            "limits": {"memory": "2Gi"},  # no limit on CPU: throttled, it would lose the lease
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _variable(setting: str) -> str:
    return ENV_PREFIX + setting.upper()


def _own_field(setting: str, path: str) -> Object:
    return {"name": _variable(setting), "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str) -> Object:
    return {"httpGet": {"path": path, "port": "health"}, "periodSeconds": 10, "timeoutSeconds": 3}


def _requests(groups: list[str], resources: list[str]) -> Object:
    return {
        "apiGroups": groups,
        "resources": resources,
        "verbs": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }


def _flow_schema(
    what: str, level: str, precedence: int, requests: Object, flows: str | None
) -> Object:
    account = {"kind": "ServiceAccount", "serviceAccount": {"name": NAME, "namespace": NAMESPACE}}
    spec: Object = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": [account], "resourceRules": [requests]}],
    }
    if flows is not None:
        spec["distinguisherMethod"] = {"type": flows}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"{NAME}-{what}", "labels": dict(LABELS)},
        "spec": spec,
    }


def _object(version: str, kind: str, spec: Object, name: str = NAME) -> Object:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": dict(LABELS)},
        "spec": spec,
    }
