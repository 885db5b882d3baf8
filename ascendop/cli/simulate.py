# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop simulate`: the same as local in virtual time, with staged pods and faults by option."""

from __future__ import annotations

import asyncio
import re
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from random import Random  # noqa: TID251  seeded by --seed
from typing import Final

from ascendop.app.operator import Operator
from ascendop.cli.files import Located, load_objects
from ascendop.cli.house import House
from ascendop.cli.parser import LEVELS
from ascendop.cli.view import Lines, look_at, verdict
from ascendop.clock import simulated
from ascendop.errors import UsageError
from ascendop.kube.resource import PODS, Object
from ascendop.settings import Settings
from ascendop.sim.batch import BatchJobs
from ascendop.sim.faults import Faults
from ascendop.sim.faults import Plan as FaultPlan
from ascendop.sim.loop import JumpingLoop
from ascendop.sim.nodes import NodeSpec, create_nodes, parse_nodes
from ascendop.sim.scheduler import Scheduler
from ascendop.sim.server import ApiServer
from ascendop.sim.staged import StagedNodes
from ascendop.sim.transport import SimTransport
from ascendop.sim.world import Admitted
from ascendop.telemetry.log import configure

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
LOOK_S: Final = 1.0
_DURATION: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_FAIL: Final = re.compile(r"(?P<pod>[^=]+)=(?P<code>\d+)(?:@(?P<after>\w+))?")


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser(
        "simulate", help="run jobs in virtual time: an hour in a second, nothing is started"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML; - for standard input")
    parser.add_argument(
        "--nodes", action="append", metavar="SPEC", help="nodes, e.g. '2x8 910B' [4x8 910B]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of everything left to chance [0]")
    parser.add_argument(
        "--duration", default="1h", metavar="D", help="how long a pod runs, e.g. 1h30m [1h]"
    )
    parser.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="POD=CODE[@D]",
        help="the first pod of that name (a glob) ends with CODE after D of running",
    )
    parser.add_argument(
        "--chaos", type=int, default=0, metavar="N", help="about N of 100 pods fail at some moment"
    )
    parser.add_argument(
        "--faults",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of the operator's requests that go wrong, 0 to 1",
    )
    parser.add_argument(
        "--until", default="24h", metavar="D", help="give up after so much virtual time [24h]"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default="error", help="of the operator [error]"
    )
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """The jobs' end as exit code: 0 all succeeded, 5 one failed, 6 one has not finished."""
    located = load_objects(args.files, sys.stdin)
    scenario = _scenario(args)
    configure(args.log_level, "text")
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(_simulate(scenario, located))


@dataclass(frozen=True, slots=True)
class Failure:
    """One pod that ends badly."""

    pod: str
    """A glob."""
    code: int
    after_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens to whom."""

    nodes: tuple[NodeSpec, ...]
    seed: int
    duration_s: float
    until_s: float
    failures: tuple[Failure, ...]
    chaos_percent: int
    faults: float


def _scenario(args: Namespace) -> Scenario:
    if not 0.0 <= args.faults < 1.0:
        raise UsageError(f"--faults {args.faults:g}: write a share from 0 to below 1, such as 0.05")
    if not 0 <= args.chaos <= 100:  # noqa: PLR2004  per cent
        raise UsageError(f"--chaos {args.chaos}: write a number from 0 to 100")
    return Scenario(
        nodes=tuple(parse_nodes(text) for text in args.nodes or ("4x8 910B",)),
        seed=args.seed,
        duration_s=_seconds("--duration", args.duration),
        until_s=_seconds("--until", args.until),
        failures=tuple(_failure(text) for text in args.fail),
        chaos_percent=args.chaos,
        faults=args.faults,
    )


def _seconds(flag: str, text: str) -> float:
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise UsageError(f"{flag} {text!r} is no duration; write for example 90s, 20m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600.0 + minutes * 60.0 + seconds


def _failure(text: str) -> Failure:
    found = _FAIL.fullmatch(text)
    if found is None:
        raise UsageError(
            f"--fail {text!r}: write POD=CODE or POD=CODE@AFTER, such as 'j-*=137@10m'"
        )
    return Failure(found["pod"], int(found["code"]), _seconds("--fail", found["after"] or "1m"))


async def _simulate(scenario: Scenario, located: list[Located]) -> int:
    loop = asyncio.get_running_loop()
    dice = [Random(f"{scenario.seed}/{who}") for who in range(5)]  # noqa: S311  a seed is to repeat
    wall = simulated(START, loop.time)
    server = ApiServer(wall=wall, rng=dice[0])
    server.admission.append(_fates(scenario, dice[1]))
    faults = Faults(_plan(scenario.faults), dice[2])
    house = House(server, rng=dice[3], transport=SimTransport(server, faults=faults))
    await create_nodes(house.client, *scenario.nodes, wall=wall)
    settings = Settings(leader_elect=False, rank_table_dir="", health_listen="", metrics_listen="")
    async with house.operator(settings, wall) as operator:
        nodes = StagedNodes(house.client, wall=wall, rng=dice[4], sets=("", "finish"))
        jobs_of_kubernetes = BatchJobs(house.client, wall=wall)
        async with _running(nodes, Scheduler(house.client, wall=wall), jobs_of_kubernetes):
            await house.gangs_may_wait()
            await house.apply(located)
            await _watch(house, operator, scenario.until_s)
            for job in (jobs := await house.jobs()):
                print(f"{job.title}: {job.state or 'not begun'} ({job.reason}) {job.message}")
    print(f"{loop.time():.0f} s of virtual time, seed {scenario.seed}")
    return verdict(jobs)


def _plan(share: float) -> FaultPlan:
    """Each way in which a request can go wrong gets its part of the share."""
    part = share / 5
    status = {429: part / 2, 503: part / 2}
    return FaultPlan(
        refuse=part, reset_before=part, reset_after=part, status=status, delay_s=share, cut=part
    )


def _fates(scenario: Scenario, rng: Random) -> Callable[[Admitted], None]:
    """What becomes of each pod, written on it when it is made."""
    left = list(scenario.failures)

    def decide(admitted: Admitted) -> None:
        if admitted.served.resource != PODS or admitted.old is not None:
            return
        name = admitted.obj["metadata"]["name"]
        failure = next((f for f in left if fnmatch(name, f.pod)), None)
        if failure is not None:
            left.remove(failure)
            _write(admitted.obj, "fail", failure.after_s, failure.code)
        elif rng.randrange(100) < scenario.chaos_percent:
            _write(admitted.obj, "fail", rng.uniform(0, scenario.duration_s), 137)
        else:
            _write(admitted.obj, "succeed", scenario.duration_s, 0)

    return decide


def _write(pod: Object, outcome: str, after_s: float, code: int) -> None:
    annotations = pod["metadata"].setdefault("annotations", {})
    annotations.setdefault("ascendop.io/outcome", outcome)
    annotations.setdefault("ascendop.io/after", f"{after_s:.3f}s")
    if outcome == "fail":
        annotations.setdefault("ascendop.io/exit-code", str(code))


@asynccontextmanager
async def _running(*parts: StagedNodes | Scheduler | BatchJobs) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part.run()) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _watch(house: House, operator: Operator, until_s: float) -> None:
    loop = asyncio.get_running_loop()
    lines = Lines(print, loop.time)
    while loop.time() < until_s:
        look = await look_at(house, operator.mirror)
        lines.show(look)
        idle = not operator.queue.depths() and not operator.queue.running()
        if all(job.finished for job in look.jobs) and idle:
            return
        await asyncio.sleep(LOOK_S)
