# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the unit tests believe of Kubernetes is true of a real kube-apiserver."""

import os
import subprocess
import sys

import pytest

from hack.controlplane import ROOT


def test_every_belief_holds_on_a_real_server(plain):
    """A process of its own: the suite is the same, told by a variable which server to ask."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not long", "test/unit/contract"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "ASCENDOP_CONTRACT": str(plain.kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)
    assert " passed" in done.stdout.splitlines()[-1]
