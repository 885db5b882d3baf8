# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What there is: versions, groups, resources; in the aggregated form and in the old one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from ascendop.kube.transport import Request, Response
from ascendop.sim import openapi
from ascendop.sim.answers import JSON, RefusedError
from ascendop.sim.registry import Registry, Served

VERSION = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.3",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "ascendop/simulator",
}
_AGGREGATED = "apidiscovery.k8s.io"
_HEALTH = ("healthz", "livez", "readyz")


class Discovery:
    """Answers every path that is not about an object."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._fixed: dict[str, Callable[[Request], Any]] = {
            "/version": lambda _: VERSION,
            "/api": self._api,
            "/apis": self._apis,
            "/openapi/v2": lambda _: openapi.swagger(registry),
            "/openapi/v3": lambda _: openapi.index(registry),
        }

    def answer(self, request: Request) -> Response | None:
        """None when the path is that of a resource."""
        path = request.path.rstrip("/") or "/"
        if request.method != "GET":
            return None
        if path in self._fixed:
            return _json(self._fixed[path](request), _kind_of(request, path))
        parts = path.strip("/").split("/")
        if parts[0] in _HEALTH:
            return Response(200, {"content-type": "text/plain; charset=utf-8"}, b"ok")
        if parts[0] in ("api", "apis") and len(parts) > (3 if parts[0] == "apis" else 2):
            return None
        return _found(self._document(parts))

    def _document(self, parts: list[str]) -> Any:
        match parts:
            case ["openapi", "v3", *root]:
                return openapi.document(self._registry, "/".join(root))
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version]:
                return self._resources(group, version)
            case _:
                return None

    def _api(self, request: Request) -> Any:
        if _aggregated(request):
            return self._list([""])
        return {"kind": "APIVersions", "versions": ["v1"]}

    def _apis(self, request: Request) -> Any:
        names = [name for name in self._versions() if name]
        if _aggregated(request):
            return self._list(names)
        groups = [self._group(name) for name in names]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _versions(self) -> dict[str, dict[str, list[Served]]]:
        groups: dict[str, dict[str, list[Served]]] = {}
        for served in self._registry:
            resource = served.resource
            versions = groups.setdefault(resource.group, {})
            versions.setdefault(resource.version, []).append(served)
        return groups

    def _group(self, name: str) -> Any:
        versions = self._versions().get(name)
        if versions is None or not name:
            return None
        told = [{"groupVersion": f"{name}/{v}", "version": v} for v in _preferred(versions)]
        return {
            "kind": "APIGroup",
            "apiVersion": "v1",
            "name": name,
            "versions": told,
            "preferredVersion": told[0],
        }

    def _resources(self, group: str, version: str) -> Any:
        members = self._versions().get(group, {}).get(version)
        if members is None:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": [entry for served in members for entry in _plain(served)],
        }

    def _list(self, names: list[str]) -> Any:
        groups = self._versions()
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [
                {
                    "metadata": {"name": name} if name else {},
                    "versions": [
                        {
                            "version": version,
                            "resources": [_detailed(served) for served in groups[name][version]],
                            "freshness": "Current",
                        }
                        for version in _preferred(groups[name])
                    ],
                }
                for name in names
            ],
        }


def _preferred(versions: dict[str, list[Served]]) -> list[str]:
    """Best first: v2 before v1 before v1beta1 before v1alpha1, as the server sorts a group's."""

    def rank(version: str) -> tuple[int, int, int]:
        for stage, marker in ((1, "beta"), (0, "alpha")):
            if marker in version:
                major, _, minor = version.lstrip("v").partition(marker)
                return (stage, int(major or 0), int(minor or 0))
        digits = version.lstrip("v")
        return (2, int(digits) if digits.isdigit() else -1, 0)

    return sorted(versions, key=rank, reverse=True)


def _plain(served: Served) -> list[dict[str, Any]]:
    resource = served.resource
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": served.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(served.verbs),
        "storageVersionHash": "",
    }
    if served.short_names:
        entry["shortNames"] = list(served.short_names)
    if served.categories:
        entry["categories"] = list(served.categories)
    below = [
        {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "verbs": sorted(verbs),
            **_kind_below(served, name),
        }
        for name, verbs in served.subresources.items()
    ]
    return [entry, *below]


def _kind_below(served: Served, subresource: str) -> dict[str, str]:
    if subresource == "scale":
        return {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    if subresource == "eviction":
        return {"group": "policy", "version": "v1", "kind": "Eviction"}
    return {"kind": "Binding" if subresource == "binding" else served.resource.kind}


def _detailed(served: Served) -> dict[str, Any]:
    resource = served.resource
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": served.singular,
        "verbs": sorted(served.verbs),
        "shortNames": list(served.short_names),
        "categories": list(served.categories),
    }
    entry["subresources"] = [
        {
            "subresource": name,
            "responseKind": {
                "group": resource.group,
                "version": resource.version,
                **_kind_below(served, name),
            },
            "verbs": sorted(verbs),
        }
        for name, verbs in served.subresources.items()
    ]
    return entry


def _aggregated(request: Request) -> bool:
    accept = next((v for k, v in request.headers.items() if k.lower() == "accept"), "")
    return f"g={_AGGREGATED};v=v2;" in accept.replace(" ", "") + ";"


def _kind_of(request: Request, path: str) -> str:
    if path in ("/api", "/apis") and _aggregated(request):
        return f"application/json;g={_AGGREGATED};v=v2;as=APIGroupDiscoveryList"
    return "application/json"


def _found(body: Any) -> Response:
    if body is None:
        error = RefusedError(
            404, "NotFound", "the server could not find the requested resource", details={}
        )
        return error.response()
    return _json(body, "application/json")


def _json(body: Any, kind: str) -> Response:
    return Response(200, {**JSON, "content-type": kind}, orjson.dumps(body))
