# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the server says no with: one function per refusal, in the words of a real server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from ascendop.errors import AscendopError
from ascendop.kube.resource import Resource
from ascendop.kube.transport import Response

JSON = {"content-type": "application/json"}


class RefusedError(AscendopError):
    """The request ends here, with this Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        """As a Status object."""
        said: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details is not None:
            said["details"] = self.details
        return said

    def response(self) -> Response:
        """As an answer; with Retry-After when the details ask for it."""
        headers = dict(JSON)
        if after_s := (self.details or {}).get("retryAfterSeconds"):
            headers["retry-after"] = str(after_s)
        return Response(self.code, headers, orjson.dumps(self.status()))


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing wrong with an object: code, sentence, path."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def _details(resource: Resource, name: str, kind: str = "") -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "BadRequest", message)


def forbidden(
    resource: Resource, name: str, why: str, *, causes: Iterable[Cause] = ()
) -> RefusedError:
    details = _details(resource, name)
    if said := _causes(causes):
        details["causes"] = said
    return RefusedError(403, "Forbidden", f'{resource.name} "{name}" is forbidden: {why}', details)


def not_found(resource: Resource, name: str) -> RefusedError:
    return RefusedError(
        404, "NotFound", f'{resource.name} "{name}" not found', _details(resource, name)
    )


def not_served() -> RefusedError:
    return RefusedError(
        404, "NotFound", "the server could not find the requested resource", details={}
    )


def method_not_allowed() -> RefusedError:
    return RefusedError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        details={},
    )


def not_acceptable(wanted: str) -> RefusedError:
    return RefusedError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: application/json (not {wanted})",
    )


def unsupported_media_type(found: str, supported: str) -> RefusedError:
    return RefusedError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format ({found}) - accepted media types "
        f"include: {supported}",
    )


def already_exists(resource: Resource, name: str) -> RefusedError:
    return RefusedError(
        409, "AlreadyExists", f'{resource.name} "{name}" already exists', _details(resource, name)
    )


def conflict(
    resource: Resource, name: str, why: str, *, kind: str = "", causes: Iterable[Cause] = ()
) -> RefusedError:
    """409 Conflict; `kind` when the message names the kind and not the resource."""
    details = _details(resource, name, kind)
    if said := _causes(causes):
        details["causes"] = said
    message = f'Operation cannot be fulfilled on {kind or resource.name} "{name}": {why}'
    return RefusedError(409, "Conflict", message, details)


def stale(resource: Resource, name: str) -> RefusedError:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and "
        "try again",
    )


def expired(message: str) -> RefusedError:
    return RefusedError(410, "Expired", message)


def too_old(asked: int, oldest: int) -> RefusedError:
    return expired(f"too old resource version: {asked} ({oldest})")


def too_new(asked: int, current: int) -> RefusedError:
    """504: the caller has seen a later version than this server."""
    return RefusedError(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        {
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> RefusedError:
    """422 with every cause, as a real server joins them."""
    causes = list(causes)
    told = ", ".join(str(cause) for cause in causes)
    if len(causes) > 1:
        told = f"[{told}]"
    details = _details(resource, name, resource.kind)
    details["causes"] = _causes(causes)
    what = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    return RefusedError(422, "Invalid", f'{what} "{name}" is invalid: {told}', details)


def unprocessable(message: str) -> RefusedError:
    """422 for a patch that does not apply."""
    return RefusedError(422, "Invalid", message, details={})


def busy(code: int, reason: str, message: str, after_s: int = 0) -> RefusedError:
    return RefusedError(code, reason, message, {"retryAfterSeconds": after_s} if after_s else None)


def refuse(error: RefusedError) -> NoReturn:
    raise error


def _causes(causes: Iterable[Cause]) -> list[dict[str, str]]:
    return [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
