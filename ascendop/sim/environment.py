# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A container's environment and command line, expanded as a kubelet expands them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ascendop.kube.resource import Object
from ascendop.sim.fields import field_value, resource_value
from ascendop.sim.volumes import Lookup, MissingError, contents

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^()]*)\))")


def expand(text: str, env: Mapping[str, str]) -> str:
    """$(NAME) becomes its value, $$ a dollar; an unknown $(NAME) stays as it is."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return env.get(name, match[0])

    return _REFERENCE.sub(value, text)


def build_env(
    pod: Object, container: Object, lookup: Lookup, live: Mapping[str, str]
) -> dict[str, str]:
    """EnvFrom first, then env in order: a later one sees and replaces an earlier one.

    live:    fieldPaths that only the node knows, e.g. status.podIP.
    Raises:  MissingError for a ConfigMap, Secret or key that is not there.
    """
    env: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        env |= _all_of(pod, source, lookup)
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            value = _value_from(pod, container, entry["valueFrom"], lookup, live)
        else:
            value = expand(entry.get("value") or "", env)
        if value is not None:
            env[entry["name"]] = value
    return env


def build_argv(container: Object, env: Mapping[str, str]) -> list[str]:
    """Empty when the container has no command: there is no image to have one."""
    if not container.get("command"):
        return []
    words: Sequence[str] = [*container["command"], *(container.get("args") or ())]
    return [expand(word, env) for word in words]


def _all_of(pod: Object, source: Object, lookup: Lookup) -> dict[str, str]:
    kind = "ConfigMap" if "configMapRef" in source else "Secret"
    ref = source.get("configMapRef") or source.get("secretRef") or {}
    found = lookup(kind, pod["metadata"]["namespace"], ref.get("name", ""))
    if found is None:
        if ref.get("optional"):
            return {}
        raise MissingError(f'{kind.lower()} "{ref.get("name", "")}" not found')
    prefix = source.get("prefix") or ""
    return {prefix + key: text.decode() for key, text in contents(found).items()}


def _value_from(
    pod: Object, container: Object, source: Object, lookup: Lookup, live: Mapping[str, str]
) -> str | None:
    if ref := source.get("fieldRef"):
        return field_value(pod, ref["fieldPath"], live)
    if ref := source.get("resourceFieldRef"):
        return resource_value(pod, ref, container["name"])
    kind = "ConfigMap" if "configMapKeyRef" in source else "Secret"
    ref = source.get("configMapKeyRef") or source.get("secretKeyRef") or {}
    found = lookup(kind, pod["metadata"]["namespace"], ref.get("name", ""))
    values = contents(found) if found is not None else {}
    if ref.get("key") in values:
        return values[ref["key"]].decode()
    if ref.get("optional"):
        return None
    what = f'"{ref.get("name", "")}" not found'
    if found is not None:
        what = f'"{ref.get("name", "")}" has no key {ref.get("key")!r}'
    raise MissingError(f"{kind.lower()} {what}")
