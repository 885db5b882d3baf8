# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every story in every weather: the end is that of a calm day, and nothing was wrong on the way.

SEEDS=7 python -m pytest test/unit/simulation/test_seeds.py        play one again
make simulate-many SEEDS=5000-9999                                 any number
"""

import os

import pytest

from .ends import difference  # noqa: TID252  the standard library has a package called test
from .runs import calm_end, play  # noqa: TID252  likewise
from .scenarios import SCENARIOS  # noqa: TID252  likewise
from .weather import cast_of, weather_of  # noqa: TID252  likewise

USUAL, LONG = range(200), range(200, 2200)
FAILED = {
    397: "workers_come_and_go",
    415: "a_budget_of_two_is_spent",
    509: "workers_come_and_go",
    537: "workers_come_and_go",
    565: "workers_come_and_go",
    101: "workers_come_and_go",
    691: "a_job_is_suspended_and_resumed",
    120: "two_jobs_fit_one_at_a_time",
    100: "a_table_without_a_gang",
    107: "workers_come_and_go",
}
"""Have shown something: a pod of a scale-down that was charged as lost, a ghost of no object, a
PodGroup of yesterday, pods of before a suspension that were taken for those after it, a trouble
that was told after it was over, a first pod beside the table of the job that had the name before.
"""
NAMES = tuple(SCENARIOS)


def seeds():
    wanted = os.environ.get("SEEDS", "")
    if wanted:
        first, _, last = wanted.partition("-")
        yield from range(int(first), int(last or first) + 1)
        return
    for seed in sorted({*USUAL, *LONG, *FAILED}):
        short = seed in USUAL or seed in FAILED
        yield pytest.param(seed, marks=() if short else pytest.mark.long)


def story_of(seed):
    return FAILED.get(seed) or NAMES[seed % len(NAMES)]


@pytest.mark.parametrize("seed", list(seeds()))
def test_no_weather_changes_the_end(seed):
    """runtime:S-4, runtime:S-5, runtime:S-6, runtime:W-9, runtime:L-8, runtime:L-10"""
    name = story_of(seed)
    try:
        run = play(SCENARIOS[name], seed, weather=weather_of(seed), **cast_of(seed))
        assert not difference(calm_end(name), run.end)
    except BaseException as error:
        again = f"SEEDS={seed} .venv/bin/python -m pytest test/unit/simulation/test_seeds.py"
        error.add_note(f"{name}, seed {seed}; to play it again: {again}")
        raise


@pytest.mark.parametrize("seed", [3, 10, 17, 24])
def test_the_same_seed_is_the_same_run(seed):
    """runtime:S-7"""
    name = story_of(seed)
    one, two = (
        play(SCENARIOS[name], seed, weather=weather_of(seed), **cast_of(seed)) for _ in range(2)
    )
    assert one.trace == two.trace
    other = play(SCENARIOS[name], seed + 1000, weather=weather_of(seed), **cast_of(seed))
    assert one.trace != other.trace
