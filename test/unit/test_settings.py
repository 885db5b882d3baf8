# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every setting: flags before environment before file before defaults."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ascendop import settings
from ascendop.errors import UsageError
from ascendop.settings import (
    Settings,
    apply_changes,
    describe_settings,
    load_settings,
    parse_file,
    parse_listen,
)

ASCENDOP = Path(settings.__file__).parent


def test_nothing_given_means_the_defaults():
    got = load_settings({}, {"PATH": "/bin"})
    assert got == Settings()
    assert (got.lease_s, got.renew_s, got.retry_s, got.workers) == (15, 10, 2, 16)
    assert got.enable_gang_scheduling and got.rank_table_dir == "/user/mindx-dl/ranktable"


def test_flags_win_over_environment_and_environment_over_file():
    got = load_settings(
        {"workers": "3", "log_level": None},
        {"ASCENDOP_WORKERS": "4", "ASCENDOP_RETRY_S": "1.5"},
        parse_file("workers: 5\nretry_s: 1.1\nlog_level: debug\n"),
    )
    assert (got.workers, got.retry_s, got.log_level) == (3, 1.5, "debug")


def test_lists_are_written_with_commas_or_as_lists():
    flags = load_settings({"namespaces": "ml, team-a,"}, {})
    file = load_settings({}, {}, parse_file("namespaces: [ml, team-a]"))
    assert flags.namespaces == file.namespaces == ("ml", "team-a")


def test_switches_take_what_people_write():
    env = {"ASCENDOP_LEADER_ELECT": "false", "ASCENDOP_ENABLE_GANG_SCHEDULING": "0"}
    got = load_settings({"audit": True}, env)
    assert (got.leader_elect, got.enable_gang_scheduling, got.audit) == (False, False, True)


def test_all_mistakes_are_listed_at_once_each_where_it_was_written():
    """runtime:O-11"""
    with pytest.raises(UsageError) as caught:
        load_settings(
            {"workers": "0", "namespaces": "ml,Not_A_Label", "metrics_listen": "8080"},
            {"ASCENDOP_LEASE_S": "soon", "ASCENDOP_LOG_LEVEL": "loud"},
            parse_file("worker: 3"),
        )
    text = str(caught.value)
    assert "\n" not in text and text.count(";") == 5
    for piece in (
        "--workers=0: should be greater than or equal to 1",
        "--namespaces=Not_A_Label: must be a DNS label",
        "--metrics-listen=8080: must be host:port",
        "ASCENDOP_LEASE_S=soon: should be a valid number",
        "ASCENDOP_LOG_LEVEL=loud: should be 'debug', 'info', 'warning' or 'error'",
        "worker in the settings file: is not a setting",
    ):
        assert piece in text


def test_variables_that_kubernetes_makes_for_a_service_named_like_us_do_no_harm():
    """runtime:O-11: a Service named ascendop-metrics is ASCENDOP_METRICS_PORT in every pod."""
    made = {
        f"ASCENDOP_{service}{suffix}": "tcp://10.0.0.1:8080"
        for service in ("", "METRICS_", "HEALTH_", "CONTROLLER_", "WEBHOOK_")
        for suffix in ("SERVICE_HOST", "SERVICE_PORT", "PORT", "PORT_8080_TCP_ADDR")
    }
    assert load_settings({}, made) == Settings()


def test_lease_times_that_would_hang_are_refused():
    """runtime:O-11"""
    with pytest.raises(UsageError, match="lease_s must be above renew_s"):
        load_settings({"lease_s": "10", "renew_s": "10"}, {})
    with pytest.raises(UsageError, match=r"retry_s=9"):
        load_settings({"retry_s": "9"}, {})


def test_no_setting_is_without_effect():
    """A flag that nobody reads is a promise that nobody keeps."""
    read = "".join(
        file.read_text() for file in ASCENDOP.rglob("*.py") if file.name != "settings.py"
    )
    names = [setting.name for setting in describe_settings()]
    assert [name for name in names if not re.search(rf"(settings|\bs)\.{name}\b", read)] == []


def test_settings_do_not_change_and_take_no_strangers():
    """runtime:O-11"""
    with pytest.raises(ValidationError):
        Settings().workers = 3
    with pytest.raises(ValidationError):
        Settings(workerz=3)


@pytest.mark.parametrize("text", ["[1, 2]", "a string", "workers: [", "\t"])
def test_a_file_that_is_no_mapping_is_refused_with_one_sentence(text):
    with pytest.raises(UsageError, match="settings file") as caught:
        parse_file(text)
    assert "\n" not in str(caught.value)


def test_an_empty_file_says_nothing():
    assert parse_file("") == {} == parse_file("# nothing yet\n")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_an_address_is_host_and_port(text, want):
    assert parse_listen(text) == want


@pytest.mark.parametrize("text", ["8080", "::1:80", "host:", "host:65536", "a:b", "http://a:1"])
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match="host:port"):
        parse_listen(text)


def test_every_setting_has_a_sentence_a_flag_a_variable_and_a_default_that_reads_back():
    for setting in describe_settings():
        assert re.fullmatch(r"[A-Z].*\.", setting.sentence), setting
        assert setting.flag == "--" + setting.name.replace("_", "-")
        assert setting.env == f"ASCENDOP_{setting.name.upper()}"
        assert load_settings({}, {setting.env: setting.default}) == Settings(), setting
    by_name = {setting.name: setting for setting in describe_settings()}
    assert by_name["leader_elect"].is_switch and not by_name["workers"].is_switch
    assert by_name["log_format"].choices == ("auto", "json", "text")
    assert by_name["retry_s"].default == "2" and by_name["kinds"].default == ""


def test_no_name_is_one_that_kubernetes_gives_to_a_service():
    made = re.compile(r".*(_PORT|_SERVICE_HOST|_PORT_.*)")
    assert [s.env for s in describe_settings() if made.fullmatch(s.env)] == []


def test_every_number_of_time_says_its_unit():
    """runtime:O-11"""
    unitless = {"workers", "retries_burst", "writes_burst", "writes_at_once", "log_max_backups"}
    numbers = {
        name
        for name, field in Settings.model_fields.items()
        if field.annotation in {int, float} and not name.endswith(("_s", "_h", "_per_s", "_days"))
    }
    assert numbers == unitless


def test_a_changed_file_takes_effect_where_it_can_and_says_what_needs_a_restart():
    """runtime:O-11"""
    old = Settings()
    new = Settings(workers=4, log_level="debug", lease_s=20, kinds=("AscendJob",))
    now, later = apply_changes(old, new)
    assert now == Settings(workers=4, log_level="debug")
    assert set(later) == {"lease_s", "kinds"}
    assert apply_changes(old, old) == (old, ())


@given(st.dictionaries(st.sampled_from(list(Settings.model_fields)), st.text(max_size=12)))
def test_whatever_is_written_there_are_settings_or_one_sentence(flags):
    with suppress(UsageError):
        assert isinstance(load_settings(flags, {}), Settings)
