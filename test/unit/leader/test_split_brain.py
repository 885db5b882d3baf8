# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Three replicas, and hours of everything that can go wrong; never two that may write."""

import asyncio

import pytest

from .cluster import (  # noqa: TID252  the standard library has a package called test
    Leases,
    Replica,
    freeze_paused_replicas,
    rng,
)

SKEWS = {"exact clocks": (1.0, 1.0, 1.0), "clocks 15 % off": (0.85, 1.0, 1.15)}


class Trouble:
    """Everything that section 4.4 names, one at a time and all at once, then two quiet minutes."""

    def __init__(self, server, replicas, dice):
        self.server = server
        self.replicas = replicas
        self.dice = dice
        self.loop = asyncio.get_running_loop()

    async def storm(self, seconds):
        until = self.loop.time() + seconds
        while self.loop.time() < until:
            await asyncio.sleep(self.dice.expovariate(1 / 6))
            self.dice.choice(
                [
                    self.partition,
                    self.partition,
                    self.deafness,
                    self.slowness,
                    self.conflicts,
                    self.pause,
                    self.blindness,
                    self.edit,
                    self.delete,
                    self.relabel,
                ]
            )(self.dice.choice(self.replicas))

    async def heal(self):
        """All is well from now on; who is paused runs again."""
        for one in self.replicas:
            await asyncio.sleep(max(0.0, one.paused_until - self.loop.time()))
        for one in self.replicas:
            one.network.requests_lost = one.network.answers_lost = one.network.hangs = False
            one.network.latency_s = (0.001, 0.02)
            one.network.conflicts = 0.0
            one.network.watches = True

    def _for_a_while(self, mean_s, undo):
        self.loop.call_later(self.dice.expovariate(1 / mean_s), undo)

    def partition(self, one):
        one.network.requests_lost, one.network.hangs = True, self.dice.random() < 0.5
        self._for_a_while(20, lambda: setattr(one.network, "requests_lost", False))

    def deafness(self, one):
        one.network.answers_lost, one.network.hangs = True, self.dice.random() < 0.5
        self._for_a_while(20, lambda: setattr(one.network, "answers_lost", False))

    def slowness(self, one):
        one.network.latency_s = (0.5, self.dice.uniform(1, 6))
        self._for_a_while(15, lambda: setattr(one.network, "latency_s", (0.001, 0.02)))

    def conflicts(self, one):
        one.network.conflicts = 0.7
        self._for_a_while(15, lambda: setattr(one.network, "conflicts", 0.0))

    def pause(self, one):
        one.paused_until = self.loop.time() + self.dice.uniform(1, 40)

    def blindness(self, one):
        one.network.watches = False
        self._for_a_while(30, lambda: setattr(one.network, "watches", True))

    def edit(self, one):
        if self.server.lease is not None:
            self.server.edit(**self._edit_of(one))

    def _edit_of(self, one):
        return [
            {"holderIdentity": one.elector.identity},
            {"holderIdentity": ""},
            {"holderIdentity": "a person"},
            {"leaseDurationSeconds": self.dice.choice([15, 30])},
            {"renewTime": "2001-01-01T00:00:00.000000Z"},
        ][self.dice.randrange(5)]

    def delete(self, one):
        # Once the record is gone, only memory protects its holder. A replica that has never seen
        # this holder takes the lease at once, and then the harmlessness of late writes protects us.
        if all(self.server.is_held_by(each.elector.holder) for each in self.replicas):
            self.server.delete()

    def relabel(self, one):
        if self.server.lease is not None:
            self.server.label()


@pytest.mark.parametrize("skew", SKEWS)
@pytest.mark.parametrize("seed", range(4))
async def test_two_replicas_never_may_write_at_the_same_instant(seed, skew):
    """runtime:L-1 runtime:L-3 runtime:L-5 runtime:L-8: and there is a leader again in D + 3 s."""
    loop = asyncio.get_running_loop()
    freeze_paused_replicas(loop)
    server = Leases()
    replicas = [
        Replica(server, name, rng=rng(f"{seed}{name}"), rate=rate)
        for name, rate in zip("abc", SKEWS[skew], strict=True)
    ]
    reigns = []
    trouble = Trouble(server, replicas, rng(seed))

    async with asyncio.TaskGroup() as tasks:
        for one in replicas:
            one.start(tasks)
        await asyncio.sleep(3)
        eye = tasks.create_task(watch_over(replicas, reigns))
        for _ in range(4):
            await trouble.storm(300)
            await trouble.heal()
            believed_s = max(one.elector._sight.held_until for one in replicas) - loop.time()
            slowest_s = max(one.times.lease_s for one in replicas)
            await asyncio.sleep(max(slowest_s, believed_s) + 3)
            assert sum(one.gate_open for one in replicas) == 1
        eye.cancel()
        for one in replicas:
            one.stop.set()
    assert [at for at, leaders in reigns if len(leaders) > 1] == []
    assert len({leaders for _, leaders in reigns}) > 4, "the trouble was none"


async def watch_over(replicas, reigns):
    """Note who may write, twenty times a second."""
    while True:
        await asyncio.sleep(0.05)
        leaders = tuple(one.elector.identity for one in replicas if one.gate_open)
        reigns.append((asyncio.get_running_loop().time(), leaders))
