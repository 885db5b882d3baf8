# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The flags of mpi-operator, as its Deployment has them."""

import asyncio
import sys
from random import SystemRandom  # noqa: TID251  of a server whose ids nobody looks at

import pytest

from ascendop import __version__
from ascendop.cli.main import main, parser
from ascendop.cli.mpi_operator import settings_of_peer
from ascendop.clock import wall
from ascendop.errors import UsageError
from ascendop.sim.http import serve
from ascendop.sim.server import ApiServer

from .test_wrong_input import kubeconfig  # noqa: TID252  test is in the standard library too


def settings(*flags, **env):
    args = parser().parse_args(["mpi-operator", *flags])
    return settings_of_peer(getattr(args, "said", None) or {}, env)


def test_c79_the_lease_is_the_original_s():
    """So that old and new exclude each other while one takes over from the other."""
    found = settings("--lock-namespace=kubeflow")
    assert (found.lease_name, found.lease_namespace) == ("mpi-operator", "kubeflow")
    assert (found.lease_s, found.renew_s, found.retry_s) == (15, 5, 3)
    assert found.leader_elect and settings().lease_namespace == "mpi-operator"
    assert found.health_listen == ":8080" and found.metrics_listen == ""


@pytest.mark.real_time
async def test_c80_a_cluster_without_mpijobs(tmp_path):
    server = ApiServer(wall=wall, rng=SystemRandom())
    async with serve(server) as address:
        file = kubeconfig(tmp_path, address.url)
        command = [sys.executable, "-m", "ascendop", "mpi-operator", f"--kubeConfig={file}"]
        ended = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, err = await ended.communicate()
    assert ended.returncode == 1
    assert "mpijobs.kubeflow.org" in err.decode()


def test_c81_both_spellings_and_both_ways_to_give_a_value():
    found = settings("-alsologtostderr", "--lock-namespace=kubeflow", "-v=4", "--threadiness", "8")
    assert (found.lease_namespace, found.log_level, found.workers) == ("kubeflow", "debug", 8)


def test_c82_the_environment_wins_over_the_flag():
    assert settings("--kubeConfig", "/a").kubeconfig == "/a"
    assert settings("--kubeConfig", "/a", KUBECONFIG="/b").kubeconfig == ""


def test_what_each_flag_means():
    found = settings(
        "-namespace=team", "-monitoring-port=8086", "-gang-scheduling", "volcano",
        "-kube-api-qps=50", "-kube-api-burst=100", "-controller-queue-rate-limit=7",
        "-controller-queue-burst=70", "-cluster-domain=corp.example", "-stderrthreshold=INFO",
    )  # fmt: skip
    assert found.namespaces == ("team",) and found.metrics_listen == ":8086"
    assert found.mpi_gang_scheduler == "volcano" and found.cluster_domain == "corp.example"
    assert (found.writes_per_s, found.writes_burst) == (50, 100)
    assert (found.retries_per_s, found.retries_burst) == (7, 70)
    assert found.kinds == ("MPIJob",)
    assert settings("-namespace=", KUBEFLOW_NAMESPACE="a").namespaces == ()
    assert settings(KUBEFLOW_NAMESPACE="a").namespaces == ("a",)


@pytest.mark.parametrize("flag", ["-threadiness=two", "-monitoring-port=x", "-master=https://a"])
def test_a_value_that_is_wrong_is_named(flag):
    with pytest.raises(UsageError, match=flag.partition("=")[0]):
        settings(flag)


def test_an_unknown_flag_is_an_error_of_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["mpi-operator", "-nonsense"])
    assert ended.value.code == 2
    assert "-nonsense" in capsys.readouterr().err


def test_the_version(capsys):
    assert main(["mpi-operator", "--version"]) == 0
    assert capsys.readouterr().out == f"API Version: v2\nVersion: {__version__}\n"
