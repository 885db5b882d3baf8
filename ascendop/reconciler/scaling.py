# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whether a job of an inference service may make pods now: asked only when there are some to make.

Source: ascendjob.md 3.2.
"""

from __future__ import annotations

from typing import Final

from ascendop.api.kind import JobView, S
from ascendop.apply.plan import Question
from ascendop.builder import labels as keys
from ascendop.gang.scaling import RULE_KEY, RuleError, read_rule, why_not
from ascendop.reconciler.snapshot import Snapshot

LOOK_AGAIN_S: Final = 20.0
"""Jobs that start or end wake those that wait; an edit of the rule does not, it is only read."""


def question(s: Snapshot[S], job: JobView[S]) -> Question | None:
    """The rule that decides, if the job has one."""
    if not s.kind.scales_by_rule or keys.SCALING_RULE not in job.labels:
        return None
    name, service = job.labels[keys.SCALING_RULE], job.labels.get(keys.INFERENCE_JOB, "")
    return Question(job.namespace, name, RULE_KEY, turn=f"{job.namespace}/{name}/{service}")


def why_held(s: Snapshot[S], job: JobView[S]) -> str:
    """Why the job may not make pods, where to look and what to do; empty when it may.

    Its own PodGroup is not looked at: a job that has its place may replace a pod that it lost.
    """
    answer = s.world.answer
    if answer is None:
        return ""
    where = f"scaling rule {job.namespace}/{job.labels[keys.SCALING_RULE]}"
    if answer.trouble:
        return f"{where}: {answer.trouble}"
    try:
        reason = why_not(
            read_rule(answer.text), job.labels.get(keys.SCALING_GROUP, ""), s.world.peers
        )
    except RuleError as error:
        return f"{where}: {error}"
    return f"{where}: {reason}" if reason else ""
