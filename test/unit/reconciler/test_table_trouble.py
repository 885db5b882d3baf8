# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What is in the way of a rank table is said once, to the job's owner, and ends by itself."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from ascendop.apply.standing import LATE_S, NOBODY_ASKS, Standing
from ascendop.kube.resource import CONFIGMAPS, CORE_EVENTS, PODS, Scope
from ascendop.reconciler.status import put_condition
from ascendop.reconciler.table import told as say

from ..make import container, replica  # noqa: TID252  the standard library has a package called test
from ..ranktable import make  # noqa: TID252  likewise
from ..town import JOBS, NS, status_patches  # noqa: TID252  likewise

MAP = "rings-config-j"
LABELS = {"ring-controller.atlas": "ascend-910b"}
BARE = '{"status":"initializing"}'
PODS_OF_J = ("j-master-0", "j-worker-0")


async def provide(town, name=MAP, *, labels=LABELS, data=None):
    """The user makes the ConfigMap."""
    meta = {"namespace": NS, "name": name, "labels": labels}
    data = {"hccl.json": BARE} if data is None else data
    await town.hands.create(
        CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
    )


async def data_of(town, name=MAP):
    return (await town.hands.get(CONFIGMAPS, NS, name)).get("data") or {}


async def table_is(town, status, name=MAP, within_s=3.0):
    async def there():
        return json.loads((await data_of(town, name))["hccl.json"])["status"] == status

    await town.until(there, within_s)


async def allocate(town, pod, config):
    """What the device plug-in writes on a pod."""
    annotations = {make.ASCEND_910: config}
    await town.hands.patch(PODS, NS, pod, {"metadata": {"annotations": annotations}})


async def address(town, pod, ip):
    await town.hands.patch(PODS, NS, pod, {"status": {"podIP": ip}}, subresource="status")


async def start(town, *names):
    """Pods as they are in good health, devices last."""
    for number, name in enumerate(names):
        await address(town, name, f"10.244.1.{number}")
    await town.turn("Running", *names)
    for number, name in enumerate(names):
        await allocate(town, name, make.config(number))


async def condition(town, name="j"):
    """Status, reason and message of the condition that tells of the table; None for none."""
    found = ((await town.job(name)).get("status") or {}).get("conditions") or ()
    one = next((c for c in found if c["type"] == "RankTableReady"), None)
    return one and (one["status"], one["reason"], one["message"])


async def says(town, status, reason, *words, name="j", within_s=5.0):
    """Wait until the job says so; the last condition, which is its State, is another."""

    async def said():
        found = await condition(town, name)
        return found and found[:2] == (status, reason) and all(w in found[2] for w in words)

    await town.until(said, within_s)
    assert (await town.conditions(name))[-1][0] != "RankTableReady"


async def told(town, reason):
    """Type and text of the Events with that reason, and how often."""
    found = await town.hands.list(CORE_EVENTS, Scope(NS))
    return [(e["type"], e["message"], e.get("count", 1)) for e in found if e["reason"] == reason]


async def test_a_device_that_cannot_be_used_is_named_once_and_the_job_recovers(town):
    """field-reports:FR-062: pod, node, device and reason; other jobs hear nothing of it."""
    for name in (MAP, "rings-config-k"):
        await provide(town, name)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.create("k", Master=1, Worker=1)
        await town.until_pods(4)
        await start(town, *PODS_OF_J, "k-master-0", "k-worker-0")
        await table_is(town, "completed")
        for config, reason, words in [
            (make.config(1, make.devices(1, device_ip="-1")), "DeviceIpUnreadable", ("IP of 0",)),
            ("{not json", "DevicesUnreadable", ("annotation", make.ASCEND_910)),
            (make.config(1, []), "DevicesUnreadable", ("no devices", "$.devices")),
            (
                make.config(1, make.devices(1, device_id="3")),
                "DeviceTwice",
                ("has device 3 twice",),
            ),
        ]:
            await allocate(town, "j-worker-0", config)
            await says(town, "False", reason, "pod j-worker-0", *words)
            await table_is(town, "initializing")
        assert (await town.conditions())[-1] == ("Running", "True")
        for reason in ("DeviceIpUnreadable", "DevicesUnreadable", "DeviceTwice"):
            assert [t for t, *_ in await told(town, reason)] == ["Warning"]
        assert json.loads((await data_of(town, "rings-config-k"))["hccl.json"])["status"] == (
            "completed"
        )
        assert await condition(town, "k") is None
        await allocate(town, "j-worker-0", make.config(1))
        await table_is(town, "completed")
        await says(town, "True", "RankTableWritten", f"ConfigMap {NS}/{MAP}")
        await asyncio.sleep(2)  # Events go out in their own time
        assert [t for t, *_ in await told(town, "RankTableWritten")] == ["Normal"]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(("devices", "pause", "ip"), id="devices first, the address 10 s later"),
        pytest.param(("ip", "devices"), id="the address first"),
        pytest.param(("ip", "Running", "devices"), id="running long before its devices"),
        pytest.param(("devices", "ip"), id="Pending all the time, as in an init container"),
    ],
)
async def test_a_table_is_whole_with_its_last_fact_whatever_came_first(town, steps):
    """field-reports:FR-057: within 3 s, in whichever phase the pod is."""
    await provide(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0")
        for step in steps:
            await table_is(town, "initializing")
            match step:
                case "devices":
                    await allocate(town, "j-worker-0", make.config(1))
                case "ip":
                    await address(town, "j-worker-0", "10.244.0.1")
                case "pause":
                    await asyncio.sleep(10)
                case phase:
                    await town.turn(phase, "j-worker-0")
        await table_is(town, "completed", within_s=3)
        assert await condition(town) is None


async def test_a_table_that_keeps_waiting_says_for_whom_after_a_minute(town):
    """field-reports:FR-057: before that the pods are on their way, and nothing is said."""
    await provide(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0")
        await asyncio.sleep(LATE_S - 5)
        assert await condition(town) is None
        await says(town, "False", "PodsMissing", "1 of 2", "j-worker-0 (on no node)", within_s=10)
        await asyncio.sleep(600)
        assert [(t, n) for t, _, n in await told(town, "PodsMissing")] == [("Warning", 1)]
        await allocate(town, "j-worker-0", make.config(1))
        await says(town, "False", "PodsMissing", within_s=1)
        await address(town, "j-worker-0", "10.244.0.1")
        await table_is(town, "completed")
        await says(town, "True", "RankTableWritten")


async def test_a_job_without_a_place_for_a_table_hears_nothing_of_it(town):
    """Most PyTorch jobs do without a table: their pods ask each other."""
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await allocate(town, "j-worker-0", "{not json")
        await asyncio.sleep(10 * LATE_S)
        assert await condition(town) is None


async def test_a_table_beyond_a_config_map_says_so_and_where_to_put_it(town, monkeypatch):
    """field-reports:FR-065 ascendjob:W-40: seldom tried, no other job waits, and it recovers."""
    await provide(town)
    await provide(town, "rings-config-k")
    async with town.running(town.operator()):
        monkeypatch.setattr("ascendop.apply.maps.MAX_TABLE", 700)
        await town.create(Master=1, Worker=3)
        await town.until_pods(4)
        await start(town, "j-master-0", *(f"j-worker-{i}" for i in range(3)))
        await says(
            town,
            "False",
            "RankTableTooLarge",
            f"ConfigMap {NS}/{MAP} holds 700 bytes",
            "mount a shared directory by a volume named ranktable",
        )
        await asyncio.sleep(60)
        asked = len([r for r in town.wire.sent if r.path.endswith(MAP)])
        await town.create("k", Master=1, Worker=1)
        await town.until_pods(6)
        await start(town, "k-master-0", "k-worker-0")
        await table_is(town, "completed", "rings-config-k", within_s=3)
        await asyncio.sleep(5)
        said = len(status_patches(town.wire))
        await asyncio.sleep(600)
        assert len([r for r in town.wire.sent if r.path.endswith(MAP)]) - asked <= 3 * 11
        assert ("PATCH", MAP) not in town.wire.writes()
        assert len(status_patches(town.wire)) == said
        assert [(t, n) for t, _, n in await told(town, "RankTableTooLarge")] == [("Warning", 1)]
        monkeypatch.setattr("ascendop.apply.maps.MAX_TABLE", 1_000_000)
        await table_is(town, "completed", within_s=400)
        await says(town, "True", "RankTableWritten")


async def test_a_config_map_of_somebody_else_is_left_alone_and_named(town):
    """field-reports:FR-070: its name is an accident; labelled it becomes ours, keys kept."""
    theirs = {"settings.yaml": "a: 1"}
    await provide(town, labels={"app": "web"}, data=theirs)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, *PODS_OF_J)
        await says(town, "False", "RankTableForeign", f"ConfigMap {NS}/{MAP}", "ring-controller")
        assert await data_of(town) == theirs
        await town.hands.patch(CONFIGMAPS, NS, MAP, {"metadata": {"labels": LABELS}})
        await says(town, "True", "RankTableWritten", within_s=400)
        assert (await data_of(town)).items() >= theirs.items()


async def test_a_config_map_that_pods_mount_and_nobody_made_is_asked_for(town):
    """field-reports:FR-057: without it no pod gets beyond ContainerCreating."""
    mounts = {"volumes": [{"name": "table", "configMap": {"name": MAP}}]}
    async with town.running(town.operator()):
        await town.create(roles={"Master": replica(1, container(), spec=mounts)})
        await town.until_pods(1)
        await says(town, "False", "RankTableMissing", f"pods mount ConfigMap {NS}/{MAP}", "make it")
        await provide(town)
        await start(town, "j-master-0")
        await table_is(town, "completed", within_s=60)
        await says(town, "True", "RankTableWritten")


async def test_another_operator_says_nothing_twice_of_a_trouble_that_lasts(town):
    """field-reports:FR-087: what was told stands in the status, not in a memory."""
    await provide(town, labels={}, data={"other": "x"})
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, *PODS_OF_J)
        await says(town, "False", "RankTableForeign")
    before = (await town.hands.get(JOBS, NS, "j"))["status"]
    async with town.running(town.operator("b")):
        await asyncio.sleep(120)
        assert (await town.hands.get(JOBS, NS, "j"))["status"] == before
    assert [n for *_, n in await told(town, "RankTableForeign")] == [1]


@pytest.mark.real_time
async def test_a_share_that_cannot_be_written_is_named_and_the_job_runs_on(town, tmp_path):
    """field-reports:FR-065 field-reports:FR-064 ascendjob:W-18: path and what to do."""
    mounts = {"volumes": [{"name": "ranktable", "hostPath": {"path": "/share"}}]}
    (tmp_path / f"{NS}.j").symlink_to(tmp_path)
    async with town.running(town.operator(rank_table_dir=str(tmp_path))):
        await town.create(roles={"Master": replica(1, container(), spec=mounts)})
        await town.until_pods(1)
        await start(town, "j-master-0")
        await says(
            town, "False", "RankTableNotWritten", f"{tmp_path}/{NS}.j", "symbolic link", within_s=20
        )
        assert (await town.conditions())[-1] == ("Running", "True")
        (tmp_path / f"{NS}.j").unlink()
        await says(town, "True", "RankTableWritten", f"directory {NS}.j", within_s=60)
        assert json.loads((tmp_path / f"{NS}.j" / "hccl.json").read_text())["status"] == "completed"


def test_trouble_with_a_table_that_nobody_asks_for_leaves_no_trace():
    """The right to read ConfigMaps came back, and there was none of that name all the time."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    before = put_condition((), "Running", "JobRunning", "", now)
    troubled = say(before, Standing("RankTableNotWritten", "forbidden"), now)
    assert [c.type for c in troubled] == ["RankTableReady", "Running"]
    assert say(troubled, None, now) == troubled, "a new process does not know yet"
    assert say(troubled, NOBODY_ASKS, now) == before
    assert say(before, NOBODY_ASKS, now) is before


async def test_a_job_that_fails_for_lost_pods_leaves_no_table_that_names_them(town):
    """ascendjob:R15: also when the loss and the end are seen in one pass."""
    await provide(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1, policy={"backoffLimit": 1})
        await town.until_pods(2)
        await start(town, *PODS_OF_J)
        await table_is(town, "completed")
        await town.lose("j-worker-0")
        await town.until_pods(2)
        await start(town, *PODS_OF_J)
        await table_is(town, "completed")
        await town.lose("j-worker-0")
        await town.until_job("Failed")
        await table_is(town, "initializing")
