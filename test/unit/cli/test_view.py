# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a person sees of jobs while they run."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from random import Random  # noqa: TID251  seeded

import pytest
from rich.console import Console

from ascendop.cli.files import Located
from ascendop.cli.house import House, JobState
from ascendop.cli.view import Lines, Screen, look_at, printable, verdict
from ascendop.clock import simulated
from ascendop.errors import UsageError
from ascendop.kube.resource import CONFIGMAPS, PODS
from ascendop.settings import Settings
from ascendop.sim.server import ApiServer

from .. import make  # noqa: TID252  the standard library has a package called test

SETTINGS = Settings(
    kinds=("AscendJob",), leader_elect=False, rank_table_dir="", enable_gang_scheduling=False
)


def state(state):
    return JobState("AscendJob", "ns", "j", state, "", "")


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([], 0),
        (["Succeeded", "Succeeded"], 0),
        (["Succeeded", "Running"], 6),
        (["Running", "Failed"], 5),
        ([""], 6),
    ],
)
def test_the_exit_code_is_that_of_the_worst_job(states, code):
    assert verdict(map(state, states)) == code


class Seen:
    """A house with an operator, and what was shown of it as lines."""

    def __init__(self, house, operator):
        self.house, self.operator = house, operator
        self.said = []
        self.lines = Lines(self.said.append, asyncio.get_running_loop().time)

    async def show(self):
        """What is new since the last time."""
        before = len(self.said)
        await asyncio.sleep(1)
        self.lines.show(await look_at(self.house, self.operator.mirror))
        return [line.split("s  ", 1)[1] for line in self.said[before:]]

    async def turn(self, name, **status):
        await self.house.client.patch(
            PODS, "default", name, {"status": status}, subresource="status"
        )


@asynccontextmanager
async def opened():
    wall = simulated(datetime(2026, 1, 1, tzinfo=UTC), asyncio.get_running_loop().time)
    server = ApiServer(wall=wall, rng=Random(1))
    house = House(server, rng=Random(2))
    async with house.operator(SETTINGS, wall) as operator:
        yield Seen(house, operator)
    server.close()


def located(obj):
    return Located(obj, "jobs.yaml", 1)


async def test_each_thing_that_changed_is_one_line_and_nothing_is_said_twice():
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        first = await seen.show()
        assert "AscendJob default/j: Created (JobCreated) Job j is create." in first
        assert "pod default/j-worker-0: Pending" in first
        assert await seen.show() == []
        waiting = {"name": "ascend", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        await seen.turn("j-worker-0", phase="Pending", containerStatuses=[_container(waiting)])
        assert await seen.show() == ["pod default/j-worker-0: Pending, ImagePullBackOff"]
        ended = {"name": "ascend", "state": {"terminated": {"exitCode": 3}}}
        await seen.turn("j-worker-0", phase="Failed", containerStatuses=[_container(ended)])
        assert "pod default/j-worker-0: Failed, exit code 3" in await seen.show()


async def test_the_state_of_the_rank_table_is_shown_once_there_is_one():
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        meta = {"name": "rings-config-j", "namespace": "default"}
        table = {"hccl.json": '{"status": "initializing"}'}
        await seen.house.client.create(CONFIGMAPS, {"metadata": meta, "data": table})
        assert "AscendJob default/j rank table: initializing" in await seen.show()


async def test_what_a_container_waits_for_is_said():
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        await seen.show()
        why = {"reason": "CreateContainerConfigError", "message": 'configmap "c" not found'}
        waiting = _container({"name": "ascend", "state": {"waiting": why}})
        await seen.turn("j-worker-0", phase="Pending", containerStatuses=[waiting])
        said = await seen.show()
    want = 'Pending, CreateContainerConfigError: configmap "c" not found'
    assert said == [f"pod default/j-worker-0: {want}"]


@pytest.mark.parametrize("text", ["no json", "[]", '{"status": 1}'])
async def test_whatever_a_user_keeps_where_a_rank_table_belongs_is_no_rank_table(text):
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        meta = {"name": "rings-config-j", "namespace": "default"}
        await seen.house.client.create(CONFIGMAPS, {"metadata": meta, "data": {"hccl.json": text}})
        look = await look_at(seen.house, seen.operator.mirror)
    assert list(look.tables.values()) == ["no rank table"]


def test_what_a_container_wrote_does_not_change_the_terminal():
    assert printable("a\x1b[31m\tb\r\n10%\r20%\x07") == "a\ufffd[31m\tb\n10%\n20%\ufffd"


async def test_brackets_in_a_message_are_shown_as_they_are():
    out = StringIO()
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        await asyncio.sleep(1)
        look = await look_at(seen.house, seen.operator.mirror)
        (job,) = look.jobs
        look.jobs = [replace(job, message="containers[ascend] [/x] is odd")]
        with Screen(Console(file=out, force_terminal=True, width=200)) as screen:
            screen.show(look)
    assert "containers[ascend] [/x] is odd" in out.getvalue()


async def test_on_a_terminal_it_is_a_table():
    out = StringIO()
    async with opened() as seen:
        await seen.house.apply([located(make.job())])
        await asyncio.sleep(1)
        with Screen(Console(file=out, force_terminal=True, width=200)) as screen:
            screen.show(await look_at(seen.house, seen.operator.mirror))
    for text in ("last reason", "AscendJob default/j", "j-worker-0 Pending", "JobCreated"):
        assert text in out.getvalue()


async def test_a_kind_that_is_not_served_is_named_with_its_place():
    odd = make.job() | {"apiVersion": "v9", "kind": "Thing"}
    async with opened() as seen:
        with pytest.raises(UsageError, match=r"jobs.yaml, document 1: v9 Thing is not served here"):
            await seen.house.apply([located(odd)])


def _container(found):
    return {"image": "i:1", "imageID": "", "ready": False, "restartCount": 0} | found
