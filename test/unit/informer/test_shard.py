# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The store of one reflector: guards, indexes, swaps, and own writes on top."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ascendop.informer.observer import NobodyCounts
from ascendop.informer.overlay import KEPT_S
from ascendop.informer.shard import Shard

INDEXES = {"owner": lambda row: (row.owner,) if row.owner else (), "node": lambda row: (row.node,)}
KEY = ("ml", "a")


def shard_of():
    return Shard(INDEXES, NobodyCounts())


def listed(*rows, version="10"):
    """A shard whose first list had these rows."""
    shard = shard_of()
    list_into(shard, rows, version)
    return shard


def list_into(shard, rows, version):
    staging = shard.stage()
    for row in rows:
        staging.put(row)
    return [change for change in shard.swap(staging, str(version)) if change is not None]


def say(changes):
    said = []
    for c in changes:
        flags = [f for f in ("initial", "unchanged", "inferred", "synthetic") if getattr(c, f)]
        verb = "add" if c.old is None else "del" if c.new is None else "mod"
        said.append(" ".join([verb, c.row.uid, *flags]))
    return said


# Guards


def test_a_replay_changes_nothing(row):
    """runtime:I-19"""
    shard = listed(row(version=7))
    assert shard.upsert(row(version=7)) == []
    assert shard.upsert(row(version=6, node="old")) == []
    assert shard.get(KEY).version == "7"


def test_another_uid_under_the_name_is_a_death_and_a_birth_24(row):
    """runtime:I-19"""
    shard = listed(row(version=7, uid="u1", owner="x"))
    changes = shard.upsert(row(version=12, uid="u2", owner="y"))
    assert say(changes) == ["del u1 inferred", "add u2"]
    assert [r.uid for r in shard.by_index("owner", "y")] == ["u2"]
    assert shard.by_index("owner", "x") == []


def test_a_death_of_the_unknown_is_ignored(row):
    """runtime:I-20"""
    assert listed().remove(row(version=12)) == []


def test_a_late_death_of_a_predecessor_is_ignored_25(row):
    """runtime:I-20"""
    shard = listed(row(version=9, uid="u2"))
    assert shard.remove(row(version=8, uid="u1")) == []
    assert shard.get(KEY).uid == "u2"


def test_a_death_of_a_successor_that_was_never_seen_takes_the_predecessor_along(row):
    """runtime:I-20"""
    shard = listed(row(version=5, uid="u1"))
    assert say(shard.remove(row(version=12, uid="u2"))) == ["del u1 inferred"]
    assert shard.get(KEY) is None


def test_versions_that_are_no_numbers_are_applied_as_they_come(row):
    """runtime:I-3 runtime:I-15"""
    shard = listed(row(version="x9"), version="x9")
    assert say(shard.upsert(row(version="x1"))) == ["mod uid-a"]
    assert shard.position == "x1"
    assert shard.number is None


@pytest.mark.parametrize("version", ["", "0", "007", "-3", "1.5", "\u0667"])
def test_what_is_no_version_is_compared_with_nothing(row, version):
    """runtime:I-3"""
    shard = listed(row(version=version))
    assert len(shard.upsert(row(version="5"))) == 1


def test_the_position_is_that_of_the_last_event_and_never_goes_back(row):
    """runtime:I-14"""
    shard = listed(row(version=3), version=10)
    assert shard.position == "10"
    shard.upsert(row("b", version=12))
    shard.move("20")
    shard.upsert(row("c", version=15))
    assert shard.position == "20"


# Swaps


def test_a_new_list_tells_deaths_then_changes_then_births(row):
    """runtime:I-21 runtime:I-22"""
    shard = listed(row("a", 1), row("b", 2), row("c", 3, uid="c1"), row("d", 4))
    new = [row("e", 12), row("c", 13, uid="c2"), row("b", 14), row("d", 4)]
    assert say(list_into(shard, new, 20)) == [
        "del uid-a inferred",
        "del c1 inferred",
        "mod uid-b",
        "mod uid-d unchanged",
        "add uid-e",
        "add c2",
    ]


def test_readers_see_the_new_store_while_the_differences_are_being_told(row):
    """runtime:I-21"""
    shard = listed(row("a", 1, node="n1"))
    staging = shard.stage()
    staging.put(row("b", 2, node="n2"))
    telling = shard.swap(staging, "20")
    assert [r.name for r in shard.rows()] == ["b"]
    assert shard.by_index("node", "n1") == []
    assert [r.name for r in shard.by_index("node", "n2")] == ["b"]
    assert say(c for c in telling if c) == ["del uid-a inferred", "add uid-b"]


def test_a_staged_list_is_invisible_and_may_be_thrown_away(row):
    """runtime:I-11 runtime:I-4"""
    shard = listed(row("a", 1))
    staging = shard.stage()
    staging.put(row("b", 2))
    staging.drop(row("a", 3))
    assert [r.name for r in shard.rows()] == ["a"]
    assert shard.position == "10"


def test_an_object_that_did_not_change_stays_the_same_object_in_memory(row):
    shard = listed(row("a", 1))
    before = shard.get(KEY)
    list_into(shard, [row("a", 1)], 20)
    assert shard.get(KEY) is before


def test_a_store_has_no_room_limit_29(row):
    shard = listed(*(row(f"p{n}", n + 1) for n in range(10_001)), version=20_000)
    assert len(shard) == 10_001
    assert shard.get(("ml", "p0")) is not None


def test_a_swap_of_many_gives_others_a_chance_even_where_nothing_differs(row):
    """runtime:I-29"""
    rows = [row(f"p{n}", n + 1) for n in range(2_000)]
    shard = listed(*rows, version=5_000)
    staging = shard.stage()
    told = shard.swap(staging, "6000")
    assert sum(1 for change in told if change is not None) == 2_000
    list_into(shard, rows[:1], 7_000)
    staging = shard.stage()
    for each in rows:
        staging.put(each)
    assert None in list(shard.swap(staging, "8000"))


# Indexes


def test_an_unknown_index_is_an_error_and_not_a_scan_30():
    """runtime:I-30"""
    with pytest.raises(KeyError):
        shard_of().by_index("colour", "red")


def test_an_index_read_is_a_snapshot_in_order_of_arrival(row):
    """ascendjob:W-33 runtime:I-31 runtime:I-30"""
    shard = listed()
    for n, name in enumerate("cab", 11):
        shard.upsert(row(name, n))
    snapshot = shard.by_index("owner", "job")
    shard.remove(row("a", 20))
    assert [r.name for r in snapshot] == ["c", "a", "b"]
    snapshot.clear()
    assert [r.name for r in shard.by_index("owner", "job")] == ["c", "b"]


def test_an_object_leaves_the_buckets_of_its_old_values_and_no_empty_bucket_stays_23(row):
    """runtime:I-30"""
    shard = listed(row(node="n1"))
    shard.upsert(row(node="n2", version=11))
    assert shard.by_index("node", "n1") == []
    assert shard.index_values("node") == ["n2"]
    shard.remove(row(version=12))
    assert shard.index_values("node") == []


# Own writes


def test_an_own_write_is_read_at_once_by_key_and_by_index(row):
    """runtime:W-2 runtime:W-4"""
    shard = listed(row(version=5, node="n1"))
    shard.note(row(version=12, node="n2"), 0.0)
    shard.note(row("b", 13, node="n2"), 0.0)
    assert shard.get(KEY).node == "n2"
    assert [r.name for r in shard.by_index("node", "n2")] == ["a", "b"]
    assert shard.by_index("node", "n1") == []
    assert {r.name for r in shard.rows()} == {"a", "b"}


def test_an_own_write_that_comes_back_is_told_as_ours_and_what_others_made_of_it_is_not(row):
    shard = listed(row(version=5))
    shard.note(row(version=12), 0.0)
    shard.note(row("b", 13), 0.0)
    (back,) = shard.upsert(row(version=12))
    (changed,) = shard.upsert(row("b", 14))
    (again,) = shard.upsert(row(version=15))
    assert (back.ours, changed.ours, again.ours) == (True, False, False)


def test_an_own_delete_hides_the_object_and_not_its_successor(row):
    """runtime:W-2 runtime:W-4"""
    shard = listed(row(version=5, uid="u1"))
    shard.note_gone(KEY, "u1", 0.0)
    assert shard.get(KEY) is None
    assert shard.by_index("owner", "job") == []
    shard.upsert(row(version=12, uid="u2"))
    assert shard.get(KEY).uid == "u2"


def test_a_graceful_delete_is_an_ordinary_write(row):
    """runtime:W-2"""
    shard = listed(row(version=5))
    shard.note(row(version=12, node="deleting"), 0.0)
    assert shard.get(KEY).node == "deleting"
    shard.remove(row(version=13))
    assert shard.get(KEY) is None
    assert shard.written == 0


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(lambda s, row: s.upsert(row(version=12)), id="a: the cache has it"),
        pytest.param(lambda s, row: s.upsert(row(version=14)), id="a: the cache has a newer one"),
        pytest.param(lambda s, row: s.remove(row(version=13)), id="b: it was deleted since"),
        pytest.param(lambda s, row: s.move("15"), id="c: made and deleted unseen, by bookmark"),
        pytest.param(lambda s, row: s.upsert(row("z", 15)), id="c: the same, by another event"),
        pytest.param(lambda s, row: s.upsert(row(uid="u2", version=14)), id="d: a successor"),
        pytest.param(lambda s, row: list_into(s, [], 15), id="c: a list without it"),
        pytest.param(lambda s, row: s.expire(KEPT_S), id="f: two minutes have passed"),
    ],
)
def test_an_own_write_is_dropped_when(row, settle):
    """runtime:W-3"""
    shard = listed()
    shard.note(row(version=12), 0.0)
    assert shard.written == 1
    settle(shard, row)
    assert shard.written == 0


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda s, row: s.move("11"), id="an older bookmark"),
        pytest.param(lambda s, row: s.upsert(row(version=11, node="n1")), id="an older event"),
        pytest.param(lambda s, row: s.remove(row(version=11)), id="an older death"),
        pytest.param(lambda s, row: list_into(s, [], 11), id="an older list"),
        pytest.param(lambda s, row: s.expire(KEPT_S - 1), id="less than two minutes"),
    ],
)
def test_an_own_write_is_kept_after(row, event):
    """runtime:W-3"""
    shard = listed(row(version=5))
    shard.note(row(version=12, node="own"), 0.0)
    event(shard, row)
    assert shard.written == 1
    assert shard.get(KEY).node == "own"


@pytest.mark.parametrize(
    "settle",
    [
        pytest.param(lambda s, row: s.remove(row(version=13)), id="its death was told"),
        pytest.param(lambda s, row: list_into(s, [], 15), id="a list without it"),
        pytest.param(lambda s, row: s.upsert(row(uid="u2", version=14)), id="a successor"),
        pytest.param(lambda s, row: s.expire(KEPT_S), id="two minutes have passed"),
    ],
)
def test_a_ghost_is_dropped_when(row, settle):
    """runtime:W-3"""
    shard = listed(row(version=5))
    shard.note_gone(KEY, "uid-a", 0.0)
    shard.move("12")
    assert shard.written == 1
    settle(shard, row)
    assert shard.written == 0


def test_a_ghost_of_an_object_the_cache_never_saw_goes_when_the_cache_has_passed_it(row):
    """runtime:W-3"""
    shard = listed()
    shard.note(row(version=12), 0.0)
    shard.note_gone(KEY, "uid-a", 0.0)
    shard.upsert(row(version=12))
    assert shard.get(KEY) is None
    shard.remove(row(version=13))
    assert shard.written == 0
    shard.note_gone(KEY, "uid-z", 0.0, version="9")
    assert shard.written == 0


def test_no_ghost_is_kept_of_what_neither_cache_nor_overlay_has(row):
    """runtime:W-3: the answer to a DELETE may come after the watch has told of the end."""
    shard = listed(row(version=5))
    shard.remove(row(version=6))
    shard.note_gone(KEY, "uid-a", 0.0)
    assert shard.written == 0


def test_a_ghost_goes_when_the_cache_has_passed_it_and_holds_somebody_else(row):
    """runtime:W-3"""
    shard = listed(row(version=5, uid="u1"))
    shard.note_gone(KEY, "u2", 0.0, version="11")
    assert shard.get(KEY) is None, "u1 cannot have outlived the birth of u2"
    shard.move("12")
    shard.upsert(row("a", version=13, uid="u3"))
    assert shard.written == 0
    shard = listed(row(version=5, uid="u1"))
    shard.note_gone(KEY, "u2", 0.0, version="11")
    shard.move("12")
    assert shard.written == 0


def test_a_late_answer_to_an_older_write_is_no_news(row):
    """runtime:W-2"""
    shard = listed(row(version=15, node="new"))
    shard.note(row(version=12, node="old"), 0.0)
    assert shard.written == 0
    shard.note(row(version=20, node="newest"), 0.0)
    shard.note(row(version=18, node="newer"), 0.0)
    assert shard.get(KEY).node == "newest"


def test_handlers_hear_when_an_own_write_vanishes_without_an_event(row):
    """runtime:W-3"""
    shard = listed()
    shard.note(row(version=12), 0.0)
    assert say(shard.move("15")) == ["del uid-a inferred synthetic"]


def test_handlers_hear_when_a_given_up_ghost_shows_its_object_again(row):
    """runtime:W-3"""
    shard = listed(row(version=5))
    shard.note_gone(KEY, "uid-a", 0.0)
    assert say(shard.expire(KEPT_S)) == ["add uid-a synthetic"]


def test_an_own_write_with_a_version_that_is_no_number_goes_with_the_next_event(row):
    """runtime:I-3 runtime:W-3"""
    shard = listed(row(version="x5"), version="x5")
    shard.note(row(version="x9", node="own"), 0.0)
    assert shard.get(KEY).node == "own"
    shard.move("x7")
    assert shard.written == 1
    shard.upsert(row(version="x8", node="told"))
    assert shard.written == 0
    assert shard.get(KEY).node == "told"


def test_who_waits_for_a_version_is_called_once_when_it_has_been_applied(row):
    """runtime:W-6"""
    shard = listed()
    called = []
    shard.when_passed(12, lambda: called.append(12))
    shard.when_passed(14, lambda: called.append(14))
    shard.when_passed(9, lambda: called.append(9))
    assert called == [9]
    shard.upsert(row(version=13))
    assert called == [9, 12]
    list_into(shard, [], 20)
    assert called == [9, 12, 14]


def test_a_kind_that_is_gone_leaves_nothing_behind(row):
    """runtime:I-38"""
    shard = listed(row(version=5))
    shard.note(row("b", 12), 0.0)
    assert say(c for c in shard.clear() if c) == ["del uid-a inferred"]
    assert (len(shard), shard.written, shard.position) == (0, 0, "")
    assert shard.indexes() == {"owner": {}, "node": {}}


class ShardAgainstOracle(RuleBasedStateMachine):
    """Random events, lists and own writes; the oracle is a dict per revision."""

    def __init__(self):
        super().__init__()
        self.revision = 10
        self.server = {}
        self.stream = []
        self.truth = {10: {}}
        self.floors = {}
        """Per key: the revision of the last own write that was answered."""
        self.now = 0.0
        self.shard = shard_of()
        list_into(self.shard, [], 10)
        self.told = {}
        """What handlers must believe, from changes alone."""

    def row(self, name, owner, node, uid):
        return PodLike("ml", name, uid, str(self.revision), owner, node)

    def hear(self, changes):
        for change in changes:
            if change is None or change.synthetic:
                continue
            key = (change.row.namespace, change.row.name)
            assert self.told.get(key) == change.old
            if change.new is None:
                del self.told[key]
            else:
                self.told[key] = change.new

    def happen(self, kind, row):
        key = (row.namespace, row.name)
        if kind == "DELETED":
            del self.server[key]
        else:
            self.server[key] = row
        self.truth[self.revision] = dict(self.server)
        self.stream.append((self.revision, kind, row))

    @rule(
        name=st.sampled_from("ab"),
        owner=st.sampled_from(["x", "y", ""]),
        node=st.sampled_from(["n1", "n2"]),
        own=st.booleans(),
    )
    def put(self, name, owner, node, own):
        self.revision += 1
        old = self.server.get(("ml", name))
        uid = old.uid if old else f"{name}{self.revision}"
        row = self.row(name, owner, node, uid)
        self.happen("MODIFIED" if old else "ADDED", row)
        if own:
            self.shard.note(row, self.now)
            self.floors["ml", name] = self.revision

    @rule(name=st.sampled_from("ab"), own=st.booleans())
    def delete(self, name, own):
        old = self.server.get(("ml", name))
        if old is None:
            return
        self.revision += 1
        self.happen("DELETED", self.row(name, old.owner, old.node, old.uid))
        if own:
            self.shard.note_gone(("ml", name), old.uid, self.now, old.version)
            self.floors["ml", name] = self.revision

    @precondition(lambda self: self.stream)
    @rule()
    def deliver(self):
        _, kind, row = self.stream.pop(0)
        self.hear(self.shard.remove(row) if kind == "DELETED" else self.shard.upsert(row))

    @precondition(lambda self: self.shard.position)
    @rule()
    def replay(self):
        for row in self.shard.cached().values():
            assert self.shard.upsert(row) == []

    @precondition(lambda self: not self.stream)
    @rule(more=st.integers(0, 2))
    def bookmark(self, more):
        for _ in range(more):
            self.revision += 1
            self.truth[self.revision] = dict(self.server)
        self.hear(self.shard.move(str(self.revision)))

    @rule(data=st.data())
    def relist(self, data):
        at = data.draw(st.sampled_from([r for r in self.truth if r >= self.shard.number]))
        self.hear(list_into(self.shard, self.truth[at].values(), at))
        self.stream = [event for event in self.stream if event[0] > at]

    @invariant()
    def handlers_know_what_the_cache_knows(self):
        assert self.told == self.shard.cached()

    @invariant()
    def indexes_are_what_they_would_be_if_made_anew(self):
        rows = self.shard.rows()
        for name, function in INDEXES.items():
            want = {}
            for row in rows:
                for value in function(row):
                    want.setdefault(value, set()).add((row.namespace, row.name))
            got = {value: set(keys) for value, keys in self.shard.indexes()[name].items()}
            assert got == want

    @invariant()
    def a_read_is_the_truth_of_some_moment_not_before_our_last_write(self):
        for name in "ab":
            key = ("ml", name)
            floor = max(self.floors.get(key, 0), self.shard.number)
            allowed = [self.truth[r].get(key) for r in self.truth if r >= floor]
            assert self.shard.get(key) in allowed

    @invariant()
    def nothing_of_ours_is_left_when_the_cache_has_caught_up(self):
        if not self.stream and self.shard.number == self.revision:
            assert self.shard.written == 0
            assert {(r.namespace, r.name): r for r in self.shard.rows()} == self.server


class PodLike:
    def __init__(self, *fields):
        self.fields = fields
        self.namespace, self.name, self.uid, self.version, self.owner, self.node = fields

    def __eq__(self, other):
        return other is not None and self.fields == other.fields

    def __hash__(self):
        return hash(self.fields)

    def __repr__(self):
        return f"{self.name}:{self.uid}@{self.version}"


TestShardAgainstOracle = ShardAgainstOracle.TestCase
TestShardAgainstOracle.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
TestShardAgainstOracle.__doc__ = "runtime:S-9 runtime:S-5 runtime:I-30 runtime:W-3 runtime:W-4"
