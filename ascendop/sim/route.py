# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which resource a path means, and what is asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ascendop.kube.transport import Request
from ascendop.sim.answers import method_not_allowed, not_served
from ascendop.sim.registry import Registry, Served

_MEMBER = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "POST": "create"}
_COLLECTION = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_TRUE = ("1", "true", "True", "t", "T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a resource, understood."""

    request: Request
    served: Served
    verb: str
    """As RBAC has it: get list watch create update patch delete deletecollection."""
    namespace: str | None
    name: str
    """Empty for a collection."""
    subresource: str
    user: str

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace or "", self.name)

    @property
    def dry(self) -> bool:
        return bool(self.query.get("dryRun"))

    def says(self, parameter: str) -> bool:
        """Whether a boolean parameter is given as true."""
        return self.query.get(parameter, "") in _TRUE


def parse_call(registry: Registry, request: Request, user: str) -> Call:
    """Raises RefusedError: 404 for what is not served, 405 for a verb that it does not have."""
    group, version, rest = _split(request.path)
    namespace, plural, name, subresource = _place(rest)
    served = registry.find(group, version, plural)
    if served is None or served.resource.namespaced < (namespace is not None):
        raise not_served()
    if subresource and subresource not in served.subresources:
        raise not_served()
    if served.resource.namespaced and namespace is None and (name or request.method == "POST"):
        raise method_not_allowed()
    verb = _verb(request, name)
    allowed = served.subresources[subresource] if subresource else served.verbs
    if verb not in allowed or (verb == "create" and name and not subresource):
        raise method_not_allowed()
    return Call(request, served, verb, namespace, name, subresource, user)


def _split(path: str) -> tuple[str, str, list[str]]:
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:  # noqa: PLR2004  /api/v1/<plural>
        return "", parts[1], parts[2:]
    if parts[0] == "apis" and len(parts) > 3:  # noqa: PLR2004  /apis/<group>/<version>/<plural>
        return parts[1], parts[2], parts[3:]
    raise not_served()


def _place(rest: list[str]) -> tuple[str | None, str, str, str]:
    """Namespace, plural, name, subresource; `namespaces/x/status` is that of a Namespace."""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):  # noqa: PLR2004
        namespace: str | None = rest[1]
        rest = rest[2:]
    else:
        namespace = None
    padded = [*rest, "", ""]
    return namespace, padded[0], padded[1], "/".join(rest[2:])


def _verb(request: Request, name: str) -> str:
    verb = (_MEMBER if name else _COLLECTION).get(request.method)
    if verb is None:
        raise method_not_allowed()
    if verb in ("get", "list") and request.query.get("watch") in _TRUE:
        return "watch"
    return verb
