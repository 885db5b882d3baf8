# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Killed at every write, and in bad weather: no rank is given twice, and the table is the same."""

import asyncio
import json
from contextlib import asynccontextmanager
from random import Random  # noqa: TID251  seeded

import orjson
import pytest

from ascendop.kube.errors import TransportError
from ascendop.sim.answers import RefusedError

from . import make  # noqa: TID252  the standard library has a package called test
from .yard import Yard  # noqa: TID252  likewise

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SEEDS = range(20)


class Ranks:
    """Watches the server: no rank changes, and no two pods that are there have one."""

    def __init__(self, server):
        self.given = 0
        server.world.storage.listeners.append(self._changed)
        self._pods = {}

    def _changed(self, table, change):
        if table.name != "pods":
            return
        key = change.last.key
        if change.new is None:
            self._pods.pop(key, None)
            return
        meta = orjson.loads(change.new.body)["metadata"]
        rank = (meta.get("annotations") or {}).get(make.RANK)
        before = self._pods.get(key)
        assert before in {None, rank}, f"{key}: {before} became {rank}"
        if rank is not None and before is None:
            self.given += 1
            assert rank not in self._pods.values(), f"{key}: rank {rank} is given twice"
        if rank is not None:
            self._pods[key] = rank


class Killable:
    """An operator whose process ends at its nth write, and is started again a second later."""

    def __init__(self, yard, tasks, nth, *, after, weather=None, **settings):
        self.yard, self.tasks, self.nth, self.after = yard, tasks, nth, after
        self.weather, self.settings = weather, settings
        self.writes, self.died = 0, False
        self.stop = asyncio.Event()

    async def run(self):
        number = 0
        while not self.stop.is_set():
            number += 1
            operator = self.yard.operator(f"o{number}", **self.settings)
            wire = self.yard.wire
            wire.before += [self._before, *([self.weather.before] if self.weather else [])]
            wire.after += [self._after, *([self.weather.after] if self.weather else [])]
            self.life = self.tasks.create_task(operator.run(self.stop))
            await asyncio.wait({self.life})
            wire.before[:] = [gone]  # whatever it still does is heard by nobody
            await asyncio.sleep(1)

    def _counts(self, request):
        return request.method in WRITES and "/events" not in request.path

    async def _before(self, request):
        if self._counts(request):
            self.writes += 1
            if 0 < self.nth <= self.writes and not self.after and not self.died:
                await self._die()

    async def _after(self, request):
        late = 0 < self.nth <= self.writes  # of two that are on their way, either may be answered
        if self._counts(request) and late and self.after and not self.died:
            await self._die()

    async def _die(self):
        self.died = True
        self.life.cancel()
        raise TransportError("killed", sent=True)


async def gone(request):
    raise TransportError("the process has ended", sent=False)


class Weather:
    """Requests fail, or work and are not answered, until it is calm."""

    def __init__(self, seed):
        self.dice = Random(f"weather/{seed}")
        self.bad = True

    async def before(self, request):
        if self.bad and self.dice.random() < 0.15:
            await asyncio.sleep(self.dice.random())
            if self.dice.random() < 0.5:
                raise RefusedError(503, "ServiceUnavailable", "bad weather")
            raise TransportError("reset", sent=False)

    async def after(self, request):
        if self.bad and request.method in WRITES and self.dice.random() < 0.2:
            raise TransportError("no answer", sent=True)


@asynccontextmanager
async def town(tmp_path):
    yard = Yard()
    await yard.install()
    yield yard
    yard.server.close()


async def story(yard, folder, nth=0, *, after=False, weather=None, pause_s=3.0):
    """Four pods come, two go, two others come. Ranks and tables at the end, and whether it died."""
    watch = Ranks(yard.server)
    async with asyncio.TaskGroup() as tasks:
        operator = Killable(
            yard, tasks, nth, after=after, weather=weather, rank_table_dir=str(folder)
        )
        running = tasks.create_task(operator.run())
        serve = await yard.add(make.deployment(replicas=4, volume=True))
        for name in ("serve-a", "serve-b", "serve-c", "serve-d"):
            await yard.grow(serve, name)
        await yard.until_table("completed", within_s=400)
        await yard.lose("serve-b", "serve-c")
        await asyncio.sleep(pause_s)
        await yard.grow(serve, "serve-x")
        await yard.grow(serve, "serve-e")
        if weather:
            weather.bad = False

        async def right():
            file = folder / "default.serve" / "hccl.json"
            found = json.loads(file.read_text()) if file.exists() else {}
            there = {server["container_ip"] for server in found.get("server_list", ())}
            pods = (await yard.pods()).values()
            return await yard.table() == found and there == {p["status"]["podIP"] for p in pods}

        await yard.until(right, within_s=400)
        operator.stop.set()
        await asyncio.wait({running})
    assert watch.given == 6
    return (await yard.ranks(), await yard.table()), operator.died


@pytest.mark.parametrize("after", [False, True], ids=["before it works", "after it worked"])
async def test_a_crash_at_any_write_gives_the_same_ranks_and_the_same_table(tmp_path, after):
    async with town(tmp_path) as yard:
        wanted, died = await story(yard, tmp_path / "calm")
    assert not died and wanted[0] == {
        "serve-a": "0", "serve-d": "3", "serve-e": "1", "serve-x": "2",
    }  # fmt: skip
    for nth in range(1, 100):
        async with town(tmp_path) as yard:
            got, died = await story(yard, tmp_path / f"death-{nth}", nth, after=after)
        assert got == wanted, nth
        if not died:
            break
    assert nth > 8


@pytest.mark.parametrize("seed", SEEDS)
async def test_bad_weather_and_a_crash_give_no_rank_twice(tmp_path, seed):
    """Which of two pods gets which gap may differ; the ranks may not."""
    async with town(tmp_path) as yard:
        death = 1 + seed % 8
        (ranks, _), died = await story(
            yard, tmp_path / "x", death, after=bool(seed % 2), weather=Weather(seed)
        )
    assert died and sorted(ranks.values()) == ["0", "1", "2", "3"]
