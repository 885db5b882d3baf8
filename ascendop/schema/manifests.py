# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every file below manifests/: what `kubectl apply -k manifests/` puts into a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ascendop.api.model import Object
from ascendop.kinds import AnyKind
from ascendop.schema import deploy, rbac
from ascendop.schema.crd import crd
from ascendop.schema.generated import NOTICE, yaml_file


def manifests(kinds: Mapping[str, AnyKind]) -> dict[str, str]:
    """Texts by path below manifests/, in order of paths."""
    files = {**_crds(kinds), **_rbac(kinds), **_deploy()}
    files["kustomization.yaml"] = yaml_file(
        [_kustomization(sorted(files, key=_order))],
        about=(NOTICE, "A whole cluster's operator: kubectl apply --server-side -k manifests/"),
    )
    files |= _namespaced(kinds)
    files |= _rank_tables()
    files |= _mpi_keys()
    return dict(sorted(files.items()))


def _order(path: str) -> tuple[bool, int, str]:
    """The namespace before what is in it, CRDs and rights before who needs them."""
    folder = path.split("/", maxsplit=1)[0]
    return path != "deploy/namespace.yaml", ("crd", "rbac", "deploy").index(folder), path


def _crds(kinds: Mapping[str, AnyKind]) -> dict[str, str]:
    return {
        f"crd/{kind.plural}.{kind.group}.yaml": yaml_file([crd(kind)]) for kind in kinds.values()
    }


def _rbac(kinds: Mapping[str, AnyKind]) -> dict[str, str]:
    return {
        "rbac/service_account.yaml": yaml_file([rbac.service_account()]),
        "rbac/role.yaml": yaml_file(rbac.cluster_rights(kinds)),
        "rbac/leader.yaml": yaml_file(rbac.leader_rights()),
        "rbac/users.yaml": yaml_file(rbac.user_rights(kinds)),
    }


def _deploy() -> dict[str, str]:
    return {
        "deploy/namespace.yaml": yaml_file([deploy.namespace()]),
        "deploy/deployment.yaml": yaml_file([deploy.deployment()]),
        "deploy/disruption.yaml": yaml_file([deploy.disruption_budget()]),
        "deploy/metrics.yaml": yaml_file([deploy.metrics_service()]),
        "deploy/flowschemas.yaml": yaml_file(deploy.flow_schemas()),
    }


def _namespaced(kinds: Mapping[str, AnyKind]) -> dict[str, str]:
    """Rights in single namespaces: applied once per namespace, by kubectl's -n."""
    about = (
        NOTICE,
        "Instead of rbac/role.yaml, for an operator that only looks after some namespaces.",
        "In each of them: kubectl apply -n <namespace> -f manifests/namespaced/role.yaml",
    )
    once = (
        NOTICE,
        "Beside it, once, where MindCluster's clusterd runs; without it pods get its domain.",
    )
    return {
        "namespaced/role.yaml": yaml_file(rbac.namespaced_rights(kinds), about=about),
        "namespaced/clusterd.yaml": yaml_file(rbac.clusterd_rights(), about=once),
    }


def _rank_tables() -> dict[str, str]:
    about = (
        NOTICE,
        "Rank tables as files of the host, for jobs with a volume `ranktable`. In a kustomization:",
        "    resources: [manifests]",
        "    components: [manifests/rank-table-files]",
        f"The directory must be writable for user {deploy.UID}, and the same on every node that",
        "may run the operator, e.g. by NFS.",
    )
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": [{"path": "deployment.yaml"}, {"path": "namespace.yaml"}],
    }
    namespace = deploy.namespace()
    # A hostPath is beyond what the restricted and the baseline standard allow.
    namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"
    return {
        "rank-table-files/kustomization.yaml": yaml_file([component], about=about),
        "rank-table-files/deployment.yaml": yaml_file([deploy.rank_table_patch()]),
        "rank-table-files/namespace.yaml": yaml_file([namespace]),
    }


def _mpi_keys() -> dict[str, str]:
    about = (
        NOTICE,
        "The Secret with the keys of an MPIJob goes when the job has ended. In a kustomization:",
        "    resources: [manifests]",
        "    components: [manifests/mpi-delete-keys]",
    )
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": ["role.yaml"],
        "patches": [{"path": "deployment.yaml"}],
    }
    return {
        "mpi-delete-keys/kustomization.yaml": yaml_file([component], about=about),
        "mpi-delete-keys/deployment.yaml": yaml_file([deploy.mpi_keys_patch()]),
        "mpi-delete-keys/role.yaml": yaml_file(rbac.mpi_keys_rights()),
    }


def _kustomization(resources: list[str]) -> Object:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    }
