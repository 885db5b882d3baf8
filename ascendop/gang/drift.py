# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a stored PodGroup still says what it should.

The scheduler writes the same object by optimistic updates: every needless patch makes it lose one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from ascendop.api.model import Object
from ascendop.api.observed import GroupView, Pairs
from ascendop.builder.labels import PROCESS_RECOVER
from ascendop.gang.resources import amounts
from ascendop.kube.quantity import QuantityError

HANDED_OVER: Final = frozenset({PROCESS_RECOVER})
"""Labels that we give at creation and clusterd changes afterwards, `on` to `pause` and back."""


def group_drift(stored: GroupView, want: Object) -> bool:
    """Whether `want`, a PodGroup of `build_pod_group`, has to be applied over what is stored.

    Compared: our fields only, by meaning: 1 is 1000m, absent is null, and an absent or empty map
              are one thing, except for minResources, where they are two.
    Foreign:  labels and annotations of others, and a queue that the job does not name or that
              somebody has written over ours, stay.
    Source:   scheduling.md SCH-19, SCH-20; field-reports.md FR-028.
    """
    found: Object = msgspec.json.decode(stored.spec or b"{}")
    wanted: Object = want["spec"]
    return (
        _more(want, "labels", stored.labels, HANDED_OVER)
        or _more(want, "annotations", stored.annotations)
        or (found.get("minMember") or 0) != wanted["minMember"]
        or (found.get("minTaskMember") or {}) != wanted.get("minTaskMember", {})
        or (not stored.queue_taken and _other_queue(found, wanted))
        or (found.get("priorityClassName") or "") != wanted.get("priorityClassName", "")
        or _other_timeout(found, wanted)
        or _other_amounts(found.get("minResources"), wanted.get("minResources"))
    )


def settle(stored: GroupView, want: Object) -> Object:
    """`want`, with the values that belong to others since its creation as they are now."""
    if stored.queue_taken:
        spec = {key: value for key, value in want["spec"].items() if key != "queue"}
        want = {**want, "spec": spec}
    metadata: Object = want["metadata"]
    labels: Mapping[str, str] = metadata.get("labels", {})
    theirs = {key: value for key, value in stored.labels if key in HANDED_OVER & labels.keys()}
    if not theirs:
        return want
    return {**want, "metadata": {**metadata, "labels": {**labels, **theirs}}}


def _more(want: Object, key: str, stored: Pairs, but: frozenset[str] = frozenset()) -> bool:
    """Whether something wanted is missing or different; more than wanted may be there."""
    found = dict(stored)
    wanted: Mapping[str, str] = want["metadata"].get(key, {})
    return any(found.get(k) != v and not (k in but and k in found) for k, v in wanted.items())


def _other_queue(found: Object, wanted: Object) -> bool:
    # Without a name in the job, the server's default or Volcano's webhook chose one: not ours.
    return "queue" in wanted and (found.get("queue") or "") != wanted["queue"]


def _other_timeout(found: Object, wanted: Object) -> bool:
    # Only where it is a field of ours: Volcano's PodGroups have none.
    name = "scheduleTimeoutSeconds"
    return name in wanted and (found.get(name) or 0) != wanted[name]


def _other_amounts(found: object, wanted: object) -> bool:
    if found is None or wanted is None:
        return found is not wanted
    try:
        return amounts(found) != amounts(wanted)
    except QuantityError:  # somebody wrote nonsense over ours: ours has to come back
        return True
