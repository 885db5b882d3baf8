# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A whole cluster and its operator in virtual time, from the command line to the exit code."""

import pytest
import yaml

from ascendop.cli import main

from .. import make  # noqa: TID252  the standard library has a package called test

EXAMPLES = ("ascendjob-allreduce.yaml", "pytorchjob-allreduce.yaml")


@pytest.fixture
def simulate(tmp_path, capsys):
    """Run the verb on jobs: exit code, and what was printed."""

    def run(*flags, jobs=None):
        file = tmp_path / "jobs.yaml"
        file.write_text(yaml.safe_dump_all(jobs or [make.job(Master=1, Worker=2)]))
        code = main.main(["simulate", str(file), *flags])
        return code, capsys.readouterr().out.splitlines()

    return run


def test_an_hour_passes_and_the_job_has_succeeded(simulate):
    code, said = simulate("--duration=1h")
    assert code == 0
    assert any("pod default/j-worker-1: Running" in line for line in said)
    assert said[-2].startswith("AscendJob default/j: Succeeded")
    assert 3600 <= int(said[-1].split()[0]) < 4000


def test_a_pod_that_fails_fails_the_job_which_is_told_by_the_exit_code(simulate):
    code, said = simulate("--fail=j-worker-0=1@10m")
    assert code == 5
    assert "exit code 1" in "\n".join(said) and said[-2].startswith("AscendJob default/j: Failed")


def test_what_has_not_ended_in_time_is_a_code_of_its_own(simulate):
    code, said = simulate("--duration=10h", "--until=2h")
    assert code == 6
    assert said[-2].startswith("AscendJob default/j: Running")


def test_a_gang_that_never_fits_waits_and_says_why(simulate):
    code, said = simulate("--nodes=1x8 910B", "--until=10m")
    assert code == 6
    assert any("gang" in line for line in said) and not any("Running" in line for line in said)


@pytest.mark.parametrize("flags", [(), ("--chaos=30", "--faults=0.2")], ids=["calm", "chaos"])
def test_the_same_seed_tells_the_same_story(simulate, flags):
    """runtime:S-7"""
    jobs = [make.job(name=f"j-{n}", policy={"backoffLimit": 3}) for n in range(3)]
    first = simulate("--seed=7", *flags, jobs=jobs)
    assert simulate("--seed=7", *flags, jobs=jobs) == first


def test_faults_on_the_wire_change_nothing_about_the_end(simulate):
    """runtime:S-4"""
    for seed in range(3):
        code, said = simulate("--faults=0.3", f"--seed={seed}")
        assert code == 0, said


def test_kinds_share_a_cluster(simulate):
    jobs = [make.job(name="a"), make.torch_job(name="p")]
    code, said = simulate(jobs=jobs)
    assert code == 0
    assert {line.split(":")[0] for line in said[-3:-1]} == {
        "AscendJob default/a",
        "PyTorchJob default/p",
    }


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--duration=soon", "--duration 'soon' is no duration"),
        ("--fail=j", "write POD=CODE"),
        ("--faults=1", "--faults 1"),
        ("--chaos=101", "--chaos 101"),
        ("--nodes=many", "many"),
    ],
)
def test_a_flag_that_makes_no_sense_is_one_sentence(simulate, capsys, flag, says, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make.job()))
    assert main.main(["simulate", str(file), flag]) == 2
    said = capsys.readouterr()
    assert says in said.err and said.err.count("\n") == 1 and said.out == ""
