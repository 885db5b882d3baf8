# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The scale subresource: three numbers of an object, wherever its kind keeps them."""

from __future__ import annotations

from typing import Any

from ascendop.kube.resource import Object
from ascendop.sim.registry import Served


def show_scale(obj: Object, served: Served) -> Object:
    """An autoscaling/v1 Scale."""
    paths = served.scale or {}
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: dict[str, Any] = {"replicas": _at(obj, paths.get("statusReplicasPath", "")) or 0}
    if selector := _selector(obj, paths.get("labelSelectorPath", "")):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": _at(obj, paths.get("specReplicasPath", "")) or 0},
        "status": status,
    }


def change_scale(obj: Object, scale: Object, served: Served) -> Object:
    """The object with the number of replicas that a Scale asks for."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    *above, last = _parts((served.scale or {}).get("specReplicasPath", ""))
    node = obj
    for part in above:
        node = node.setdefault(part, {})
    node[last] = replicas
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        obj["metadata"]["resourceVersion"] = version
    return obj


def _selector(obj: Object, path: str) -> str:
    if path:
        return str(_at(obj, path) or "")
    labels = _at(obj, ".spec.selector.matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _at(obj: Any, path: str) -> Any:
    for part in _parts(path):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _parts(path: str) -> list[str]:
    return [part for part in path.split(".") if part]
