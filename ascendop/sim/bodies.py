# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a write says: its body in whatever encoding, the kind of patch, and who writes."""

from __future__ import annotations

from typing import Any

import orjson
import yaml

from ascendop.kube.resource import Object, Resource
from ascendop.sim import protobuf
from ascendop.sim.answers import Cause, bad_request, invalid
from ascendop.sim.managers import Manager
from ascendop.sim.route import Call
from ascendop.sim.validate import check_identity

_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PATCH_OPTIONS = Resource("meta.k8s.io", "v1", "patchoptions", "PatchOptions")


def read_apply(call: Call) -> tuple[Object, Manager]:
    """The configuration and its manager. Raises RefusedError: 400, or 422 without a manager."""
    try:
        wanted = yaml.load(call.request.body or b"", Loader=_YAML)  # noqa: S506  a safe loader
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(wanted, dict):
        raise bad_request("an apply configuration is an object")
    name = call.query.get("fieldManager", "")
    if not name:
        says = "Required value: is required for apply patch"
        raise invalid(_PATCH_OPTIONS, "", [Cause("FieldValueRequired", says, "fieldManager")])
    check_identity(wanted, call.served, call.namespace, call.name)
    return wanted, Manager(name, "Apply", call.served.resource.api_version, call.subresource)


def read_json(call: Call) -> Object:
    """The body as an object. Raises RefusedError(400)."""
    obj = parse_json(call)
    if not isinstance(obj, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    return obj


def parse_json(call: Call) -> Any:
    body = call.request.body or b""
    try:
        if body.startswith(protobuf.MAGIC):
            return protobuf.decode(body, call.served)
        if "yaml" in content_type(call):
            return yaml.load(body, Loader=_YAML)  # noqa: S506  a safe loader
        return orjson.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(
            "the object provided is unrecognized (must be of type "
            f"{call.served.resource.kind}): couldn't get version/kind; json parse error: {error}"
        ) from error


def content_type(call: Call) -> str:
    headers = call.request.headers
    found = next((v for k, v in headers.items() if k.lower() == "content-type"), "")
    return found.partition(";")[0].strip() or "application/json"


def manager_of(call: Call) -> Manager:
    """Who writes: the fieldManager, or the first word of the user agent."""
    agent = next((v for k, v in call.request.headers.items() if k.lower() == "user-agent"), "")
    name = call.query.get("fieldManager") or agent.partition("/")[0] or "unknown"
    return Manager(name, "Update", call.served.resource.api_version, call.subresource)
