# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What happened becomes Events, deduplicated."""

import asyncio
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random  # noqa: TID251  seeded

import pytest

import ascendop
from ascendop.apply.events import EventRecorder, cut
from ascendop.apply.series import Reference
from ascendop.clock import simulated
from ascendop.errors import NotLeaderError
from ascendop.kube.errors import (
    BusyError,
    ExistsError,
    ForbiddenError,
    NotFoundError,
    RejectedError,
    TransportError,
)
from ascendop.kube.resource import CORE_EVENTS, EVENTS
from ascendop.schema.rbac import CALLS

START = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Reference("mindxdl.gitee.com/v1", "AscendJob", "ml", "resnet", "uid-job")


def pod(index):
    return Reference("v1", "Pod", "ml", f"resnet-worker-{index}", f"uid-pod-{index}")


class Server:
    """Takes Events as strictly as an API server does."""

    def __init__(self):
        self.events = {}
        self.calls = []
        self.refusals = []
        """Errors to answer with, first come first; None lets a request through."""
        self.after_effect = False
        self.no_group = False

    async def create(self, resource, obj):
        await self._begin("POST", resource)
        check_event(resource, obj)
        name = obj["metadata"]["name"]
        if name in self.events:
            raise ExistsError(409, name, reason="AlreadyExists")
        self.events[name] = obj
        await self._end()
        return obj

    async def patch(self, resource, namespace, name, body):
        await self._begin("PATCH", resource)
        if name not in self.events:
            raise NotFoundError(404, name)
        assert set(body) <= ({"series"} if resource is EVENTS else {"count", "lastTimestamp"})
        self.events[name] |= body
        check_event(resource, self.events[name])
        return self.events[name]

    async def _begin(self, verb, resource):
        self.calls.append((asyncio.get_running_loop().time(), verb))
        await asyncio.sleep(0.01)
        if self.no_group and resource is EVENTS:
            raise NotFoundError(404, "the server could not find the requested resource")
        if not self.after_effect:
            await self._end()

    async def _end(self):
        if self.refusals and (error := self.refusals.pop(0)) is not None:
            raise error

    @property
    def told(self):
        """Reason, text and count of every Event, in order."""
        return [
            (
                event["reason"],
                event.get("note", event.get("message")),
                event.get("series", event).get("count", 1),
            )
            for event in self.events.values()
        ]


def check_event(resource, event):
    """What validation of the two groups asks for, as far as it differs."""
    micro = "2026-01-01T00:00:00.000000Z"
    assert event["apiVersion"] == resource.api_version and event["kind"] == "Event"
    assert event["type"] in {"Normal", "Warning"}
    assert 0 < len(event["reason"]) <= 128 and 0 < len(event["action"]) <= 128
    assert 0 < len(event["reportingInstance"]) <= 128
    if resource is CORE_EVENTS:
        about, text = event["involvedObject"], event["message"]
        assert "eventTime" not in event
    else:
        about, text = event["regarding"], event["note"]
        assert event["reportingController"] and len(event["eventTime"]) == len(micro)
        assert not {"count", "firstTimestamp", "lastTimestamp", "deprecatedSource"} & set(event)
        assert event.get("series", {}).get("count", 2) >= 2
    assert len(text.encode()) <= 1024
    assert event["metadata"]["namespace"] == about.get("namespace", "default")


class Counts:
    def __init__(self):
        self.sent = 0
        self.dropped = []

    def event_sent(self):
        self.sent += 1

    def event_dropped(self, reason):
        self.dropped.append(reason)


@asynccontextmanager
async def recorder(server, counts=None, objects_wait=lambda: False):
    loop = asyncio.get_running_loop()
    one = EventRecorder(
        server,
        instance="ascendop-0",
        wall=simulated(START, loop.time),
        rng=Random(7),
        observer=counts or Counts(),
        objects_wait=objects_wait,
    )
    task = None
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(one.run())
        yield one
        task.cancel()


@pytest.fixture
def server():
    return Server()


async def test_an_event_is_noted_at_once_and_told_soon(server):
    """runtime:E-1 runtime:E-2"""
    async with recorder(server) as events:
        events.event(
            JOB,
            "Normal",
            "SuccessfulCreatePod",
            "Created pod: resnet-worker-0",
            "Create",
            related=pod(0),
            controller="ascendjob-controller",
        )
        assert not server.calls, "nothing is awaited, so nothing can have been sent"
        await asyncio.sleep(1)
    ((name, event),) = server.events.items()
    assert name.startswith("resnet.") and len(name) == len("resnet.") + 16
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ml", "name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "SuccessfulCreatePod",
        "action": "Create",
        "note": "Created pod: resnet-worker-0",
        "reportingController": "ascendjob-controller",
        "reportingInstance": "ascendop-0",
        "regarding": {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "namespace": "ml",
            "name": "resnet",
            "uid": "uid-job",
        },
        "related": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ml",
            "name": "resnet-worker-0",
            "uid": "uid-pod-0",
        },
    }


async def test_whatever_it_is_given_it_does_not_raise_and_the_server_takes_it_87(server):
    """runtime:E-1 runtime:E-2"""
    queue = Reference("scheduling.volcano.sh/v1beta1", "Queue", "", "q" * 253, "uid-q")
    async with recorder(server) as events:
        events.event(queue, "Error", "R" * 300, "é" * 3000, "")
        events.event(None, None, None, None, None)
        await asyncio.sleep(1)
    ((name, event),) = server.events.items()
    assert event["type"] == "Warning" and event["metadata"]["namespace"] == "default"
    assert name.startswith("q" * 200 + ".") and event["note"] == "é" * 512


@pytest.mark.parametrize(
    ("text", "limit", "want"), [("abc", 2, "ab"), ("aé", 2, "a"), ("aé", 3, "aé"), ("😀", 3, "")]
)
def test_a_note_is_cut_between_characters(text, limit, want):
    """runtime:E-2"""
    assert cut(text, limit) == want


async def test_ten_thousand_of_the_same_are_one_event_and_at_most_ten_requests_86(server):
    """runtime:E-3 field-reports:FR-087"""
    async with recorder(server) as events:
        for _ in range(100):
            for _ in range(100):
                events.event(JOB, "Warning", "FailedCreatePod", "quota", "Create")
            await asyncio.sleep(0.5)
        await asyncio.sleep(400)
    assert server.told == [("FailedCreatePod", "quota", 10_000)]
    assert len(server.calls) <= 10


async def test_a_second_within_six_minutes_is_told_at_once_and_later_ones_at_milestones(server):
    """runtime:E-3"""
    seen = []
    async with recorder(server) as events:
        for _ in range(12):
            events.event(JOB, "Normal", "Waiting", "for devices", "Sync")
            await asyncio.sleep(1)
            seen.append(server.told[0][2])
        assert seen == [1, 2, 2, 2, 2, 2, 2, 2, 2, 10, 10, 10]
        await asyncio.sleep(370)
        assert server.told == [("Waiting", "for devices", 12)], "told when it fell silent"


async def test_a_count_that_grows_slowly_is_told_every_five_minutes(server):
    """runtime:E-3"""
    async with recorder(server) as events:
        for _ in range(8):
            events.event(JOB, "Normal", "Waiting", "for devices", "Sync")
            await asyncio.sleep(120)
        assert 4 <= server.told[0][2] <= 8
        posts = [verb for _, verb in server.calls].count("POST")
        assert posts == 1


async def test_the_same_after_a_long_silence_is_a_new_event(server):
    """runtime:E-3"""
    async with recorder(server) as events:
        for _ in range(2):
            events.event(JOB, "Normal", "Waiting", "for devices", "Sync")
            await asyncio.sleep(361)
    assert server.told == [("Waiting", "for devices", 1)] * 2


async def test_a_changing_text_is_one_more_event_a_minute_with_the_newest_of_it(server):
    """runtime:E-3"""
    async with recorder(server) as events:
        for n in range(30):
            events.event(JOB, "Normal", "Waiting", f"{n} of 30 pods have devices", "Sync")
            await asyncio.sleep(1)
        await asyncio.sleep(60)
    assert [text for _, text, _ in server.told] == [
        "0 of 30 pods have devices",
        "29 of 30 pods have devices",
    ]


async def test_a_text_that_never_repeats_is_merged_in_the_end(server):
    """runtime:E-3"""
    async with recorder(server) as events:
        for n in range(61 * 9):
            events.event(JOB, "Normal", "Waiting", f"since {n} s", "Sync")
            await asyncio.sleep(1)
    assert len(server.events) <= 10


async def test_equal_things_with_different_pods_are_different_events(server):
    """runtime:E-3"""
    async with recorder(server) as events:
        for index in range(3):
            text = f"Created pod: {index}"
            events.event(JOB, "Normal", "Created", text, "Create", related=pod(index))
        await asyncio.sleep(1)
    assert [text for _, text, _ in server.told] == [f"Created pod: {i}" for i in range(3)]


async def test_a_flood_is_cut_at_the_budget_and_refilled_slowly(server):
    """runtime:E-4"""
    counts = Counts()
    async with recorder(server, counts) as events:
        for index in range(1000):
            events.event(JOB, "Normal", "Created", "a pod", "Create", related=pod(index))
        await asyncio.sleep(10)
        assert len(server.events) == 25 and counts.dropped.count("budget") == 975
        await asyncio.sleep(600)
        for index in range(2000, 2010):
            events.event(JOB, "Normal", "Created", "a pod", "Create", related=pod(index))
        await asyncio.sleep(10)
        assert len(server.events) == 27


async def test_no_flood_hides_a_warning_or_the_outcome(server):
    """runtime:E-4: the peers' event clients lose JobFailed after 25 events of any sort."""
    async with recorder(server) as events:
        for index in range(100):
            events.event(JOB, "Normal", "Created", "a pod", "Create", related=pod(index))
            events.event(JOB, "Warning", "Exited", "code 1", "Sync", related=pod(index))
        for n in range(30):
            events.event(JOB, "Normal", "jobRestarting", f"restart {n}", "Sync", outcome=True)
        events.event(JOB, "Normal", "JobFailed", "it failed", "Sync", outcome=True)
        await asyncio.sleep(30)
    reasons = [reason for reason, _, _ in server.told]
    assert reasons.count("Created") == 25 == reasons.count("Exited")
    assert reasons.count("jobRestarting") == 30 and "JobFailed" in reasons


async def test_even_an_outcome_is_not_repeated_for_ever(server):
    """runtime:E-4"""
    async with recorder(server) as events:
        for n in range(3600):
            events.event(JOB, "Warning", "JobFailed", f"bug {n}", "Sync", outcome=True)
            await asyncio.sleep(0.1)
    assert len(server.events) <= 100 + 360 / 30 + 1


async def test_a_full_queue_drops_the_oldest_but_no_outcome(server):
    """runtime:E-1"""
    counts = Counts()
    async with recorder(server, counts) as events:
        for n in range(1500):
            job = Reference("v1", "AscendJob", "ml", f"job-{n}", f"uid-{n}")
            events.event(job, "Normal", "R", "text", "Sync", outcome=n < 10)
        assert counts.dropped == ["queue full"] * 500
        await asyncio.sleep(100)
    names = {event["regarding"]["name"] for event in server.events.values()}
    assert {f"job-{n}" for n in range(10)} <= names and len(names) == 1000
    assert "job-10" not in names and "job-1499" in names


async def test_all_objects_together_send_twenty_requests_a_second(server):
    """runtime:E-4"""
    async with recorder(server) as events:
        for n in range(200):
            events.event(Reference("v1", "J", "ml", f"j-{n}", f"u-{n}"), "Normal", "R", "t", "A")
        await asyncio.sleep(5)
        assert 100 <= len(server.events) <= 121


@pytest.mark.parametrize(
    "error",
    [TransportError("cut", sent=True), BusyError(429, "later"), BusyError(500, "oh")],
    ids=["a cut", "a 429", "a 500"],
)
async def test_a_passing_trouble_is_tried_again_three_times_in_all(server, error):
    """runtime:E-5"""
    counts = Counts()
    server.refusals = [error, error]
    async with recorder(server, counts) as events:
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(30)
        assert len(server.events) == 1 and counts.dropped == []
        gaps = [b[0] - a[0] for a, b in zip(server.calls, server.calls[1:], strict=False)]
        assert len(gaps) == 2 and all(1 <= gap <= 10.1 for gap in gaps)
        server.refusals = [error] * 5
        events.event(JOB, "Normal", "S", "text", "Sync")
        await asyncio.sleep(60)
        assert len(server.calls) == 6 and len(server.events) == 1 and len(counts.dropped) == 1


@pytest.mark.parametrize(
    "error", [RejectedError(422, "no"), NotLeaderError("not any more")], ids=["a 422", "no lease"]
)
async def test_a_final_no_is_not_tried_again_and_the_next_event_is_a_new_one(server, error):
    """runtime:E-5"""
    server.refusals = [error]
    async with recorder(server) as events:
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(60)
        assert len(server.calls) == 1
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(1)
    assert server.told == [("R", "text", 1)]


async def test_an_event_whose_answer_was_lost_is_told_once(server):
    """runtime:E-5"""
    server.after_effect = True
    server.refusals = [TransportError("cut", sent=True)]
    async with recorder(server) as events:
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(20)
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(1)
    assert server.told == [("R", "text", 2)]


async def test_a_count_for_an_event_that_has_expired_is_a_new_event(server):
    """runtime:E-5"""
    async with recorder(server) as events:
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(1)
        server.events.clear()
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(1)
    assert server.told == [("R", "text", 2)]


async def test_a_server_without_the_new_group_gets_core_events(server):
    """runtime:E-2"""
    server.no_group = True
    async with recorder(server) as events:
        for _ in range(2):
            events.event(JOB, "Normal", "R", "text", "Sync", controller="ascendjob-controller")
            await asyncio.sleep(1)
        events.event(JOB, "Normal", "S", "text", "Sync")
        await asyncio.sleep(1)
    assert server.told == [("R", "text", 2), ("S", "text", 1)]
    first = next(iter(server.events.values()))
    assert first["source"] == {"component": "ascendjob-controller"}
    assert len(server.calls) == 4, "the new group is asked for once"


async def test_a_namespace_that_ends_says_nothing_about_the_group(server):
    """runtime:E-2"""
    server.refusals = [ForbiddenError(403, "terminating"), ForbiddenError(403, "terminating")]
    async with recorder(server) as events:
        events.event(JOB, "Normal", "R", "text", "Sync")
        await asyncio.sleep(1)
        events.event(JOB, "Normal", "S", "text", "Sync")
        await asyncio.sleep(1)
    assert [event["apiVersion"] for event in server.events.values()] == ["events.k8s.io/v1"]


async def test_a_flush_tells_the_counts_that_nobody_heard_yet(server):
    """runtime:E-6"""
    async with recorder(server) as events:
        for _ in range(5):
            events.event(JOB, "Normal", "R", "text", "Sync")
            await asyncio.sleep(0.1)
        assert server.told == [("R", "text", 2)]
        await events.flush()
        assert server.told == [("R", "text", 5)]


async def test_a_flush_ends_after_two_seconds_whatever_the_server_does(server):
    """runtime:E-6"""
    server.refusals = [BusyError(503, "down")] * 100
    loop = asyncio.get_running_loop()
    async with recorder(server) as events:
        for n in range(50):
            events.event(Reference("v1", "J", "ml", f"j-{n}", f"u-{n}"), "Normal", "R", "t", "A")
        began = loop.time()
        await events.flush()
        assert loop.time() - began <= 2.0


async def test_a_flush_of_nothing_is_instant(server):
    """runtime:E-6"""
    loop = asyncio.get_running_loop()
    async with recorder(server) as events:
        await asyncio.sleep(1)
        began = loop.time()
        await events.flush()
        assert loop.time() == began


@pytest.mark.parametrize("after_s", [0, 0.005, 0.015, 0.3, 5.0])
async def test_a_recorder_that_is_cancelled_ends_at_once(server, after_s):
    """runtime:P-3 runtime:P-7"""
    server.refusals = [None, BusyError(503, "down")] * 50
    loop = asyncio.get_running_loop()
    async with recorder(server) as events:
        for n in range(50):
            events.event(Reference("v1", "J", "ml", f"j-{n}", f"u-{n}"), "Normal", "R", "t", "A")
        await asyncio.sleep(after_s)
        cancelled_at = loop.time()
    assert loop.time() == cancelled_at


async def test_what_is_remembered_is_bounded(server):
    """runtime:E-4"""
    async with recorder(server) as events:
        for n in range(5000):
            events.event(Reference("v1", "J", "ml", f"j-{n}", f"u-{n}"), "Normal", "R", "t", "A")
        assert len(events._series) <= 4096 and len(events._budget._buckets) <= 4096
        await asyncio.sleep(800)
        assert not events._series and not events._waiting


def test_nothing_in_the_operator_reads_events():
    """runtime:E-7: they are gone after an hour, and may never have been there."""
    package = Path(ascendop.__file__).parent
    mention = re.compile(r"\b(CORE_)?EVENTS\b|events\.k8s\.io")
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if mention.search(path.read_text()) and path.relative_to(package).parts[0] != "sim"
    }
    assert found <= {
        "app/rights.py",
        "apply/events.py",
        "kube/resource.py",
        "schema/deploy.py",
        "schema/rbac.py",
    }
    verbs = {verb for call in CALLS if call.resource.plural == "events" for verb in call.verbs}
    assert verbs == {"create", "patch"}, "nobody has the right to"


async def test_objects_go_first_but_not_for_ever(server):
    queued = True
    async with recorder(server, objects_wait=lambda: queued) as events:
        events.event(JOB, "Normal", "Created", "first", "Create")
        await asyncio.sleep(9.5)
        assert not server.calls
        await asyncio.sleep(1)
        assert len(server.calls) == 1, "a storm of objects silences nobody"
        events.event(JOB, "Normal", "Running", "second", "Sync")
        await asyncio.sleep(3)
        assert len(server.calls) == 1
        queued = False
        await asyncio.sleep(0.2)
        assert len(server.calls) == 2


async def test_at_the_end_of_the_process_nothing_is_waited_for(server):
    async with recorder(server, objects_wait=lambda: True) as events:
        events.event(JOB, "Normal", "Failed", "last", "Sync")
        await asyncio.sleep(1)
        assert not server.calls
        await events.flush(within_s=1)
        assert len(server.calls) == 1
