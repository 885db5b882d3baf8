# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job that waits for long says why with numbers, and says it again only when they change."""

from dataclasses import replace

import pytest

from ascendop.gang.room import Room
from ascendop.kube.quantity import Quantity
from ascendop.reconciler.decide import decide
from ascendop.reconciler.waiting import AGAIN_S, PATIENCE_S

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import changed, gone, turned  # noqa: TID252  likewise

CONTRACT = "the cluster resource is not enough"
NUMBERS = f"{CONTRACT}: the gang of 3 pods asks for 24 huawei.com/Ascend910, and 2 nodes have"


def room(npus=16, nodes=2, held=0):
    name = "huawei.com/Ascend910"
    return Room({name: nodes}, {name: Quantity.parse(npus)}, {name: Quantity.parse(held)})


def waiting(phase="Pending", found=None, **more):
    seen = make.snapshot(make.job(Master=1, Worker=2), services=(), group=phase, **more)
    return replace(seen, world=replace(seen.world, room=found or room()))


def passed(seen, seconds, **of_world):
    """The next look at the job, so much later, and what was concluded then."""
    status = make.concluded(decide(seen)).status
    now = seen.now + (make.later(seconds) - make.NOW)
    seen = replace(seen, status=status, now=now, world=replace(seen.world, **of_world))
    return seen, decide(seen)


def told(plan):
    found = make.concluded(plan)
    (created,) = [c for c in found.status["conditions"] if c["type"] == "Created"]
    return created["message"], [(note.type, note.reason, note.note) for note in found.events]


def test_what_is_pending_for_a_moment_gets_the_words_of_the_contract_alone():
    """scheduling:SCH-4"""
    plan = decide(waiting())
    assert told(plan) == (CONTRACT, [])
    assert plan.again_after_s == PATIENCE_S
    _, plan = passed(waiting(), PATIENCE_S - 4)
    assert told(plan) == (CONTRACT, [])
    assert plan.again_after_s == pytest.approx(4)


def test_what_lasts_gets_numbers_in_the_condition_and_an_event():
    """scheduling:SCH-4, scheduling:P1"""
    seen, plan = passed(waiting(), PATIENCE_S)
    message, events = told(plan)
    assert message == f"{NUMBERS} 16 in all"
    assert events == [("Warning", "Unschedulable", message)]
    before, after = seen.status["conditions"][0], make.concluded(plan).status["conditions"][0]
    assert after["reason"] == before["reason"] == "PodGroupPending"
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert plan.again_after_s == AGAIN_S and make.created(plan) == {}


def test_the_same_numbers_are_not_told_twice():
    seen, _ = passed(waiting(), PATIENCE_S)
    for _ in range(3):
        seen, plan = passed(seen, AGAIN_S)
        found = make.concluded(plan)
        assert make.unchanged(seen.status, found) and found.events == ()
        assert plan.again_after_s == AGAIN_S


def test_other_numbers_are_told_once_a_minute_at_most():
    seen, _ = passed(waiting(), PATIENCE_S)
    seen, plan = passed(seen, AGAIN_S / 2, room=room(20))
    assert make.unchanged(seen.status, make.concluded(plan))
    seen, plan = passed(seen, AGAIN_S / 2)
    assert told(plan)[0] == f"{NUMBERS} 20 in all"


def test_a_closed_queue_is_said_instead_of_numbers():
    """scheduling:SCH-12, scheduling:P9"""
    _, plan = passed(waiting(queue=make.queue("q", "Closed")), PATIENCE_S)
    assert told(plan)[0] == f"{CONTRACT}: queue q is Closed"


def test_a_queue_that_has_gone_is_a_reason_to_wait_for_a_job_that_was_taken_up():
    """scheduling:SCH-12, scheduling:P10, ascendjob:W-4"""
    policy = {"schedulingPolicy": {"queue": "q"}}
    job = make.job(Master=1, Worker=2, policy=policy)
    seen = make.snapshot(job, services=(), group="", queue=make.queue("q"))
    _, plan = passed(seen, PATIENCE_S, queue=None)
    message, _ = told(plan)
    assert message.endswith(": there is no queue q; create it, or name another in "
                            "schedulingPolicy.queue")  # fmt: skip


@pytest.mark.parametrize("when", ["", "in the dark ages"])
def test_a_time_that_somebody_has_written_stops_nothing(when):
    seen, _ = passed(waiting(), 1)
    seen.status["conditions"][0]["lastUpdateTime"] = when
    seen = replace(seen)  # which reads it again
    assert told(decide(seen))[0] == f"{NUMBERS} 16 in all"


def test_a_clock_that_was_set_back_does_not_silence_a_job():
    _, plan = passed(waiting(), -7200)
    assert told(plan)[0] == f"{NUMBERS} 16 in all"


def two_kinds():
    other = make.replica(1, make.container(npus=1, resource="huawei.com/Ascend310P"))
    return make.job(Master=1, Worker=other)


def test_a_gang_of_two_kinds_of_npu_is_refused_before_anything_is_made():
    """scheduling:C12"""
    plan = decide(make.snapshot(two_kinds(), services=()))
    found = make.concluded(plan)
    assert plan.steps == () and make.conditions(found)[-1] == ("Failed", "True", "JobValidFailed")
    assert "ask for 2 kinds of NPU" in found.status["conditions"][-1]["message"]


@pytest.mark.parametrize("how", ["taken up", "no gang"])
def test_no_job_is_stopped_for_two_kinds_of_npu(how):
    there = make.group("Pending") if how == "taken up" else None
    seen = make.snapshot(two_kinds(), gang=how == "taken up", group=there)
    assert "kinds of NPU" not in str(make.concluded(decide(seen)))


def stalled(**group):
    """Let in; three pods are there, and the scheduler has no place for them."""
    pods = [make.pod(role, n, "Pending") for role, n in (("master", 0), ("worker", 0))]
    pods.append(make.pod("worker", 1, "Pending"))
    seen = make.snapshot(make.job(Master=1, Worker=2), pods=pods)
    seen = replace(seen, group=changed(seen.group, trouble="3/3 tasks unschedulable", **group))
    started = {"startTime": "2026-01-02T03:04:05Z"}
    return replace(seen, status=started, world=replace(seen.world, room=room(32, held=16)))


def test_a_gang_that_was_let_in_and_finds_no_place_says_so():
    """scheduling:SCH-31, scheduling:P21: pods are there, and nobody runs them."""
    seen, plan = passed(stalled(), PATIENCE_S - 1)
    assert told(plan) == ("Job j is create.", [])
    assert plan.again_after_s == pytest.approx(1)
    seen, plan = passed(seen, 1)
    assert told(plan)[0] == CONTRACT
    seen, plan = passed(seen, PATIENCE_S)
    message, events = told(plan)
    assert message.startswith(f"{CONTRACT}: the gang of 3 pods asks for 24 huawei.com/Ascend910")
    assert message.endswith("16 of 32 on 2 nodes are free; Volcano says: 3/3 tasks unschedulable")
    assert len(events) == 1 and make.writes(plan) == []


@pytest.mark.parametrize(
    "how", ["a pod has a node", "a pod runs", "nobody complains", "a pod is missing"]
)
def test_a_gang_that_is_being_placed_says_nothing(how):
    seen, _ = passed(stalled(), PATIENCE_S)
    if how == "a pod has a node":
        seen = turned(seen, "Pending", "j-worker-0", node="node-1")
    elif how == "a pod runs":
        seen = turned(seen, "Running", "j-worker-0", node="node-1")
    elif how == "a pod is missing":  # the server refuses it, and that is what there is to say
        seen = gone(seen, "j-worker-0")
    else:
        seen = replace(seen, group=changed(seen.group, trouble=""))
    assert CONTRACT not in str(make.concluded(decide(seen)))


def test_a_gang_that_runs_is_not_looked_at_for_a_place_again():
    """A PodGroup keeps its complaint, and a look that can tell nothing is one for nothing."""
    seen, _ = passed(stalled(), PATIENCE_S - 1)
    assert decide(seen).again_after_s is not None
    for name in ("j-master-0", "j-worker-0", "j-worker-1"):
        seen = turned(seen, "Running", name)
    assert decide(seen).again_after_s is None
