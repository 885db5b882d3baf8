# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a rank table says while the pods that it names come and go."""

import asyncio
import json

from ascendop.kube.resource import CONFIGMAPS, CRDS, PODS
from ascendop.sim.answers import forbidden
from ascendop.sim.volcano import build_definitions

from .. import make as make_job  # noqa: TID252  the standard library has a package called test
from ..ranktable import make  # noqa: TID252  likewise
from ..town import JOBS, NS  # noqa: TID252  likewise
from ..wire import refuse  # noqa: TID252  likewise

NAME = "rings-config-j"
NOT_ALLOWED = forbidden(CONFIGMAPS, NAME, "not for you")


async def provide_table(town):
    meta = {"namespace": NS, "name": NAME}
    await town.hands.create(
        CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {}}
    )


async def status_of_table(town):
    data = (await town.hands.get(CONFIGMAPS, NS, NAME)).get("data") or {}
    return json.loads(data.get("hccl.json") or "{}").get("status")


async def hosts_of_table(town):
    data = (await town.hands.get(CONFIGMAPS, NS, NAME))["data"]
    return [server["host_ip"] for server in json.loads(data["hccl.json"]).get("server_list", ())]


async def start(town, *names, first=0):
    """These pods are bound to nodes that are numbered from there on, get devices and an address."""
    for number, name in enumerate(names, first):
        annotations = {make.ASCEND_910: make.config(number)}
        await town.hands.patch(PODS, NS, name, {"metadata": {"annotations": annotations}})
        await town.hands.patch(
            PODS, NS, name, {"status": {"podIP": f"10.244.0.{number}"}}, subresource="status"
        )
    await town.turn("Running", *names)


def seen_by_new_pods(town):
    """What the table says when each pod is asked for."""
    seen = []

    async def look(request):
        if request.method == "POST" and request.path.endswith("/pods"):
            seen.append(await status_of_table(town))

    town.wire.before.append(look)
    return seen


async def completed(town):
    async def there():
        return await status_of_table(town) == "completed"

    await town.until(there)


async def test_r15_no_pod_is_made_beside_a_table_that_names_its_predecessor(town):
    """ascendjob:R15 field-reports:FR-058: the order of 4.2, table before pods."""
    await provide_table(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0", "j-worker-0")
        await completed(town)
        seen = seen_by_new_pods(town)
        await town.lose("j-worker-0")
        await town.until_pods(2)
        assert seen == ["initializing"]
        await start(town, "j-master-0", "j-worker-0")
        await completed(town)


async def test_the_first_pods_are_not_made_beside_the_table_of_the_job_before(town):
    """ascendjob:R25: the user's ConfigMap outlives the job, and no PodGroup holds these pods up."""
    await provide_table(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0", "j-worker-0")
        await completed(town)
    await town.hands.delete(JOBS, NS, "j")
    await town.until_pods(0)
    async with town.running(town.operator("b")):
        seen = seen_by_new_pods(town)
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        assert seen == ["initializing", "initializing"]


async def test_r25_a_gang_that_waits_again_keeps_its_table_until_it_is_let_in(town):
    """ascendjob:R25: it is withdrawn when pods may be made again, and before the first of them."""
    for definition in build_definitions():
        await town.hands.create(CRDS, definition)
    await provide_table(town)
    names = ("j-master-0", "j-worker-0")
    async with town.running(town.operator(enable_gang_scheduling=True)):
        await town.create(Master=1, Worker=1)
        await town.let_in()
        await town.until_pods(2)
        await start(town, *names)
        await completed(town)
        await town.until_job("Running")
    # All at once: of pods that go one after the other, the first is replaced beside the second.
    await town.let_in("Pending")
    await town.lose(*names)
    async with town.running(town.operator("b", enable_gang_scheduling=True)):
        await asyncio.sleep(60)
        assert await town.pods() == {}
        assert await status_of_table(town) == "completed"
        seen = seen_by_new_pods(town)
        await town.let_in()
        await town.until_pods(2)
        assert seen == ["initializing", "initializing"]
        await start(town, *names)
        await completed(town)


async def test_r23_a_scheduler_without_chips_costs_a_standing_table_no_write(town):
    """ascendjob:R23 ascendjob:W-5: P2's shape; ten further events of its pods."""
    await provide_table(town)
    roles = {"Scheduler": make_job.replica(1, npus=0), "Worker": make_job.replica(2)}
    workers = ("j-worker-0", "j-worker-1")
    async with town.running(town.operator()):
        await town.create(framework="mindspore", roles=roles)
        await town.until_pods(3)
        await start(town, *workers)
        await town.turn("Running", "j-scheduler-0")
        await completed(town)
        data = (await town.hands.get(CONFIGMAPS, NS, NAME))["data"]
        await asyncio.sleep(5)
        sent = len(town.wire.sent)
        for number in range(10):
            name = ("j-scheduler-0", *workers)[number % 3]
            note = {"metadata": {"annotations": {"seen": str(number)}}}
            await town.hands.patch(PODS, NS, name, note)
            await asyncio.sleep(1)
        assert town.wire.writes(since=sent) == []
        assert (await town.hands.get(CONFIGMAPS, NS, NAME))["data"] == data


async def test_a_table_that_cannot_be_withdrawn_holds_up_no_pod(town):
    """ascendjob:W-27: and it is withdrawn as soon as that can be done."""
    await provide_table(town)
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0", "j-worker-0")
        await completed(town)
        hook = refuse(lambda request: request.path.endswith(NAME), NOT_ALLOWED)
        town.wire.before.append(hook)
        await town.lose("j-worker-0")
        await town.until_pods(2)
        assert await status_of_table(town) == "completed"
        town.wire.before.remove(hook)

        async def withdrawn():
            return await status_of_table(town) == "initializing"

        await town.until(withdrawn, within_s=120)


async def test_f9_when_the_source_of_a_switch_has_gone_the_table_names_the_backup(town):
    """ascendjob:F9 ascendjob:R17: while both are there, it stays as it is."""
    await provide_table(town)
    asked = {"metadata": {"annotations": {"inHotSwitchFlow": "true", "needOperatorOpe": "create"}}}
    async with town.running(town.operator()):
        await town.create(Master=1, Worker=1)
        await town.until_pods(2)
        await start(town, "j-master-0", "j-worker-0")
        await completed(town)
        await town.hands.patch(PODS, NS, "j-worker-0", asked)
        await town.until_pods(3)
        (backup,) = (await town.pods()).keys() - {"j-master-0", "j-worker-0"}
        await start(town, backup, first=2)
        await asyncio.sleep(5)
        assert await hosts_of_table(town) == ["10.10.0.0", "10.10.0.1"]
        await town.lose("j-worker-0")

        async def names_the_backup():
            return await hosts_of_table(town) == ["10.10.0.0", "10.10.0.2"]

        await town.until(names_the_backup)
        assert await status_of_table(town) == "completed"
