# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Who hears what, when, and what becomes of it in the queue."""

import asyncio
from random import Random  # noqa: TID251  seeded

from ascendop.informer.audit import SWEEP_S, Audit, sweep
from ascendop.informer.change import Change
from ascendop.informer.handlers import LOW
from ascendop.kube.errors import error_of
from ascendop.kube.resource import Scope


async def test_a_handler_that_fails_stops_no_other_handler_and_no_other_change(
    source, pods, running, heard
):
    """runtime:I-43"""
    informer = pods(source)

    def fails(change):
        raise ValueError("a bug")

    informer.handle(fails)
    ears = heard(informer)
    source.put("a")
    async with running(informer):
        await informer.synced.wait()
        source.put("b")
        await asyncio.sleep(0.1)
    assert ears.said() == ["add a initial", "add b"]
    assert informer.counts.counted["handler_errors_total"] == 2


async def test_synced_comes_after_every_handler_has_heard_everything_22(
    source, pods, running, heard
):
    """runtime:I-28"""
    for n in range(1000):
        source.put(f"p{n}")
    informer = pods(source)
    ears = heard(informer)
    loop, seen = asyncio.get_running_loop(), []

    def take_time(_change):
        loop._jumping.now_s += 0.001

    informer.handle(take_time)

    async def watch_synced():
        await informer.synced.wait()
        seen.append(len(ears.changes))

    async with running(informer), asyncio.TaskGroup() as group:
        group.create_task(watch_synced())
    assert seen == [1000]


async def test_who_comes_late_hears_what_is_there_first_and_then_what_happens(
    source, pods, running, heard
):
    """runtime:I-28"""
    source.put("a")
    source.put("b")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        late = heard(informer)
        assert late.said() == []
        assert not late.registration.synced.is_set()
        informer._tell(Change(informer.store.get("ml", "a"), None))  # before the replay ran
        await late.registration.synced.wait()
        assert late.said() == ["add a initial", "add b initial", "del a"]
        source.put("c")
        await asyncio.sleep(0.1)
        assert late.said()[-1] == "add c"


async def test_who_comes_before_the_first_list_is_synced_with_the_informer(
    source, pods, running, heard
):
    """runtime:I-28"""
    source.put("a")
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await ears.registration.synced.wait()
        assert ears.said() == ["add a initial"]


async def test_one_reflector_per_namespace_feeds_one_store(source, pods, running, heard):
    """runtime:I-45"""
    source.put("a", namespace="one")
    source.put("b", namespace="two", owner="job")
    source.put("c", namespace="three")
    informer = pods(source, scopes=(Scope("one"), Scope("two")))
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        assert sorted(ears.said()) == ["add a initial", "add b initial"]
        assert [row.name for row in informer.store.by_index("owner", "job")] == ["a", "b"]
        assert informer.store.get("three", "c") is None
        source.put("d", namespace="one")
        await asyncio.sleep(0.1)
        one, two = (informer.store.shard_of(ns) for ns in ("one", "two"))
        assert one.number > two.number, "positions are apart"
    assert source.count("initial") == 2


async def test_a_relist_is_told_with_what_it_changed_and_the_first_list_is_not(
    source, pods, running
):
    """runtime:P-13"""
    for name in "abcd":
        source.put(name)
    informer, seen = pods(source), []
    informer.swapped = lambda changed, of: seen.append((changed, of))
    async with running(informer):
        await informer.synced.wait()
        informer.resync("test")
        await asyncio.sleep(10)
        assert seen == [(0, 4)]
        source.cut()
        source.put("b", node="n1")
        source.delete("c")
        source.compact()
        await asyncio.sleep(10)
    assert seen == [(0, 4), (2, 3)]


async def test_a_denied_namespace_keeps_the_whole_from_being_synced(source, pods, running):
    """runtime:I-45"""
    informer = pods(source, scopes=(Scope("one"), Scope("two")))
    real_list, real_watch = source.list_page, source.watch

    def refuse(scope):
        if scope.namespace == "two":
            raise error_of(403, b"{}")

    def list_page(resource, scope, **more):
        refuse(scope)
        return real_list(resource, scope, **more)

    def watch(resource, scope, **more):
        refuse(scope)
        return real_watch(resource, scope, **more)

    source.list_page, source.watch = list_page, watch
    async with running(informer):
        await asyncio.sleep(20)
        assert not informer.synced.is_set()
        assert informer.figures().state == "denied"


async def test_an_audit_finds_an_event_that_was_lost_and_has_it_repaired(
    source, pods, running, heard
):
    """runtime:I-42"""
    source.put("a")
    source.put("b")
    informer = pods(source)
    audit = Audit(informer, rng=Random(1))
    async with running(informer):
        await informer.synced.wait()
        assert await audit.once() == []
        lost = source.history
        source.put("b", node="moved")
        source.delete("a")
        source.history = lost[:2]
        source.put("c")
        await asyncio.sleep(0.1)
        assert sorted(await audit.once()) == [("ml", "a"), ("ml", "b")]
        await asyncio.sleep(5)
        assert {r.name for r in informer.store.rows()} == {"b", "c"}
        assert await audit.once() == []
    assert informer.counts.counted["audit_differences_total"] == 2
    assert informer.counts.counted["resyncs_total", "audit"] == 1


async def test_an_audit_asks_for_metadata_at_exactly_the_position_of_the_store(
    source, pods, running
):
    """runtime:I-42"""
    asked = []
    real = source.list_page

    def list_page(resource, scope, **more):
        asked.append((scope.metadata_only, more["version"], more["match"]))
        return real(resource, scope, **more)

    source.list_page = list_page
    for n in range(600):
        source.put(f"p{n}")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        await Audit(informer, rng=Random(1)).once()
    assert asked == [(True, "700", "Exact"), (True, "", "")]


async def test_an_own_write_that_is_never_confirmed_is_given_up_and_audited(
    source, pods, running, heard, row
):
    """runtime:W-3 runtime:I-42"""
    informer = pods(source)
    ears = heard(informer)
    async with running(informer, Audit(informer, rng=Random(1))):
        await informer.synced.wait()
        informer.store.note(row("x", version="opaque"))
        assert informer.store.get("ml", "x") is not None
        await asyncio.sleep(119)
        assert informer.store.get("ml", "x") is not None
        await asyncio.sleep(2)
        assert informer.store.get("ml", "x") is None
        assert ears.said() == ["del x inferred synthetic"]
        await asyncio.sleep(1)
        assert source.count("list") == 1
    assert informer.counts.counted["overlay_expired_total"] == 1


async def test_a_sweep_adds_every_key_twice_a_day_at_low_priority():
    """runtime:I-41"""
    added, rng = [], Random(1)
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(
            sweep(lambda: ["a", "b"], lambda key, priority: added.append((key, priority)), rng=rng)
        )
        await asyncio.sleep(SWEEP_S * 0.9 - 1)
        assert added == []
        await asyncio.sleep(SWEEP_S * 0.2 + 2)
        assert added == [("a", LOW), ("b", LOW)]
        task.cancel()
    assert loop.time() < SWEEP_S * 1.2
