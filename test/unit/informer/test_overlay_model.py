# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every order of writes, answers, events, bookmarks and lists of one object, on the real store.

A state is reached by replaying its labels; two paths to an equal state are followed once.
"""

from collections import deque

import pytest

from ascendop.informer.observer import NobodyCounts
from ascendop.informer.shard import Shard

KEY = ("ml", "a")


class World:
    """One object on a server, our writes to it, a stream of events, and the store that hears it."""

    def __init__(self, make_row, last):
        self.make_row = make_row
        self.last = last
        """Revisions."""
        self.truth = [None]
        """By revision: what the server had."""
        self.stream = []
        """Events that were not delivered yet."""
        self.answers = []
        """Answers to own writes that did not reach us yet."""
        self.floor = 0
        """The newest revision that an answer told us of."""
        self.shard = Shard({"owner": lambda row: (row.owner,)}, NobodyCounts())
        staging = self.shard.stage()
        list(self.shard.swap(staging, "0"))
        self.position = 0

    @property
    def revision(self):
        return len(self.truth) - 1

    def labels(self):
        yield from self.happenings()
        if self.answers:
            yield "answer"
        if self.stream:
            yield "deliver"
        elif self.position < self.revision:
            yield "bookmark"
        for at in range(self.position, self.revision + 1):
            if at > self.position or self.stream:
                yield f"list {at}"

    def happenings(self):
        if self.revision == self.last:
            return
        yield "elsewhere"
        there = self.truth[-1] is not None
        for who in ("own", "foreign"):
            yield f"{who} {'change' if there else 'create'}"
            if there:
                yield f"{who} delete"

    def do(self, label):
        verb, _, what = label.partition(" ")
        if verb in ("own", "foreign"):
            self.write(what, own=verb == "own")
        elif verb == "answer":
            self.answer()
        elif verb == "deliver":
            at, gone, row = self.stream.pop(0)
            self.shard.remove(row) if gone else self.shard.upsert(row)
            self.position = max(self.position, at)
        elif verb == "bookmark":
            self.shard.move(str(self.revision))
            self.position = self.revision
        elif verb == "elsewhere":
            self.truth.append(self.truth[-1])
        else:
            self.list_at(int(what))

    def write(self, what, *, own):
        old = self.truth[-1]
        at = self.revision + 1
        uid = f"u{at}" if old is None else old.uid
        row = self.make_row("a", at, uid=uid)
        gone = what == "delete"
        self.truth.append(None if gone else row)
        self.stream.append((at, gone, row))
        if own:
            self.answers.append((at, old if gone else row, gone))

    def answer(self):
        at, row, gone = self.answers.pop(0)
        if gone:
            self.shard.note_gone(KEY, row.uid, 0.0, row.version)
        else:
            self.shard.note(row, 0.0)
        self.floor = max(self.floor, at)

    def list_at(self, at):
        staging = self.shard.stage()
        if self.truth[at] is not None:
            staging.put(self.truth[at])
        list(self.shard.swap(staging, str(at)))
        self.stream = [event for event in self.stream if event[0] > at]
        self.position = at

    def check(self):
        shown = self.shard.get(KEY)
        oldest = max(self.floor, self.position)
        assert shown in self.truth[oldest:], f"shows {shown}, older than {oldest}"
        assert self.shard.by_index("owner", "job") == ([shown] if shown else [])
        if not self.stream and not self.answers and self.position == self.revision:
            assert self.shard.written == 0, "an own write is left"
            assert shown == self.truth[-1]

    def key(self):
        entry = self.shard._overlay.get(KEY)
        return (
            tuple(row and (row.uid, row.version) for row in self.truth),
            tuple(event[0] for event in self.stream),
            tuple(answer[0] for answer in self.answers),
            self.floor,
            self.position,
            (cached := self.shard._objects.get(KEY)) and cached.version,
            entry and (entry.uid, entry.number, entry.row is None),
        )


@pytest.mark.parametrize(
    "last",
    [
        pytest.param(4, id="made, changed, deleted, made again"),
        pytest.param(5, id="and one more", marks=pytest.mark.long),
    ],
)
def test_no_order_of_events_lets_a_read_fall_behind_our_write_or_an_entry_stay(row, last):
    """runtime:S-8 runtime:W-2 runtime:W-3 runtime:W-4"""
    seen = set()
    paths = deque([()])
    while paths:
        path = paths.popleft()
        world = World(row, last)
        for label in path:
            world.do(label)
        try:
            world.check()
        except AssertionError as error:
            raise AssertionError(" → ".join(path)) from error
        state = world.key()
        if state in seen:
            continue
        seen.add(state)
        paths.extend((*path, label) for label in world.labels())
    assert len(seen) > 1_500
