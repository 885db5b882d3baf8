# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Numbers under the names that dashboards of client-go and controller-runtime already know."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from ascendop.telemetry.observers import (
    EventMetrics,
    InformerMetrics,
    JobMetrics,
    LeaderMetrics,
    LoopMetrics,
    QueueMetrics,
    ReconcileMetrics,
    RequestMetrics,
)

DECADES: Final = tuple(10.0**n for n in range(-8, 4))
"""Of the work queue: ten nanoseconds to a quarter of an hour."""
RECONCILE_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
    *(15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
REQUEST_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
WATCH_S: Final = (1.0, 10.0, 60.0, 300.0, 600.0)
APPLY_S: Final = (1e-5, 1e-4, 1e-3, 5e-3, 5e-2, 0.5)
LAG_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0)
PAUSE_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)


class Metrics:
    """Every metric of one operator, in a registry of its own: two may live in one process.

    Complete:  every combination of labels that is known exists from the start with value 0.
    Bounded:   no label names a job, a pod or a namespace.
    Threads:   counting happens on the loop; `refresh` runs there too; `render` may run anywhere,
               one at a time.
    """

    def __init__(self) -> None:
        # Each would be one more series that nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._refreshers: list[Callable[[], None]] = []
        self._rendering = threading.Lock()
        self.events = EventMetrics(
            self.counter("ascendop_events_sent_total", "Events told to the API server"),
            self.counter("ascendop_events_dropped_total", "Events that nobody will see", "reason"),
        )
        self.loop = LoopMetrics(
            self.histogram("ascendop_loop_lag_seconds", "How late the loop wakes up", LAG_S),
            self.counter("ascendop_loop_stalls_total", "Times that the loop stood still for 5 s"),
            self.histogram(
                "ascendop_gc_pause_seconds", "Pauses of the collector", PAUSE_S, "generation"
            ),
            self.gauge("ascendop_settings_file_broken", "1 while the settings file cannot be read"),
        )

    def requests(self, host: str) -> RequestMetrics:
        """For a client of this API server."""
        return RequestMetrics(
            host,
            self.counter("rest_client_requests_total", "HTTP requests", "code", "method", "host"),
            self.histogram(
                "rest_client_request_duration_seconds", "Latency", REQUEST_S, "verb", "host"
            ),
            self.counter(
                "rest_client_request_retries_total", "Second tries", "code", "verb", "host"
            ),
            self.histogram(
                "rest_client_rate_limiter_duration_seconds",
                "How long our own limiter held requests back",
                REQUEST_S,
                "verb",
                "host",
            ),
        )

    def queue(self, name: str, *, controller: str = "") -> QueueMetrics:
        """For one work queue. `controller` is its name again where it has no other."""
        labels = {"name": name, "controller": controller or name}
        of = ("name", "controller")
        return QueueMetrics(
            labels,
            depth=self.gauge("workqueue_depth", "Keys that are ready", *of, "priority"),
            counts={
                "adds_total": self.counter("workqueue_adds_total", "Keys added", *of),
                "retries_total": self.counter(
                    "workqueue_retries_total", "Keys added for later", *of
                ),
            },
            times={
                "queue_duration_seconds": self.histogram(
                    "workqueue_queue_duration_seconds", "From ready to taken", DECADES, *of
                ),
                "work_duration_seconds": self.histogram(
                    "workqueue_work_duration_seconds", "From taken to done", DECADES, *of
                ),
            },
            unfinished=self.gauge(
                "workqueue_unfinished_work_seconds", "Work in progress, of all keys", *of
            ),
            longest=self.gauge(
                "workqueue_longest_running_processor_seconds", "The longest of them", *of
            ),
        )

    def controller(self, name: str, *, workers: int) -> ReconcileMetrics:
        """For the workers of one controller."""
        made = ReconcileMetrics(
            name,
            total=self.counter(
                "controller_runtime_reconcile_total", "Reconciles", "controller", "result"
            ),
            troubles={
                what: self.counter(
                    f"controller_runtime_{what}_total", f"Of them: {what}", "controller"
                )
                for what in (
                    "reconcile_errors",
                    "terminal_reconcile_errors",
                    "reconcile_panics",
                    "reconcile_timeouts",
                )
            },
            time=self.histogram(
                "controller_runtime_reconcile_time_seconds",
                "Of one reconcile",
                RECONCILE_S,
                "controller",
            ),
            active=self.gauge(
                "controller_runtime_active_workers", "Reconciles in progress", "controller"
            ),
            most=self.gauge(
                "controller_runtime_max_concurrent_reconciles", "Workers", "controller"
            ),
        )
        made.has_workers(workers)
        return made

    def informer(self, kind: str) -> InformerMetrics:
        """For one informer."""
        of = "ascendop_informer_"

        def counter(name: str, sentence: str, *labels: str) -> Counter:
            return self.counter(name, sentence, "kind", *labels)

        def gauge(name: str, sentence: str, *labels: str) -> Gauge:
            return self.gauge(name, sentence, "kind", *labels)

        def histogram(name: str, sentence: str, buckets: Iterable[float]) -> Histogram:
            return self.histogram(name, sentence, buckets, "kind")

        return InformerMetrics(
            kind,
            events=counter(of + "events_total", "Lines of watches", "type"),
            resyncs=counter(of + "resyncs_total", "Times that everything was got anew", "reason"),
            counts={
                "replays_dropped_total": counter(
                    of + "replays_dropped_total", "Changes that were known already"
                ),
                "decode_errors_total": counter(
                    of + "decode_errors_total", "Lines that could not be read"
                ),
                "informer_transform_errors_total": counter(
                    of + "transform_errors_total", "Objects kept in their barest form"
                ),
                "handler_errors_total": counter(
                    of + "handler_errors_total", "Changes that a handler failed on"
                ),
                "audit_differences_total": counter(
                    of + "audit_differences_total", "Objects that differed from the server's"
                ),
                "overlay_expired_total": counter(
                    "ascendop_overlay_expired_total", "Own writes that no watch ever showed"
                ),
                "gate_live_reads_total": counter(
                    "ascendop_gate_live_reads_total", "Decisions that could not wait for a watch"
                ),
            },
            times={
                "list_seconds": histogram(of + "list_seconds", "To get everything", REQUEST_S),
                "watch_seconds": histogram(of + "watch_seconds", "Life of a watch", WATCH_S),
                "apply_seconds": histogram(of + "apply_seconds", "To take in a slice", APPLY_S),
            },
            levels={
                "objects": gauge(of + "objects", "Objects in the cache"),
                "bytes_estimate": gauge(of + "bytes_estimate", "Memory of the cache, roughly"),
                "last_event_age_seconds": gauge(
                    of + "last_event_age_seconds", "Since the server last said anything"
                ),
                "position": gauge(of + "position", "resourceVersion up to which all is known"),
                "watch_backlog_bytes": gauge(
                    "ascendop_watch_backlog_bytes", "Received and not yet taken in"
                ),
            },
            state=gauge(of + "state", "1 for the state it is in", "state"),
        )

    def leader(self, name: str) -> LeaderMetrics:
        """For the elector of this Lease."""
        return LeaderMetrics(
            name,
            self.gauge("leader_election_master_status", "1 for the leader", "name"),
            self.counter(
                "leader_election_slowpath_total", "Renewals that had to look first", "name"
            ),
        )

    def jobs(self, kind: str, phases: Iterable[str]) -> JobMetrics:
        """How many jobs of a kind are in which phase."""
        return JobMetrics(
            kind, phases, self.gauge("ascendop_jobs", "Jobs by phase", "kind", "phase")
        )

    # ── scraping ──

    def before_scrape(self, refresh: Callable[[], None]) -> None:
        """Call this on the loop before each scrape: for what is a state and not an event."""
        self._refreshers.append(refresh)

    def refresh(self) -> None:
        """Take in all states. On the loop, where they live."""
        for refresh in self._refreshers:
            refresh()

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Content type and text for a scraper that accepts this. Slow: 30 ms for 2,000 lines."""
        encode, content_type = choose_encoder(accept)
        with self._rendering:
            return content_type, encode(self.registry)

    # ── families: made once, however many queues or informers share them ──

    def counter(self, name: str, sentence: str, *labels: str) -> Counter:
        if name not in self._counters:
            self._counters[name] = Counter(name, sentence, labels, registry=self.registry)
        return self._counters[name]

    def gauge(self, name: str, sentence: str, *labels: str) -> Gauge:
        if name not in self._gauges:
            self._gauges[name] = Gauge(name, sentence, labels, registry=self.registry)
        return self._gauges[name]

    def histogram(
        self, name: str, sentence: str, buckets: Iterable[float], *labels: str
    ) -> Histogram:
        if name not in self._histograms:
            self._histograms[name] = Histogram(
                name, sentence, labels, registry=self.registry, buckets=tuple(buckets)
            )
        return self._histograms[name]
