# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Numbers under the names that dashboards already know."""

import asyncio
import re
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ascendop.informer.observer import InformerObserver
from ascendop.kube.observer import NO_ANSWER, RequestObserver
from ascendop.queue.observer import QueueObserver
from ascendop.telemetry.metrics import DECADES, RECONCILE_S, Metrics

KINDS = ("AscendJob", "MPIJob", "PyTorchJob", "TFJob", "PaddleJob", "JAXJob", "XGBoostJob")
INFORMERS = (*KINDS, "Pod", "Node", "PodGroup", "Queue", "ConfigMap", "Service")


@pytest.fixture
def metrics():
    return Metrics()


def everything(metrics):
    metrics.requests("api:6443")
    metrics.queue("jobs")
    metrics.controller("jobs", workers=16)
    metrics.leader("ascendop")
    for kind in INFORMERS:
        metrics.informer(kind)
    for kind in KINDS:
        metrics.jobs(kind, ("Created", "Running", "Failed"))
    return metrics


def samples(metrics):
    text = metrics.render()[1].decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics, name, /, **labels):
    return samples(metrics)[name, frozenset(labels.items())]


def labels_of(metrics, name):
    """The label names of a metric, without that of a histogram's buckets."""
    found = {
        frozenset(key for key, _ in labels) - {"le"}
        for (sample, labels) in samples(metrics)
        if sample in {name, name + "_bucket"}
    }
    assert len(found) == 1, name
    return set(next(iter(found)))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("workqueue_depth", "name controller priority"),
        ("workqueue_adds_total", "name controller"),
        ("workqueue_queue_duration_seconds", "name controller"),
        ("workqueue_work_duration_seconds", "name controller"),
        ("workqueue_unfinished_work_seconds", "name controller"),
        ("workqueue_longest_running_processor_seconds", "name controller"),
        ("workqueue_retries_total", "name controller"),
        ("controller_runtime_reconcile_total", "controller result"),
        ("controller_runtime_reconcile_errors_total", "controller"),
        ("controller_runtime_terminal_reconcile_errors_total", "controller"),
        ("controller_runtime_reconcile_panics_total", "controller"),
        ("controller_runtime_reconcile_timeouts_total", "controller"),
        ("controller_runtime_reconcile_time_seconds", "controller"),
        ("controller_runtime_max_concurrent_reconciles", "controller"),
        ("controller_runtime_active_workers", "controller"),
        ("leader_election_master_status", "name"),
        ("leader_election_slowpath_total", "name"),
        ("rest_client_requests_total", "code method host"),
        ("rest_client_request_duration_seconds", "verb host"),
        ("rest_client_request_retries_total", "code verb host"),
        ("rest_client_rate_limiter_duration_seconds", "verb host"),
        ("ascendop_informer_objects", "kind"),
        ("ascendop_informer_bytes_estimate", "kind"),
        ("ascendop_informer_events_total", "kind type"),
        ("ascendop_informer_resyncs_total", "kind reason"),
        ("ascendop_informer_list_seconds", "kind"),
        ("ascendop_informer_watch_seconds", "kind"),
        ("ascendop_informer_last_event_age_seconds", "kind"),
        ("ascendop_informer_position", "kind"),
        ("ascendop_informer_state", "kind state"),
        ("ascendop_informer_replays_dropped_total", "kind"),
        ("ascendop_informer_decode_errors_total", "kind"),
        ("ascendop_informer_apply_seconds", "kind"),
        ("ascendop_informer_transform_errors_total", "kind"),
        ("ascendop_watch_backlog_bytes", "kind"),
        ("ascendop_overlay_expired_total", "kind"),
        ("ascendop_gate_live_reads_total", "kind"),
        ("ascendop_gc_pause_seconds", "generation"),
        ("ascendop_loop_lag_seconds", ""),
        ("ascendop_events_dropped_total", "reason"),
        ("ascendop_jobs", "kind phase"),
    ],
)
def test_names_and_labels_are_those_of_the_contract(metrics, name, labels):
    """runtime:I-46 runtime:Q-22 runtime:P-17"""
    assert labels_of(everything(metrics), name) == set(labels.split())


def test_all_that_can_be_counted_is_there_from_the_start_with_zero(metrics):
    """runtime:Q-22: rate() needs the first sample."""
    everything(metrics).before_scrape(lambda: None)
    got = samples(metrics)
    ours = {key: n for key, n in got.items() if not key[0].startswith("process_")}
    assert {n for (name, _), n in ours.items() if "max_concurrent" not in name} == {0.0}
    for code in ("200", "404", "429", "500", NO_ANSWER):
        assert (
            value(metrics, "rest_client_requests_total", code=code, method="GET", host="api:6443")
            == 0
        )
    for result in ("success", "error", "requeue", "requeue_after"):
        assert (
            value(metrics, "controller_runtime_reconcile_total", controller="jobs", result=result)
            == 0
        )


def test_nobody_pays_for_the_times_of_creation(metrics):
    """runtime:Q-22"""
    assert "_created" not in everything(metrics).render()[1].decode()


def test_buckets_are_those_of_the_contract():
    """runtime:Q-22"""
    assert len(DECADES) == 12 and (DECADES[0], DECADES[-1]) == (1e-8, 1e3)
    assert len(RECONCILE_S) == 40 and (RECONCILE_S[0], RECONCILE_S[-1]) == (0.005, 60)
    assert sorted(RECONCILE_S) == list(RECONCILE_S)


def test_the_number_of_series_is_bounded_and_no_label_names_a_job_90(metrics):
    """runtime:Q-23 field-reports:FR-096"""
    everything(metrics)
    queue = metrics.queue("jobs")
    for _ in range(10_000):
        queue.count("adds_total")
    text = metrics.render()[1].decode()
    assert len([line for line in text.splitlines() if not line.startswith("#")]) < 3000
    assert not re.search(r'(pod|job|namespace)="', text)


def test_requests_are_counted_by_verb_and_code(metrics):
    requests: RequestObserver = metrics.requests("api:6443")
    requests.observed("POST", "api:6443", "201", 0.03)
    requests.observed("POST", "api:6443", "418", 0.03)
    requests.retried("GET", "api:6443", NO_ANSWER)
    requests.throttled("PATCH", "api:6443", 1.5)
    of = {"host": "api:6443"}
    assert value(metrics, "rest_client_requests_total", code="201", method="POST", **of) == 1
    assert value(metrics, "rest_client_requests_total", code="418", method="POST", **of) == 1
    assert value(metrics, "rest_client_request_duration_seconds_count", verb="POST", **of) == 2
    assert (
        value(metrics, "rest_client_request_retries_total", code="<error>", verb="GET", **of) == 1
    )
    got = value(metrics, "rest_client_rate_limiter_duration_seconds_sum", verb="PATCH", **of)
    assert got == 1.5


class Queue:
    def __init__(self, depths):
        self._depths = depths

    def depths(self):
        return self._depths

    def unfinished_s(self):
        return 3.0

    def longest_running_s(self):
        return 2.0


def test_a_queue_is_counted_as_it_moves_and_looked_at_when_scraped(metrics):
    """runtime:Q-15 runtime:Q-22"""
    queue = metrics.queue("jobs", controller="ascendjob")
    told: QueueObserver = queue
    told.count("adds_total")
    told.took("queue_duration_seconds", 0.002)
    of = {"name": "jobs", "controller": "ascendjob"}
    queue.refresh(Queue({"0": 3, "7": 1}))
    assert value(metrics, "workqueue_depth", priority="7", **of) == 1
    queue.refresh(Queue({"0": 2}))
    assert value(metrics, "workqueue_depth", priority="0", **of) == 2
    assert value(metrics, "workqueue_depth", priority="7", **of) == 0
    assert value(metrics, "workqueue_adds_total", **of) == 1
    assert value(metrics, "workqueue_unfinished_work_seconds", **of) == 3
    assert value(metrics, "workqueue_longest_running_processor_seconds", **of) == 2
    assert value(metrics, "workqueue_queue_duration_seconds_bucket", le="0.01", **of) == 1


def test_a_reconcile_is_counted_by_its_result(metrics):
    work = metrics.controller("jobs", workers=4)
    work.began()
    work.began()
    work.ended("error", 0.2)
    work.met_a_bug()
    work.timed_out()
    work.gave_up()
    of = {"controller": "jobs"}
    assert value(metrics, "controller_runtime_active_workers", **of) == 1
    assert value(metrics, "controller_runtime_max_concurrent_reconciles", **of) == 4
    assert value(metrics, "controller_runtime_reconcile_total", result="error", **of) == 1
    for what in ("reconcile_errors", "reconcile_panics", "reconcile_timeouts"):
        assert value(metrics, f"controller_runtime_{what}_total", **of) == 1


def test_an_informer_is_counted_as_it_goes_and_looked_at_when_scraped(metrics):
    """runtime:I-46"""
    pods = metrics.informer("Pod")
    told: InformerObserver = pods
    told.count("events_total", 5, "MODIFIED")
    told.count("events_total", label="SURPRISE")
    told.count("resyncs_total", label="poison")
    told.count("decode_errors_total")
    told.took("list_seconds", 0.3)
    told.is_at("watch_backlog_bytes", 4096)
    pods.refresh({"objects": 100, "position": 12345, "state": "watching"})
    assert value(metrics, "ascendop_informer_events_total", kind="Pod", type="MODIFIED") == 5
    assert value(metrics, "ascendop_informer_events_total", kind="Pod", type="other") == 1
    assert value(metrics, "ascendop_informer_resyncs_total", kind="Pod", reason="poison") == 1
    assert value(metrics, "ascendop_informer_decode_errors_total", kind="Pod") == 1
    assert value(metrics, "ascendop_watch_backlog_bytes", kind="Pod") == 4096
    assert value(metrics, "ascendop_informer_position", kind="Pod") == 12345
    assert value(metrics, "ascendop_informer_state", kind="Pod", state="watching") == 1
    pods.refresh({"state": "denied"})
    assert value(metrics, "ascendop_informer_state", kind="Pod", state="watching") == 0


def test_the_rest_moves_too(metrics):
    leader = metrics.leader("ascendop")
    leader.leading(name="ascendop", leads=True)
    leader.slow_path(name="ascendop")
    metrics.events.event_sent()
    metrics.events.event_dropped("budget")
    metrics.loop.lagged(0.2)
    metrics.loop.stalled()
    metrics.loop.file_is_broken(broken=True)
    metrics.jobs("MPIJob", ("Running", "Failed")).refresh({"Running": 2})
    assert value(metrics, "leader_election_master_status", name="ascendop") == 1
    assert value(metrics, "leader_election_slowpath_total", name="ascendop") == 1
    assert value(metrics, "ascendop_events_sent_total") == 1
    assert value(metrics, "ascendop_events_dropped_total", reason="budget") == 1
    assert value(metrics, "ascendop_loop_lag_seconds_count") == 1
    assert value(metrics, "ascendop_loop_stalls_total") == 1
    assert value(metrics, "ascendop_settings_file_broken") == 1
    assert value(metrics, "ascendop_jobs", kind="MPIJob", phase="Running") == 2


def test_two_operators_in_one_process_do_not_share_a_number():
    one, other = Metrics(), Metrics()
    one.queue("jobs").count("adds_total")
    of = {"name": "jobs", "controller": "jobs"}
    other.queue("jobs")
    assert value(one, "workqueue_adds_total", **of) == 1
    assert value(other, "workqueue_adds_total", **of) == 0


@pytest.mark.real_time
async def test_only_one_scrape_renders_at_a_time(metrics):
    """runtime:Q-23"""
    everything(metrics)
    inside, most = 0, 0
    gate = threading.Lock()

    class Slow:
        def collect(self):
            nonlocal inside, most
            with gate:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.05)
            with gate:
                inside -= 1
            return []

    metrics.registry.register(Slow())
    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(asyncio.to_thread(metrics.render))
    assert most == 1
