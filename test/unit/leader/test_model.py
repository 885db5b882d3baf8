# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every order in which two replicas, one Lease and a bad network can act, searched to the end.

The decisions are those of the real `Sight`. Time is in whole seconds, and a replica may pause for
any time between two steps, since nothing forces it to act while the clock ticks.
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta

import orjson

from ascendop.leader.record import Sight

from .cluster import START  # noqa: TID252  the standard library has a package called test

LEASE_S, RENEW_S = 3, 2
HORIZON_S = 4
MOST_CLAIMS = 1
"""Of one replica: renewals repeat the argument and multiply the states."""
NAMES = ("a", "b")


@dataclass(frozen=True)
class Memory:
    """What a Sight remembers, as a value."""

    found: bytes = b"null"
    held_until: float = 0.0
    seen: bytes = b"null"
    ours: tuple[str, ...] = ()

    def sight(self, me, lease_s):
        sight = Sight(me, lease_s, orjson.loads(self.found), self.held_until)
        seen = orjson.loads(self.seen)
        sight._seen = (seen[0], seen[1]) if seen else None
        sight._ours.extend({"renewTime": time} for time in self.ours)
        return sight

    @classmethod
    def of(cls, sight):
        return cls(
            orjson.dumps(sight.found),
            sight.held_until,
            orjson.dumps(sight._seen),
            tuple(sent["renewTime"] for sent in sight._ours),
        )


@dataclass(frozen=True)
class One:
    """A replica: follows, leads, or has ended."""

    role: str = "follows"
    memory: Memory = Memory()
    open_until: float = 0.0
    waits_for: tuple | None = None
    """("read", answer), ("put", lease, sent at), ("said", answer or None for a 409, sent at)."""


@dataclass(frozen=True)
class State:
    now: int = 0
    lease: bytes = b"null"
    ones: tuple[One, One] = (One(), One())
    late: tuple[bytes, ...] = ()
    """Requests that their senders gave up, and that may arrive all the same."""


def gates(state):
    return [
        name
        for name, one in zip(NAMES, state.ones, strict=True)
        if one.role == "leads" and state.now < one.open_until
    ]


def steps(state, lease_s):
    """Everything that can happen next, each with its name."""
    if state.now < HORIZON_S:
        yield "tick", replace(state, now=state.now + 1)
    for index, body in enumerate(state.late):
        rest = state.late[:index] + state.late[index + 1 :]
        yield "late request arrives", replace(store(state, body)[0], late=rest)
    for me, one in enumerate(state.ones):
        for label, after in moves(state, me, one, lease_s):
            yield f"{NAMES[me]}: {label}", after


def moves(state, me, one, lease_s):
    """What one replica can do next, given what it waits for."""
    match one.waits_for:
        case None:
            found = acts(state, me, one, lease_s)
        case ("read", answer):
            found = reads(state, me, one, lease_s, answer)
        case ("put", body, sent_at):
            found = writes(state, me, one, body, sent_at)
        case ("said", answer, sent_at):
            found = hears(state, me, one, lease_s, answer, sent_at)
    yield from found


def become(state, me, one, **changes):
    ones = list(state.ones)
    ones[me] = replace(one, **changes)
    return replace(state, ones=tuple(ones))


def acts(state, me, one, lease_s):
    if one.role == "follows":
        yield "asks", become(state, me, one, waits_for=("read", state.lease))
    elif one.role == "leads" and state.now < one.open_until:
        if len(one.memory.ours) < MOST_CLAIMS:
            yield "renews", become(state, me, one, **claim(state, one, me, lease_s))
        sight = one.memory.sight(NAMES[me], lease_s)
        body = orjson.dumps(sight.release("ops", "ascendop", wall(state, me)))
        yield "gives back", become(state, me, one, role="ended", waits_for=("put", body, state.now))


def reads(state, me, one, lease_s, answer):
    sight = one.memory.sight(NAMES[me], lease_s)
    sight.observe(orjson.loads(answer), state.now)
    seen = replace(one, memory=Memory.of(sight), waits_for=None)
    if not sight.may_take(state.now):
        yield "believes", become(state, me, seen)
    elif len(seen.memory.ours) < MOST_CLAIMS:
        yield "takes", become(state, me, seen, **claim(state, seen, me, lease_s))


def writes(state, me, one, body, sent_at):
    after, answer = store(state, body)
    yield "is heard", become(after, me, one, waits_for=("said", answer, sent_at))
    if not state.late:
        late = replace(state, late=(body,))
        yield "gives up what may be heard later", become(late, me, one, waits_for=None)


def hears(state, me, one, lease_s, answer, sent_at):
    yield "does not hear the answer", become(state, me, one, waits_for=None)
    if answer is None:
        role = "follows" if one.role == "follows" else "ended"
        yield "is refused", become(state, me, one, role=role, waits_for=None)
    elif one.role != "ended":
        sight = one.memory.sight(NAMES[me], lease_s)
        sight.observe(orjson.loads(answer), state.now)
        leads = {"role": "leads", "open_until": sent_at + RENEW_S, "memory": Memory.of(sight)}
        yield "hears that it leads", become(state, me, one, waits_for=None, **leads)


def claim(state, one, me, lease_s):
    sight = one.memory.sight(NAMES[me], lease_s)
    body = sight.claim("ops", "ascendop", wall(state, me))
    return {"memory": Memory.of(sight), "waits_for": ("put", orjson.dumps(body), state.now)}


def wall(state, me):
    """Two clocks never show the same microsecond."""
    return START + timedelta(seconds=state.now, microseconds=me)


def store(state, body):
    """What the server does: a write of an old version is refused."""
    wanted, there = orjson.loads(body), orjson.loads(state.lease)
    version = there["metadata"]["resourceVersion"] if there else None
    if wanted["metadata"].get("resourceVersion") != version:
        return state, None
    wanted["metadata"]["resourceVersion"] = str(int(version or 0) + 1)
    stored = orjson.dumps(wanted)
    return replace(state, lease=stored), stored


def search(lease_s):
    """The first way to two open gates, as labels, or None; and how many states there are."""
    seen = {State(): None}
    todo = deque(seen)
    while todo:
        state = todo.popleft()
        for label, after in steps(state, lease_s):
            if after in seen:
                continue
            seen[after] = (state, label)
            if len(gates(after)) > 1:
                return way_to(seen, after), len(seen)
            todo.append(after)
    return None, len(seen)


def way_to(seen, state):
    labels = []
    while seen[state] is not None:
        state, label = seen[state]
        labels.append(label)
    return labels[::-1]


def test_no_order_of_events_opens_two_gates():
    """runtime:L-1 runtime:L-2 runtime:L-3 runtime:L-11"""
    way, states = search(LEASE_S)
    assert way is None
    assert states > 10_000


def test_the_search_finds_two_when_a_record_is_believed_for_less_than_it_is_renewed():
    way, _ = search(1)
    assert way is not None and way[-1].endswith("hears that it leads")
