# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job's pods as the server has them, where the cache cannot be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ascendop.api.observed import PodView
from ascendop.app.mirror import Mirror
from ascendop.builder import labels as keys
from ascendop.informer.rows import pods_form
from ascendop.informer.source import Source
from ascendop.informer.store import Store
from ascendop.kube.resource import PODS, Key, Scope
from ascendop.reconciler.observe import OWNER


async def correct_pods(source: Source, mirror: Mirror, key: Key) -> bool:
    """Read a job's pods and note in the cache what it does not know; True for having done so."""
    row = mirror.jobs[key.kind].store.get(key.namespace, key.name)
    if row is None:
        return True
    scope = Scope(key.namespace, labels=f"{keys.JOB_NAME}={key.name}")
    page = pods_form().decode_list(await source.list_page(PODS, scope, limit=0))
    ours = [pod for pod in page.rows if pod.owner_uid == row.uid]
    store = mirror.pods.store
    correct(store, store.by_index(OWNER, row.uid), ours, page.version)
    return True


def correct(
    store: Store[PodView], cached: Iterable[PodView], live: Sequence[PodView], version: str
) -> None:
    """Note in the store what a read of `version` has shown; `cached` is what it had of the same."""
    alive = {pod.uid for pod in live}
    for pod in live:
        store.note(pod)
    for pod in cached:
        if pod.uid not in alive:
            store.note_gone(pod.namespace, pod.name, pod.uid, version)
