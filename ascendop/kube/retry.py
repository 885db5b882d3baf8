# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which failed request may be sent once more, and after which pause."""

from __future__ import annotations

from enum import Enum
from random import Random  # noqa: TID251  the type; the dice are an argument

from ascendop.backoff import Backoff
from ascendop.kube.errors import ApiError, TransportError

ATTEMPTS = 4
"""Per call, the first one included; the call's time-out bounds them all together."""

_PAUSE = Backoff(first_s=0.1, limit_s=5.0)  # a restarting server is back in seconds, or not soon
_NOT_NOW = 429
_UNAVAILABLE = 503
_SERVER_ERROR = 500


class Repeat(Enum):
    """What a second try of a request could do."""

    HARMLESS = "reads, dry runs, and writes that carry a uid or a resourceVersion"
    ONLY_IF_UNDONE = "creates, and writes without a precondition: a second one could do it twice"


def may_repeat(failed: ApiError | TransportError, repeat: Repeat) -> bool:
    """The retry matrix.

    "Please wait" and "never reached the server" hold for every verb: nothing was done. After any
    other server error, or a reset behind the request, it may have been done: only what is harmless
    twice is sent twice. A plain no (4xx) is never asked again.
    """
    if isinstance(failed, TransportError):
        undone, passing = not failed.sent, True
    else:
        asked_to_wait = failed.status == _UNAVAILABLE and failed.retry_after_s > 0
        undone = failed.status == _NOT_NOW or asked_to_wait
        passing = undone or failed.status >= _SERVER_ERROR
    return undone or (passing and repeat is Repeat.HARMLESS)


def pause_s(failed: ApiError | TransportError, failures: int, rng: Random) -> float:
    """Before the next attempt, in seconds; never shorter than what the server asked for.

    failures:  attempts that failed so far, 1 or more.
    """
    asked_s = failed.retry_after_s if isinstance(failed, ApiError) else 0.0
    own_s = _PAUSE.after(failures - 1)
    if asked_s >= own_s:  # stretched, or everybody who was told "1 s" is back in the same second
        return asked_s * rng.uniform(1.0, 1.2)
    return own_s * rng.uniform(1.0, 2.0)
