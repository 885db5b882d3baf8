# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One scenario, played from one seed; what it came to."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from random import Random  # noqa: TID251  seeded
from tempfile import TemporaryDirectory

from ascendop.sim.loop import JumpingLoop

from .ends import end_of  # noqa: TID252  the standard library has a package called test
from .mpi_scenarios import MPI_SCENARIOS  # noqa: TID252  likewise
from .scenarios import SCENARIOS  # noqa: TID252  likewise
from .world import running  # noqa: TID252  likewise

SETTLE_S = 60.0
PAUSE_S = 60.0
"""The longest pause of a reflector that has met much trouble; then it asks again."""
QUIET_S = 3600.0
EVENTS_S = 600.0
"""How late an Event may be told: bad weather holds some up, and a count waits for more to count."""


@dataclass(frozen=True)
class Run:
    """What a play came to."""

    end: dict
    trace: str
    took_s: float
    revision: int
    died: bool
    """Whether a process was killed."""


def play(scenario, seed=0, **options):
    """Play it to its end on a loop of its own, and look at everything that must hold then."""
    rng = Random(f"{seed}/loop") if options.get("weather") else None
    with asyncio.Runner(loop_factory=lambda: JumpingLoop(rng)) as runner:
        return runner.run(_play(scenario, seed, **options))


async def _play(scenario, seed, *, quiet_s=QUIET_S, **options):
    of_story = {"nodes": scenario.nodes, "volcano": scenario.volcano, "batch": scenario.batch}
    options = of_story | options
    options["settings"] = scenario.settings | options.get("settings", {})
    async with AsyncExitStack() as stack:
        if scenario.shelf:
            shelf = stack.enter_context(TemporaryDirectory())
            options["settings"] |= {"rank_table_dir": shelf}
        world = await stack.enter_async_context(running(seed, **options))
        await scenario.play(world)
        world.check()
        world.calm()
        await asyncio.sleep(SETTLE_S)
        await converged(world)
        world.oracles.ended()
        end, took_s = end_of(world), world.loop.time()
        await told(world)
        await silence(world, quiet_s)
        world.check()
        died = any(replica.born > 1 for replica in world.replicas)
        return Run(end, world.trace.hexdigest(), took_s, world.server.revision, died)


async def converged(world):
    """runtime:S-5 (a): when nothing goes wrong any more, every mirror shows the server."""
    ends_at = world.loop.time() + PAUSE_S
    while True:
        try:
            for replica in world.replicas:
                world.oracles.converged(replica)
        except AssertionError:
            if world.loop.time() >= ends_at:
                raise
            await asyncio.sleep(1)
        else:
            return


async def told(world):
    """Nothing that happened is left to be told."""
    ends_at = world.loop.time() + EVENTS_S
    while any(world.oracles.owes(replica) for replica in world.replicas):
        assert world.loop.time() < ends_at, "an Event is never told"
        await asyncio.sleep(1)


async def silence(world, quiet_s):
    """runtime:S-5 (f): nothing changes and nobody writes, the lease apart."""
    before = world.server.revision
    await asyncio.sleep(quiet_s)
    for name, table in world.server.world.storage.tables.items():
        new = [c.last.obj for c in table.changes if c.revision > before]
        assert not new or name.startswith("leases"), f"written in silence: {name} {new}"


@cache
def calm_end(name):
    """How a story ends on a calm day."""
    return play((SCENARIOS | MPI_SCENARIOS)[name], quiet_s=60.0).end
