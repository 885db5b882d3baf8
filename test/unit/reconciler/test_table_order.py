# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a rank table says while the pods that it names come and go."""

import json

from ascendop.kube.resource import CONFIGMAPS, PODS
from ascendop.sim.answers import forbidden

from ..ranktable import make  # noqa: TID252  the standard library has a package called test
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


async def start(town, *names):
    """These pods are bound, get devices and an address."""
    for number, name in enumerate(names):
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


async def test_r15_r25_no_pod_is_made_beside_a_table_that_names_its_predecessor(town):
    """ascendjob:R15 ascendjob:R25 field-reports:FR-058: the order of 4.2, table before pods."""
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
