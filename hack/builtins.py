# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Asks a running kube-apiserver what it serves and writes the facts that the simulator needs.

    python hack/builtins.py https://127.0.0.1:6443 TOKEN > ascendop/sim/builtins.json

Only facts: resources, verbs, short names, and the shape of every type. No prose.
"""

import json
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

KEPT = {
    "v1": "bindings configmaps endpoints events limitranges namespaces nodes "
    "persistentvolumeclaims pods resourcequotas secrets serviceaccounts services",
    "apps/v1": "deployments replicasets statefulsets",
    "batch/v1": "jobs",
    "apiextensions.k8s.io/v1": "customresourcedefinitions",
    "coordination.k8s.io/v1": "leases",
    "discovery.k8s.io/v1": "endpointslices",
    "events.k8s.io/v1": "events",
    "policy/v1": "poddisruptionbudgets",
    "rbac.authorization.k8s.io/v1": "clusterrolebindings clusterroles rolebindings roles",
    "scheduling.k8s.io/v1": "priorityclasses",
}
SUBRESOURCES = {"status", "scale", "binding", "eviction", "log", "finalize"}
EXTRA = ("io.k8s.api.autoscaling.v1.Scale", "io.k8s.api.policy.v1.Eviction")
PROSE = {"description", "example", "externalDocs"}


def ask(path: str, accept: str = "application/json") -> Any:  # noqa: ANN401  JSON
    request = urllib.request.Request(
        sys.argv[1] + path, headers={"Authorization": f"Bearer {sys.argv[2]}", "Accept": accept}
    )
    insecure = ssl._create_unverified_context()  # noqa: SLF001  a throw-away server on loopback
    with urllib.request.urlopen(request, context=insecure) as answer:
        return json.load(answer)


def bare(node: Any, *, names: bool = False) -> Any:  # noqa: ANN401  JSON
    """Without prose, and `allOf` of one reference as the reference."""
    if isinstance(node, list):
        return [bare(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {k: bare(v, names=k == "properties") for k, v in node.items() if names or k not in PROSE}
    if not names and len(kept.get("allOf", ())) == 1:
        kept.update(kept.pop("allOf")[0])
    return kept


def references(node: Any) -> Iterator[str]:  # noqa: ANN401  JSON
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def closure(schemas: dict[str, Any], roots: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name not in found and name in schemas:
            found[name] = bare(schemas[name])
            todo.extend(references(found[name]))
    return dict(sorted(found.items()))


def main() -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = ask("/api", aggregated)["items"] + ask("/apis", aggregated)["items"]
    resources, schemas, roots = [], {}, list(EXTRA)
    for group in groups:
        name = group["metadata"].get("name", "")
        for version in group["versions"]:
            gv = f"{name}/{version['version']}" if name else version["version"]
            kept = KEPT.get(gv, "").split()
            if not kept:
                continue
            doc = ask(f"/openapi/v3/{'apis' if name else 'api'}/{gv}")["components"]["schemas"]
            schemas.update(doc)
            kinds = {
                (g.get("group", ""), g["version"], g["kind"]): schema
                for schema, body in doc.items()
                for g in body.get("x-kubernetes-group-version-kind", ())
            }
            for resource in version["resources"]:
                if resource["resource"] not in kept:
                    continue
                kind = resource["responseKind"]["kind"]
                schema = kinds[name, version["version"], kind]
                roots.append(schema)
                resources.append(
                    {
                        "group": name,
                        "version": version["version"],
                        "plural": resource["resource"],
                        "kind": kind,
                        "namespaced": resource["scope"] == "Namespaced",
                        "singular": resource["singularResource"],
                        "shortNames": resource.get("shortNames", []),
                        "categories": resource.get("categories", []),
                        "verbs": resource["verbs"],
                        "subresources": {
                            s["subresource"]: s["verbs"]
                            for s in resource.get("subresources", ())
                            if s["subresource"] in SUBRESOURCES
                        },
                        "schema": schema,
                    }
                )
    # one line a thing: a new Kubernetes version shows as a readable difference
    lines = ",\n".join(json.dumps(r, sort_keys=True) for r in resources)
    shapes = ",\n".join(
        f"{json.dumps(n)}: {json.dumps(s, sort_keys=True)}"
        for n, s in closure(schemas, roots).items()
    )
    sys.stdout.write(f'{{"resources": [\n{lines}\n],\n"schemas": {{\n{shapes}\n}}}}\n')


if __name__ == "__main__":
    main()
