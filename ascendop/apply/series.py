# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What happens again and again is one Event with a count: when to say it, and when to be silent."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from ascendop.kube.resource import Object

EventType = Literal["Normal", "Warning"]

SILENT_S: Final = 360.0
"""The same thing after so long a silence is a new Event."""
TELL_S: Final = 300.0
"""How often a count that grows is told, beyond the milestones."""
MILESTONES: Final = frozenset({2, 10, 100, 1000})
"""Counts that are told at once."""
NEW_NOTE_S: Final = 60.0
"""Another text of the same reason is one more Event, at most this often."""
SIMILAR_S: Final = 600.0
"""In this time, so many texts of one reason become ..."""
SIMILAR: Final = 10
"""... one: a text that never repeats is a counter in disguise."""

BURST: Final = 25
"""Events about one object at once; the usual event client's budget."""
REFILL_S: Final = 300.0
"""One more in this time."""
OUTCOME_BURST: Final = 100
"""Events of the outcome at once: more than any life has, and still an end to a loop gone wild."""
OUTCOME_REFILL_S: Final = 30.0
OBJECTS: Final = 4096
"""Objects whose budget is remembered; the one that was silent longest starts afresh."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str
    uid: str

    @classmethod
    def of(cls, obj: Object) -> Reference:
        """To a whole object, as an API server shows it."""
        meta = obj["metadata"]
        return cls(
            obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"], meta["uid"]
        )

    def render(self) -> Object:
        """As ObjectReference; what is empty is left out."""
        fields = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that happened."""

    regarding: Reference
    type: EventType
    reason: str
    note: str
    action: str
    controller: str
    related: Reference | None = None
    outcome: bool = False

    @property
    def key(self) -> Hashable:
        """Equal for what is the same thing again.

        The text is part of it only for an outcome: of two restarts for two reasons, none is lost.
        """
        related = self.related and (self.related.kind, self.related.name, self.related.uid)
        text = self.note if self.outcome else ""
        return (self.type, self.reason, self.action, self.regarding.uid, related, text)


@dataclass(slots=True)
class Series:
    """One thing that happened `count` times, and how much of it the server knows.

    Invariant:  `told <= count`; `told` is 0 until the Event exists.
    """

    newest: Note
    name: str
    """Of the Event object."""
    first_seen: datetime
    last_seen: datetime
    last_at: float
    """Loop time of the last occurrence."""
    owed_at: float = 0.0
    """Loop time since when it waits for a request."""
    count: int = 1
    told: int = 0
    told_at: float = 0.0
    posted_note: str = ""
    """The text that the Event carries; it cannot be changed."""
    posts: deque[float] = field(default_factory=lambda: deque(maxlen=SIMILAR))
    """When Events of this series were made."""

    def again(self, note: Note, now: float, seen: datetime) -> bool:
        """It happened once more: whether that is to be told now."""
        self.newest, self.last_at, self.last_seen = note, now, seen
        self.count += 1
        return self.told > 0 and (self.wants_new(now) or self.count in MILESTONES)

    def wants_new(self, now: float) -> bool:
        """Whether its newest text deserves an Event of its own, now."""
        if not self.told or self.newest.note == self.posted_note:
            return False
        merged = len(self.posts) == SIMILAR and now - self.posts[0] < SIMILAR_S
        return not merged and now - self.posts[-1] >= NEW_NOTE_S

    def renew(self, name: str) -> None:
        """Begin a new Event for the newest text."""
        self.name, self.count, self.told, self.first_seen = name, 1, 0, self.last_seen

    def posted(self, count: int, now: float, note: str) -> None:
        """The Event was made with this text, and says `count`."""
        self.posts.append(now)
        self.posted_note = note
        self.told_to(count, now)

    def told_to(self, count: int, now: float) -> None:
        """The server knows of `count` occurrences."""
        self.told, self.told_at = count, now

    def is_due(self, now: float) -> bool:
        """Whether something untold has waited long enough."""
        if self.wants_new(now):
            return True
        silent = now - self.last_at >= SILENT_S
        return self.count > self.told > 0 and (silent or now - self.told_at >= TELL_S)

    def is_over(self, now: float) -> bool:
        """Whether all is told and the next occurrence is a new Event."""
        return now - self.last_at >= SILENT_S and self.count == self.told

    @property
    def has_untold(self) -> bool:
        return self.count > self.told or self.newest.note != self.posted_note


@dataclass(slots=True)
class Bucket:
    """Tokens: `burst` at first, one more every `refill_s`."""

    burst: float
    refill_s: float
    left: float
    at: float
    """Loop time at which `left` was true."""

    @classmethod
    def full(cls, burst: float, refill_s: float, now: float) -> Bucket:
        return cls(burst, refill_s, burst, now)

    def take(self, now: float) -> bool:
        """One token, if there is one."""
        self._refill(now)
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True

    def wait_s(self, now: float) -> float:
        """Until there is a token."""
        self._refill(now)
        return max(0.0, (1.0 - self.left) * self.refill_s)

    def _refill(self, now: float) -> None:
        self.left = min(self.burst, self.left + (now - self.at) / self.refill_s)
        self.at = now


class Budget:
    """How many Events an object may have.

    Apart:  Normal, Warning and the outcome each have their own; a flood of one hides no other.
    """

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], Bucket] = OrderedDict()

    def allows(self, note: Note, now: float) -> bool:
        """Take one Event from the budget of its object, if there is one left."""
        key = (note.regarding.uid, "outcome" if note.outcome else note.type)
        bucket = self._buckets.get(key)
        if bucket is None:
            burst, refill_s = (
                (OUTCOME_BURST, OUTCOME_REFILL_S) if note.outcome else (BURST, REFILL_S)
            )
            bucket = self._buckets[key] = Bucket.full(burst, refill_s, now)
            if len(self._buckets) > OBJECTS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket.take(now)
