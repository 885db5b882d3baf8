# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a launcher's Job is told when it may go on: as far as the server lets a Job change."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ascendop.api.model import Object
from ascendop.api.observed import LauncherView

_LIMITS: Final = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
_RULES: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def resumed(job: Object, launcher: LauncherView, *, strict: bool) -> Object:
    """A merge patch of the Job's spec: what a queue or the user has decided while it slept.

    job:     the spec as it would be made now.
    strict:  as the original, where marks of an earlier admission stay, and limits and affinity
             never follow.
    Source:  mpijob.md 4.6, W-39.
    """
    meta, spec = job["template"]["metadata"], job["template"]["spec"]
    nodes = spec.get("nodeSelector") or {}
    where = {
        "nodeSelector": {**_nulls(launcher.node_selector, nodes), **nodes},
        "tolerations": spec.get("tolerations") or None,
        "schedulingGates": spec.get("schedulingGates") or None,
    }
    marks = {key: meta[key] for key in ("labels", "annotations") if key in meta}
    if strict:
        return {"suspend": False, "template": {"metadata": marks, "spec": where}}
    there = {
        "labels": [key for key in launcher.labels if not _is_the_jobs(key)],
        "annotations": launcher.annotations,
    }
    for key, found in there.items():
        wanted = meta.get(key) or {}
        if found or wanted:
            marks[key] = {**_nulls(found, wanted), **wanted}
    return {
        "suspend": False,
        **{key: job.get(key) for key in _LIMITS},
        "template": {"metadata": marks, "spec": {**where, **_affinity(spec, launcher)}},
    }


def _affinity(spec: Object, launcher: LauncherView) -> Object:
    """To nodes: the only one that may change."""
    wanted = (spec.get("affinity") or {}).get("nodeAffinity")
    if wanted:
        return {"affinity": {"nodeAffinity": {key: wanted.get(key) for key in _RULES}}}
    return {"affinity": {"nodeAffinity": None}} if launcher.node_affinity else {}


def _nulls(there: Iterable[str], wanted: Collection[str]) -> Object:
    """What is there and shall go."""
    return dict.fromkeys(key for key in there if key not in wanted)


def _is_the_jobs(label: str) -> bool:
    """The server puts these on the template of every Job, and nobody may take them off."""
    return label.startswith("batch.kubernetes.io/") or label in {"controller-uid", "job-name"}
