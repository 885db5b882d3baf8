# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Flags of ascend-operator beside ours; ascendjob.md 9.1 and 12.7."""

import logging
from argparse import ArgumentParser

import pytest

from ascendop import __version__
from ascendop.cli import run
from ascendop.cli.flags import settings_of
from ascendop.cli.main import main
from ascendop.cli.parser import Parser
from ascendop.cli.peer_flags import peer_flags
from ascendop.errors import UsageError
from ascendop.settings import Settings, describe_settings

DEFAULTS = Settings()
SHIPPED = (
    "--enableGangScheduling=true",
    "--logFile=/var/log/mindx-dl/ascend-operator/ascend-operator.log",
    "--logLevel=0",
    "--kubeApiQps=800",
    "--kubeApiBurst=800",
    "--enable-healthz=true",
    "--healthz-address=11252",
)
"""Of the manifest that ascend-operator is delivered with, as far as it matters here."""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for setting in describe_settings():
        monkeypatch.delenv(setting.env, raising=False)


def parsed(*flags):
    parser: ArgumentParser = Parser()
    run.add_parser(parser.add_subparsers())
    return parser.parse_args(["run", *flags])


def settings(*flags):
    return settings_of(parsed(*flags))


def changed(*flags):
    """Settings that are not as they are by default."""
    found = settings(*flags).model_dump()
    return {name: value for name, value in found.items() if value != getattr(DEFAULTS, name)}


def test_the_flags_of_the_shipped_manifest_are_understood():
    assert changed(*SHIPPED) == {
        "log_file": "/var/log/mindx-dl/ascend-operator/ascend-operator.log",
        "writes_per_s": 800,
        "writes_burst": 800,
        "health_listen": ":11252",
    }
    assert peer_flags(parsed(*SHIPPED)).warnings == ()


@pytest.mark.parametrize(
    ("flags", "want"),
    [
        pytest.param(["-logLevel=-1"], {"log_level": "debug"}, id="one dash and an equals sign"),
        pytest.param(["-logLevel", "-1"], {"log_level": "debug"}, id="one dash and a space"),
        pytest.param(["--logLevel=1"], {"log_level": "warning"}, id="warning"),
        pytest.param(["--logLevel", "2"], {"log_level": "error"}, id="error"),
        pytest.param(["--logLevel=3"], {"log_level": "error"}, id="critical is error here"),
        pytest.param(["-logLevel=1", "-logLevel=2"], {"log_level": "error"}, id="the last counts"),
        pytest.param(["-maxAge=14"], {"log_max_age_days": 14}, id="two weeks of log"),
        pytest.param(["-maxBackups=5"], {"log_max_backups": 5}, id="five files of log"),
        pytest.param(["-isCompress"], {"log_compress": True}, id="a switch alone"),
        pytest.param(["-isCompress=T"], {"log_compress": True}, id="a switch in short"),
        pytest.param(
            ["-enableGangScheduling=false"], {"enable_gang_scheduling": False}, id="no gangs"
        ),
        pytest.param(["-enableGangScheduling=true"], {}, id="gangs"),
        pytest.param(["-kubeconfig=/k"], {"kubeconfig": "/k"}, id="one dash before our own name"),
        pytest.param(["-enable-healthz=false"], {"health_listen": ""}, id="no health"),
        pytest.param(["-enable-healthz"], {"health_listen": ":11251"}, id="their default port"),
        pytest.param(["-healthz-address=2000"], {"health_listen": ":2000"}, id="a port alone"),
        pytest.param(
            ["-enable-healthz=false", "-healthz-address=2000"],
            {"health_listen": ""},
            id="off whatever the port",
        ),
        pytest.param(
            ["-enable-healthz=true", "--health-listen=:9"],
            {"health_listen": ":9"},
            id="on at an address of ours",
        ),
        pytest.param(
            ["-tls-cert-file=/c", "--tls-private-key-file=/k"],
            {"tls_cert_file": "/c", "tls_private_key_file": "/k"},
            id="HTTPS",
        ),
    ],
)
def test_a_flag_becomes_the_setting_of_its_meaning(flags, want):
    assert changed(*flags) == want


def test_m1_rate_and_burst_out_of_bounds_are_their_defaults_with_a_warning():
    args = parsed("--kubeApiQps=0", "--kubeApiBurst=20000")
    found = settings_of(args)
    assert (found.writes_per_s, found.writes_burst) == (50, 100)
    assert peer_flags(args).warnings == (
        "-kubeApiQps=0: must be 1 to 10000; going on with 50, as ascend-operator does",
        "-kubeApiBurst=20000: must be 1 to 10000; going on with 100, as ascend-operator does",
    )
    most = settings("--kubeApiQps=10000", "--kubeApiBurst=10000")
    assert (most.writes_per_s, most.writes_burst) == (10000, 10000)


@pytest.mark.parametrize("port", ["80", "1024", "65536", "11252/tcp", ""])
def test_m3_a_health_port_that_may_not_be_stops_the_start(port):
    with pytest.raises(UsageError, match=r"-healthz-address=.*") as caught:
        settings("--enable-healthz=true", f"--healthz-address={port}")
    assert "\n" not in str(caught.value)


def test_m3_the_process_ends_with_the_code_of_wrong_flags(capsys):
    """The original ends with 0, which no supervisor takes for a failure."""
    assert main(["run", "--enable-healthz=true", "--healthz-address=80"]) == 2
    assert "must be a port from 1025 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        pytest.param(["-logLevel=4"], "-logLevel=4: must be -1 debug", id="no such level"),
        pytest.param(["-logLevel=info"], "-logLevel=info: is no whole number", id="a word"),
        pytest.param(["-maxAge=6"], "-maxAge=6: must be 7 to 700", id="too young"),
        pytest.param(["-maxBackups=181"], "-maxBackups=181: must be 1 to 180", id="too many"),
        pytest.param(["-isCompress=yes"], "neither true nor false", id="no Go boolean"),
        pytest.param(["-enable-healthz=on"], "neither true nor false", id="nor this"),
        pytest.param(["-logFile=a.log"], "must be an absolute path", id="a relative path"),
        pytest.param(["-logFile=/a/../b.log"], "must be an absolute path", id="a way up"),
        pytest.param(["-logFile=/a/./b.log"], "must be an absolute path", id="a way nowhere"),
        pytest.param(["-tls-cert-file=/c"], "give both, or neither", id="half a pair"),
        pytest.param(
            ["-logLevel=0", "--log-level=info"],
            "-logLevel and --log-level are one setting; write one of them",
            id="said twice",
        ),
        pytest.param(
            ["-enable-healthz=false", "--health-listen=:9"],
            "yet --health-listen names an address",
            id="off and on",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(flags, words):
    with pytest.raises(UsageError) as caught:
        settings(*flags)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_all_mistakes_are_told_at_once():
    with pytest.raises(UsageError) as caught:
        settings("-logLevel=9", "-maxAge=1")
    assert str(caught.value).count(";") == 1


@pytest.mark.parametrize("flag", ["-version", "--version", "-version=true"])
def test_the_version_is_printed_and_nothing_is_started(flag, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", flag])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"ascendop version: {__version__}\n"


def test_a_version_that_is_not_asked_for_changes_nothing(capsys):
    """ascendjob.md 9.1: the flag is a Go boolean, which a manifest may spell out."""
    assert changed("-version=false") == {}
    with pytest.raises(SystemExit) as caught:
        settings("-version=maybe")
    assert caught.value.code == 2
    assert "-version=maybe: is neither true nor false" in capsys.readouterr().err


def test_what_was_not_taken_as_written_is_a_line_in_the_log(monkeypatch, tmp_path):
    """And the log is where the flag says that it should be."""
    file = tmp_path / "logs" / "operator.log"
    root = logging.getLogger()
    before, level = root.handlers, root.level
    try:
        flags = [f"-logFile={file}", "-kubeApiQps=0", f"-kubeconfig={tmp_path}/nowhere"]
        assert main(["run", *flags]) == 2
    finally:
        for handler in set(root.handlers) - set(before):
            handler.close()
        root.handlers = before
        root.setLevel(level)
    assert "-kubeApiQps=0: must be 1 to 10000" in file.read_text()
