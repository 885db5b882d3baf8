# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What stops the operator at its start is one sentence that says what to do, and a code."""

import subprocess
import sys

import pytest

from hack.controlplane import ControlPlane
from hack.operate import install_rights
from hack.process import free_ports

USAGE = 2
OUT_OF_REACH = 3


def run(*flags):
    """The operator, which is expected to end by itself: its exit code and last line."""
    quiet = ("--metrics-listen=", "--health-listen=", "--rank-table-dir=")
    command = [sys.executable, "-m", "ascendop", "run", *quiet, *flags]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip().splitlines()[-1]


@pytest.fixture
def bare(folder):
    """A control plane that nobody told of our kinds."""
    with ControlPlane(folder("bare"), crds=()) as plane:
        yield plane


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        pytest.param(["--workers=0"], "--workers", id="a number out of bounds"),
        pytest.param(["--lease-s=5", "--renew-s=9"], "renew_s", id="a lease shorter than renewal"),
        pytest.param(["--kubeconfig=nowhere"], "nowhere", id="a kubeconfig that is not there"),
        pytest.param(["--no-such-flag"], "--no-such-flag", id="a flag that is none"),
    ],
)
def test_wrong_settings_are_named(flags, names):
    code, said = run(*flags)
    assert code == USAGE
    assert names in said


def test_a_kind_that_is_none_is_named(plain):
    code, said = run(f"--kubeconfig={plain.kubeconfig}", "--kinds=NoJob")
    assert code == USAGE
    assert "NoJob" in said


def test_a_context_that_is_not_in_the_kubeconfig_is_named(plain):
    code, said = run(f"--kubeconfig={plain.kubeconfig}", "--context=elsewhere")
    assert code == USAGE
    assert "elsewhere" in said


def test_a_server_that_nobody_reaches_is_named(plain, tmp_path):
    (port,) = free_ports(1)
    text = plain.kubeconfig.read_text().replace(plain.server, f"https://127.0.0.1:{port}")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text)
    code, said = run(f"--kubeconfig={kubeconfig}", "--cache-sync-timeout-s=5")
    assert code == OUT_OF_REACH
    assert f"127.0.0.1:{port}" in said


def test_a_token_that_the_server_does_not_know_is_told(plain):
    kubeconfig = plain.kubeconfig_of("stranger", "not-a-token")
    code, said = run(f"--kubeconfig={kubeconfig}", "--cache-sync-timeout-s=5")
    assert code == OUT_OF_REACH
    assert "check token or certificate" in said


def test_missing_rights_are_named(plain, namespace):
    kubeconfig = plain.service_account(namespace(plain), "nobody")
    code, said = run(f"--kubeconfig={kubeconfig}", "--cache-sync-timeout-s=5")
    assert code == OUT_OF_REACH
    assert "list" in said


def test_missing_custom_resources_are_named(bare):
    kubeconfig = bare.service_account(*install_rights(bare))
    code, said = run(f"--kubeconfig={kubeconfig}", "--cache-sync-timeout-s=5")
    assert code == OUT_OF_REACH
    assert "ascendjobs.mindxdl.gitee.com" in said
