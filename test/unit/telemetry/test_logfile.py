# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A log in a file: put aside when it is full, and not kept for ever. ascendjob.md 9.1."""

import gzip
import logging
import re
from datetime import UTC, datetime, timedelta

import pytest

from ascendop.errors import UsageError
from ascendop.telemetry.logfile import MAX_BYTES, Keeping, LogFile, tidy

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "ascendop.log"


@pytest.fixture
def opened():
    """Open log files that are closed with the test."""
    made = []

    def open_(path, *, max_bytes=100, **keeping):
        made.append(LogFile(path, Keeping(**keeping), max_bytes=max_bytes, now=lambda: NOW))
        return made[-1]

    yield open_
    for file in made:
        file.close()


def line(text, at=0.0):
    record = logging.LogRecord("ascendop.x", logging.INFO, "x.py", 1, text, None, None)
    record.created = NOW.timestamp() + at
    return record


def aside(path):
    return sorted(found for found in path.parent.iterdir() if found != path)


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_full_file_is_put_aside_under_the_time_and_becomes_read_only(path, opened):
    log = opened(path)
    log.emit(line("a" * 60))
    log.emit(line("b" * 60, at=1.402))
    assert path.read_text() == "b" * 60 + "\n"
    (old,) = aside(path)
    assert old.name == "ascendop-2026-03-01T00-00-01.402.log"
    assert old.read_text() == "a" * 60 + "\n"
    assert (mode(path.parent), mode(path), mode(old)) == (0o750, 0o640, 0o400)


def test_a_file_holds_twenty_megabytes():
    assert MAX_BYTES == 20 * 1024 * 1024


def test_a_line_is_written_whole_however_long_it_is(path, opened):
    """ascendjob:W-50: the original cuts at 256 characters."""
    opened(path).emit(line("x" * 5000))
    assert path.read_text() == "x" * 5000 + "\n"


def test_a_restart_goes_on_in_the_same_file(path, opened):
    opened(path).emit(line("before"))
    opened(path).emit(line("after"))
    assert path.read_text() == "before\nafter\n"


def put_aside(path, count):
    """Files of so many days, the newest first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = []
    for days in range(count):
        stamp = (NOW - timedelta(days=days)).strftime("%Y-%m-%dT%H-%M-%S.000")
        made.append(path.with_name(f"ascendop-{stamp}.log"))
        made[-1].write_text(f"{days} days old")
    return made


def test_no_more_files_are_kept_than_wanted_and_none_that_is_too_old(path):
    files = put_aside(path, 12)
    theirs = path.with_name("ascendop-notes.txt")
    theirs.write_text("of somebody else")
    tidy(path, Keeping(max_age_days=7, max_backups=30), NOW)
    assert aside(path) == sorted([*files[:8], theirs])
    tidy(path, Keeping(max_age_days=7, max_backups=3), NOW)
    assert aside(path) == sorted([*files[:3], theirs])


def test_what_was_put_aside_is_compressed_where_that_is_wanted(path):
    (newest, old) = put_aside(path, 2)
    tidy(path, Keeping(compress=True), NOW)
    packed = [file.with_name(f"{file.name}.gz") for file in (old, newest)]
    assert aside(path) == packed
    assert gzip.decompress(packed[1].read_bytes()) == b"0 days old"
    assert mode(packed[0]) == 0o400
    tidy(path, Keeping(compress=True, max_backups=1), NOW)
    assert aside(path) == packed[1:]


def test_a_log_that_fills_up_ten_times_keeps_what_it_should(path, opened):
    log = opened(path, max_backups=3)
    for nth in range(10):
        # As far in the future as it takes that none is too old.
        log.emit(line(f"{nth} {'x' * 70}", at=10 * 365 * 86400 + nth))
    log.close()
    tidy(path, Keeping(max_backups=3), NOW + timedelta(days=10 * 365))
    assert [re.match(r"\d", file.read_text()).group() for file in aside(path)] == ["6", "7", "8"]


def test_a_link_in_the_place_of_the_file_is_not_followed(path, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("theirs")
    path.parent.mkdir()
    path.symlink_to(precious)
    with pytest.raises(UsageError, match="cannot write the log file"):
        LogFile(path, Keeping())
    assert precious.read_text() == "theirs"


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "logs").write_text("in the way")
    with pytest.raises(UsageError, match=r"cannot write the log file .*--log-file"):
        LogFile(tmp_path / "logs" / "x.log", Keeping())


def test_lines_that_found_no_room_are_counted_and_nothing_else_stops(path, opened, monkeypatch):
    log = opened(path)
    with monkeypatch.context() as full:

        def fail(_file, _data):
            raise OSError(28, "No space left on device")

        full.setattr("os.write", fail)
        log.emit(line("lost"))
        log.emit(line("lost, too"))
    log.emit(line("there"))
    assert path.read_text() == '{"level":"warning","msg":"lost","lines":2}\nthere\n'
