# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a queue tells whoever counts, under the names client-go's users know."""

from __future__ import annotations

from typing import Literal, Protocol

Counted = Literal["adds_total", "retries_total"]
Timed = Literal["queue_duration_seconds", "work_duration_seconds"]

OTHER = "other"
"""The label of every priority beyond the first MAX_PRIORITIES."""
MAX_PRIORITIES = 8
"""Distinct values of the label `priority`; a time series each."""


class QueueObserver(Protocol):
    """Called synchronously, on the loop; must be cheap and must not raise.

    Counts and durations are told as they happen. What is a state and not an event is asked for when
    it is scraped: `WorkQueue.depths`, `unfinished_s`, `longest_running_s`.
    """

    def count(self, what: Counted) -> None:
        """One more: `workqueue_<what>`."""
        ...

    def took(self, what: Timed, seconds: float) -> None:
        """A duration: `workqueue_<what>`."""
        ...


class NobodyCounts:
    """The observer of a queue without metrics."""

    def count(self, what: Counted) -> None:
        pass

    def took(self, what: Timed, seconds: float) -> None:
        pass
