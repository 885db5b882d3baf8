# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job's pods as the server has them, where the cache cannot be trusted."""

from __future__ import annotations

from ascendop.app.mirror import Mirror
from ascendop.builder import labels as keys
from ascendop.informer.rows import pods_form
from ascendop.informer.source import Source
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
    store, alive = mirror.pods.store, {pod.uid for pod in ours}
    for pod in ours:
        store.note(pod)
    for pod in store.by_index(OWNER, row.uid):
        if pod.uid not in alive:
            store.note_gone(pod.namespace, pod.name, pod.uid, page.version)
    return True
