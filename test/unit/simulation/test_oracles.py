# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What an oracle says fails the run, also where an operator would take it for a bug of its own."""

import asyncio
from types import SimpleNamespace

import pytest

from ascendop.kube.resource import Key

from .oracles import Oracles  # noqa: TID252  the standard library has a package called test
from .world import World  # noqa: TID252  likewise

KEY = Key("AscendJob", "default", "j")


class Ears:
    """As much of a world as these oracles need."""

    def __init__(self):
        self.broken = []

    hearing = World.hearing
    check = World.check


class Controller:
    """Takes as long as it is let, and sees what it is shown."""

    def __init__(self, *versions):
        self._observer = self
        self._versions = iter(versions)
        self.may_end = asyncio.Event()

    async def reconcile(self, key):
        await self.may_end.wait()
        return key

    def snapshot(self, key):
        row = SimpleNamespace(name=key.name, uid="u", version=next(self._versions))
        return SimpleNamespace(row=row, pods=(), services=())


@pytest.fixture
def ears():
    return Ears()


def watched(ears, *versions):
    controller = Controller(*versions)
    mirror = SimpleNamespace(informers=())
    operator = SimpleNamespace(_controller=controller, mirror=mirror)
    Oracles(ears).born(SimpleNamespace(operator=operator))
    return controller


async def test_two_passes_over_one_job_at_once_are_heard(ears):
    """runtime:S-5"""
    controller = watched(ears)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(controller.reconcile(KEY))
        await asyncio.sleep(0)
        with pytest.raises(AssertionError):
            await controller.reconcile(KEY)
        controller.may_end.set()
    with pytest.raises(AssertionError, match="two passes"):
        ears.check()


async def test_passes_one_after_the_other_are_not(ears):
    controller = watched(ears)
    controller.may_end.set()
    for _ in range(2):
        assert await controller.reconcile(KEY) == KEY
    ears.check()


async def test_a_cache_that_goes_back_is_heard(ears):
    """runtime:S-5"""
    controller = watched(ears, "9", "10", "9")
    for _ in range(2):
        controller._observer.snapshot(KEY)
    ears.check()
    with pytest.raises(AssertionError):
        controller._observer.snapshot(KEY)
    with pytest.raises(AssertionError, match="newer before"):
        ears.check()
