# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the queue is told, what is written of a job, and how often."""

import asyncio
from itertools import pairwise

import pytest

from ascendop.apply.files import SharedDirectoryError
from ascendop.errors import AscendopError, NotLeaderError, StaleCacheError
from ascendop.kube.errors import BusyError, ConflictError, ForbiddenError, TransportError
from ascendop.kube.resource import CRDS, PODS, Key
from ascendop.reconciler import outcome
from ascendop.reconciler.outcome import Finished, GaveUp, Later, TryAgain
from ascendop.reconciler.pace import STATUS_S
from ascendop.sim.answers import RefusedError
from ascendop.sim.volcano import build_definitions

from .. import make  # noqa: TID252  the standard library has a package called test
from ..town import (  # noqa: TID252  test is in the standard library too
    JOBS,
    NS,
    is_status_patch,
    status_patches,
)
from ..wire import is_write, refuse, reset  # noqa: TID252  likewise

KEY = Key("AscendJob", NS, "j")


def now():
    return asyncio.get_running_loop().time()


# ── what the queue is told ──


class Pass:
    """One pass of a controller whose reconcile ends as told; the queue is the real one."""

    def __init__(self, town):
        self.operator = town.operator()
        self.queue = self.operator.queue
        self.metrics = self.operator.metrics.registry

    async def ends(self, end):
        """Hand the key out, and let the pass end so."""

        async def reconcile(_key):
            if isinstance(end, BaseException):
                raise end
            if isinstance(end, float):
                await asyncio.sleep(end)
            return end

        self.operator._controller.reconcile = reconcile
        self.queue.add(KEY, priority=7)
        assert await self.queue.get() == KEY
        await self.operator._controller.handle(KEY)

    async def comes_back_after(self):
        """Seconds until the key is handed out again; None for never."""
        began = now()
        try:
            async with asyncio.timeout(1000):
                await self.queue.get()
        except TimeoutError:
            return None
        return now() - began

    def count(self, name, **labels):
        labels = {"controller": "jobs"} | labels
        return self.metrics.get_sample_value(f"controller_runtime_{name}_total", labels)


@pytest.fixture
async def one_pass(town):
    return Pass(town)


@pytest.mark.parametrize(
    ("end", "after_s", "failures", "result"),
    [
        pytest.param(Finished(), None, 0, "success", id="done"),
        pytest.param(Finished(30.0), 30, 0, "requeue_after", id="look again"),
        pytest.param(Finished(0.0), 0, 0, "requeue_after", id="look again at once"),
        pytest.param(Later(5.0), 5, 1, "requeue", id="something is on its way"),
        pytest.param(TryAgain("no", 3.0), 3, 2, "error", id="refused"),
        pytest.param(GaveUp("no"), None, 0, "error", id="terminal"),
        pytest.param(StaleCacheError("old"), outcome.STALE_S, 1, "requeue", id="stale cache"),
        pytest.param(ConflictError(409, "c"), 0.02, 2, "error", id="conflict"),
        pytest.param(BusyError(429, "b", retry_after_s=9.0), 9, 2, "error", id="busy"),
        pytest.param(BusyError(503, "b"), 0.01, 2, "error", id="busy, without a time"),
        pytest.param(TransportError("t", sent=True), 0.01, 2, "error", id="no answer"),
        pytest.param(ForbiddenError(403, "f"), 30, 2, "error", id="forbidden"),
        pytest.param(SharedDirectoryError("full"), 1, 2, "error", id="the share"),
        pytest.param(AscendopError("x"), 0.01, 2, "error", id="anything else of ours"),
        pytest.param(ZeroDivisionError(), 60, 2, "error", id="a bug, runtime:P-2"),
    ],
)
async def test_each_end_of_a_pass_has_one_treatment(one_pass, end, after_s, failures, result):
    """runtime:Q-21 runtime:Q-10 runtime:Q-12"""
    one_pass.queue.add(KEY)
    await one_pass.queue.get()
    one_pass.queue.retry(KEY)  # it failed once before
    one_pass.queue.done(KEY)
    await one_pass.queue.get()
    one_pass.queue.done(KEY)
    await one_pass.ends(end)
    assert one_pass.queue.failures(KEY) == failures
    assert one_pass.count("reconcile", result=result) == 1
    assert one_pass.queue.running() == {}
    found = await one_pass.comes_back_after()
    assert found is None if after_s is None else found == pytest.approx(after_s, rel=0.2, abs=0.002)


@pytest.mark.parametrize("end", [Finished(1.0), Later(1.0), TryAgain("no")])
async def test_a_key_keeps_the_priority_that_it_was_handed_out_with(one_pass, end):
    """runtime:Q-13, pitfall 41"""
    await one_pass.ends(end)
    await asyncio.sleep(2)
    assert one_pass.queue.depths() == {"7": 1}


@pytest.mark.parametrize("error", [NotLeaderError("gone"), asyncio.CancelledError()])
async def test_who_lost_the_lease_or_is_cancelled_says_nothing_and_gives_the_key_back(
    one_pass, error
):
    """runtime:Q-21 runtime:Q-6, pitfall 37"""
    with pytest.raises(type(error)):
        await one_pass.ends(error)
    assert one_pass.queue.running() == {} and len(one_pass.queue) == 0
    assert one_pass.queue.failures(KEY) == 0


async def test_a_pass_that_takes_too_long_is_given_up_counted_and_tried_again(one_pass):
    """runtime:Q-20"""
    began = now()
    await one_pass.ends(100.0)
    assert now() - began == 60
    assert one_pass.count("reconcile_timeouts") == 1 and one_pass.queue.failures(KEY) == 1


async def test_a_time_out_of_something_inside_is_not_mistaken_for_that(one_pass):
    """runtime:P-3: told apart by scope."""
    await one_pass.ends(TimeoutError())
    assert one_pass.count("reconcile_timeouts") == 0
    assert one_pass.count("reconcile_panics") == 1


async def test_the_limit_of_a_pass_may_change(one_pass):
    """runtime:O-11"""
    operator = one_pass.operator
    operator.change(operator._settings.model_copy(update={"reconcile_timeout_s": 5.0}))
    began = now()
    await one_pass.ends(100.0)
    assert now() - began == 5


@pytest.mark.parametrize(
    ("end", "counter"),
    [
        (GaveUp("no"), "terminal_reconcile_errors"),
        (ZeroDivisionError(), "reconcile_panics"),
        (ForbiddenError(403, "f"), "reconcile_errors"),
    ],
)
async def test_what_dashboards_know_is_counted(one_pass, end, counter):
    """runtime:Q-21"""
    await one_pass.ends(end)
    assert one_pass.count(counter) == 1


@pytest.mark.parametrize(
    ("error", "level"),
    [
        pytest.param(StaleCacheError("s"), None, id="what goes by itself is not worth a line"),
        pytest.param(BusyError(503, "b"), None, id="nor is a busy server"),
        pytest.param(ConflictError(409, "c"), "INFO", id="a conflict is worth knowing"),
        pytest.param(ForbiddenError(403, "f"), "ERROR", id="a missing right, an error"),
        pytest.param(AscendopError("x"), "WARNING", id="the rest, a warning"),
        pytest.param(ZeroDivisionError(), "ERROR", id="a bug has its traceback"),
    ],
)
async def test_what_the_log_is_told_of_errors(one_pass, caplog, error, level):
    """runtime:Q-21 runtime:O-7"""
    caplog.set_level("DEBUG")
    await one_pass.ends(error)
    assert [r.levelname for r in caplog.records if r.name == "ascendop.controller"] == (
        [level] if level else []
    )


async def test_a_server_that_stays_away_is_worth_a_line_after_the_fifth_time(one_pass, caplog):
    for _ in range(6):
        await one_pass.ends(BusyError(503, "away"))
        await asyncio.sleep(1)
        await one_pass.queue.get()
        one_pass.queue.done(KEY)
    (record,) = caplog.records
    assert record.keys == {"err": "away", "failures": 6}


async def test_workers_are_as_many_as_were_asked_for_however_many_keys(town):
    """ascendjob:W-31 runtime:Q-19"""
    operator = town.operator(workers=3)
    async with town.running(operator):
        await asyncio.sleep(5)  # whatever begins, has begun
        before = len(asyncio.all_tasks())
        for number in range(100):
            operator.queue.add(Key("AscendJob", NS, f"none-{number}"))
        most = 0
        while operator.queue.depths():
            most = max(most, len(asyncio.all_tasks()))
            await asyncio.sleep(0)
        assert most == before
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("worker") == 3


@pytest.mark.parametrize("wanted", [1, 9])
async def test_the_number_of_workers_may_change(town, wanted):
    """runtime:O-11 runtime:Q-19: idle ones end at once, busy ones with their key."""
    operator = town.operator(workers=4)
    async with town.running(operator):
        await asyncio.sleep(1)
        operator.change(operator._settings.model_copy(update={"workers": wanted}))
        await asyncio.sleep(0.01)
        names = [task.get_name() for task in asyncio.all_tasks()]
        assert names.count("worker") == wanted == len(operator._workers)
        await town.create()
        await town.until_pods(2)


# ── what is written of a job, and how often ──


async def until_patches(town, count):
    """So many status patches were sent; now, not a moment later."""
    while len(status_patches(town.wire)) < count:  # noqa: ASYNC110  the wire has no event
        await asyncio.sleep(0.001)


async def test_a_status_that_another_writer_changed_is_decided_again_in_place(town):
    """ascendjob:W-16 runtime:W-17 runtime:W-18, pitfall 60: the other's condition stays."""
    operator = town.operator()
    theirs = {
        "type": "Watched", "status": "True", "reason": "r", "message": "m",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip

    async def write_first(request):
        if is_status_patch(request):
            town.wire.before.clear()
            job = await town.job()
            conditions = [*job["status"]["conditions"], theirs]
            body = {"status": {"conditions": conditions}}
            await town.hands.patch(JOBS, NS, "j", body, subresource="status")

    async with town.running(operator):
        await town.create()
        await town.until_pods(2)
        await asyncio.sleep(1)
        town.wire.before.append(write_first)
        written, sent = len(status_patches(town.wire)), len(town.wire.sent)
        await town.turn("Running")
        await town.until_job("Running")
        asked = [(request.method, request.path) for request in town.wire.sent[sent:]]
        assert ("GET", f"/apis/mindxdl.gitee.com/v1/namespaces/{NS}/ascendjobs/j") in asked
        assert ("Watched", "True") in await town.conditions()
        refused, stood = status_patches(town.wire)[written:][:2]
        assert refused["metadata"] != stood["metadata"]
    assert operator.queue.failures(KEY) == 0


async def test_a_war_over_a_status_is_left_to_the_queue_after_three_times(town):
    """ascendjob:W-16 runtime:W-17"""
    operator = town.operator()
    stale = RefusedError(409, "Conflict", "the object has been modified")
    async with town.running(operator):
        town.wire.before.append(refuse(is_status_patch, stale, times=4))
        began = now()
        await town.create()
        await town.until_pods(2)
        await until_patches(town, 4)
        assert 0.03 <= now() - began <= 0.4
        await town.until_job("Created")
        made = [reason for reason in await town.reasons() if reason == "SuccessfulCreatePod"]
        assert len(made) == 2, "what was done is told, however late"


async def test_a_status_patch_has_what_changed_and_the_version_it_is_for(town):
    """runtime:W-18"""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=3)
        await town.until_pods(4)
        await asyncio.sleep(1)
        written = len(status_patches(town.wire))
        before = await town.job()
        await town.turn("Running", "j-worker-0")
        await asyncio.sleep(1)
        (patch,) = status_patches(town.wire)[written:]
        assert patch["metadata"] == {"resourceVersion": before["metadata"]["resourceVersion"]}
        assert patch["status"]["replicaStatuses"] == {"Worker": {"active": 1}}
        assert set(patch["status"]) <= {"replicaStatuses", "conditions"}


async def test_a_status_is_written_four_times_a_second_at_most(town):
    """runtime:W-19"""
    times = []

    async def note(request):
        if is_status_patch(request):
            times.append(now())

    async with town.running(town.operator()):
        await town.create(Master=1, Worker=39)
        await town.until_pods(40)
        await asyncio.sleep(1)
        town.wire.after.append(note)
        for name in await town.pods():
            await town.turn("Running", name)
            await asyncio.sleep(0.06)
        await asyncio.sleep(1)
        status = (await town.job())["status"]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= STATUS_S - 1e-6
    assert 3 <= len(times) <= 12
    assert status["replicaStatuses"]["Worker"]["active"] == 39, "the last state is not lost"


async def test_a_small_gang_that_starts_is_three_status_writes(town):
    """runtime:W-19: made, begun, running; pods that start one after the other are one of them."""
    for definition in build_definitions():
        await town.hands.create(CRDS, definition)
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(Master=1, Worker=4)
        await asyncio.sleep(1)
        await town.let_in()
        await town.until_pods(5)
        await asyncio.sleep(1)
        for name in await town.pods():
            await town.turn("Running", name)
            await asyncio.sleep(0.12)
        await asyncio.sleep(0.1)  # the last one runs: nothing is left to gather
        active = (await town.job())["status"]["replicaStatuses"]["Worker"]["active"]
        written = len(status_patches(town.wire))
    assert (active, written) == (4, 3)


async def test_pods_follow_their_service_without_another_turn_in_the_queue(town):
    """runtime:12.4: a gang is finished before the next one is begun."""
    operator = town.operator()
    turns = 0
    hand_out = operator.queue.get

    async def counted():
        nonlocal turns
        key = await hand_out()
        turns += not await town.pods()
        return key

    operator.queue.get = counted
    async with town.running(operator):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
    assert turns == 1


async def test_neither_the_first_status_nor_an_end_waits(town):
    """runtime:W-19"""
    async with town.running(town.operator()):
        began = now()
        await town.create()
        await town.until_job("Created", within_s=1)
        assert now() - began < 0.2
        await town.until_pods(2)
        await asyncio.sleep(1)
        await town.turn("Running")
        await until_patches(town, len(status_patches(town.wire)) + 1)
        began = now()
        await town.turn("Failed", code=1)
        await town.until_job("Failed", within_s=1)
        assert now() - began < STATUS_S


async def test_d14_a_restart_right_after_a_status_is_told_before_nothing_of_it_can_be_seen(town):
    """runtime:W-19: the pod that failed is gone in the next pass, and with it the reason."""
    roles = {role: make.replica(1, policy="ExitCode") for role in ("Master", "Worker")}
    async with town.running(town.operator()):
        await town.create(roles=roles)
        await town.until_pods(2)
        await asyncio.sleep(1)
        await town.turn("Running", "j-master-0")
        await until_patches(town, len(status_patches(town.wire)) + 1)
        await town.turn("Failed", "j-worker-0", code=137)
        await asyncio.sleep(5)
        said = [c["type"] for p in status_patches(town.wire) for c in p["status"]["conditions"]]
        assert "Restarting" in said
        assert (await town.reasons()).count("jobRestarting") == 2
        assert (await town.reasons()).count("ExitedWithCode") == 1


async def test_f11_the_end_of_the_time_to_live_is_told(town):
    async with town.running(town.operator()):
        await town.create(policy={"ttlSecondsAfterFinished": 60})
        await town.until_pods(2)
        await town.turn("Succeeded")
        await town.until_job("Succeeded")
        await asyncio.sleep(58)
        assert "SuccessfulDeleteJob" not in await town.reasons()
        await asyncio.sleep(5)
        assert "SuccessfulDeleteJob" in await town.reasons()


async def test_what_was_done_while_a_status_had_to_wait_is_told_with_it(town):
    """runtime:W-19"""
    async with town.running(town.operator()):
        await town.create()
        await town.until_pods(2)
        await town.until_job("Created")
        await asyncio.sleep(2)
        assert (await town.reasons()).count("SuccessfulCreatePod") == 2


# ── restarts are counted before anything is replaced ──


async def attempts(town):
    annotations = (await town.job())["metadata"].get("annotations") or {}
    return {key: value for key, value in annotations.items() if "attempt" in key}


async def started(town):
    """A job with pods that run."""
    await town.until_pods(2)
    await town.turn("Running")
    await town.until_job("Running")


async def test_a_lost_pod_is_counted_before_it_is_replaced(town):
    """runtime:W-21 runtime:W-11"""
    async with town.running(town.operator()):
        await town.create()
        await started(town)
        sent = len(town.wire.sent)
        await town.lose("j-worker-0")
        await town.until_pods(2)
    written = town.wire.writes(since=sent)
    assert written.index(("PATCH", "j")) < written.index(("POST", "pods"))
    pods = await town.pods()
    versions = {name: pod["metadata"]["labels"]["version"] for name, pod in pods.items()}
    assert versions["j-worker-0"] == "1"


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("write", [("PATCH", "ascendjobs"), ("POST", "pods")], ids="/".join)
async def test_a_crash_anywhere_in_a_restart_neither_loses_nor_doubles_it(town, where, write):
    """runtime:W-21, pitfall 62"""
    async with town.running(town.operator()):
        await town.create()
        await started(town)
    dying, loses = town.operator("dying"), asyncio.Event()

    async def lose_when(event):
        await event.wait()
        await town.lose("j-worker-0")

    matches = is_write(*write)

    async def die(request):
        if matches(request) and not is_status_patch(request):
            await asyncio.sleep(3600)

    getattr(town.wire, where).append(die)
    asyncio.get_running_loop().call_later(1, loses.set)
    async with asyncio.TaskGroup() as group:
        group.create_task(lose_when(loses))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(dying.run(asyncio.Event()), 10)
    async with town.running(town.operator("next")):
        await town.until_pods(2)
        await asyncio.sleep(30)
        pods = await town.pods()
    assert pods["j-worker-0"]["metadata"]["labels"]["version"] == "1"


async def test_a_counter_over_a_changed_job_is_decided_anew(town):
    """runtime:W-21 runtime:W-17: the version of the job goes along."""
    async with town.running(town.operator()):
        await town.create()
        await started(town)

        async def edit(request):
            if is_write("PATCH", "ascendjobs")(request) and not is_status_patch(request):
                town.wire.before.clear()
                meta = {"metadata": {"labels": {"edited": "yes"}}}
                await town.hands.patch(JOBS, NS, "j", meta)

        town.wire.before.append(edit)
        await town.lose("j-worker-0")
        await asyncio.sleep(5)
        pods = await town.pods()
        assert pods["j-worker-0"]["metadata"]["labels"]["version"] == "1"
        assert len(await attempts(town)) == 1


# ── own writes and the cache ──


async def test_a_lost_answer_to_a_create_costs_no_stall(town):
    """runtime:W-9 runtime:W-5, pitfall 50"""
    async with town.running(town.operator()):
        town.wire.after.append(reset(is_write("POST", "pods")))
        await town.create(Master=1, Worker=3)
        await town.until_pods(4, within_s=4)


async def test_a_job_whose_template_no_pod_can_have_is_told_once_and_not_tried_again(town):
    """runtime:W-9 runtime:W-12"""
    mount = {"name": "nowhere", "mountPath": "/data"}
    bad = {"name": "ascend", "image": "train:1", "volumeMounts": [mount]}
    replicas = {"replicas": 50, "template": {"spec": {"containers": [bad]}}}
    async with town.running(town.operator()):
        await town.create(roles={"Master": replicas | {"replicas": 1}, "Worker": replicas})
        await asyncio.sleep(3600)
        posts = town.wire.writes("pods")
        last = (await town.job())["status"]["conditions"][-1]
        assert last["reason"] == "PodCreateFailed" and "volumeMounts" in last["message"]
        assert (await town.reasons()).count("FailedCreatePod") == 1
    assert len(posts) <= 3, "its Service and its status come back and are looked at"


async def test_somebody_else_s_pod_is_in_the_way_until_it_goes(town):
    """runtime:W-16 runtime:W-9"""
    body = {
        "metadata": {"name": "j-worker-0", "namespace": NS},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]},
    }
    theirs = await town.hands.create(PODS, body)
    async with town.running(town.operator()):
        await town.create()
        await asyncio.sleep(60)
        assert "ChildConflict" in await town.reasons()
        last = (await town.job())["status"]["conditions"][-1]
        assert (last["type"], last["reason"]) == ("Created", "PodCreateFailed"), (
            "the contract's word"
        )
        found = (await town.pods())["j-worker-0"]
        assert found["metadata"]["uid"] == theirs["metadata"]["uid"]
        assert len(town.wire.writes("pods")) < 20, "no hot loop"
        await town.lose("j-worker-0")
        await started(town)


async def test_what_the_collector_never_takes_is_told_after_two_minutes(town):
    """runtime:W-9"""
    before = await town.create()
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": "AscendJob",
        "name": "j",
        "uid": before["metadata"]["uid"],
        "controller": True,
    }
    await town.hands.create(
        PODS,
        {
            "metadata": {
                "name": "j-worker-0",
                "namespace": NS,
                "finalizers": ["test/holds"],
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "c", "image": "i:1"}]},
        },
    )
    await town.hands.delete(JOBS, NS, "j")
    await town.create()
    async with town.running(town.operator()):
        await asyncio.sleep(100)
        assert "ChildConflict" not in await town.reasons()
        await asyncio.sleep(40)
        assert "ChildConflict" in await town.reasons()
        await town.hands.patch(PODS, NS, "j-worker-0", {"metadata": {"finalizers": None}})
        await started(town)


async def test_no_object_of_ours_has_a_finalizer(town):
    """runtime:W-15 field-reports:FR-021: nothing outside the cluster has to be undone, so nothing
    needs to hold a job back; the garbage collector takes the children."""
    async with town.running(town.operator(rank_table_dir="")):
        await town.create()
        await started(town)
        await town.turn("Succeeded")
        await town.until_job("Succeeded")
    bodies = [
        body
        for method in ("POST", "PATCH")
        for plural in ("pods", "services", "ascendjobs", "podgroups")
        for body in town.wire.bodies(method, plural)
    ]
    assert bodies and not any("finalizers" in (body.get("metadata") or {}) for body in bodies)
    assert not (await town.job())["metadata"].get("finalizers")


async def test_the_schema_has_no_generation_to_write_so_none_is_written(town):
    """runtime:W-20: the contract of AscendJob has no status.observedGeneration; it would be
    pruned, and the status would differ for ever."""
    async with town.running(town.operator()):
        await town.create()
        await started(town)
    assert not any("observedGeneration" in patch["status"] for patch in status_patches(town.wire))


async def test_an_edit_of_an_annotation_counts_although_it_makes_no_generation(town):
    """runtime:W-20"""
    async with town.running(town.operator()):
        await town.create()
        await started(town)
        edit = {"metadata": {"annotations": {"recover-strategy": "retry"}}}
        edited = await town.hands.patch(JOBS, NS, "j", edit)
        assert edited["metadata"]["generation"] == 1
        await town.lose("j-worker-0")
        await town.until_pods(2)
        env = make.env_of((await town.pods())["j-worker-0"])
        assert env["HIGH_AVAILABILITY"] == "retry"
