# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Asks a running kube-apiserver what it serves and writes the facts that the simulator needs.

    python hack/builtins.py https://127.0.0.1:6443 TOKEN FOLDER... > ascendop/sim/builtins.json

The folders are those of the Go modules k8s.io/api, k8s.io/apimachinery and
k8s.io/apiextensions-apiserver, for the field numbers of protobuf, in which kubectl sends what
`kubectl create configmap` and its kin make.

Only facts: resources, verbs, short names, the shape and the numbers of every type. No prose.
"""

import json
import re
import ssl
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
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


MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.DOTALL | re.MULTILINE)
FIELD = re.compile(
    r"^  (?:(optional|repeated) )?(map<\s*string\s*,\s*([\w.]+)\s*>|[\w.]+) (\w+) = (\d+);$",
    re.MULTILINE,
)


def numbers(folders: list[str]) -> dict[str, dict[str, str]]:
    """Type → number → `name type`, with * behind a repeated type and % before a map's values."""
    found: dict[str, dict[str, str]] = {}
    for file in sorted(f for folder in folders for f in Path(folder).rglob("generated.proto")):
        text = file.read_text()
        package = re.findall(r"^package (.*);$", text, re.MULTILINE)[0]
        for name, body in MESSAGE.findall(text):
            fields = found[renamed(f"{package}.{name}")] = {}
            for label, kind, values, field, number in FIELD.findall(body):
                plain = values or kind
                if plain[0].isupper():
                    plain = f"{package}.{plain}"
                plain = renamed(plain) if "." in plain else plain
                mark = f"%{plain}" if values else plain + ("*" if label == "repeated" else "")
                fields[number] = f"{field} {mark}"
    return found


def reached(messages: dict[str, dict[str, str]], roots: list[str]) -> dict[str, dict[str, str]]:
    """The messages that are in those of the roots."""
    found: dict[str, dict[str, str]] = {}
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in messages and name not in found:
            found[name] = messages[name]
            todo.extend(f.split(" ")[1].strip("%*") for f in messages[name].values())
    return dict(sorted(found.items()))


def renamed(name: str) -> str:
    """As OpenAPI calls it: k8s.io.api.core.v1.Pod is io.k8s.api.core.v1.Pod."""
    name = name.lstrip(".")
    return f"io.k8s.{name.removeprefix('k8s.io.')}" if name.startswith("k8s.io.") else name


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
    # definitions are never sent so: kubectl knows them as files only
    sent = [name for name in roots if "apiextensions" not in name]
    messages = reached(numbers(sys.argv[3:]), sent)
    wire = ",\n".join(f"{json.dumps(n)}: {json.dumps(fields)}" for n, fields in messages.items())
    parts = (
        f'"resources": [\n{lines}\n]',
        f'"schemas": {{\n{shapes}\n}}',
        f'"wire": {{\n{wire}\n}}',
    )
    sys.stdout.write("{" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main()
