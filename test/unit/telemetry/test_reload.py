# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A settings file that changes while we run."""

import asyncio

import pytest

from ascendop.settings import load_settings, parse_file
from ascendop.telemetry.reload import SettingsFile


class Light:
    def __init__(self):
        self.seen = []

    def file_is_broken(self, *, broken):
        self.seen.append(broken)


def load(text):
    return load_settings({}, {}, parse_file(text))


class Following:
    """A file that is followed, and what came of its changes."""

    def __init__(self, path):
        self.path = path
        self.light = Light()
        self.changes = []

    async def after(self, *edits):
        text = self.path.read_text()
        file = SettingsFile(self.path, load(text), load=load, observer=self.light)
        async with asyncio.TaskGroup() as tasks:
            follow = tasks.create_task(file.follow(self.changes.append))
            await asyncio.sleep(11)
            for edit in edits:
                edit()
                await asyncio.sleep(11)
            follow.cancel()
        return self.changes


@pytest.fixture
def followed(tmp_path):
    path = tmp_path / "settings.yaml"
    path.write_text("workers: 4\n")
    return Following(path)


async def test_a_file_that_does_not_change_changes_nothing(followed):
    """runtime:O-11"""
    path = followed.path
    assert await followed.after(path.touch, lambda: path.write_text("workers: 4\n")) == []
    assert followed.light.seen == []


async def test_what_can_change_changes_and_the_rest_waits_for_a_restart(followed):
    """runtime:O-11"""
    text = "workers: 8\nlog_level: debug\nlease_s: 20\n"
    (now,) = await followed.after(lambda: followed.path.write_text(text))
    assert (now.workers, now.log_level, now.lease_s) == (8, "debug", 15)


async def test_a_config_map_that_swaps_its_symlink_is_seen_92(tmp_path):
    """runtime:O-11"""
    for name, workers in (("..one", 4), ("..two", 9)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.yaml").write_text(f"workers: {workers}\n")
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "settings.yaml").symlink_to("..data/settings.yaml")

    def swap():
        (tmp_path / "..next").symlink_to("..two")
        (tmp_path / "..next").rename(tmp_path / "..data")

    changes = await Following(tmp_path / "settings.yaml").after(swap)
    assert [settings.workers for settings in changes] == [9]


async def test_a_broken_file_keeps_the_old_settings_and_turns_a_light_red(followed):
    """runtime:O-11"""
    path = followed.path
    changes = await followed.after(
        lambda: path.write_text("workers: none at all\n"),
        path.unlink,
        lambda: path.write_text("workers: 5\n"),
    )
    assert [settings.workers for settings in changes] == [5]
    assert followed.light.seen == [True, True, False]


async def test_a_file_that_comes_back_as_it_was_is_no_change_but_is_well_again(followed):
    """runtime:O-11"""
    path = followed.path
    assert await followed.after(path.unlink, lambda: path.write_text("workers: 4\n")) == []
    assert followed.light.seen == [True, False]
