# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The first signal asks for the end, the second is the end."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import ascendop
from ascendop.cli.run import _ended_first, _stop_on_signals

PACKAGE = Path(ascendop.__file__).parent
PROGRAM = """
import asyncio
from ascendop.cli.run import _stop_on_signals

async def main():
    with _stop_on_signals() as stop:
        print("ready", flush=True)
        await stop.wait()
        print("asked", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.real_time
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_sets_an_event_and_nothing_else(number):
    """runtime:O-1"""
    with _stop_on_signals() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5):
            await stop.wait()
    asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)]
)
def test_the_second_signal_ends_the_process_at_once(number, code):
    """runtime:O-1 field-reports:FR-084"""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(number)
        assert process.wait(10) == code


async def test_the_end_need_not_wait_for_a_server_that_hangs():
    """runtime:O-1"""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(1, stop.set)
    assert await _ended_first(stop, asyncio.sleep(3600))
    assert asyncio.get_running_loop().time() < 2


async def test_what_was_found_in_time_is_raised_and_what_was_fine_is_gone_on_from():
    async def fail():
        raise RuntimeError("no such server")

    with pytest.raises(ExceptionGroup, match="unhandled") as caught:
        await _ended_first(asyncio.Event(), fail())
    assert str(caught.value.exceptions[0]) == "no such server"
    assert not await _ended_first(asyncio.Event(), asyncio.sleep(1))


def test_only_the_verbs_that_stay_up_listen_to_signals():
    """runtime:O-1"""
    listen = {"add_signal_handler", "set_wakeup_fd"}
    found = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
        and (node.attr in listen or ast.unparse(node) == "signal.signal")
    }
    assert found == {"cli/run.py", "cli/local.py"}
