# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A settings file that is followed while the operator runs."""

import asyncio
import logging
from argparse import ArgumentParser
from functools import partial

import pytest

from ascendop.cli import run
from ascendop.cli.flags import settings_of, settings_over
from ascendop.kube.limiter import WriteLimiter

from ..town import Town  # noqa: TID252  the standard library has a package called test


@pytest.fixture
async def town():
    town = Town()
    await town.install()
    yield town
    town.server.close()


@pytest.fixture(autouse=True)
def _log_level():
    log = logging.getLogger("ascendop")
    before = log.level
    yield
    log.setLevel(before)


def arguments(*flags):
    parser = ArgumentParser()
    run.add_parser(parser.add_subparsers())
    return parser.parse_args(["run", *map(str, flags)])


async def test_what_changes_in_the_file_takes_effect_and_a_flag_stays_above_it(town, tmp_path):
    """runtime:O-11"""
    path = tmp_path / "settings.yaml"
    path.write_text("workers: 4\n")
    args = arguments("--config", path, "--retry-limit-s", "7")
    given = run._Given(settings_of(args), path, partial(settings_over, args))
    operator, limiter = town.operator(), WriteLimiter()
    async with town.running(operator), asyncio.TaskGroup() as group:
        following = group.create_task(run._follow(given, operator, limiter))
        await asyncio.sleep(11)
        path.write_text("workers: 2\nlog_level: warning\nwrites_per_s: 9\nretry_limit_s: 99\n")
        await asyncio.sleep(11)
        assert len(operator._workers) == 2
        assert operator.queue._limiter.backoff.limit_s == 7
        assert limiter.ceiling_per_s == 9
        assert logging.getLogger("ascendop").level == logging.WARNING
        following.cancel()
    metrics = operator.metrics.render("")[1].decode()
    assert 'controller_runtime_max_concurrent_reconciles{controller="jobs"} 2.0' in metrics


async def test_without_a_file_there_is_nothing_to_follow(town):
    args = arguments()
    given = run._Given(settings_of(args), None, partial(settings_over, args))
    await run._follow(given, town.operator(), WriteLimiter())
