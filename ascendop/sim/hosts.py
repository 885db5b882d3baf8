# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Names of pods and Services, as lines of /etc/hosts; and which pods are behind a Service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ascendop.kube.resource import Object

DOMAIN: Final = "svc.cluster.local"
HEAD: Final = """127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback
"""
HOSTNAME_LIMIT: Final = 63

Addresses = Mapping[str, str]
"""Pod UID → address; it may be known here before the API server knows it."""


def hostname_of(pod: Object) -> str:
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:HOSTNAME_LIMIT].rstrip("-.")


def hosts_file(
    pod: Object, pods: Sequence[Object], services: Sequence[Object], addresses: Addresses
) -> str:
    """For one pod: itself first, then its hostAliases, then everybody."""
    own = addresses[pod["metadata"]["uid"]]
    lines = [f"{own} {' '.join(names_of_pod(pod, pod['metadata']['namespace']))}"]
    lines += [
        f"{alias['ip']} {' '.join(alias.get('hostnames') or ())}"
        for alias in pod["spec"].get("hostAliases") or ()
    ]
    lines += shared_lines(pod["metadata"]["namespace"], pods, services, addresses)
    return HEAD + "\n".join(lines) + "\n"


def shared_lines(
    namespace: str, pods: Sequence[Object], services: Sequence[Object], addresses: Addresses
) -> list[str]:
    """What every pod of the namespace sees; a Service's name wins over a pod's."""
    lines: list[str] = []
    taken: set[str] = set()
    for service in services:
        names = _names_of_service(service, namespace)
        taken.update(names)
        ips = service_addresses(service, pods, addresses)
        lines += [f"{ip} {' '.join(names)}" for ip in ips]
    for pod in pods:
        if address := _address(pod, addresses):
            names = [name for name in names_of_pod(pod, namespace) if name not in taken]
            if names:
                lines.append(f"{address} {' '.join(names)}")
    return lines


def service_addresses(service: Object, pods: Sequence[Object], addresses: Addresses) -> list[str]:
    """The ClusterIP, or those of the pods behind a headless Service."""
    cluster_ip = service["spec"].get("clusterIP")
    if cluster_ip and cluster_ip != "None":
        return [cluster_ip]
    return [a for pod in backends(service, pods) if (a := _address(pod, addresses))]


def backends(service: Object, pods: Iterable[Object]) -> list[Object]:
    """The pods that the selector finds, ended ones left out."""
    selector = service["spec"].get("selector")
    if not selector:
        return []
    return [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == service["metadata"]["namespace"]
        and selector.items() <= (pod["metadata"].get("labels") or {}).items()
        and not _ended(pod)
    ]


def forward_table(
    services: Sequence[Object], pods: Sequence[Object], addresses: Addresses
) -> dict[str, list[str]]:
    """ClusterIP and port → addresses and ports of the pods behind it."""
    table: dict[str, list[str]] = {}
    for service in services:
        cluster_ip = service["spec"].get("clusterIP")
        if not cluster_ip or cluster_ip == "None" or ":" in cluster_ip:
            continue
        for port in service["spec"].get("ports") or ():
            if port.get("protocol", "TCP") == "TCP":
                table[f"{cluster_ip}:{port['port']}"] = [
                    f"{address}:{target}"
                    for pod in backends(service, pods)
                    if _receives(pod, service)
                    and (address := _address(pod, addresses))
                    and (target := _target(pod, port))
                ]
    return table


def _receives(pod: Object, service: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready or bool(service["spec"].get("publishNotReadyAddresses"))


def _target(pod: Object, port: Object) -> int | None:
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    if target.isdecimal():
        return int(target)
    for container in pod["spec"].get("containers") or ():
        for named in container.get("ports") or ():
            if named.get("name") == target:
                return int(named["containerPort"])
    return None


def _names_of_service(service: Object, namespace: str) -> list[str]:
    meta = service["metadata"]
    return _qualified(meta["name"], meta["namespace"], namespace)


def names_of_pod(pod: Object, namespace: str) -> list[str]:
    """As a pod of `namespace` may call it. The full name first: a reverse look-up finds it."""
    meta, hostname = pod["metadata"], hostname_of(pod)
    names: list[str] = []
    if subdomain := pod["spec"].get("subdomain"):
        names += _qualified(f"{hostname}.{subdomain}", meta["namespace"], namespace)
    if meta["namespace"] == namespace:
        names += [hostname] if hostname == meta["name"] else [hostname, meta["name"]]
    else:
        names.append(f"{meta['name']}.{meta['namespace']}")
    return names


def _qualified(name: str, its_namespace: str, namespace: str) -> list[str]:
    names = [
        f"{name}.{its_namespace}.{DOMAIN}",
        f"{name}.{its_namespace}.svc",
        f"{name}.{its_namespace}",
    ]
    return [*names, name] if its_namespace == namespace else names


def _address(pod: Object, addresses: Addresses) -> str:
    return "" if _ended(pod) else addresses.get(pod["metadata"]["uid"], "")


def _ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
