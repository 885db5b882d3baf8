# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What can go wrong, one class per thing a caller does differently.

AscendopError
├── InvalidJobError       the user's object cannot run as written; only an edit helps
├── UsageError            a flag, file or setting is wrong; the command ends with code 2
├── ApiError              the server answered no                       (ascendop.kube.errors)
│   ├── NotFoundError     404       usually good news
│   ├── ExistsError       409       reason AlreadyExists: success if it is ours, else look again
│   ├── ConflictError     409       any other reason: somebody wrote first: read and decide again
│   ├── GoneError         410       our version is too old: list again
│   ├── RejectedError     400, 422  what we sent is wrong: the user's template, or a bug
│   ├── ForbiddenError    401, 403  a right is missing; only an admin helps
│   └── BusyError         429, 5xx  ask again, not before `retry_after_s`
├── TransportError        no answer: connect, TLS, time-out, cut stream (ascendop.kube.errors)
├── NotLeaderError        this replica may not write (any more)
└── StaleCacheError       the cache is older than our own writes: decide again when it has caught up
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class AscendopError(Exception):
    """Everything this package raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake of a user: where, what, and what to do."""

    path: str
    """Field path as in the YAML, e.g. spec.replicaSpecs.Worker.replicas."""
    what: str
    """The fact, with the value found."""
    fix: str = ""
    """What to write instead."""
    reason: str = "InvalidSpec"
    """CamelCase code; the reason of the Event."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" + (f"; {self.fix}" if self.fix else "")


class InvalidJobError(AscendopError):
    """A job cannot run as written. Every mistake is in it, so that one edit helps, not five."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UsageError(AscendopError):
    """A command, file or setting is wrong; the message is the one sentence a person needs."""


class NotLeaderError(AscendopError):
    """The lease is not ours, or not for long enough to finish a write."""


class StaleCacheError(AscendopError):
    """A decision needs a cache that has seen our own last write to this kind of object."""
