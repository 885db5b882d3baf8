# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The rights that the operator needs: from the kinds, and from one table of what each room calls.

Source: ascendjob.md 9.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ascendop.api.model import Object
from ascendop.builder.names import RETRIES_CONFIG_MAP
from ascendop.decorated.kinds import WORKLOADS
from ascendop.kinds import AnyKind
from ascendop.kube.resource import (
    BATCH_JOBS,
    CONFIGMAPS,
    CORE_EVENTS,
    COSCHEDULING_GROUPS,
    CRDS,
    EVENTS,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    SECRETS,
    SERVICES,
    Resource,
)
from ascendop.settings import Settings

NAMESPACE: Final = "ascendop-system"
NAME: Final = "ascendop"
LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": NAME}


@dataclass(frozen=True, slots=True)
class Call:
    """What one room does to one resource."""

    room: str
    resource: Resource
    verbs: tuple[str, ...]


WATCH: Final = ("get", "list", "watch")
CALLS: Final = (
    Call("informer", PODS, WATCH),
    Call("informer", SERVICES, WATCH),
    Call("informer", POD_GROUPS, WATCH),
    Call("informer", QUEUES, WATCH),
    Call("informer", PRIORITY_CLASSES, WATCH),
    Call("informer", NODES, WATCH),
    Call("informer", CRDS, WATCH),
    Call("apply", PODS, ("create", "delete", "patch")),
    Call("apply", SERVICES, ("create", "delete", "patch")),
    Call("apply", POD_GROUPS, ("create", "delete", "patch")),
    Call("apply", CONFIGMAPS, ("get", "patch")),
    Call("apply", CORE_EVENTS, ("create", "patch")),
    Call("apply", EVENTS, ("create", "patch")),
)
WORKLOAD_CALLS: Final = tuple(
    Call("decorated", kind.resource, WATCH) for kind in WORKLOADS.values()
)
"""An operator that may not make these runs jobs all the same."""
_JOBS_STATUS: Final = Resource("batch", "v1", "jobs/status", "Job")
LAUNCH_CALLS: Final = (
    Call("informer", BATCH_JOBS, WATCH),
    Call("informer", CONFIGMAPS, WATCH),
    Call("informer", SECRETS, WATCH),
    Call("informer", COSCHEDULING_GROUPS, WATCH),
    Call("apply", COSCHEDULING_GROUPS, ("create", "delete", "patch")),
    Call("apply", BATCH_JOBS, ("create", "patch")),
    # A Job that is let go on may be changed only when its status says that it never started.
    Call("apply", _JOBS_STATUS, ("patch",)),
    Call("apply", CONFIGMAPS, ("create", "patch")),
    Call("apply", SECRETS, ("create", "patch")),
)
"""For kinds with a launcher; without them other kinds are run all the same."""
ALL_CALLS: Final = CALLS + WORKLOAD_CALLS
LEADER_CALLS: Final = (
    Call("leader", LEASES, ("create", *WATCH, "patch", "update")),
    Call("apply", EVENTS, ("create", "patch")),
)

KIND_VERBS: Final = ("delete", *WATCH, "patch")
"""Of the jobs themselves: an attempt is counted by a patch, the TTL deletes."""
STATUS_VERBS: Final = ("get", "patch", "update")


def rules(calls: Iterable[Call], kinds: Iterable[AnyKind]) -> list[Object]:
    """PolicyRules, in order of groups and resources; equal ones are one."""
    wanted: dict[tuple[str, str], set[str]] = {}
    for call in calls:
        _want(wanted, call.resource.group, call.resource.plural, call.verbs)
    for kind in kinds:
        _want(wanted, kind.group, kind.plural, KIND_VERBS)
        _want(wanted, kind.group, f"{kind.plural}/status", STATUS_VERBS)
        # Owner references that block deletion need it where that admission plug-in is on.
        _want(wanted, kind.group, f"{kind.plural}/finalizers", ("update",))
    return _merged(wanted)


def _calls(kinds: Mapping[str, AnyKind]) -> tuple[Call, ...]:
    launches = any(kind.launch is not None for kind in kinds.values())
    return ALL_CALLS + (LAUNCH_CALLS if launches else ())


def cluster_rights(kinds: Mapping[str, AnyKind]) -> list[Object]:
    """For an operator of the whole cluster."""
    return [
        _role("ClusterRole", NAME, [*rules(_calls(kinds), kinds.values()), _retries()]),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", NAME),
    ]


def namespaced_rights(kinds: Mapping[str, AnyKind]) -> list[Object]:
    """For an operator of some namespaces: a Role to be made in each of them.

    What has no namespace is read by a ClusterRole of its own; an operator that may not read it
    works with less: queues are not checked, priorities are not resolved, and a job that waits
    does not say how much is free.
    """
    inside = (call for call in _calls(kinds) if call.resource.namespaced)
    outside = (call for call in _calls(kinds) if not call.resource.namespaced)
    readers = f"{NAME}-cluster-reader"
    return [
        _role("Role", NAME, rules(inside, kinds.values())),
        _binding("RoleBinding", NAME, "Role", NAME),
        _role("ClusterRole", readers, rules(outside, ())),
        _binding("ClusterRoleBinding", readers, "ClusterRole", readers),
    ]


def _retries() -> Object:
    """To follow the one ConfigMap of the NPU scheduler plug-in, and no other."""
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [RETRIES_CONFIG_MAP],
        "verbs": ["list", "watch"],
    }


def clusterd_rights() -> list[Object]:
    """To find MindCluster's clusterd, for an operator that may not look everywhere."""
    settings = Settings()
    name = f"{NAME}-clusterd"
    role = _role("Role", name, rules((Call("informer", SERVICES, WATCH),), ()))
    role["rules"][0]["resourceNames"] = [settings.clusterd_service]
    binding = _binding("RoleBinding", name, "Role", name)
    for found in (role, binding):
        found["metadata"]["namespace"] = settings.clusterd_namespace
    return [role, binding]


def mpi_keys_rights() -> list[Object]:
    """To delete Secrets: the keys of MPIJobs that have ended."""
    name = f"{NAME}-mpi-keys"
    return [
        _role("ClusterRole", name, rules((Call("apply", SECRETS, ("delete",)),), ())),
        _binding("ClusterRoleBinding", name, "ClusterRole", name),
    ]


def leader_rights() -> list[Object]:
    """For the Lease, in the operator's own namespace."""
    name = f"{NAME}-leader"
    role, binding = (
        _role("Role", name, rules(LEADER_CALLS, ())),
        _binding("RoleBinding", name, "Role", name),
    )
    for found in (role, binding):
        found["metadata"]["namespace"] = NAMESPACE
    return [role, binding]


def user_rights(kinds: Mapping[str, AnyKind]) -> list[Object]:
    """What people may do with jobs, added to the cluster's own view, edit and admin.

    Without it who may edit pods in a namespace may not make a job there.
    """
    roles = (
        ("view", ("get", "list", "watch"), ("view",)),
        ("edit", ("create", "delete", "deletecollection", "patch", "update"), ("edit", "admin")),
    )
    return [_user_role(kinds, *role) for role in roles]


def _user_role(
    kinds: Mapping[str, AnyKind], name: str, verbs: Sequence[str], into: Sequence[str]
) -> Object:
    """A role that Kubernetes adds to its own; a status is for the operator alone to write."""
    reads = name == "view"
    found = []
    for group in sorted({kind.group for kind in kinds.values()}):
        of_group = [kind for kind in kinds.values() if kind.group == group]
        plain = [kind.plural for kind in of_group]
        scaled = [f"{kind.plural}/scale" for kind in of_group if kind.scale_role]
        status = [f"{plural}/status" for plural in plain] if reads else []
        found.append(
            {"apiGroups": [group], "resources": sorted([*plain, *status]), "verbs": [*verbs]}
        )
        if scaled:
            some = ["get"] if reads else ["get", "patch", "update"]
            found.append({"apiGroups": [group], "resources": scaled, "verbs": some})
    role = _role("ClusterRole", f"{NAME}-jobs-{name}", found)
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{one}": "true" for one in into}
    metadata = role["metadata"]
    return {**role, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **labels}}}


def service_account() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": dict(LABELS)},
    }


def _want(
    wanted: dict[tuple[str, str], set[str]], group: str, plural: str, verbs: Iterable[str]
) -> None:
    wanted.setdefault((group, plural), set()).update(verbs)


def _merged(wanted: Mapping[tuple[str, str], set[str]]) -> list[Object]:
    """One rule per group and set of verbs."""
    by_verbs: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, plural), verbs in sorted(wanted.items()):
        by_verbs.setdefault((group, tuple(sorted(verbs))), []).append(plural)
    return [
        {"apiGroups": [group], "resources": plurals, "verbs": list(verbs)}
        for (group, verbs), plurals in by_verbs.items()
    ]


def _role(kind: str, name: str, found: list[Object]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "rules": found,
    }


def _binding(kind: str, name: str, role_kind: str, role: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": dict(LABELS)},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    }
