# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What counts as a lost pod, and what does not: a crash between any two writes changes nothing."""

import json
from dataclasses import replace

import pytest

from ascendop.apply.plan import Apply, Create, Done, Written
from ascendop.kube.resource import PODS
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import admitted, after, changed, gone, turned  # noqa: TID252  likewise
from ..make import job  # noqa: TID252  likewise


def running(**options):
    """A job of a Master and a Worker whose pods all run."""
    seen = make.snapshot(job(Master=1, Worker=1), services=None, **options)
    for _ in range(4):
        seen = admitted(after(seen, decide(seen), phase="Running"))
    return seen


def scaled(seen, count):
    obj = job(Master=1, Worker=count)
    fresh = make.row(obj, annotations=seen.row.annotations, generation=2)
    return replace(seen, row=fresh, job=make.parsed(seen.kind, fresh))


def steps(seen):
    return [step.name for step in decide(seen).steps]


def versions(seen):
    return {pod.name: pod.attempt for pod in seen.pods}


def annotation(seen):
    return json.loads(dict(seen.row.annotations).get("ascendop.io/attempt", "{}"))


def without(plan, *names):
    """The plan, as far as it came before the process died: without these steps."""
    return replace(plan, steps=tuple(step for step in plan.steps if step.name not in names))


def test_a_scale_up_says_so_before_it_changes_the_pod_group():
    """runtime:W-21"""
    seen = scaled(running(), 3)
    assert steps(seen) == ["attempt", "group", "pods"]


@pytest.mark.parametrize("lost", [("group", "pods"), ("pods",), ()])
@pytest.mark.parametrize("gang", [True, False])
def test_pods_that_a_scale_up_has_not_made_are_not_lost(lost, gang):
    """runtime:W-21: wherever the process dies, and without a PodGroup that tells."""
    seen = scaled(running(gang=gang), 3)
    seen = replace(after(seen, without(decide(seen), *lost)), status=seen.status)
    for _ in range(3):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    assert set(versions(seen).values()) == {0}
    assert annotation(seen)["attempt"] == 0
    seen = gone(seen, "j-worker-2")
    seen = after(seen, decide(seen))
    assert versions(seen)["j-worker-2"] == 1


@pytest.mark.parametrize("gang", [True, False])
def test_a_pod_that_a_scale_down_took_away_is_not_lost_when_its_slot_comes_back(gang):
    """runtime:W-11: not even while the old pod is still ending."""
    seen = scaled(running(gang=gang), 2)
    for _ in range(3):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    down = scaled(seen, 1)
    down = replace(after(down, decide(down)), pods=seen.pods)
    ending = [changed(p, deleting=True) if p.name == "j-worker-1" else p for p in down.pods]
    seen = scaled(replace(down, pods=tuple(ending)), 2)
    seen = after(seen, decide(seen))
    seen = gone(seen, "j-worker-1")
    for _ in range(3):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    assert versions(seen) == {"j-master-0": 0, "j-worker-0": 0, "j-worker-1": 0}


def test_a_suspension_is_not_a_loss():
    """The budget is for faults; runtime:W-21."""
    seen = running()
    paused = job(Master=1, Worker=1, policy={"suspend": True})
    row = make.row(paused, annotations=seen.row.annotations)
    seen = replace(seen, row=row, job=make.parsed(seen.kind, row))
    assert steps(seen)[:2] == ["attempt", "clean"]
    seen = after(seen, decide(seen))
    again = make.row(job(Master=1, Worker=1), annotations=seen.row.annotations)
    seen = replace(seen, row=again, job=make.parsed(seen.kind, again), now=make.later(3600))
    for _ in range(4):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    assert versions(seen) == {"j-master-0": 0, "j-worker-0": 0}
    assert seen.status["startTime"] == "2026-01-02T04:04:05Z", "a resumed job has its whole time"


def test_pods_that_still_end_when_a_job_is_resumed_are_not_those_it_is_resumed_with():
    """runtime:W-21: they were taken for the new ones, and charged to the budget when they went."""
    seen = running()
    paused = job(Master=1, Worker=1, policy={"suspend": True})
    row = make.row(paused, annotations=seen.row.annotations)
    seen = replace(seen, row=row, job=make.parsed(seen.kind, row))
    ending = tuple(changed(pod, deleting=True) for pod in seen.pods)
    seen = replace(after(seen, decide(seen)), pods=ending)
    again = make.row(job(Master=1, Worker=1), annotations=seen.row.annotations)
    seen = replace(seen, row=again, job=make.parsed(seen.kind, again))
    seen = admitted(after(seen, decide(seen)))
    seen = gone(after(seen, decide(seen)), *(pod.name for pod in ending))
    for _ in range(4):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    assert versions(seen) == {"j-master-0": 0, "j-worker-0": 0}


def test_a_job_begins_when_all_its_pods_are_made():
    """An answer that was lost is no pod that was: what is missing then is made, and not counted."""
    seen = make.snapshot(job(Master=1, Worker=2))
    plan = decide(seen)
    first = next(w for w in make.writes(plan, Create) if w.resource == PODS)
    part = plan.conclude(Done(written=(Written("pods", first, "uid"),)))
    assert "startTime" not in part.status
    assert "startTime" in make.concluded(plan).status


def test_a_service_without_an_address_is_waited_for_without_haste():
    plan = decide(make.snapshot(job(Master=1, Worker=1), services=[make.service(ip="")]))
    assert not plan.steps and not plan.at_once


def test_a_pod_group_is_changed_only_over_what_was_seen():
    """runtime:L-8: an apply that arrives late must not make pods known that were taken away."""
    plan = decide(scaled(running(), 3))
    (write,) = make.writes(plan, Apply, step="group")
    assert write.object["metadata"]["resourceVersion"] == "1"
    (first,) = make.writes(decide(make.snapshot(job(), group=make.group(""))), Apply)
    new = make.writes(decide(replace(make.snapshot(job()), group=None)), Apply)
    assert "resourceVersion" in first.object["metadata"]
    assert "resourceVersion" not in new[0].object["metadata"]


def test_a_loss_in_the_newest_generation_counts_while_pods_of_older_ones_are_made_again():
    """As in the original, where every deletion of a pod of the newest version counts.

    Source: ascendjob.md 4.1.2; case ascendjob/05, whose pods are deleted one after the other.
    """
    seen = gone(running(), "j-worker-0")
    seen = settled(seen)
    assert versions(seen) == {"j-master-0": 0, "j-worker-0": 1}
    seen = gone(seen, "j-master-0")
    seen = replace(after(seen, without(decide(seen), "pods")), status=seen.status)
    seen = settled(gone(seen, "j-worker-0"))
    assert annotation(seen)["attempt"] == 2
    assert versions(seen)["j-worker-0"] == 2


def test_a_pod_that_was_never_made_is_not_lost_while_another_one_is():
    seen = gone(running(), "j-master-0", "j-worker-0")
    seen = replace(after(seen, without(decide(seen), "pods")), status=seen.status)
    for _ in range(3):
        seen = replace(after(seen, without(decide(seen), "pods")), status=seen.status)
    assert annotation(settled(seen))["attempt"] == 1


def settled(seen):
    for _ in range(4):
        seen = turned(admitted(after(seen, decide(seen))), "Running")
    return seen
