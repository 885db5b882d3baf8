# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The operator beside Deployments, StatefulSets and Volcano Jobs, whose controllers are hands."""

import asyncio

import pytest

from ascendop.kube.resource import CRDS
from ascendop.sim.answers import RefusedError

from ..town import JOBS  # noqa: TID252  the standard library has a package called test
from ..wire import is_write, refuse, slow  # noqa: TID252  likewise
from . import make  # noqa: TID252  likewise

QUIET_S = 5.0


async def two_pods(yard, workload, *names):
    for name in names or ("serve-a", "serve-b"):
        await yard.grow(workload, name)


async def test_x1_a_deployment_gets_ranks_and_a_table(yard):
    """W-38: nothing is asked of any pod that is not of such a workload."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
    assert await yard.ranks() == {"serve-a": "0", "serve-b": "1"}
    assert ((await yard.table())["version"], (await yard.data())["version"]) == ("1.0", "0")
    assert await yard.warnings() == []


async def test_x1_without_its_config_map_a_workload_gets_its_ranks(yard):
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment(), config_map=False)
        await two_pods(yard, serve)
        await asyncio.sleep(QUIET_S)
        assert await yard.ranks() == {"serve-a": "0", "serve-b": "1"}
        await yard.provide("serve")
        await yard.until_table("completed", within_s=60)


async def test_x2_the_pod_in_the_place_of_another_gets_its_rank(yard):
    """R15, R16, W-27: meanwhile the table is withdrawn."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment(replicas=3))
        await two_pods(yard, serve, "serve-a", "serve-b", "serve-c")
        await yard.until_table("completed")
        before = await yard.data()
        await yard.lose("serve-b")
        await yard.until_table("initializing")
        assert "server_list" not in await yard.table()
        await yard.grow(serve, "serve-z")
        await yard.until_table("completed")
    assert await yard.ranks() == {"serve-a": "0", "serve-c": "2", "serve-z": "1"}
    after = await yard.data()
    assert int(after["version"]) > int(before["version"])
    assert [s["container_ip"] for s in (await yard.table())["server_list"]] == [
        "10.244.0.1", "10.244.0.4", "10.244.0.3",
    ]  # fmt: skip


async def test_x3_a_stateful_set_with_the_volume_gets_a_file_which_goes_with_it(yard, tmp_path):
    """R21, R22, W-48: with its directory."""
    operator = yard.operator(rank_table_dir=str(tmp_path))
    async with yard.running(operator):
        store = await yard.add(make.stateful_set(volume=True), config_map=False)
        await asyncio.sleep(QUIET_S)
        assert [path.name for path in tmp_path.iterdir()] == ["default.store"]
        await yard.grow(store, "store-0")
        await yard.until(lambda: there(tmp_path / "default.store" / "hccl.json"))
        await yard.drop(store)
        await yard.until(lambda: gone(tmp_path / "default.store"))


async def there(path):
    return path.exists()


async def gone(path):
    return not path.exists()


async def test_x4_a_volcano_job_with_neither_label_nor_volume_is_ignored(yard):
    """W-38: its pods are not even listed."""
    await yard.install_volcano_jobs()
    operator = yard.operator()
    async with yard.running(operator):
        train = await yard.add(make.volcano_job(labels={}))
        await two_pods(yard, train, "train-t0-0", "train-t0-1")
        await asyncio.sleep(QUIET_S)
        assert await yard.ranks() == {"train-t0-0": None, "train-t0-1": None}
        assert (await yard.table("train")) == {"status": "initializing"}
        assert operator.workloads.members.informers == []


async def test_x4_a_volcano_job_with_the_label_gets_ranks_and_a_table(yard):
    await yard.install_volcano_jobs()
    operator = yard.operator()
    async with yard.running(operator):
        train = await yard.add(make.volcano_job(tasks=(1, 1)))
        await two_pods(yard, train, "train-t0-0", "train-t1-0")
        await yard.until_table("completed", "train")
    assert await yard.ranks() == {"train-t0-0": "0", "train-t1-0": "1"}


async def test_x5_the_annotations_of_the_template_win(yard):
    operator = yard.operator()
    async with yard.running(operator):
        serve = make.deployment(
            annotations={"huawei.com/schedule_policy": "chip2-node16-sp", "sp-block": "8"},
            on_pods={"sp-block": "16"},
        )
        serve = await yard.add(serve)
        await two_pods(yard, serve)
        await yard.until_table("completed")
    found = await yard.table()
    assert found["version"] == "1.2"
    assert [len(pod["server_list"]) for pod in found["super_pod_list"]] == [2]


async def test_x6_an_ascend_job_and_a_deployment_of_one_name_are_both_handled(yard):
    """ascendjob:W-10: the table is the job's; the Deployment has its ranks, its user is told."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment("j"))
        await two_pods(yard, serve)
        await yard.until_table("completed", "j")
        await yard.create("j")
        await yard.until_table("initializing", "j")
        await yard.until_pods(4)
        await yard.turn("Running", "j-master-0", "j-worker-0")
        await yard.until_job("Running")
        await yard.annotate("serve-a", other="1")
        await asyncio.sleep(QUIET_S)
        assert (await yard.table("j"))["status"] == "initializing"
    (warning,) = await yard.warnings()
    assert "NameTaken: the rank table of this name belongs to the AscendJob j" in warning


async def test_w_10_the_table_is_the_deployment_s_again_when_the_job_is_gone(yard, tmp_path):
    """Nothing of what was written before is believed to stand there still."""
    operator = yard.operator(rank_table_dir=str(tmp_path))
    async with yard.running(operator):
        serve = await yard.add(make.deployment("j", volume=True))
        await two_pods(yard, serve)
        await yard.until_table("completed", "j")
        job = await yard.create("j")
        await yard.until_table("initializing", "j")
        await yard.hands.delete(JOBS, make.NS, job["metadata"]["name"])
        await yard.until_table("completed", "j")
        assert (tmp_path / "default.j" / "hccl.json").exists()


async def test_w_10_of_a_deployment_and_a_set_of_one_name_the_deployment_has_the_table(yard):
    operator = yard.operator()
    async with yard.running(operator):
        store = await yard.add(make.stateful_set("serve", labels=make.MARK))
        await yard.grow(store, "serve-0")
        await yard.until_table("completed")
        serve = await yard.add(make.deployment(replicas=1), config_map=False)
        await yard.until_table("initializing")
        await yard.grow(serve, "serve-a")
        await yard.until_table("completed")
        found = await yard.table()
        assert [server["container_ip"] for server in found["server_list"]] == ["10.244.0.2"]
    assert await yard.warnings() == []
    (warning,) = await yard.warnings("StatefulSet")
    assert "belongs to the Deployment serve" in warning


async def test_x7_a_network_that_nobody_knows_gives_no_table_and_one_warning(yard):
    """Once, however often the workload and its pods change."""
    labels = {**make.MARK, "scaleout-type": "ib"}
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment(labels=labels, resource="huawei.com/npu"))
        await two_pods(yard, serve)
        for number in range(20):
            await yard.change(serve, {"metadata": {"annotations": {"t": str(number)}}})
            await yard.annotate("serve-a", **{make.DEVICES: make.devices(number)})
            await asyncio.sleep(1)
        assert await yard.table() == {"status": "initializing"}
        (warning,) = await yard.warnings()
        assert "ScaleoutTypeUnknown: scaleout-type is 'IB'" in warning
        await yard.change(serve, {"metadata": {"labels": {"scaleout-type": "roce"}}})
        await yard.until_table("completed")


async def test_w_29_an_edit_counts_at_once(yard):
    """The version is chosen anew; so is whether a table is wanted at all."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment(labels={}))
        await two_pods(yard, serve)
        await asyncio.sleep(QUIET_S)
        assert await yard.table() == {"status": "initializing"}
        await yard.change(serve, {"metadata": {"labels": make.MARK}})
        await yard.until_table("completed")
        assert (await yard.table())["version"] == "1.0"
        await yard.change(serve, {"metadata": {"annotations": {"sp-block": "16"}}})

        async def changed():
            return (await yard.table())["version"] == "1.2"

        await yard.until(changed)


async def test_w_41_volcano_may_come_later_and_go_again(yard):
    """ascendjob:W-41"""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
        await yard.install_volcano_jobs()
        train = await yard.add(make.volcano_job(tasks=(1,)))
        await yard.grow(train, "train-t0-0")
        await yard.until_table("completed", "train", within_s=120)
        await yard.hands.delete(CRDS, None, make.CRD["metadata"]["name"])
        await asyncio.sleep(120)
        assert [i.store.rows()[0].job for i in operator.workloads.members.informers] == ["serve"]


async def test_w_38_pods_are_watched_where_such_a_workload_is_and_as_long(yard):
    """ascendjob:W-38 ascendjob:W-39: and no pod without the label is heard of."""
    operator = yard.operator()
    async with yard.running(operator):
        plain = await yard.add(make.deployment("plain", labels={}), config_map=False)
        await yard.grow(plain, "plain-a")
        await asyncio.sleep(QUIET_S)
        assert operator.workloads.members.informers == []
        serve = await yard.add(make.deployment())
        await asyncio.sleep(QUIET_S)
        (informer,) = operator.workloads.members.informers
        assert [(s.namespace, s.labels) for s in informer.scopes] == [("default", "deploy-name")]
        await yard.drop(serve)
        await asyncio.sleep(QUIET_S)
        assert operator.workloads.members.informers == []
        assert operator.workloads.keys() == []


async def test_a_workload_in_another_namespace_is_not_looked_at(yard):
    operator = yard.operator(namespaces=("elsewhere",))
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await asyncio.sleep(QUIET_S)
        assert await yard.ranks() == {"serve-a": None, "serve-b": None}


async def test_workloads_are_left_alone_where_the_setting_says_so(yard):
    operator = yard.operator(workload_tables=False)
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await asyncio.sleep(QUIET_S)
        assert await yard.ranks() == {"serve-a": None, "serve-b": None}
        assert not any("deployments" in request.path for request in yard.wire.watches)


async def test_a_follower_writes_nothing_and_takes_over(yard):
    first, second = (yard.operator(name, leader_elect=True) for name in ("a", "b"))
    async with yard.running(first) as stop_first:
        await asyncio.sleep(1)
        async with yard.running(second):
            serve = await yard.add(make.deployment())
            await two_pods(yard, serve)
            await yard.until_table("completed")
            assert set(yard.wires["b"].writes()) <= {("POST", "leases")}
            stop_first.set()
            await asyncio.sleep(5)
            await yard.lose("serve-a")
            await yard.until_table("initializing")
            await yard.grow(serve, "serve-c")
            await yard.until_table("completed")
    assert await yard.ranks() == {"serve-b": "1", "serve-c": "0"}


async def test_a_new_leader_gives_no_rank_that_was_given_behind_its_back(yard):
    """Its watch has stopped just before the last rank of its predecessor: 0 is taken by now."""
    first, second = (yard.operator(name, leader_elect=True) for name in ("a", "b"))
    reached, go_on = asyncio.Event(), asyncio.Event()
    yard.wires["a"].before.append(hold_first_rank(reached, go_on))
    async with yard.running(first) as stop_first:
        await asyncio.sleep(1)
        async with yard.running(second):
            await asyncio.sleep(1)
            serve = await yard.add(make.deployment())
            await yard.grow(serve, "serve-m", annotations={make.RANK: "1"})
            await yard.grow(serve, "serve-b", known=False)
            await yard.grow(serve, "serve-z")
            await reached.wait()  # to give 0 to serve-z
            await yard.start("serve-b", 9)
            await yard.change(serve, {"spec": {"replicas": 3}})
            await asyncio.sleep(1)
            yard.wires["b"].before.append(slow(is_of_the_mirror, 3600))
            yard.server.cut_watches()
            go_on.set()
            await asyncio.sleep(0.1)
            stop_first.set()
            await yard.until_table("completed")
    assert await yard.ranks() == {"serve-m": "1", "serve-z": "0", "serve-b": "2"}


def hold_first_rank(reached, go_on):
    """A hook that lets the first rank go when it is told to, and no other one."""

    async def hold(request):
        if is_write("PATCH", "pods")(request):
            if reached.is_set():
                await asyncio.sleep(3600)
            reached.set()
            await go_on.wait()

    return hold


def is_of_the_mirror(request):
    """Of all pods with the label, not of those of one workload."""
    return request.path.endswith("/pods") and request.query.get("labelSelector") == "deploy-name"


async def test_w_31_ranks_are_written_side_by_side_and_bounded(yard):
    """ascendjob:W-31"""
    operator = yard.operator()
    flying, most = [0], [0]

    async def count(request):
        if is_write("PATCH", "pods")(request):
            flying[0] += 1
            most[0] = max(most[0], flying[0])
            await asyncio.sleep(0.1)
            flying[0] -= 1

    yard.wire.before.append(count)
    async with yard.running(operator):
        serve = await yard.add(make.deployment(replicas=100))
        for number in range(100):
            await yard.grow(serve, f"serve-{number:03}")
        began_at = asyncio.get_running_loop().time()
        await yard.until_table("completed", within_s=60)
        took_s = asyncio.get_running_loop().time() - began_at
    assert 8 < most[0] <= 32 and took_s < 3
    assert sorted(map(int, (await yard.ranks()).values())) == list(range(100))


async def test_w_48_a_table_of_a_living_workload_is_never_swept(yard, tmp_path):
    """Files of workloads that went while nobody looked are."""
    store = await yard.add(make.stateful_set(volume=True), config_map=False)
    for name in ("default.store", "default.gone"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hccl.json").write_text('{"status":"completed"}')
    operator = yard.operator(rank_table_dir=str(tmp_path))
    yard.wire.before.append(slow(lambda request: "/statefulsets" in request.path, 20))
    async with yard.running(operator):
        await asyncio.sleep(10)
        assert (tmp_path / "default.gone").exists()
        await yard.until(lambda: gone(tmp_path / "default.gone"))
        assert (tmp_path / "default.store").exists()
    assert store["metadata"]["name"] == "store"


async def test_a_share_that_cannot_be_written_is_told_once_and_tried_again(yard, tmp_path):
    """W-6"""
    blocker = tmp_path / "default.store"
    blocker.write_text("in the way")
    operator = yard.operator(rank_table_dir=str(tmp_path))
    async with yard.running(operator):
        await yard.add(make.stateful_set(volume=True), config_map=False)
        await asyncio.sleep(60)
        (warning,) = await yard.warnings("StatefulSet")
        assert warning.startswith("RankTableNotWritten") and "default.store" in warning
        blocker.unlink()

        async def made():
            return blocker.is_dir()

        await yard.until(made, within_s=600)


@pytest.mark.parametrize("status", ["Failed", "Succeeded"])
async def test_an_evicted_pod_that_stays_does_not_hold_up_its_successor(yard, status):
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
        await yard.turn(status, "serve-a")
        await yard.until_table("initializing")
        await yard.grow(serve, "serve-c")
        await yard.until_table("completed")
    assert (await yard.ranks())["serve-c"] == "0"


async def test_w_35_a_table_that_stands_costs_nothing(yard):
    """W-5, W-26: no write, whatever else changes about workload and pods."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
        await asyncio.sleep(QUIET_S)
        sent = len(yard.wire.sent)
        for number in range(10):
            await yard.change(serve, {"metadata": {"annotations": {"t": str(number)}}})
            await yard.annotate("serve-a", t=str(number))
            await asyncio.sleep(1)
        assert yard.wire.writes(since=sent) == []


async def test_w_41_jobs_run_where_workloads_may_not_be_listed(yard, tmp_path):
    """And no file is swept, since nobody knows whose it is."""
    (tmp_path / "default.gone").mkdir()
    (tmp_path / "default.gone" / "hccl.json").write_text("{}")
    denied = RefusedError(403, "Forbidden", "no rights")
    operator = yard.operator(rank_table_dir=str(tmp_path))
    yard.wire.before.append(refuse(lambda request: "/apis/apps/" in request.path, denied))
    async with yard.running(operator):
        await yard.create()
        await yard.until_pods(2)
        await asyncio.sleep(60)
        assert (tmp_path / "default.gone").exists()


async def test_w_40_a_table_that_does_not_fit_is_told_once(yard, monkeypatch):
    monkeypatch.setattr("ascendop.apply.maps.MAX_TABLE", 100)
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await asyncio.sleep(120)
        (warning,) = await yard.warnings()
        assert warning.startswith("RankTableTooLarge") and "shared directory" in warning
        monkeypatch.undo()
        await yard.until_table("completed", within_s=600)


async def test_a_config_map_that_pods_wait_for_is_asked_for_until_it_is_there(yard):
    """Only where they mount it: it is the user's to make, or not to make."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = make.deployment()
        volume = {"name": "hccl", "configMap": {"name": "rings-config-serve"}}
        serve["spec"]["template"]["spec"]["volumes"] = [volume]
        serve = await yard.add(serve, config_map=False)
        await asyncio.sleep(120)
        (warning,) = await yard.warnings()
        assert warning.startswith("RankTableMissing: pods mount ConfigMap default/rings-config-se")
        await yard.provide("serve")
        await two_pods(yard, serve)
        await yard.until_table("completed", within_s=600)


async def test_w_25_no_row_is_changed_by_what_is_decided(yard):
    """What the cache has of a pod is what the server has, after all of it."""
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
        await asyncio.sleep(QUIET_S)
        (informer,) = operator.workloads.members.informers
        versions = {pod.name: pod.version for pod in informer.store.rows()}
        pods = await yard.pods()
    assert versions == {name: pod["metadata"]["resourceVersion"] for name, pod in pods.items()}


async def test_the_queue_of_workloads_has_metrics_of_its_own(yard):
    operator = yard.operator()
    async with yard.running(operator):
        serve = await yard.add(make.deployment())
        await two_pods(yard, serve)
        await yard.until_table("completed")
        operator.metrics.refresh()
        text = operator.metrics.render()[1].decode()
    assert 'workqueue_depth{controller="workloads",name="workloads"' in text
    done = [
        line for line in text.splitlines()
        if line.startswith("controller_runtime_reconcile_total") and "workloads" in line
    ]  # fmt: skip
    assert sum(float(line.rsplit(" ", 1)[1]) for line in done) >= 2
    assert 'ascendop_informer_objects{kind="workload pods"} 2.0' in text
