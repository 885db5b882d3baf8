# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The downward API: what a container may know of its own pod, as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ascendop.kube.quantity import Quantity
from ascendop.kube.resource import Object

_KEYED: Final = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")


def field_value(pod: Object, path: str, live: Mapping[str, str]) -> str:
    """The value at a fieldPath; `live` has what only the node knows, e.g. status.podIP."""
    if path in live:
        return live[path]
    if match := _KEYED.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path in {"metadata.annotations", "metadata.labels"}:
        found = pod["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{_escaped(value)}"' for key, value in sorted(found.items()))
    value: object = pod
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)


def resource_value(pod: Object, ref: Object, container_name: str) -> str:
    """The amount of a resourceFieldRef in units of its divisor, rounded up.

    A limit that is not set is what the node has; here that is the machine, told as 0.
    """
    name = ref.get("containerName") or container_name
    containers = pod["spec"].get("containers") or ()
    container: Object = next((c for c in containers if c["name"] == name), {})
    kind, _, resource = ref["resource"].partition(".")
    resources = container.get("resources") or {}
    text = (resources.get(kind) or {}).get(resource)
    if text is None and kind == "requests":
        text = (resources.get("limits") or {}).get(resource)
    amount = Quantity.parse(text or "0").nanos
    divisor = Quantity.parse(ref.get("divisor") or "1").nanos or Quantity.parse("1").nanos
    return str(-(-amount // divisor))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
