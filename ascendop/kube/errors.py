# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The server said no, or nothing: one class per thing a caller does differently."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ascendop.errors import AscendopError


class ApiError(AscendopError):
    """The API server answered, and the answer was no.

    status:         HTTP code, or `code` of a Status inside a watch stream.
    reason:         `reason` of the Status, e.g. AlreadyExists; empty when the answer carried none.
    details:        `details` of the Status: causes, kind, name.
    retry_after_s:  what the server asked us to wait, in seconds; 0 when it asked for nothing.
    audit_id:       the server's Audit-Id of this request, for its audit log; may be empty.
    flow_schema:    uid of the FlowSchema that took the request, so that a 429 tells whose queue
                    was full; may be empty.
    priority_level: uid of the PriorityLevelConfiguration behind it; may be empty.
    """

    statuses: ClassVar[tuple[int, ...]] = ()

    def __init__(  # an answer has that many parts
        self,
        status: int,
        message: str,
        *,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after_s: float = 0.0,
        audit_id: str = "",
        flow_schema: str = "",
        priority_level: str = "",
        request: str = "",
    ) -> None:
        super().__init__(f"{request}: {message} ({status} {reason})" if request else message)
        self.status = status
        self.message = message
        self.reason = reason
        self.details = details or {}
        self.retry_after_s = retry_after_s
        self.audit_id = audit_id
        self.flow_schema = flow_schema
        self.priority_level = priority_level
        self.request = request

    def caused_by(self, cause: str) -> bool:
        """Whether the details name this cause, e.g. NamespaceTerminating."""
        return any(c.get("reason") == cause for c in self.details.get("causes") or ())


class NotFoundError(ApiError):
    """404: the object, or the collection, is not there."""

    statuses = (404,)


class ExistsError(ApiError):
    """409 AlreadyExists: success if the object is ours."""


class ConflictError(ApiError):
    """409 for any other reason: somebody wrote first; read again, decide again."""

    statuses = (409,)


class GoneError(ApiError):
    """410, in the answer or inside a stream: our version is too old; list again."""

    statuses = (410,)


class RejectedError(ApiError):
    """What we sent is wrong: the user's template, or a bug."""

    statuses = (400, 405, 406, 413, 415, 422)

    def as_conflict(self) -> ConflictError:
        """The same answer, where it means that the object is not as we thought."""
        return ConflictError(
            self.status,
            self.message,
            reason="Conflict",
            audit_id=self.audit_id,
            request=self.request,
        )


class ForbiddenError(ApiError):
    """401 or 403: a right is missing; only an admin helps."""

    statuses = (401, 403)


class BusyError(ApiError):
    """429 and 5xx: ask again, not before `retry_after_s`."""

    statuses = (429, 500, 501, 502, 503, 504)


class TransportError(AscendopError):
    """No answer: connect, TLS, time-out, cut stream.

    sent: whether the request may have reached the server, and so may have worked.
    """

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


_STATUS = msgspec.json.Decoder(_Status)
_BY_STATUS: dict[int, type[ApiError]] = {
    status: cls
    for cls in (NotFoundError, ConflictError, GoneError, RejectedError, ForbiddenError, BusyError)
    for status in cls.statuses
}


def error_of(
    status: int,
    body: bytes,
    *,
    retry_after_s: float = 0.0,
    audit_id: str = "",
    flow_schema: str = "",
    priority_level: str = "",
    request: str = "",
) -> ApiError:
    """The error for an answer with this code and body (a Status, or whatever a proxy said)."""
    try:
        said = _STATUS.decode(body)
    except msgspec.DecodeError:
        said = _Status(message=body[:200].decode(errors="replace").strip() or f"HTTP {status}")
    cls = _BY_STATUS.get(status, BusyError if status >= 500 else RejectedError)  # noqa: PLR2004
    if cls is ConflictError and said.reason == "AlreadyExists":
        cls = ExistsError
    asked_s = float((said.details or {}).get("retryAfterSeconds") or 0)
    return cls(
        status,
        said.message or f"HTTP {status}",
        reason=said.reason,
        details=said.details,
        retry_after_s=max(retry_after_s, asked_s),
        audit_id=audit_id,
        flow_schema=flow_schema,
        priority_level=priority_level,
        request=request,
    )
