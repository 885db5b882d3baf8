# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The life of an AscendJob as a table: which verdict follows from what has become of its pods.

Source: ascendjob.md 1.8 and 7; reasons and messages are the contract's, its spellings too.
"""

from __future__ import annotations

from typing import Final

from ascendop.api.life import Facts, Rule, Verdict


def _out_of_attempts(f: Facts) -> Verdict | None:
    if 0 < f.attempt_limit < f.attempt:
        text = f"Job {f.job} has failed because it has reached the specified backoff limit"
        return Verdict("Failed", "JobFailed", text)
    return None


def _overdue(f: Facts) -> Verdict | None:
    if f.overdue:
        text = f"Job {f.job} has failed because it was active longer than specified deadline"
        return Verdict("Failed", "DeadlineExceeded", text)
    return None


def _exit_code_retried(f: Facts) -> Verdict | None:
    if f.restarting:
        text = f"Job {f.job} is restarting because {f.restarting[0]} replica(s) failed."
        reason = "jobRestarting"  # the spelling is the contract's
        return Verdict("Restarting", reason, text, (("Warning", reason), ("Normal", reason)))
    return None


def _retried_unconditionally(f: Facts) -> Verdict | None:
    left = f.retries_left or 0
    if f.sum("failed") and f.gang and f.retry_wanted and left > 0:
        text = (
            f"Job <{f.namespace}/{f.job}> is unconditional retry job "
            f"and remain retry times is <{left}>."
        )
        return Verdict("Restarting", "JobRestarting", text)
    return None


def _retries_used_up(f: Facts) -> Verdict | None:
    if f.unanswered or f.retries_left is None:
        return None
    if f.sum("failed") and f.gang and f.retry_wanted:  # rules before this one have seen > 0
        text = (
            f"Job <{f.namespace}/{f.job}> has failed because pod failed "
            "and remain retry times is 0."
        )
        return Verdict("Failed", "JobFailed", text)
    return None


def _failed(f: Facts) -> Verdict | None:
    if f.sum("failed") and not f.unanswered:
        text = f"Job <{f.namespace}/{f.job}> has failed because has pod failed."
        return Verdict("Failed", "JobFailed", text)
    return None


def _running(f: Facts) -> Verdict | None:
    if f.sum("active") and not f.sum("failed"):
        return Verdict("Running", "JobRunning", f"Job {f.namespace}/{f.job} is running.")
    return None


def _succeeded(f: Facts) -> Verdict | None:
    if f.total and f.sum("succeeded") == f.total:
        text = f"Job<{f.namespace}-{f.job}> successfully completed."
        return Verdict("Succeeded", "JobRunning", text)
    return None


ASCEND_LIFE: Final[tuple[Rule, ...]] = (
    _out_of_attempts,  # before anything that would make another attempt
    _overdue,
    _exit_code_retried,
    _retried_unconditionally,  # as long as the scheduler plug-in has retries left
    _retries_used_up,
    _failed,
    _running,
    _succeeded,
)
"""First match wins."""
