# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The benchmark still measures, at a size that says nothing about speed."""

import os
import re
import subprocess
import sys

import pytest

from hack.controlplane import ROOT


@pytest.mark.long
@pytest.mark.timeout(600)
def test_make_bench_measures_small_jobs_and_counts_one_write_for_each_object(tmp_path):
    small = {
        "BENCH_JOBS": "20",
        "BENCH_PODS": "50",
        "BENCH_RUNS": "1",
        "BENCH_FAILURES": "5",
        "BENCH_CACHED": "20000",
    }
    command = [sys.executable, "-m", "hack.bench", f"--dir={tmp_path}"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **small}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(
        r"20 AscendJobs x 5 pods: pods/s, beside raw *\| \d+ .*\| \d\.\d\d ", done.stdout
    )
    for row in (
        r"resident memory for each further pod, 1,000 to 11,000 cached *\| \d\.\d\d KB",
        r"a look at one 5-pod job, 20,000 pods cached, beside 1,000: CPU *\| \d+ µs",
        r"failed pod replaced, 5 jobs, 50 %: beside raw *\| \d+ ms",
        r"RankTable of 50 pods \(\d+ KB\), last annotation to written: .*\| \d+ ms",
        r"20 AscendJobs x 5 pods: status writes for each job until it runs *\| \d\.\d\d",
    ):
        assert re.search(row, done.stdout), done.stdout
    assert re.search(
        r"20 AscendJobs x 5 pods: writes in 30 s while .* nothing happens *\| 0 ", done.stdout
    )
    assert re.search(
        r"20 MPIJobs x 5 pods: writes in 30 s while .* nothing happens *\| 0 ", done.stdout
    )
    for verb, resource, count in (
        ("create", "pods", 100),
        ("create", "pods", 50),
        ("create", "services", 20),
        ("patch", "podgroups", 20),
        ("create", "secrets", 20),
        ("create", "jobs", 20),
        ("create", "pods", 80),
        ("create", "pods", 49),
    ):
        assert re.search(rf"\| {verb} *\| {resource} *\| {count} ", done.stdout), done.stdout
