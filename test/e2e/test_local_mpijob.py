# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The example MPIJob as processes of this machine, with a real mpirun from its wheel."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from ascendop.sim.remote_shell import SSH, SSHD, has_sshd

ROOT = Path(__file__).parents[2]
RANK = re.compile(r"rank (\d) of 6 on (\S+): 0\.52359\d+")
SPREAD = [(rank, f"pi-worker-{rank // 2}") for rank in range(6)]
HERE = [(rank, os.uname().nodename) for rank in range(6)]
LIMIT_S = 240

pytestmark = pytest.mark.long


def run(*words, **env):
    """What it said; it has to end well."""
    done = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def quietly(*words, cwd):
    subprocess.run(words, cwd=cwd, capture_output=True, check=True)


def check(said, hosts):
    assert sorted((int(rank), host) for rank, host in RANK.findall(said)) == hosts
    assert "pi is about 3.141592654, from 6 ranks" in said
    assert "MPIJob default/pi: Succeeded" in said


def test_each_rank_runs_on_its_worker(tmp_path):
    said = run("hack/demo.sh", "mpi", TMPDIR=str(tmp_path))
    check(said, SPREAD)
    assert ("Accepted publickey" in said) == (has_sshd() and os.geteuid() == 0)


def test_the_demo_takes_an_mpirun_that_it_finds(tmp_path):
    said = run("hack/demo.sh", TMPDIR=str(tmp_path))
    check(said, SPREAD)
    assert "rank 1 of 3: 10 -> sum 111, rank table agrees" in said


def test_without_namespaces_too(tmp_path):
    """All ranks call this machine their host then."""
    tools = tmp_path / "tools"  # all but those that make namespaces
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name not in {"unshare", "nsenter"} and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    said = run("hack/demo.sh", "mpi", TMPDIR=str(tmp_path), PATH=str(tools))
    check(said, HERE)


@pytest.mark.skipif(os.geteuid() != 0, reason="sshd needs root")
@pytest.mark.skipif(has_sshd(), reason="the others have used it already")
def test_where_there_is_an_sshd_it_is_used(tmp_path):
    """It is laid over /usr, for this test alone."""
    over = tmp_path / "over"
    packages = ("openssh-server", "openssh-client", "libwrap0")
    try:
        quietly("apt-get", "download", *packages, cwd=tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no sshd is to be had here: {error}")
    for package in tmp_path.glob("*.deb"):
        quietly("dpkg-deb", "-x", str(package), str(over), cwd=tmp_path)
    passwd = tmp_path / "passwd"
    known = Path("/etc/passwd").read_text()
    passwd.write_text(known + "sshd:x:105:65534::/run/sshd:/usr/sbin/nologin\n")
    script = f"""
    set -e
    mount -t tmpfs tmpfs {over}/var
    mkdir {over}/var/upper {over}/var/work
    cp -a {over}/lib/. {over}/usr/lib/ 2>/dev/null || :
    layers=upperdir={over}/var/upper,workdir={over}/var/work
    mount -t overlay overlay -o "lowerdir={over}/usr:/usr,$layers" /usr
    mount --bind {passwd} /etc/passwd
    test -x {SSHD} && test -x {SSH}
    exec hack/demo.sh mpi
    """
    said = run("unshare", "--mount", "sh", "-c", script, TMPDIR=str(tmp_path))
    check(said, SPREAD)
    assert said.count("Accepted publickey for root") == 3
