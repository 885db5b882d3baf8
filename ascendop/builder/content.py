# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What of an object is kept or told of, as a short text that is equal if that is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ascendop.api.model import Object


def service_content(selector: Mapping[str, str] | None, *, not_ready: bool) -> str:
    """Of a Service: whom it selects, and whether it names those that are not ready."""
    return _digest([selector or {}, not_ready])


def data_content(data: Mapping[str, str] | None) -> str:
    """Of a ConfigMap."""
    return _digest(data or {})


def program_content(containers: Iterable[Mapping[str, Any]]) -> str:
    """Of the containers of a launcher: what they run. Neither server nor operator adds to that."""
    keys = ("name", "image", "command", "args")
    return _digest([[container.get(key) or None for key in keys] for container in containers])


def content_of(obj: Object) -> str:
    """Of an object that is to be made; empty where only the names of its data are looked at."""
    if obj["kind"] == "Service":
        spec = obj["spec"]
        return service_content(spec["selector"], not_ready=spec["publishNotReadyAddresses"])
    return data_content(obj["data"]) if obj["kind"] == "ConfigMap" else ""


def _digest(found: object) -> str:
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
