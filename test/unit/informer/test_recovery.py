# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Troubles of a server that starts, and how soon it is asked again."""

import asyncio

from ascendop.informer.reflector import State
from ascendop.kube.errors import error_of


async def test_a_server_that_has_just_started_and_knows_no_rights_yet_is_asked_again_soon(
    source, pods, running
):
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.fail(error=error_of(403, b"{}"), times=2)
        source.cut()
        source.put("b")
        await asyncio.sleep(6)
        assert informer.store.get("ml", "b") is not None


async def test_a_right_that_was_never_there_is_asked_for_seldom_from_the_start(
    source, pods, running
):
    """runtime:I-25"""
    source.fail(error=error_of(403, b"{}"), times=1000)
    informer = pods(source)
    async with running(informer):
        await asyncio.sleep(20)
        assert informer.states() == [State.DENIED]
        assert len(source.asked) == 1
