# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What goes wrong in one run: drawn from its seed, and not the same twice."""

import asyncio
from dataclasses import dataclass
from random import Random  # noqa: TID251  seeded

from ascendop.kube.errors import ConflictError, NotFoundError
from ascendop.kube.resource import CONFIGMAPS, POD_GROUPS, PODS, SERVICES, Resource
from ascendop.sim.faults import Plan

from .oracles import STRANGER  # noqa: TID252  the standard library has a package called test

PLANTED_ON = (
    Resource("mindxdl.gitee.com", "v1", "ascendjobs", "AscendJob"),
    Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
    POD_GROUPS,
    PODS,
    SERVICES,
    CONFIGMAPS,
)
CLOCK_S = 1500.0
"""How wrong a clock may be: turned from one side to the other it ends no wait of an hour."""
RIGHTS = (
    ("POST", "pods"),
    ("DELETE", "pods"),
    ("GET", "pods"),
    ("PATCH", "podgroups"),
    ("GET", "podgroups"),
    ("GET", "configmaps"),
    ("PATCH", "status"),
    ("PATCH", "ascendjobs"),
    ("POST", "events"),
    ("PUT", "leases"),
)
"""Method, and a part of the path that names a resource."""


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
    storms: tuple[str, ...] = ()
    """Accidents that last for a while; they come beside the others."""

    async def blow(self, world):
        """Until the world is calm."""
        loop, rng = asyncio.get_running_loop(), world.dice("weather")
        while world.weather is self:
            await asyncio.sleep(rng.expovariate(1 / self.accident_s))
            if loop.time() >= self.until_s:
                world.calm()
            if world.weather is self and self.accidents:
                self._happen(world, rng.choice(self.accidents), rng)
            if world.weather is self and self.storms:
                self._storm(world, world.storms.choice(self.storms), world.storms)

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
                replica.skew_s = rng.choice((0.0, CLOCK_S, -CLOCK_S))

    def _storm(self, world, accident, rng):
        replica = rng.choice(world.replicas)
        match accident:
            case "partition":  # of one replica: the other one, and people, still reach the server
                replica.wire.apart(rng.choice((1.0, 12.0, 40.0, 90.0)))
            case "rights":  # withdrawn, and given back after a while; of all replicas
                world.withdraw(rng.choice(RIGHTS), rng.choice((1.0, 20.0, 60.0)))
            case "rate":  # from now on its wall clock goes faster or slower than the others'
                replica.turn_clock(rng.choice((0.5, 0.9, 1.1, 2.0)))
            case "plant":  # somebody else writes keys of his own, on anything
                world.tasks.create_task(plant(world, rng), name="plant")


async def plant(world, rng):
    """A label and an annotation of a stranger's on one object: no write of ours may take them."""
    there = [(r, obj) for r in PLANTED_ON for obj in world.objects(r.name)]
    if not there:
        return
    resource, obj = rng.choice(there)
    meta, key = obj["metadata"], f"{STRANGER}/{resource.kind.lower()}-{rng.randrange(5)}"
    value = str(rng.randrange(1000))
    body = {"metadata": {"labels": {key: value}, "annotations": {key: value}}}
    body["metadata"]["uid"] = meta["uid"]
    try:
        await world.people.patch(resource, meta["namespace"], meta["name"], body)
    except (NotFoundError, ConflictError):
        return  # it has gone meanwhile


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
        storms=storms_of(seed),
    )


def storms_of(seed):
    """Half of the runs have none; drawn apart, so that older seeds still mean what they meant."""
    rng = Random(f"{seed}/storms")
    kinds = ("partition", "rights", "rate", "plant")
    return rng.choice(((), (), (), *((kind,) for kind in kinds), kinds))


def cast_of(seed):
    """Who plays: one replica without a lease for most seeds, two that contend for some."""
    if Random(f"{seed}/cast").random() < 0.25:
        settings = {"leader_elect": True}
        return {"replicas": ("a", "b"), "settings": settings, "quiet_s": 60.0}
    return {"quiet_s": 600.0}
