# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether the cluster can be worked with at all: asked once, before anything is started."""

from __future__ import annotations

from collections.abc import Iterable

from ascendop.errors import AscendopError
from ascendop.informer.discovery import Discovery
from ascendop.informer.represent import UndecodableError
from ascendop.kube.client import Client
from ascendop.kube.errors import (
    ApiError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from ascendop.kube.resource import PODS, SERVICES, Resource, Scope
from ascendop.settings import Settings


class UnusableClusterError(AscendopError):
    """The cluster is out of reach, or forbids what is needed; says what to do."""


async def check_cluster(
    client: Client, settings: Settings, jobs: Iterable[Resource], server: str
) -> None:
    """One list of each mandatory kind, and whether any job kind is installed.

    Raises:  UnusableClusterError, with the one sentence that a person needs.
    """
    kinds = list(jobs)
    try:
        served = await Discovery(client.raw).served({kind.group for kind in kinds})
    except TransportError as error:
        raise UnusableClusterError(
            f"cannot reach {server}: {error}; check the address, the network and the kubeconfig"
        ) from error
    except ForbiddenError as error:
        raise UnusableClusterError(
            f"{server} does not let us in: {error.message}; check token or certificate"
        ) from error
    except (NotFoundError, RejectedError, UndecodableError) as error:
        raise UnusableClusterError(
            f"{server} answers, but not as an API server of Kubernetes; check the address"
        ) from error
    except ApiError as error:
        raise UnusableClusterError(f"{server} is not ready: {error}; try again later") from error
    there = [kind for kind in kinds if (kind.group, kind.version, kind.plural) in served]
    if not there:
        names = ", ".join(kind.name for kind in kinds)
        raise UnusableClusterError(
            f"none of the job kinds is installed on {server} ({names}); "
            "kubectl apply --server-side -k manifests/ installs them"
        )
    for resource in (PODS, SERVICES, *there):
        await _may_list(client, settings, resource)


async def _may_list(client: Client, settings: Settings, resource: Resource) -> None:
    for namespace in settings.namespaces or (None,):
        try:
            await client.list_page(resource, Scope(namespace), limit=1)
        except ForbiddenError as error:
            where = f"in namespace {namespace}" if namespace else "cluster-wide"
            raise UnusableClusterError(
                f"no right to list {resource.name} {where}: {error.message}; apply manifests/rbac, "
                "or name the namespaces that Roles cover with --namespaces"
            ) from error
        except (ApiError, TransportError):
            return  # the informers ask again, with back-off
