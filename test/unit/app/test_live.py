# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a live read sets right in a cache whose watch stands still."""

from ascendop.app.live import correct_pods
from ascendop.kube.resource import Key
from ascendop.reconciler.observe import OWNER

from ..town import NS  # noqa: TID252  the standard library has a package called test
from ..wire import slow  # noqa: TID252  likewise


def is_watch(request):
    return "watch" in request.query


async def test_a_live_read_shows_what_came_and_what_went_behind_the_cache(town):
    """runtime:W-7: who decides to destroy on it must not see a pod that is gone."""
    operator = town.operator(workers=1)
    async with town.running(operator):
        job = await town.create(Master=1, Worker=2)
        await town.until_pods(3)
        town.wire.before.append(slow(is_watch, 3600))
        town.server.cut_watches()
        uid, store = job["metadata"]["uid"], operator.mirror.pods.store
        known = {pod.name for pod in store.by_index(OWNER, uid)}
        await town.lose("j-worker-1")
        assert {pod.name for pod in store.by_index(OWNER, uid)} == known
        assert await correct_pods(operator._reader, operator.mirror, Key("AscendJob", NS, "j"))
        seen = {pod.name for pod in store.by_index(OWNER, uid)}
    assert known == {"j-master-0", "j-worker-0", "j-worker-1"}
    assert seen == known - {"j-worker-1"}
