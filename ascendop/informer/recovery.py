# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a reflector does after each kind of trouble, and how long it waits before."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random  # noqa: TID251  a type only: the generator is an argument

from ascendop.backoff import Backoff
from ascendop.informer.lines import LineTooLongError
from ascendop.informer.represent import UndecodableError
from ascendop.kube.errors import (
    ApiError,
    BusyError,
    ForbiddenError,
    GoneError,
    NotFoundError,
)

BACKOFF = Backoff(0.8, 30.0)
"""Times U[1, 2]: a server that struggles is asked less than once a second by each informer."""
DENIED = Backoff(30.0, 300.0)
"""A missing right is repaired by a person: minutes, not seconds."""
DOUBTED = 3
"""Refusals of what was allowed before that are not believed yet: a server that has just started
knows no rights, and refuses everybody until it has read them."""
HEALTHY_AFTER_S = 120.0
"""Without failure for so long, the next failure is the first. Longer than the longest pause."""
BUSY_LIMIT_S = 60.0
ERRORS_LAST_S = 60.0
"""For how long an internal error of the server may repeat at one position before we list again."""
LAG_S = 1.0
LAG_TRIES = 2
"""How often a server that lags behind our position is asked again before we take what it has."""
POISON_TRIES = 3
NO_WATCH_LIST = frozenset({400, 405, 415, 422, 501})
"""Answers of servers that do not know what a watch with initial events is."""
NO_METADATA_FORM = frozenset({406, 415})
FORBIDDEN = 403
INTERNAL = 500
"""The others of its family come from whatever stands before a server that is away."""
TOO_MANY = frozenset({429, 503})


class InitialEndMissingError(Exception):
    """A watch with initial events ended, or fell silent, before it said that this was all."""

    def __init__(self, message: str, *, stalled: bool) -> None:
        super().__init__(message)
        self.stalled = stalled


class SilenceError(Exception):
    """A watch that has lived has been silent for longer than it ever is."""


class ShortLivedError(Exception):
    """A watch was closed as soon as it was opened."""


class Then(Enum):
    """How the conversation goes on."""

    RESUME = "resume"
    """Ask again what was asked."""
    RESYNC = "resync"
    """Get everything, not older than what we have."""
    RESYNC_LATEST = "resync, latest"
    """Get everything as it is now, whatever we have."""
    RESYNC_BARE = "resync, bare"
    """Get everything by LIST, with objects that cannot be read as their bare rows."""
    LIST = "list"
    """Get everything by LIST; this server does not do it by WATCH."""
    WHOLE = "whole objects"
    """Ask for whole objects; this server does not know metadata alone."""


class Health(Enum):
    """Why the conversation does not flow."""

    TROUBLED = "troubled"
    DENIED = "denied"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What follows from a trouble."""

    pause_s: float
    then: Then = Then.RESUME
    health: Health = Health.TROUBLED


class Recovery:
    """The memory of what went wrong, for one reflector; list and watch share it.

    Bounded: no trouble is answered without a pause, but for one that cannot repeat (LIST), and the
             pauses of a trouble that stays grow to half a minute and more.
    """

    def __init__(self, rng: Random, *, metadata_only: bool = False) -> None:
        self._rng = rng
        self._asked_whole = not metadata_only
        """Whether whole objects are asked for: then a 415 cannot be about their form."""
        self._failures = 0
        """Since the conversation was last healthy for HEALTHY_AFTER_S."""
        self._denials = 0
        """Refusals in a row."""
        self._allowed = False
        """Whether the right was there once."""
        self._healthy_since: float | None = None
        """Since when nothing failed; None until something has worked after a failure."""
        self._unended = 0
        """Watches in a row that ended before the end of their initial events."""
        self._gone = 0
        """Times since a watch last lived that our position was too old: no failure of the server's,
        but one that repeats means a list each time."""
        self._lagged = 0
        """Times in a row that the server was behind our position."""
        self._poisoned: tuple[str, int] = ("", 0)
        """A position after which nothing can be decoded, and how often that was tried."""
        self._erring: tuple[str, float] = ("", 0.0)
        """A position at which the server fails, and since when."""

    def listed(self, since: float) -> None:
        """A LIST that was begun at that loop time has worked."""
        if self._healthy_since is None:
            self._healthy_since = since
        self._denials = 0
        self._allowed = True

    def lived(self, since: float) -> None:
        """A watch has lived since that loop time."""
        self.listed(since)
        self._gone = self._lagged = 0

    def synced(self) -> None:
        """Everything was got; troubles on the way to it are over."""
        self._unended = self._lagged = self._denials = 0
        self._allowed = True

    def after(self, error: Exception, now: float, *, position: str, initial: bool) -> Remedy:
        """What to do about an error.

        position: what the store has; empty before the first list.
        initial:  whether the error ended a watch with initial events before they ended.
        """
        if isinstance(error, ApiError):
            return self._after_answer(error, now, position, initial=initial)
        pause_s = self._pause_s(now)
        if isinstance(error, InitialEndMissingError):
            self._unended += 1
            if error.stalled or self._unended >= POISON_TRIES:
                self._unended = 0
                return Remedy(0.0, Then.LIST)
        elif isinstance(error, (UndecodableError, LineTooLongError)):
            return Remedy(pause_s, self._after_poison(position))
        return Remedy(pause_s)

    def _after_answer(self, error: ApiError, now: float, position: str, *, initial: bool) -> Remedy:
        if initial and error.status in NO_WATCH_LIST - NO_METADATA_FORM:
            return Remedy(0.0, Then.LIST)
        if isinstance(error, BusyError):
            return self._after_busy(error, now, position)
        if isinstance(error, ForbiddenError) and error.status == FORBIDDEN:
            return self._after_denial()
        if isinstance(error, GoneError):
            self._gone += 1
            pause_s = BACKOFF.after(self._gone - 1) * self._rng.uniform(1.0, 2.0)
            return Remedy(pause_s, Then.RESYNC_LATEST if initial else Then.RESYNC)
        pause_s = self._pause_s(now)
        if isinstance(error, NotFoundError):
            return Remedy(pause_s, health=Health.ABSENT)
        return Remedy(pause_s, self._after_refusal(error, initial=initial))

    def _after_denial(self) -> Remedy:
        self._denials += 1
        doubted = DOUBTED if self._allowed else 0
        if self._denials <= doubted:
            return Remedy(BACKOFF.after(self._denials - 1) * self._rng.uniform(1.0, 2.0))
        pause_s = DENIED.after(self._denials - doubted - 1) * self._rng.uniform(1.0, 1.2)
        return Remedy(min(pause_s, DENIED.limit_s), health=Health.DENIED)

    def _after_refusal(self, error: ApiError, *, initial: bool) -> Then:
        """The server does not take the question as it is; find out which part of it."""
        if error.status not in NO_METADATA_FORM:
            return Then.RESUME
        if self._asked_whole and initial:
            return Then.LIST
        self._asked_whole = True
        return Then.WHOLE

    def _after_busy(self, error: BusyError, now: float, position: str) -> Remedy:
        if _lags(error):
            self._lagged += 1
            if self._lagged > LAG_TRIES:
                self._lagged = 0
                return Remedy(self._pause_s(now), Then.RESYNC_LATEST)
            return Remedy(error.retry_after_s or LAG_S)
        if error.status in TOO_MANY:
            pause_s = max(error.retry_after_s, BACKOFF.after(self._count(now)))
            return Remedy(min(BUSY_LIMIT_S, pause_s * self._rng.uniform(1.0, 1.2)))
        then = self._after_error(position, now) if error.status == INTERNAL else Then.RESUME
        return Remedy(self._pause_s(now), then)

    def _after_error(self, position: str, now: float) -> Then:
        at, since = self._erring
        if at != position or not position:
            self._erring = (position, now)
        elif now - since > ERRORS_LAST_S:
            self._erring = ("", 0.0)
            return Then.RESYNC
        return Then.RESUME

    def _after_poison(self, position: str) -> Then:
        at, times = self._poisoned
        times = times + 1 if at == position else 1
        if times >= POISON_TRIES:
            self._poisoned = ("", 0)
            return Then.RESYNC_BARE
        self._poisoned = (position, times)
        return Then.RESUME

    def _pause_s(self, now: float) -> float:
        return BACKOFF.after(self._count(now)) * self._rng.uniform(1.0, 2.0)

    def _count(self, now: float) -> int:
        """Failures before this one."""
        if self._healthy_since is not None and now - self._healthy_since >= HEALTHY_AFTER_S:
            self._failures = 0
        self._healthy_since = None
        self._failures += 1
        return self._failures - 1


def _lags(error: ApiError) -> bool:
    """Whether the server is behind the version that we asked for."""
    too_large = "Too large resource version"  # servers before the cause had a name
    return error.caused_by("ResourceVersionTooLarge") or too_large in error.message
