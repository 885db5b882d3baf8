# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The stories of MPIJobs in every weather, and killed at every write: no end differs.

MPI_SEEDS=7 python -m pytest test/unit/simulation/test_mpi_seeds.py        play one again
"""

import os

import pytest

from .ends import difference  # noqa: TID252  the standard library has a package called test
from .mpi_scenarios import MPI_SCENARIOS  # noqa: TID252  likewise
from .runs import calm_end, play  # noqa: TID252  likewise
from .test_crashes import deaths  # noqa: TID252  likewise
from .weather import cast_of, weather_of  # noqa: TID252  likewise

USUAL, LONG = range(70), range(70, 700)
NAMES = tuple(MPI_SCENARIOS)


def seeds():
    wanted = os.environ.get("MPI_SEEDS", "")
    if wanted:
        first, _, last = wanted.partition("-")
        yield from range(int(first), int(last or first) + 1)
        return
    yield from USUAL
    for seed in LONG:
        yield pytest.param(seed, marks=pytest.mark.long)


@pytest.mark.parametrize("seed", list(seeds()))
def test_no_weather_changes_the_end_of_an_mpijob(seed):
    """runtime:S-4, runtime:S-5, runtime:S-6"""
    name = NAMES[seed % len(NAMES)]
    try:
        run = play(MPI_SCENARIOS[name], seed, weather=weather_of(seed), **cast_of(seed))
        assert not difference(calm_end(name), run.end)
    except BaseException as error:
        again = f"MPI_SEEDS={seed} .venv/bin/python -m pytest {__file__}"
        error.add_note(f"{name}, seed {seed}; to play it again: {again}")
        raise


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_crash_at_any_write_changes_nothing_of_an_mpijob(name):
    """runtime:W-5, runtime:W-11"""
    wanted = calm_end(name)
    for when, run in deaths(name, before=True):
        assert not difference(wanted, run.end), when
