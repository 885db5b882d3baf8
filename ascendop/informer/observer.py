# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What an informer tells whoever counts."""

from __future__ import annotations

from typing import Literal, Protocol

Counted = Literal[
    "events_total",  # label: ADDED, MODIFIED, DELETED, BOOKMARK, ERROR or other
    "resyncs_total",  # label: why
    "replays_dropped_total",
    "decode_errors_total",
    "informer_transform_errors_total",
    "handler_errors_total",
    "overlay_expired_total",
    "audit_differences_total",
    "gate_live_reads_total",
]
Timed = Literal["list_seconds", "watch_seconds", "apply_seconds"]
Gauged = Literal["watch_backlog_bytes"]


class InformerObserver(Protocol):
    """Called synchronously, on the loop, for one kind; must be cheap and must not raise.

    What is a state and not an event is asked for when it is scraped: `Informer.figures`.
    """

    def count(self, what: Counted, times: int = 1, label: str = "") -> None:
        """So many more."""
        ...

    def took(self, what: Timed, seconds: float) -> None:
        """A duration."""
        ...

    def is_at(self, what: Gauged, value: float) -> None:
        """A level, as of now."""
        ...


class NobodyCounts:
    """The observer of an informer without metrics."""

    def count(self, what: Counted, times: int = 1, label: str = "") -> None:
        pass

    def took(self, what: Timed, seconds: float) -> None:
        pass

    def is_at(self, what: Gauged, value: float) -> None:
        pass
