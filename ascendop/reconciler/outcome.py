# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a pass over a job ended: what the queue and the log are told, of errors too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from traceback import format_exception
from typing import Final

from ascendop.apply.files import SharedDirectoryError
from ascendop.apply.plan import Failure
from ascendop.apply.standing import ForeignMapError, TooLargeError
from ascendop.errors import AscendopError, StaleCacheError
from ascendop.kube.errors import BusyError, ConflictError, ForbiddenError, TransportError
from ascendop.telemetry.log import Log

BUG_PAUSE_S: Final = 60.0  # a bug repeats itself; a minute leaves room for the others, and the log
FORBIDDEN_PAUSE_S: Final = 30.0  # only an administrator helps
CONFLICT_S: Final = 0.02
STALE_S: Final = 5.0  # the key is woken when the cache has caught up; this is the insurance
SHARE_PAUSE_S: Final = 1.0
HANDS_PAUSE_S: Final = 20.0  # only somebody's hands help, with a ConfigMap or a definition
REFUSED_S: Final = 120.0
"""Quota, rights and policies are changed by people, who then watch whether it helps."""
ODD: Final = 5
"""A server that is busy or away so often in a row is worth a line."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is open. With `after_s`, look again then."""

    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Something is open; the key's own back-off decides when, but not before `at_least_s`.

    at_most_s:  where others decide how long it lasts, the back-off does not grow beyond this.
    """

    why: str
    at_least_s: float = 0.0
    at_most_s: float = inf


@dataclass(frozen=True, slots=True)
class Later:
    """Something is on its way that will wake the key; look again then. No failure.

    after_s:  look again anyway.
    """

    after_s: float


@dataclass(frozen=True, slots=True)
class GaveUp:
    """No second try helps. An edit of the job does, and that is an event."""

    why: str


Outcome = Finished | TryAgain | Later | GaveUp


class NoStatusError(AscendopError):
    """A job is there, but the server knows no status of it."""

    def __init__(self, definition: str) -> None:
        super().__init__(
            f"CustomResourceDefinition {definition} has no subresource status, so no job of this "
            "kind can say how it stands; apply the definition that `ascendop manifests` writes"
        )


def outcome_of_failures(failures: Sequence[Failure]) -> Outcome:
    """What follows from writes that were refused."""
    why = failures[0].message
    pauses_s = [failure.retry_s for failure in failures if failure.retry_s is not None]
    if not pauses_s:
        return GaveUp(why)
    if all(failure.waits for failure in failures):
        return Later(max(pauses_s))
    return TryAgain(why, at_least_s=max(pauses_s), at_most_s=REFUSED_S)


def outcome_of_error(error: Exception) -> Outcome:
    """What follows from an error that ended the pass."""
    match error:
        case StaleCacheError():
            return Later(STALE_S)
        case ConflictError():
            pause_s = CONFLICT_S
        case SharedDirectoryError():
            pause_s = SHARE_PAUSE_S
        case TooLargeError() | ForeignMapError() | NoStatusError():
            pause_s = HANDS_PAUSE_S
        case ForbiddenError():
            pause_s = FORBIDDEN_PAUSE_S
        case BusyError():
            pause_s = error.retry_after_s
        case AscendopError() | TimeoutError():
            pause_s = 0.0
        case _:
            pause_s = BUG_PAUSE_S
    return TryAgain(str(error) or repr(error), at_least_s=pause_s)


def write_down(error: Exception, log: Log, *, failures: int) -> None:
    """What the log is told of it: nothing of what goes by itself.

    failures:  how often the same job failed in a row before.
    """
    match error:
        case StaleCacheError():
            return
        case BusyError() | TransportError():
            if failures >= ODD:
                log.warning("not done", err=str(error), failures=failures + 1)
        case ConflictError():
            log.info("conflict", err=str(error))
        case ForbiddenError():
            log.error("forbidden", err=str(error), audit_id=error.audit_id)
        case AscendopError():
            log.warning("not done", err=str(error))
        case TimeoutError():
            log.error("reconcile took too long")
        case _:
            log.error("bug", err=repr(error), traceback="".join(format_exception(error)))
