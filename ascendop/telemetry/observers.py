# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the rooms tell, and the series that it moves: bound once, since finding one costs more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from prometheus_client import Counter, Gauge, Histogram

VERBS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
USUAL_CODES: Final = {
    "GET": ("200", "404"),
    "POST": ("201", "409", "422"),
    "PUT": ("200", "409"),
    "PATCH": ("200", "404", "409"),
    "DELETE": ("200", "404", "409"),
}
BAD_CODES: Final = ("403", "429", "500", "503", "<error>")
"""Of any verb; the last is no answer, as client-go spells it."""
EVENT_TYPES: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "other")
RESYNC_REASONS: Final = ("start", "expired")
STATES: Final = ("starting", "syncing", "watching", "troubled", "denied", "absent", "stopped")
PRIORITIES: Final = ("-100", "0", "50")
RESULTS: Final = ("success", "error", "requeue", "requeue_after")
DROPS: Final = ("budget", "queue full", "bug")


class RequestMetrics:
    """Implements the request observer of the wire."""

    def __init__(
        self,
        host: str,
        total: Counter,
        duration: Histogram,
        retries: Counter,
        throttled: Histogram,
    ) -> None:
        self._total = total
        self._retries = retries
        self._of_host: dict[tuple[str, str, str], tuple[Counter, Counter]] = {}
        self._duration = {verb: duration.labels(verb, host) for verb in VERBS}
        self._throttled = {verb: throttled.labels(verb, host) for verb in VERBS}
        for verb in VERBS:
            for code in (*USUAL_CODES[verb], *BAD_CODES):
                self._child(verb, host, code)

    def observed(self, verb: str, host: str, code: str, seconds: float) -> None:
        self._child(verb, host, code)[0].inc()
        if verb in self._duration:
            self._duration[verb].observe(seconds)

    def retried(self, verb: str, host: str, code: str) -> None:
        self._child(verb, host, code)[1].inc()

    def throttled(self, verb: str, host: str, seconds: float) -> None:  # noqa: ARG002  one host
        if verb in self._throttled:
            self._throttled[verb].observe(seconds)

    def _child(self, verb: str, host: str, code: str) -> tuple[Counter, Counter]:
        child = self._of_host.get((verb, host, code))
        if child is None:
            child = (self._total.labels(code, verb, host), self._retries.labels(code, verb, host))
            self._of_host[verb, host, code] = child
        return child


class QueueFigures(Protocol):
    """What a queue can be asked for when it is scraped."""

    def depths(self) -> Mapping[str, int]: ...

    def unfinished_s(self) -> float: ...

    def longest_running_s(self) -> float: ...


class QueueMetrics:
    """Implements the observer of one work queue."""

    def __init__(
        self,
        labels: Mapping[str, str],
        *,
        depth: Gauge,
        counts: Mapping[str, Counter],
        times: Mapping[str, Histogram],
        unfinished: Gauge,
        longest: Gauge,
    ) -> None:
        self._labels = labels
        self._depth = depth
        self._counts = {what: family.labels(**labels) for what, family in counts.items()}
        self._times = {what: family.labels(**labels) for what, family in times.items()}
        self._unfinished = unfinished.labels(**labels)
        self._longest = longest.labels(**labels)
        self._priorities = {p: depth.labels(**labels, priority=p) for p in PRIORITIES}

    def count(self, what: str) -> None:
        self._counts[what].inc()

    def took(self, what: str, seconds: float) -> None:
        self._times[what].observe(seconds)

    def refresh(self, queue: QueueFigures) -> None:
        """Take in how the queue stands. Before a scrape."""
        depths = queue.depths()
        for priority in depths.keys() - self._priorities.keys():
            self._priorities[priority] = self._depth.labels(**self._labels, priority=priority)
        for priority, child in self._priorities.items():
            child.set(depths.get(priority, 0))
        self._unfinished.set(queue.unfinished_s())
        self._longest.set(queue.longest_running_s())


class ReconcileMetrics:
    """What the workers of one controller do."""

    def __init__(
        self,
        controller: str,
        *,
        total: Counter,
        troubles: Mapping[str, Counter],
        time: Histogram,
        active: Gauge,
        most: Gauge,
    ) -> None:
        self._results = {result: total.labels(controller, result) for result in RESULTS}
        self._troubles = {what: family.labels(controller) for what, family in troubles.items()}
        self._time = time.labels(controller)
        self._active = active.labels(controller)
        self._most = most.labels(controller)

    def has_workers(self, workers: int) -> None:
        self._most.set(workers)

    def began(self) -> None:
        self._active.inc()

    def ended(self, result: str, seconds: float) -> None:
        """`result` is one of RESULTS."""
        self._active.dec()
        self._time.observe(seconds)
        self._results[result].inc()
        if result == "error":
            self._troubles["reconcile_errors"].inc()

    def gave_up(self) -> None:
        """An error that no second try helps."""
        self._troubles["terminal_reconcile_errors"].inc()

    def met_a_bug(self) -> None:
        self._troubles["reconcile_panics"].inc()

    def timed_out(self) -> None:
        self._troubles["reconcile_timeouts"].inc()


class InformerMetrics:
    """Implements the observer of one informer."""

    def __init__(
        self,
        kind: str,
        *,
        events: Counter,
        resyncs: Counter,
        counts: Mapping[str, Counter],
        times: Mapping[str, Histogram],
        levels: Mapping[str, Gauge],
        state: Gauge,
    ) -> None:
        self._kind = kind
        self._resyncs = resyncs
        self._events = {label: events.labels(kind, label) for label in EVENT_TYPES}
        self._by_reason = {label: resyncs.labels(kind, label) for label in RESYNC_REASONS}
        self._counts = {what: family.labels(kind) for what, family in counts.items()}
        self._times = {what: family.labels(kind) for what, family in times.items()}
        self._levels = {what: family.labels(kind) for what, family in levels.items()}
        self._states = {name: state.labels(kind, name) for name in STATES}

    def count(self, what: str, times: int = 1, label: str = "") -> None:
        if what == "events_total":
            self._events.get(label, self._events["other"]).inc(times)
        elif what == "resyncs_total":
            if label not in self._by_reason:
                self._by_reason[label] = self._resyncs.labels(self._kind, label)
            self._by_reason[label].inc(times)
        else:
            self._counts[what].inc(times)

    def took(self, what: str, seconds: float) -> None:
        self._times[what].observe(seconds)

    def is_at(self, what: str, value: float) -> None:
        self._levels[what].set(value)

    def refresh(self, figures: Mapping[str, Any]) -> None:
        """Take in how it stands: levels by their name, and `state`. Before a scrape."""
        for what, value in figures.items():
            if what in self._levels:
                self._levels[what].set(float(value))
        if "state" in figures:
            for name, child in self._states.items():
                child.set(name == figures["state"])


class LeaderMetrics:
    """Implements the observer of the elector."""

    def __init__(self, name: str, status: Gauge, slow_path: Counter) -> None:
        self._status = status.labels(name)
        self._slow_path = slow_path.labels(name)

    def leading(self, *, name: str, leads: bool) -> None:  # noqa: ARG002  one elector, one name
        self._status.set(leads)

    def slow_path(self, *, name: str) -> None:  # noqa: ARG002  one elector, one name
        self._slow_path.inc()


class EventMetrics:
    """Implements the observer of the event recorder."""

    def __init__(self, sent: Counter, dropped: Counter) -> None:
        self._sent = sent
        self._dropped = dropped
        for reason in DROPS:
            dropped.labels(reason)

    def event_sent(self) -> None:
        self._sent.inc()

    def event_dropped(self, reason: str) -> None:
        self._dropped.labels(reason).inc()


class LoopMetrics:
    """How the loop, the collector of garbage and the settings file fare."""

    def __init__(self, lag: Histogram, stalls: Counter, pauses: Histogram, broken: Gauge) -> None:
        self._lag = lag
        self._stalls = stalls
        self._pauses = {generation: pauses.labels(str(generation)) for generation in range(3)}
        self._broken = broken

    def lagged(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def stalled(self) -> None:
        self._stalls.inc()

    def paused(self, generation: int, seconds: float) -> None:
        self._pauses[generation].observe(seconds)

    def file_is_broken(self, *, broken: bool) -> None:
        self._broken.set(broken)


class JobMetrics:
    """How many jobs are in which phase."""

    def __init__(self, kind: str, phases: Iterable[str], jobs: Gauge) -> None:
        self._phases = {phase: jobs.labels(kind, phase) for phase in phases}

    def refresh(self, counts: Mapping[str, int]) -> None:
        """Take in the numbers. Before a scrape; a phase that is missing has none."""
        for phase, child in self._phases.items():
            child.set(counts.get(phase, 0))
