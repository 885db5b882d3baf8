# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Events with keys, one line each."""

import io
import json
import logging
import subprocess
import sys

import pytest

from ascendop.kube.errors import BusyError
from ascendop.telemetry.log import bound, configure, get_log, set_level

log = get_log("ascendop.test")


@pytest.fixture
def written():
    """What was written so far, as text."""
    root, ours = logging.getLogger(), logging.getLogger("ascendop")
    before = root.handlers, root.level, ours.level
    stream = io.StringIO()
    configure("debug", "json", stream)
    yield stream.getvalue
    root.handlers = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_line_is_an_event_with_keys_in_json(written):
    """runtime:O-7"""
    log.info("reconciled", verdict="Restarting", deleted=4, took_s=0.012, key=("a", 1))
    (line,) = lines(written())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "info",
        "msg": "reconciled",
        "logger": "ascendop.test",
        "verdict": "Restarting",
        "deleted": 4,
        "took_s": 0.012,
        "key": ["a", 1],
    }


def test_libraries_below_log_the_context_without_passing_loggers(written):
    """runtime:O-7"""
    with bound(kind="AscendJob", job="ml/a"), bound(reconcile="r1"):
        logging.getLogger("a.library").warning("heard %s", "nothing")
        log.debug("looked", job="ml/b")
    log.info("after")
    first, second, third = lines(written())
    assert (first["msg"], first["job"], first["reconcile"]) == ("heard nothing", "ml/a", "r1")
    assert second["job"] == "ml/b", "the line knows better"
    assert "job" not in third


def test_an_error_carries_its_traceback_and_the_servers_audit_id(written):
    """runtime:O-7"""
    try:
        break_with(BusyError(503, "later", audit_id="abc"))
    except BusyError:
        log.exception("bug")
    (line,) = lines(written())
    assert line["level"] == "error" and line["audit_id"] == "abc"
    assert "BusyError: later" in line["err"]


def test_a_level_that_is_off_is_off_and_may_be_turned_on_while_running(written):
    set_level("warning")
    log.info("quiet")
    set_level("info")
    log.info("heard")
    assert [line["msg"] for line in lines(written())] == ["heard"]
    assert not log.enabled(logging.DEBUG)


def break_with(error):
    raise error


def fail(name, error=ValueError):
    try:
        break_with(error(name))
    except error:
        log.exception("bug", job=name)


def test_the_same_error_of_the_same_place_is_written_once_a_minute_with_a_count(
    written, monkeypatch
):
    """runtime:O-8 field-reports:FR-102"""
    now = 1_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    monkeypatch.setattr("time.time_ns", lambda: int(now * 1e9), raising=False)
    for _ in range(30):
        fail("ml/a")
        now += 1
    fail("ml/b")
    fail("ml/a", KeyError)
    assert [(line["job"], line.get("repeated")) for line in lines(written())] == [
        ("ml/a", None),
        ("ml/b", None),
        ("ml/a", None),
    ]
    now += 31
    fail("ml/a")
    assert lines(written())[-1]["repeated"] == 29


def test_two_texts_of_the_server_are_two_lines(written):
    for text in ("unknown field", "deprecated", "unknown field"):
        log.warning("the API server warns", text=text)
    assert [line["text"] for line in lines(written())] == ["unknown field", "deprecated"]


def test_information_is_never_held_back(written):
    """runtime:O-8"""
    for _ in range(3):
        log.info("reconciled")
    assert len(lines(written())) == 3


def test_a_person_gets_text(written):
    stream = io.StringIO()
    configure("info", "text", stream)
    log.warning("lease not renewed", error="no answer in time", left_s=3)
    line = stream.getvalue().split(" ", 1)[1]
    assert line == 'WARNING lease not renewed error="no answer in time" left_s=3\n'


def test_auto_means_json_when_nobody_watches(written):
    stream = io.StringIO()
    configure("info", "auto", stream)
    log.info("started")
    assert json.loads(stream.getvalue())["msg"] == "started"


@pytest.mark.real_time
def test_importing_and_using_the_package_prints_nothing_by_itself():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from ascendop.telemetry.log import get_log; get_log('ascendop.x').error('bug')",
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
