# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One pod as real processes: what it gets, how it ends, what is written about it."""

import asyncio
from itertools import pairwise

import pytest

from test.unit.sim.driver import (
    HAS,
    best_place,
    driver,
    ended,
    exists,
    left_behind,
    places,
    pod,
    shell,
)

pytestmark = pytest.mark.real_time

EVERYWHERE = places("root", "user", "loopback")
SEPARATE = places("root", "user")
HERE = places(best_place())
HERE_APART = places("root" if HAS["root"] else "user")


@EVERYWHERE
async def test_a_pod_whose_process_exits_0_succeeds(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell("echo out; echo err >&2"))
        assert status["phase"] == "Succeeded"
        assert ended(status)["exitCode"] == 0 and ended(status)["reason"] == "Completed"
        assert d.log() == "out\nerr\n"
        conditions = {c["type"]: (c["status"], c.get("reason")) for c in status["conditions"]}
        assert conditions == {
            "PodReadyToStartContainers": ("False", None),
            "Initialized": ("True", "PodCompleted"),
            "Ready": ("False", "PodCompleted"),
            "ContainersReady": ("False", "PodCompleted"),
            "PodScheduled": ("True", None),
        }


@HERE
async def test_while_it_runs_it_is_running_and_ready_with_an_address(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        await d.run(shell("sleep 0.2"))
        seen = [s for s in d.statuses["p"] if s["phase"] == "Running"]
        [ready] = [s for s in seen if s["containerStatuses"][0]["ready"]]
        assert ready["podIP"] == d.runners[0].address
        assert {c["type"]: c["status"] for c in ready["conditions"]}["Ready"] == "True"
        assert d.statuses["p"][0]["phase"] == "Pending"


@HERE
@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143), ("kill -SEGV $$", 139)],
)
async def test_an_exit_code_is_128_and_the_signal_after_a_signal(kind, tmp_path, script, code):
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell(script))
        assert status["phase"] == "Failed"
        assert ended(status)["exitCode"] == code and ended(status)["reason"] == "Error"
        assert d.log() == ""  # the shell that waits says nothing of its own


@HERE
async def test_a_container_without_a_command_is_refused_with_a_sentence(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(pod(container={"image": "train:1"}))
        assert status["phase"] == "Failed" and status["reason"] == "NoCommand"
        assert "write what to run as command" in status["message"]
        assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "ErrImageNeverPull"
        assert ("Warning", "NoCommand", status["message"]) in d.events


@EVERYWHERE
async def test_a_command_that_is_not_there_cannot_start(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(pod("p", "no-such-program"))
        assert ended(status)["exitCode"] in (127, 128)
        assert "no-such-program" in d.log()


@EVERYWHERE
async def test_the_environment_is_the_pods_and_nothing_is_inherited(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_DRIVER", "secret")
    env = [
        {"name": "PLAIN", "value": "a b"},
        {"name": "TWICE", "value": "$(PLAIN)-$(UNKNOWN)-$$(PLAIN)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a/b']"}}},
        {
            "name": "KEY",
            "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "k"}},
        },
    ]
    async with driver(kind, tmp_path) as d:
        d.objects["ConfigMap", "ml", "cm"] = {"data": {"k": "v"}}
        spec = {"env": env, "args": ["$(PLAIN)"]}
        given = pod("p", "sh", "-c", 'env; echo "arg $0"', container=spec, annotations={"a/b": "n"})
        await d.run(given)
        lines = d.log().splitlines()
        assert {
            "PLAIN=a b",
            "TWICE=a b-$(UNKNOWN)-$(PLAIN)",
            f"IP={d.runners[0].address}",
            "NODE=node-1",
            "NOTE=n",
            "KEY=v",
            "HOSTNAME=p",
            "arg a b",
        } <= set(lines)
        assert "OF_THE_DRIVER" not in d.log()


@EVERYWHERE
async def test_files_of_configmaps_and_secrets_are_where_they_are_mounted(kind, tmp_path):
    mounts = [
        {"name": "cm", "mountPath": "/user/serverid/devindex/config"},
        {"name": "secret", "mountPath": "/etc/ascendop-test/keys"},
        {"name": "empty", "mountPath": "/scratch-of-the-pod"},
    ]
    volumes = [
        {"name": "cm", "configMap": {"name": "ranks"}},
        {"name": "secret", "secret": {"secretName": "ssh", "defaultMode": 0o600}},
        {"name": "empty", "emptyDir": {}},
    ]
    script = (
        "cat /user/serverid/devindex/config/hccl.json /etc/ascendop-test/keys/id;"
        "stat -Lc %a /etc/ascendop-test/keys/id;"
        "echo x > /scratch-of-the-pod/x && ls /scratch-of-the-pod"
    )
    async with driver(kind, tmp_path) as d:
        d.objects["ConfigMap", "ml", "ranks"] = {"data": {"hccl.json": "table\n"}}
        d.objects["Secret", "ml", "ssh"] = {"kind": "Secret", "data": {"id": "a2V5Cg=="}}
        given = shell(script, container={"volumeMounts": mounts}, volumes=volumes)
        [status] = await d.run(given)
        assert status["phase"] == "Succeeded", d.log()
        assert d.log() == "table\nkey\n600\nx\n"
    assert not exists("/user/serverid") and not exists("/etc/ascendop-test")


@EVERYWHERE
async def test_a_rank_table_that_changes_reaches_the_running_pod(kind, tmp_path):
    script = "while ! grep -q done /tables-of-the-job/hccl.json; do sleep 0.05; done; echo seen"
    async with driver(kind, tmp_path) as d:
        d.objects["ConfigMap", "ml", "ranks"] = {"data": {"hccl.json": "initializing"}}
        given = shell(
            script,
            container={"volumeMounts": [{"name": "cm", "mountPath": "/tables-of-the-job"}]},
            volumes=[{"name": "cm", "configMap": {"name": "ranks"}}],
        )
        runner = d.runner(given)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            await d.until(lambda: runner.is_running("main"))
            d.objects["ConfigMap", "ml", "ranks"] = {"data": {"hccl.json": "done"}}
            runner.refresh_volumes()
        assert d.log() == "seen\n"


@HERE
async def test_a_missing_configmap_is_waited_for_and_told(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        given = shell("echo $K", container={"envFrom": [{"configMapRef": {"name": "late"}}]})
        runner = d.runner(given)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            await d.until(lambda: any("late" in message for _, _, message in d.events))
            waiting = d.statuses["p"][-1]["containerStatuses"][0]["state"]["waiting"]
            assert waiting["reason"] == "CreateContainerConfigError"
            d.objects["ConfigMap", "ml", "late"] = {"data": {"K": "came"}}
            runner.refresh_volumes()
        assert d.log() == "came\n"


@HERE
async def test_a_hostpath_lies_below_the_scratch_folder(kind, tmp_path):
    given = shell(
        "echo kept > /data-of-the-host/file",
        container={"volumeMounts": [{"name": "h", "mountPath": "/data-of-the-host"}]},
        volumes=[{"name": "h", "hostPath": {"path": "/data/of/the/host"}}],
    )
    async with driver(kind, tmp_path) as d:
        await d.run(given)
    assert (tmp_path / "host/data/of/the/host/file").read_text() == "kept\n"
    assert not exists("/data/of") and not exists("/data-of-the-host")


@HERE
async def test_a_volume_that_cannot_be_had_fails_the_pod_with_its_name(kind, tmp_path):
    given = shell("true", volumes=[{"name": "v", "iscsi": {}}])
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(given)
        assert status["phase"] == "Failed" and "'v': a iscsi" in status["message"]


@HERE
async def test_init_containers_run_in_order_before_the_others(kind, tmp_path):
    inits = [
        {"name": name, "command": ["sh", "-c", f"echo {name} >> $HOME/../../../../order"]}
        for name in ("one", "two")
    ]
    given = shell("echo main >> $HOME/../../../../order", initContainers=inits)
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(given)
        assert status["phase"] == "Succeeded"
        assert [s["state"]["terminated"]["exitCode"] for s in status["initContainerStatuses"]] == [
            0,
            0,
        ]
    assert (tmp_path / "order").read_text().split() == ["one", "two", "main"]


@HERE
async def test_an_init_container_that_fails_keeps_the_others_from_starting(kind, tmp_path):
    inits = [{"name": "bad", "command": ["sh", "-c", "exit 4"]}]
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell("echo never", initContainers=inits))
        assert status["phase"] == "Failed" and d.log() == ""
        assert "waiting" in status["containerStatuses"][0]["state"]


@HERE
async def test_a_sidecar_lives_as_long_as_the_pod(kind, tmp_path):
    side = {"name": "side", "restartPolicy": "Always", "command": ["sleep", "1000"]}
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell("sleep 0.2", initContainers=[side]))
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert "terminated" in status["initContainerStatuses"][0]["state"]


@HERE
@pytest.mark.parametrize(("policy", "runs"), [("Never", 1), ("OnFailure", 3)])
async def test_restarts_follow_the_policy_and_are_counted(kind, tmp_path, policy, runs):
    script = "echo x >> $HOME/n; [ $(wc -l < $HOME/n) -ge 3 ]"
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell(script, restartPolicy=policy))
        assert status["containerStatuses"][0]["restartCount"] == runs - 1
        assert status["phase"] == ("Succeeded" if runs == 3 else "Failed")
        if runs == 3:
            assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
            waits = [
                s["containerStatuses"][0]["state"]["waiting"]
                for s in d.statuses["p"]
                if "waiting" in s["containerStatuses"][0]["state"]
            ]
            assert waits[-1]["reason"] == "CrashLoopBackOff"


@HERE
async def test_the_log_before_a_restart_is_kept(kind, tmp_path):
    script = "echo x >> $HOME/n; wc -l < $HOME/n; [ $(wc -l < $HOME/n) -ge 2 ]"
    async with driver(kind, tmp_path) as d:
        await d.run(shell(script, restartPolicy="OnFailure"))
        assert d.log().strip() == "2" and d.log(previous=True).strip() == "1"


@HERE
async def test_a_deleted_pod_is_asked_to_end(kind, tmp_path):
    script = "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.05; done"
    async with driver(kind, tmp_path) as d:
        [status] = await delete_when_up(d, shell(script))
        assert d.log() == "up\nbye\n"
        assert ended(status)["exitCode"] == 5 and status["phase"] == "Failed"


@EVERYWHERE
async def test_a_pod_that_does_not_listen_is_killed_after_its_grace_period(kind, tmp_path):
    script = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    async with driver(kind, tmp_path) as d:
        [status] = await delete_when_up(d, shell(script), grace_s=0.3)
        assert ended(status)["exitCode"] == 137


async def delete_when_up(d, given, grace_s=10):
    runner = d.runner(given)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(runner.run())
        await d.until(lambda: "up" in d.log())
        meta = {
            **given["metadata"],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": grace_s,
        }
        runner.update({**given, "metadata": meta})
    return [d.statuses["p"][-1]]


@HERE
async def test_a_deadline_ends_the_pod(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(
            shell("sleep 1000", activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)
        )
        assert status["phase"] == "Failed" and status["reason"] == "DeadlineExceeded"


@HERE
async def test_readiness_is_what_the_probe_says(kind, tmp_path):
    probe = {"exec": {"command": ["test", "-e", str(tmp_path / "ready")]}, "periodSeconds": 0.1}
    async with driver(kind, tmp_path) as d:
        given = shell("sleep 1000", container={"readinessProbe": probe})
        runner = d.runner(given)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(runner.run())
            await d.until(lambda: runner.is_running("main"))
            await asyncio.sleep(0.3)
            assert not d.statuses["p"][-1]["containerStatuses"][0]["ready"]
            (tmp_path / "ready").touch()
            await d.until(lambda: d.statuses["p"][-1]["containerStatuses"][0]["ready"])
            runner.stopping.set()


@HERE
async def test_a_container_that_fails_its_liveness_probe_is_killed(kind, tmp_path):
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 0.1, "failureThreshold": 2}
    async with driver(kind, tmp_path) as d:
        [status] = await d.run(shell("sleep 1000", container={"livenessProbe": probe}))
        assert ended(status)["exitCode"] == 137


@SEPARATE
async def test_pods_find_each_other_by_name_and_share_no_port(kind, tmp_path):
    serve = (
        "import socket; s = socket.create_server(('0.0.0.0', 2222));"
        "c, a = s.accept(); c.sendall(a[0].encode()); c.close()"
    )
    ask = (
        "import socket, time\n"
        "for name in ('a', 'a.job', 'a.job.ml.svc', 'a.job.ml.svc.cluster.local'):\n"
        "    assert socket.gethostbyname(name) == socket.gethostbyname('a'), name\n"
        "s = socket.create_server(('0.0.0.0', 2222))\n"
        "for _ in range(100):\n"
        "    try: print(socket.create_connection(('a', 2222)).recv(99).decode()); break\n"
        "    except OSError: time.sleep(0.05)\n"
        "print(socket.gethostname(), socket.gethostbyname(socket.gethostname()))\n"
    )
    async with driver(kind, tmp_path) as d:
        a = pod("a", "python3", "-c", serve, subdomain="job")
        b = pod("b", "python3", "-c", ask, subdomain="job")
        [one, two] = await d.run(a, b)
        assert one["phase"] == two["phase"] == "Succeeded", d.log("b")
        own = d.runners[1].address
        assert d.log("b") == f"{own}\nb {own}\n"


@SEPARATE
@pytest.mark.parametrize("address", ["10.96.0.77", "172.30.0.77"])
async def test_a_clusterip_reaches_the_pod_behind_it_on_another_port(kind, tmp_path, address):
    serve = (
        "import socket, os; s = socket.create_server((os.environ['IP'], 8118));"
        "c, _ = s.accept(); c.sendall(b'hello'); c.close()"
    )
    ask = f"import socket; print(socket.create_connection(('{address}', 80)).recv(99).decode())"
    ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    async with driver(kind, tmp_path) as d:
        first = next(d.place.addresses())
        await d.place.forward({f"{address}:80": [f"{first}:8118"]})
        a = pod("a", "python3", "-c", "import time; time.sleep(0.5)\n" + serve)
        a["spec"]["containers"][0]["env"] = [ip]
        b = pod("b", "python3", "-c", "import time; time.sleep(0.3)\n" + ask)
        [one, two] = await d.run(a, b)
        assert one["phase"] == two["phase"] == "Succeeded"
        assert d.log("b") == "hello\n"


@HERE_APART
async def test_what_a_killed_container_started_dies_with_it(kind, tmp_path):
    script = "setsid sleep 98761 & setsid sh -c 'sleep 98762' & sleep 0.2; kill -9 $$"
    async with driver(kind, tmp_path) as d:
        await d.run(shell(script))
        assert left_behind("9876") == []


@HERE_APART
async def test_a_pod_sees_only_its_own_processes(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        await d.run(shell("ls /proc | grep -c '^[0-9]'"))
        assert int(d.log()) < 8


@HERE_APART
async def test_a_file_can_be_mounted_by_subpath_and_read_only(kind, tmp_path):
    given = shell(
        "cat /etc/ascendop-one.conf; echo x > /etc/ascendop-one.conf || echo refused;"
        "ls /etc/passwd",
        container={
            "volumeMounts": [
                {
                    "name": "cm",
                    "mountPath": "/etc/ascendop-one.conf",
                    "subPath": "one",
                    "readOnly": True,
                }
            ]
        },
        volumes=[{"name": "cm", "configMap": {"name": "c"}}],
    )
    async with driver(kind, tmp_path) as d:
        d.objects["ConfigMap", "ml", "c"] = {"data": {"one": "1\n", "two": "2\n"}}
        await d.run(given)
        lines = d.log().splitlines()
        assert lines[0] == "1" and "refused" in lines and "/etc/passwd" in lines


@HERE
async def test_a_condition_keeps_its_time_while_it_keeps_its_status(kind, tmp_path):
    async with driver(kind, tmp_path) as d:
        await d.run(shell("sleep 0.1"))
        for before, after in pairwise(d.statuses["p"]):
            for old in before["conditions"]:
                new = next(c for c in after["conditions"] if c["type"] == old["type"])
                if old["status"] == new["status"]:
                    assert old.get("lastTransitionTime") == new.get("lastTransitionTime")
