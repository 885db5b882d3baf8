# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Of several errors one is what a person reads, and decides the exit code."""

import asyncio

import pytest

from ascendop.app.causes import primary
from ascendop.cli import main
from ascendop.errors import NotLeaderError, UsageError


async def fails(after_s, error):
    await asyncio.sleep(after_s)
    raise error


async def holds_out():
    """Takes its time to end, and fails at that."""
    try:
        await asyncio.sleep(100)
    finally:
        raise KeyError("late")


async def test_the_first_error_decides_and_the_others_are_notes_on_it():
    """runtime:P-4"""

    async def inner():
        async with asyncio.TaskGroup() as group:
            group.create_task(fails(2, ValueError("second")))
            group.create_task(fails(1, NotLeaderError("first")))
            group.create_task(holds_out())

    async def outer():
        async with asyncio.TaskGroup() as group:
            group.create_task(holds_out())
            group.create_task(inner())

    with pytest.raises(BaseExceptionGroup) as caught:
        await outer()
    error = primary(caught.value)
    assert isinstance(error, NotLeaderError)
    assert error.__notes__ == ["then KeyError: 'late'"] * 2


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([NotLeaderError("gone"), KeyError("late")], main.LEASE_LOST),
        ([ExceptionGroup("inner", [UsageError("no such kind")])], main.USAGE),
    ],
)
def test_the_exit_code_is_that_of_the_first(errors, code, capsys, monkeypatch):
    """runtime:P-4"""

    def run(_args):
        raise ExceptionGroup("several", errors)

    monkeypatch.setattr(main, "_version", run)
    assert main.main(["version"]) == code
    said = capsys.readouterr().err
    assert said.startswith("ascendop: ") and said.count("\n") == 1
