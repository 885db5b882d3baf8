# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How the launcher of an MPIJob starts something in the pods of its workers, without an sshd."""

import asyncio
import json
import os

import pytest

from ascendop.sim.launch_agent import port_of
from ascendop.sim.launch_client import Call
from ascendop.sim.remote_shell import RemoteShell
from test.unit.sim.driver import HAS, best_place, driver, ended, left_behind, places, pod, shell

EVERYWHERE = places("root", "user", "loopback")
HERE = places(best_place())
WORKER = "w-0.j.ml.svc"


def of_mpi(made):
    made["metadata"]["labels"]["training.kubeflow.org/operator-name"] = "mpi-operator"
    return made


def worker(*command, name="w-0", **spec):
    made = of_mpi(pod(name, *(command or ("/usr/sbin/sshd", "-De")), subdomain="j", **spec))
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 2345}]
    return made


async def launch(d, script, *workers):
    """What a launcher has said and its exit code; the workers are deleted when it has ended."""
    launcher = of_mpi(shell(script, "l"))
    runners = [d.runner(obj) for obj in (*workers, launcher)]
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(runner.run()) for runner in runners]
        await tasks[-1]
        for runner in runners[:-1]:
            runner.stopping.set()
    return d.log("l"), ended(d.statuses["l"][-1])["exitCode"]


@pytest.mark.real_time
@EVERYWHERE
async def test_a_command_runs_in_the_surroundings_of_the_other_pod(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        given = worker(
            volumes=[{"name": "v", "configMap": {"name": "c"}}],
            container={
                "env": [{"name": "MINE", "value": "the worker's"}],
                "volumeMounts": [{"name": "v", "mountPath": "/not/there"}],
            },
        )
        d.objects["ConfigMap", "ml", "c"] = {"data": {"f": "its file"}}
        file = "/not/there/f" if d.place.separate else "$(find ../.. -name f | head -1)"
        asks = f"ssh -x -o ConnectionAttempts=9 {WORKER} 'echo $MINE; cat {file}; hostname'"
        said, code = await launch(d, asks, given)
        host = "w-0" if d.place.separate else os.uname().nodename
        assert (said, code) == (f"the worker's\nits file{host}\n", 0)


@pytest.mark.real_time
@HERE
@pytest.mark.parametrize(
    ("asks", "said", "code"),
    [
        ("exit 7", "", 7),
        ("kill -9 $$", "", 137),
        ("echo out; echo err >&2", "err\nout\n", 0),
        ("tr a-z A-Z", "FROM HERE\n", 0),
        ("exec <&-; sleep 0.2", "", 0),
        ("head -c 300000 /dev/zero | wc -c; yes | head -c 300000 | tail -c 2", "300000\ny\n", 0),
    ],
)
async def test_input_output_and_end_are_those_of_the_command(kind, tmp_path, asks, said, code):
    async with driver(kind, tmp_path) as d:
        line = f"echo from here | ssh -o ConnectionAttempts=9 someone@{WORKER} '{asks}'"
        heard, ends = await launch(d, line, worker())
        assert (sorted(heard.splitlines()), ends) == (sorted(said.splitlines()), code)


@pytest.mark.real_time
@HERE
async def test_a_command_may_be_long(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        line = f'ssh -o ConnectionAttempts=9 {WORKER} ": $(printf %0100000d 7); echo done"'
        assert await launch(d, line, worker()) == ("done\n", 0)


@pytest.mark.real_time
@HERE
async def test_without_a_command_the_shell_reads_what_is_sent(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        line = f"echo 'echo $((6*7))' | ssh -o ConnectionAttempts=9 {WORKER}"
        assert await launch(d, line, worker()) == ("42\n", 0)


@pytest.mark.real_time
@HERE
async def test_what_a_command_leaves_behind_lives_on_in_the_other_pod(kind, tmp_path):
    """Open MPI's helpers turn into daemons; they are not the caller's any more."""
    async with driver(kind, tmp_path) as d:
        daemon = "setsid sleep 61234 >/dev/null 2>&1 </dev/null &"
        line = (
            f"ssh -o ConnectionAttempts=9 {WORKER} '{daemon}'; ssh {WORKER} 'pgrep -fx .leep.61234'"
        )
        said, code = await launch(d, line, worker())
        assert code == 0 and said.strip().isdecimal()
    assert not left_behind("sleep 61234")


@pytest.mark.real_time
@HERE
async def test_when_the_caller_is_killed_its_command_is_told(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        asks = 'trap "echo told > $HOME/told; exit" TERM; echo on; while :; do sleep 0.05; done'
        line = f"""
        ssh -o ConnectionAttempts=9 {WORKER} '{asks}' > out & caller=$!
        until [ -s out ]; do sleep 0.05; done
        kill -9 $caller
        ssh {WORKER} 'until [ -s $HOME/told ]; do sleep 0.05; done; cat $HOME/told'
        """
        assert await launch(d, line, worker()) == ("told\n", 0)


@pytest.mark.real_time
@HERE
async def test_a_host_that_is_not_there_is_named(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        said, code = await launch(d, "ssh nobody.j.ml.svc true")
        want = "ssh: Could not resolve hostname nobody.j.ml.svc: no pod of this name has an agent\n"
        assert (said, code) == (want, 255)


@pytest.mark.real_time
@HERE
async def test_an_agent_that_has_ended_refuses_as_sshd_would(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        names = tmp_path / "remote-shell" / "ml"
        names.mkdir(parents=True)
        (names / WORKER).write_text("127.0.0.1 1\n")
        want = f"ssh: connect to host {WORKER} port 1: Connection refused\n"
        assert await launch(d, f"ssh {WORKER} true") == (want, 255)


@pytest.mark.real_time
async def test_who_does_not_know_the_token_is_not_served(tmp_path):
    async with driver("loopback", tmp_path) as d:
        runner = d.runner(worker())
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            address = tmp_path / "remote-shell" / "ml" / WORKER
            await d.until(address.exists)
            host, port = address.read_text().split()
            tokens = ('"another"', '"\\u00e9"', "7")
            calls = [f'{{"token": {token}, "command": "echo in"}}' for token in tokens]
            for first in (*calls, "", "[]", "?"):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"{first}\n".encode())
                assert await reader.read() == b""
                writer.close()
            runner.stopping.set()


def equipped(tmp_path, made, *, sshd):
    shared = RemoteShell(tmp_path, "token", sshd=sshd)
    binds, path = shared.equip(made, "10.0.0.9", tmp_path)
    return {bind.target: bind.source for bind in binds}, path


@pytest.mark.parametrize("sshd", [True, False])
def test_pods_of_other_kinds_get_nothing(sshd, tmp_path):
    assert equipped(tmp_path, pod("p", "true"), sshd=sshd) == ({}, "")


def test_where_sshd_can_run_it_has_the_settings_of_an_image(tmp_path):
    """mpijob:8.3"""
    binds, path = equipped(tmp_path, worker(), sshd=True)
    assert binds.keys() == {"/etc/ssh", "/run/sshd"} and path == ""
    server = (binds["/etc/ssh"] / "sshd_config").read_text().splitlines()
    assert {"Port 2222", "Port 2345", "StrictModes no"} <= set(server)
    client = (binds["/etc/ssh"] / "ssh_config").read_text()
    assert "Port 2222" in client and "StrictHostKeyChecking no" in client
    assert (binds["/etc/ssh"] / "host_key").stat().st_mode & 0o777 == 0o600
    key = (binds["/etc/ssh"] / "host_key").read_bytes()
    again, _ = equipped(tmp_path, worker(), sshd=True)  # a container that is restarted
    assert (again["/etc/ssh"] / "host_key").read_bytes() == key


def test_nobody_else_may_read_what_callers_have_to_know(tmp_path):
    binds, path = equipped(tmp_path, worker(), sshd=False)
    assert binds.keys() == {"/usr/sbin/sshd", "/usr/bin/ssh"}
    folder = binds["/usr/bin/ssh"].parent
    assert str(folder) == path and folder.stat().st_mode & 0o777 == 0o700
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["port"] == 2345 and settings["token"] == "token"
    assert settings["names"][0] == "10.0.0.9" and WORKER in settings["names"]


@pytest.mark.parametrize(
    ("arguments", "port"),
    [
        ("-De", 22),
        ("-De -p 23", 23),
        ("-D -p23 -o Port=24", 24),
        ("-oPort=25 -e", 25),
        ("-o PORT=26 -o PidFile=none", 26),
        ("-D -o", 22),
    ],
)
def test_the_port_is_what_sshd_was_told(arguments, port):
    assert port_of(arguments.split(), 22) == port


@pytest.mark.parametrize(
    ("arguments", "host", "command", "attempts", "reads"),
    [
        ("h", "h", "", 1, True),
        ("-x u@h a -b c", "h", "a -b c", 1, True),
        ("-n -o ConnectionAttempts=10 -p 2222 h orted --x", "h", "orted --x", 10, False),
        ("-oConnectionAttempts=3 -l me -qT h a", "h", "a", 3, True),
        ("-xnp 22 h a", "h", "a", 1, False),
    ],
)
def test_arguments_are_read_as_ssh_reads_them(arguments, host, command, attempts, reads):
    call = Call(arguments.split())
    found = (call.host, call.command, call.attempts, call.reads)
    assert found == (host, command, attempts, reads)


@pytest.mark.real_time
@pytest.mark.skipif(os.geteuid() != 0 or not HAS["user"], reason="makes a folder of another user")
async def test_who_is_not_root_gets_a_mount_below_a_folder_that_is_closed_to_them(tmp_path):
    """As /root is, where keys are mounted unless a job says otherwise."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    os.chown(closed, 12345, 12345)
    mount = {"name": "v", "mountPath": f"{closed}/.ssh"}
    async with driver("user", tmp_path / "d") as d:
        d.objects["Secret", "ml", "s"] = {"kind": "Secret", "data": {"key": "aw=="}}
        volume = {"name": "v", "secret": {"secretName": "s"}}
        made = shell(
            f"cat {closed}/.ssh/key", container={"volumeMounts": [mount]}, volumes=[volume]
        )
        await d.run(made)
        assert d.log() == "k"
