# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Killed at every write of a story, and started again: the end is the same as without."""

import pytest

from .ends import difference  # noqa: TID252  the standard library has a package called test
from .mpi_scenarios import MPI_SCENARIOS  # noqa: TID252  likewise
from .runs import calm_end, play  # noqa: TID252  likewise
from .scenarios import SCENARIOS  # noqa: TID252  likewise
from .wire import Death  # noqa: TID252  likewise

STORIES = SCENARIOS | MPI_SCENARIOS
pytestmark = pytest.mark.timeout(900)  # a story is played some eighty times
ALWAYS = (
    "a_gang_waits_for_room",
    "mindspore_loses_a_pod",
    "workers_come_and_go",
    "a_budget_of_two_is_spent",
    "a_sick_pod_is_switched",
)
"""The others are in make test-long: every story is some forty runs."""


def stories():
    for name in SCENARIOS:
        yield pytest.param(name, marks=() if name in ALWAYS else pytest.mark.long)


def deaths(name, *, before):
    """Runs that end at one write each, until one comes to its end without dying."""
    nth = 1
    while True:
        for after in (False, True) if before or nth == 1 else (True,):
            run = play(STORIES[name], quiet_s=60.0, death=Death(nth, after))
            if not run.died:
                return
            yield f"{'after' if after else 'before'} write {nth}", run
        nth += 1


@pytest.mark.parametrize("name", list(stories()))
def test_a_crash_at_any_write_changes_nothing(name):
    """scheduling:P18 runtime:W-5, runtime:W-21, runtime:W-11

    A process that dies before its nth write leaves what one that died after the write before it
    leaves; so only the moments after are tried here.
    """
    wanted = calm_end(name)
    for when, run in deaths(name, before=False):
        assert not difference(wanted, run.end), when


@pytest.mark.long
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_crash_before_any_write_changes_nothing(name):
    """As above; what the process had heard until then may differ."""
    wanted = calm_end(name)
    for when, run in deaths(name, before=True):
        assert not difference(wanted, run.end), when
