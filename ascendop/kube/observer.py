# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the wire tells whoever counts: requests, second tries, and waiting of our own making."""

from __future__ import annotations

from typing import Protocol

NO_ANSWER = "<error>"
"""The code of a request without an answer, as client-go's dashboards know it."""


class RequestObserver(Protocol):
    """Called once per attempt, synchronously, on the loop. Must be cheap and must not raise."""

    def observed(self, verb: str, host: str, code: str, seconds: float) -> None:
        """An attempt ended. `verb` is the HTTP method, `code` the status or NO_ANSWER."""
        ...

    def retried(self, verb: str, host: str, code: str) -> None:
        """The same request is sent once more, because the last attempt ended with `code`."""
        ...

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        """Our own limiter held a write back that long."""
        ...


class NobodyCounts:
    """The observer of a client without metrics."""

    def observed(self, verb: str, host: str, code: str, seconds: float) -> None:
        pass

    def retried(self, verb: str, host: str, code: str) -> None:
        pass

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        pass
