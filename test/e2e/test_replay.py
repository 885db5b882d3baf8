# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator makes of a job what the original made of it: recorded cases, played again.

All cases that are selected run before the first of them is judged, some at the same time, because a
case spends its time waiting for nothing to happen.
"""

import asyncio
import os
import time
from pathlib import Path

import pytest

from ascendop.decorated.kinds import WORKLOADS
from ascendop.kinds import load_kinds
from ascendop.sim.coscheduling import build_definition
from hack.replay.__main__ import Result, show
from hack.replay.case import load_cases
from hack.replay.cluster import connect, make_world, world_addresses
from hack.replay.judge import Judge
from hack.replay.play import Play
from hack.replay.right import wrong

RECORDED = Path(__file__).parent / "recorded"
AT_ONCE = max(2, min(6, (os.cpu_count() or 2)))  # a starved operator looks slow
SHORT = ("ascendjob/01-", "ascendjob/02-", "ascendjob/03-", "decorated/")
OURS = {*load_kinds(), *(kind.resource.kind for kind in WORKLOADS.values())}
FLAGS = {
    "": (),
    "--enableGangScheduling=false": ("--no-enable-gang-scheduling",),
    "-gang-scheduling=volcano": ("--mpi-gang-scheduler=volcano",),
    "-gang-scheduling=scheduler-plugins-scheduler": (
        "--mpi-gang-scheduler=scheduler-plugins-scheduler",
    ),
}
"""What the original was started with, and what we are started with for it."""
WIDTH = 160


def flags_of(case):
    return case.want["recordedFrom"].partition(", ")[2]


def is_played(case):
    """Of a kind that we have, with flags that we have, and no answer of a webhook."""
    return (
        case.job["kind"] in OURS
        and flags_of(case) in FLAGS
        and "denied" not in case.want["created"]
    )


def not_yet():
    """Case to the reason why it is not played: what it needs is not built."""
    lines = (Path(__file__).parent / "not_yet.txt").read_text().splitlines()
    pairs = (line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {case: reason.strip() for case, reason in pairs}


def marks_of(case):
    return [] if case.id.startswith(SHORT) else [pytest.mark.long]


STRICT = "--mpi-strict-parity"


def modes_of(case):
    """What we are started with beside that: MPIJobs are compared without our additions, too."""
    return ((), (STRICT,)) if case.job["kind"] == "MPIJob" else ((),)


NOT_YET = not_yet()
CASES = [case for case in load_cases([RECORDED]) if is_played(case)]
PARAMS = [
    pytest.param(case, mode, id=f"{case.id}{'-strict' if mode else ''}", marks=marks_of(case))
    for case in CASES
    if case.id not in NOT_YET
    for mode in modes_of(case)
]


async def make_definition(api):
    """Of the PodGroups that the control plane here does not bring."""
    definition = build_definition()
    path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    code, answer, _ = await api.request("POST", path, definition)
    assert code in {201, 409}, answer
    while (await api.request("GET", "apis/scheduling.x-k8s.io/v1alpha1/podgroups"))[0] != 200:
        await asyncio.sleep(0.2)
    await asyncio.sleep(3)  # the operator finds out by a watch, a little later


async def play(plane, replica, cases, mode):
    """Case by its id to the verdict on it."""
    results = {}
    slots = asyncio.Semaphore(AT_ONCE)

    async def restart(word):
        await asyncio.to_thread(replica.kill) if word == "stop" else replica.start()

    async def one(api, addresses, case):
        async with slots:
            started = time.monotonic()
            name = f"replay-{case.id.split('-', 1)[0].replace('/', '-')}{'-strict' if mode else ''}"
            got = await Play(api, case, name, addresses, replica.rank_tables, restart).run()
            judge = Judge(case.job["kind"], case.want, got, case.differs, case.steps)
            found = [*judge.verdict(), *wrong(case.id, got)]
            results[case.id] = Result(case, time.monotonic() - started, found)

    async with connect(str(plane.kubeconfig)) as api:
        assert await make_world(api, RECORDED / "world.yaml") == []
        await make_definition(api)
        addresses = await world_addresses(api)
        async with asyncio.TaskGroup() as group:
            for case in cases:
                if not case.restarts:
                    group.create_task(one(api, addresses, case))
        for case in cases:
            if case.restarts:  # it would disturb the others
                await one(api, addresses, case)
    return results


@pytest.fixture(scope="module")
def results(request, plain, make_replica):
    """Verdicts on all selected cases, by id and mode."""
    selected = [
        (item.callspec.params["case"], item.callspec.params["mode"])
        for item in request.session.items
        if getattr(item, "originalname", "") == "test_it_makes_what_the_original_made"
    ]
    found = {}
    for flags, mode in sorted({(flags_of(case), mode) for case, mode in selected}):
        with make_replica(plain, "--no-leader-elect", *FLAGS[flags], *mode) as replica:
            cases = [c for c, its_mode in selected if (flags_of(c), its_mode) == (flags, mode)]
            played = asyncio.run(play(plain, replica, cases, mode))
            found |= {(name, mode): result for name, result in played.items()}
    return found


def test_cases_that_are_not_played_exist():
    assert NOT_YET.keys() <= {case.id for case in CASES}


@pytest.mark.timeout(2400)  # the first one waits for all
@pytest.mark.parametrize(("case", "mode"), PARAMS)
def test_it_makes_what_the_original_made(case, mode, results):
    result = results[case.id, mode]
    steps = case.want.get("steps", [])
    titles = {0: "created"} | {i + 1: f"steps[{i}] {s['step']}" for i, s in enumerate(steps)}
    if result.count("differs"):
        pytest.fail(show(result, titles, WIDTH), pytrace=False)
