# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which generation a job's pods belong to, as the job itself says, and the write that says it."""

from __future__ import annotations

from collections.abc import Iterable

from ascendop.api.kind import S
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import Patch, Step
from ascendop.builder import labels as keys
from ascendop.kube.resource import Resource
from ascendop.reconciler.attempts import Attempts, read_attempts
from ascendop.reconciler.snapshot import Snapshot


def stored_attempts(s: Snapshot[S], pods: Iterable[PodView]) -> Attempts:
    """What the job says; without that, what its pods do."""
    return read_attempts(_annotation(s), pods)


def attempt_step(s: Snapshot[S], job: Resource, attempts: Attempts) -> Step:
    """The write of the generation, if it says something new. It comes before what it tells of.

    `job` is the resource that the job is of.
    """
    text, stored = attempts.text(), _annotation(s)
    if not s.kind.attempts or text == stored or (not stored and attempts == Attempts()):
        return Step("attempt", ())
    body: Object = {"metadata": {"annotations": {keys.ATTEMPT_ANNOTATION: text}}}
    return Step("attempt", (Patch(job, s.row.name, s.row.uid, s.row.version, body),))


def _annotation(s: Snapshot[S]) -> str:
    return next((v for key, v in s.row.annotations if key == keys.ATTEMPT_ANNOTATION), "")
