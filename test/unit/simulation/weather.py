# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong in one run: drawn from its seed, and not the same twice."""

import asyncio
from dataclasses import dataclass
from random import Random  # noqa: TID251  seeded

from ascendop.sim.faults import Plan


@dataclass(frozen=True)
class Weather:
    """Bad luck on the operators' wires, and accidents of their processes and of the server."""

    plan: Plan
    late: float
    """Share of writes that arrive after their client has given up."""
    accident_s: float
    """Between two accidents, on average."""
    accidents: tuple[str, ...]
    until_s: float
    """The sky clears by itself: a story has to come to its end."""

    async def blow(self, world):
        """Until the world is calm."""
        loop, rng = asyncio.get_running_loop(), world.dice("weather")
        while world.weather is self:
            await asyncio.sleep(rng.expovariate(1 / self.accident_s))
            if loop.time() >= self.until_s:
                world.calm()
            if world.weather is self and self.accidents:
                self._happen(world, rng.choice(self.accidents), rng)

    def _happen(self, world, accident, rng):
        replica = rng.choice(world.replicas)
        match accident:
            case "kill":
                replica.kill()
            case "cut":
                world.server.cut_watches()
            case "forget":
                world.server.compact()
            case "stall":  # the machine stands still; everybody's timers ring late
                world.loop._jumping.now_s += rng.choice((1.0, 8.0, 30.0))
            case "clock":
                replica.skew_s = rng.choice((0.0, 3600.0, -3600.0))


def weather_of(seed):
    """Most runs have a little of everything; some are calm in some respect, some are wild."""
    rng = Random(f"{seed}/weather")
    share = rng.choice((0.0, 0.02, 0.05, 0.1))
    part = share / 5
    accident_s, until_s = rng.choice(((2.0, 30.0), (5.0, 60.0), (30.0, 300.0)))
    return Weather(
        plan=Plan(
            refuse=part,
            reset_before=part,
            reset_after=rng.choice((part, 0.1)),
            hang=part / 2,
            status={429: part / 2, 500: part / 2, 503: part / 2, 504: part / 2},
            delay_s=rng.choice((0.0, 0.05, 2.0)),
            cut=part,
            split=0.2,
            truncate=part,
            lag_s=rng.choice((0.0, 0.1, 1.0, 5.0)),
        ),
        late=rng.choice((0.0, 0.0, 0.05)),
        accident_s=accident_s,
        accidents=rng.choice(
            (
                (),
                ("kill",),
                ("cut", "forget"),
                ("kill", "cut", "forget", "clock", "stall"),
                ("stall",),
            )
        ),
        until_s=until_s,
    )


def cast_of(seed):
    """Who plays: one replica without a lease for most seeds, two that contend for some."""
    if Random(f"{seed}/cast").random() < 0.25:
        settings = {"leader_elect": True}
        return {"replicas": ("a", "b"), "settings": settings, "quiet_s": 60.0}
    return {"quiet_s": 600.0}
