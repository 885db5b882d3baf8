# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a failure may wait for, and for how long: ascendjob.md 7.3, fault-tolerance.md 2.14."""

from dataclasses import replace

import pytest

from ascendop.builder import labels as keys
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import after, changed, gone, turned  # noqa: TID252  likewise
from ..make import job  # noqa: TID252  likewise

GRACE_S = 30.0
RETRIED = job(labels={"fault-retry-times": "5"})


def running(obj=RETRIED, **of_world):
    """A job whose pods all run and have been counted."""
    seen = make.snapshot(obj, **{"retry_grace_s": GRACE_S} | of_world)
    seen = turned(after(seen, decide(seen)), "Running")
    return after(seen, decide(seen))


def at(seen, seconds, **of_world):
    """So much later, with another answer of the plug-in's if one is given."""
    return replace(seen, now=make.later(seconds), world=replace(seen.world, **of_world))


def passed(seen):
    return after(seen, decide(seen), now=seen.now)


def state(seen):
    return make.conditions(make.concluded(decide(seen)))[-1]


def since(seen):
    return "unanswered_since" in dict(seen.row.annotations).get(keys.ATTEMPT_ANNOTATION, "")


def waiting(**of_world):
    """A pod has failed, and the operator has had its first look."""
    return passed(turned(running(**of_world), "Failed", "j-worker-0"))


def test_a_failure_that_nobody_answers_waits_and_says_so():
    """ascendjob:W-19, fault-tolerance:D-15, scheduling:SCH-33: its entry may come late."""
    seen = turned(running(), "Failed", "j-worker-0")
    plan = decide(seen)
    found = make.concluded(plan)
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
    assert plan.again_after_s == GRACE_S
    (note,) = [event for event in found.events if event.reason == "RetriesUnknown"]
    assert note.note == (
        "A pod has failed and label fault-retry-times asks for retries, but ConfigMap "
        "volcano-system/vcjob-fault-npu-cm has none for ns/j-U; the job fails in 30 s unless "
        "Volcano's NPU plug-in restarts it"
    )


def test_it_waits_as_long_as_it_may_and_no_longer():
    """ascendjob:W-19, ascendjob:F6"""
    seen = at(waiting(), 29)
    plan = decide(seen)
    assert plan.again_after_s == 1
    found = make.concluded(plan)
    assert [event.reason for event in found.events] == []
    assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
    found = make.concluded(decide(at(waiting(), 30)))
    assert make.conditions(found)[-1] == ("Failed", "True", "JobFailed")
    assert found.status["completionTime"]
    assert found.status["conditions"][-1]["message"] == (
        "Job <ns/j> has failed because has pod failed."
    )


def test_an_answer_in_time_restarts_the_job():
    """field-reports:FR-011, ascendjob:F5"""
    seen = passed(at(waiting(), 5, retries_left=3))
    assert seen.status["conditions"][-1]["reason"] == "JobRestarting"
    assert not since(seen)
    seen = passed(gone(seen, "j-master-0", "j-worker-0"))
    assert {pod.attempt for pod in seen.pods} == {1}
    seen = passed(turned(seen, "Running"))
    assert seen.status["conditions"][-1]["type"] == "Running"


def test_an_answer_of_none_left_ends_it_at_once():
    """ascendjob:F6"""
    assert state(at(waiting(), 5, retries_left=0)) == ("Failed", "True", "JobFailed")


def test_without_a_grace_period_it_fails_at_once():
    """ascendjob:F6"""
    seen = turned(running(retry_grace_s=0.0), "Failed", "j-worker-0")
    plan = decide(seen)
    assert make.conditions(make.concluded(plan))[-1] == ("Failed", "True", "JobFailed")
    assert make.writes(plan) == []


@pytest.mark.parametrize(
    ("obj", "of_world"),
    [
        pytest.param(job(), {}, id="nothing asked for"),
        pytest.param(job(labels={"fault-retry-times": "0"}), {}, id="none asked for"),
        pytest.param(RETRIED, {"gang": False}, id="no gang"),
    ],
)
def test_a_job_that_asks_for_no_retry_waits_for_none(obj, of_world):
    """ascendjob:S4"""
    seen = turned(running(obj, **of_world), "Failed", "j-worker-0")
    assert state(seen) == ("Failed", "True", "JobFailed")


@pytest.mark.parametrize("left", [0, None])
def test_the_last_retry_is_spent_before_its_pods_are_gone(left):
    """ascendjob:W-14: the plug-in counts first and deletes then; both are seen in any order."""
    promised = passed(turned(running(retries_left=1), "Failed", "j-worker-0"))
    seen = passed(at(promised, 1, retries_left=left))
    assert seen.status["conditions"][-1]["reason"] == "JobRestarting"
    seen = passed(gone(seen, "j-master-0", "j-worker-0"))
    assert not since(seen)
    seen = passed(turned(seen, "Running"))
    assert seen.status["conditions"][-1]["type"] == "Running"


@pytest.mark.parametrize("left", [0, None])
def test_a_restart_that_never_comes_ends_the_job(left):
    """ascendjob:W-14: Restarting shields no failure for ever."""
    promised = passed(turned(running(retries_left=1), "Failed", "j-worker-0"))
    seen = passed(at(promised, 100, retries_left=left))
    assert seen.status["conditions"][-1]["type"] == "Restarting"
    assert decide(at(seen, 101)).again_after_s == GRACE_S - 1
    assert state(at(seen, 130)) == ("Failed", "True", "JobFailed")


def test_a_failure_for_good_ends_a_job_that_restarts_after_another():
    """ascendjob:W-14: one role is tried again by exit code, the other one has failed for good."""
    seen = running(job(Master=1, Worker=make.replica(2, policy="ExitCode")))
    seen = passed(turned(seen, "Failed", "j-worker-0", containers=_ended(137)))
    assert seen.status["conditions"][-1]["reason"] == "jobRestarting"
    seen = turned(seen, "Failed", "j-master-0", containers=_ended(1))
    assert state(seen) == ("Failed", "True", "JobFailed")


def _ended(code):
    return make.pod(exit_code=code).containers


def test_another_process_goes_on_waiting():
    """fault-tolerance:D-01: since when stands in the job."""
    seen = waiting()
    assert since(seen)
    assert decide(at(seen, 12)).again_after_s == GRACE_S - 12


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_a_clock_that_was_wrong_ends_no_wait_later_than_twice(ahead_s):
    """fault-tolerance:3.3 row 39: the one before had another clock."""
    seen = at(waiting(), -ahead_s)
    for _ in range(3):
        wait_s = decide(seen).again_after_s
        seen = passed(seen)
        if wait_s is None:
            break
        assert wait_s <= GRACE_S
        seen = replace(seen, now=make.later(-ahead_s + wait_s))
    assert seen.status["conditions"][-1]["type"] == "Failed"


@pytest.mark.parametrize("text", ["soon", "2026-01-02", "2026-13-01T00:00:00Z"])
def test_what_somebody_has_written_there_is_no_time(text):
    seen = waiting()
    stored = dict(seen.row.annotations)[keys.ATTEMPT_ANNOTATION]
    broken = stored.replace("2026-01-02T03:04:05Z", text)
    assert broken != stored
    row = changed(seen.row, annotations=((keys.ATTEMPT_ANNOTATION, broken),))
    assert decide(replace(seen, row=row)).again_after_s == GRACE_S


def test_what_was_waited_for_once_does_not_shorten_the_next_wait():
    """The job came back by itself, and hours later another pod fails."""
    seen = replace(waiting(), group=make.group("Pending", name="j-U"))
    seen = passed(at(gone(seen, "j-master-0", "j-worker-0"), 10))
    assert not seen.pods
    seen = passed(replace(seen, group=make.made_group(seen, "Inqueue")))
    assert not since(seen)
    seen = passed(turned(at(seen, 20), "Running"))
    seen = turned(at(seen, 9000), "Failed", "j-worker-0")
    assert decide(seen).again_after_s == GRACE_S
