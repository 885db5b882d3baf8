# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The conversation with the server, in virtual time: how it begins, goes on, breaks and heals."""

import asyncio

import pytest

from ascendop.informer.informer import NotSyncedError, all_synced
from ascendop.informer.reflector import State
from ascendop.informer.source import SyncPolicy
from ascendop.kube.errors import TransportError, error_of
from ascendop.kube.resource import Scope

NOT_KNOWN = error_of(400, b'{"message": "sendInitialEvents is forbidden"}')
LISTED = SyncPolicy(watch_list=False)


def now():
    return asyncio.get_running_loop().time()


async def until(claim):
    for _ in range(100_000):
        if claim():
            return
        await asyncio.sleep(1)
    raise AssertionError("never")


def mirrors(informer, source):
    got = {(row.namespace, row.name): row.version for row in informer.store.rows()}
    recomputed = {}
    for row in informer.store.rows():
        if row.owner:
            recomputed.setdefault(row.owner, set()).add(row.name)
    for owner in informer.store.index_values("owner"):
        names = {row.name for row in informer.store.by_index("owner", owner)}
        assert names == recomputed.pop(owner)
    assert not recomputed
    return got == source.state()


async def test_the_first_question_asks_for_everything_and_is_read_on_as_a_watch(
    source, pods, heard, running
):
    """runtime:I-4 runtime:I-5 runtime:I-18"""
    source.put("a")
    source.put("b")
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        assert ears.said() == ["add a initial", "add b initial"]
        source.put("c")
        source.put("a", node="n1")
        source.delete("b")
        await asyncio.sleep(1)
        assert ears.said()[2:] == ["add c", "mod a", "del b"]
        assert mirrors(informer, source)
    assert [asked[1:] for asked in source.asked] == [("initial", "", True)]


async def test_without_watch_list_it_lists_all_pages_and_watches_from_there_5(
    source, pods, running
):
    """runtime:I-8 runtime:I-1"""
    for n in range(1201):
        source.put(f"p{n}")
    informer = pods(source, policy=LISTED)
    async with running(informer):
        await informer.synced.wait()
        assert len(informer.store) == 1201
        source.put("late")
        await asyncio.sleep(1)
        assert mirrors(informer, source)
    assert [asked[1:3] for asked in source.asked] == [
        ("list", ""),
        ("list", ""),
        ("list", ""),
        ("watch", "1301"),
    ]


async def test_the_version_of_a_list_is_that_of_its_first_page(source, pods, running):
    """runtime:I-8: a later one may be newer than what the first page has seen."""
    for n in range(600):
        source.put(f"p{n}")
    real = source.list_page

    async def list_page(*args, continue_token="", **more):
        body = await real(*args, continue_token=continue_token, **more)
        return body.replace(b'"700"', b'"800"', 1) if continue_token else body

    source.list_page = list_page
    informer = pods(source, policy=LISTED)
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(1)
    assert source.asked[-1][1:3] == ("watch", "700")


@pytest.mark.parametrize("status", [400, 405, 415, 422, 501])
async def test_a_server_that_does_not_know_watch_list_is_listed_at_once(
    source, pods, running, status
):
    """runtime:I-6"""
    source.put("a")
    source.fail(on="initial", error=error_of(status, b"{}"))
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
    assert now() < 2


async def test_streams_that_end_before_the_end_mark_lead_to_a_list_10(source, pods, running):
    """runtime:I-6"""
    source.put("a")
    source.fail(on="initial", close_after=1, times=100)
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
    assert now() < 10
    assert source.count("initial") == 3


async def test_an_end_mark_that_never_comes_leads_to_a_list_11(source, pods, running):
    """runtime:I-6"""
    source.put("a")
    source.marks = False
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
    assert now() < 45


async def test_initial_events_without_an_end_lead_to_a_list_after_five_minutes(
    source, pods, running
):
    """runtime:I-6"""
    source.marks = False
    informer = pods(source)

    async def never_quiet():
        for _ in range(100):
            source.put("a")
            await asyncio.sleep(5)

    async with running(informer), asyncio.TaskGroup() as group:
        noise = group.create_task(never_quiet())
        await informer.synced.wait()
        noise.cancel()
    assert now() == pytest.approx(300, abs=40)


async def test_watch_list_is_tried_again_an_hour_after_it_failed(source, pods, running):
    """runtime:I-6"""
    source.put("a")
    source.fail(on="initial", error=NOT_KNOWN)
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        informer.resync("test")
        await asyncio.sleep(60)
        assert source.count("initial") == 1
        await asyncio.sleep(3600)
        informer.resync("test")
        await asyncio.sleep(60)
        assert source.count("initial") == 2
        assert source.asked[-1][2] != "", "a resync is never older than what was shown"


@pytest.mark.parametrize(
    "error",
    [
        error_of(429, b"{}", retry_after_s=1),
        error_of(503, b"{}"),
        TransportError("refused", sent=False),
    ],
    ids=["too many requests", "unavailable", "refused"],
)
async def test_a_busy_server_is_asked_again_and_not_listed(source, pods, running, error):
    """runtime:I-7"""
    source.put("a")
    source.fail(on="initial", error=error, times=3)
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
    assert source.count("initial") == 4
    assert source.count("list") == 0


@pytest.mark.parametrize("cut", range(5))
async def test_initial_events_may_be_cut_anywhere_12(source, pods, running, heard, cut):
    """runtime:I-4 runtime:I-14"""
    for name in "abc":
        source.put(name)
    source.fail(on="initial", cut_after=cut)
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        source.put("d")
        await asyncio.sleep(10)
        assert mirrors(informer, source)
    assert ears.said() == ["add a initial", "add b initial", "add c initial", "add d"]
    if cut < 4:
        assert source.asked[1][2] == "", "the versions of initial events are no position"


async def test_initial_events_are_not_shown_before_they_are_complete(source, pods, running):
    """runtime:I-4 runtime:I-11"""
    source.put("a")
    source.fail(on="initial", silent_after=1)
    informer = pods(source)
    async with running(informer):
        await asyncio.sleep(20)
        assert informer.store.rows() == []
        assert not informer.synced.is_set()


async def test_a_continue_token_that_expires_starts_the_list_again_7(source, pods, running):
    """runtime:I-9 runtime:I-11 field-reports:FR-072"""
    for n in range(1201):
        source.put(f"p{n}")
    gone = error_of(410, b'{"reason": "Expired"}')
    informer = pods(source, policy=LISTED)
    real = source.list_page
    seen = []

    async def list_page(*args, continue_token="", **more):
        seen.append(len(informer.store))
        if continue_token.endswith(":1000") and len(seen) <= 3:
            raise gone
        return await real(*args, continue_token=continue_token, **more)

    source.list_page = list_page
    async with running(informer):
        await informer.synced.wait()
        assert mirrors(informer, source)
    assert set(seen) == {0}, "no part of a list reaches the store"
    assert source.whole_bodies == 0


async def test_a_list_whose_pages_always_expire_is_taken_whole(source, pods, running):
    """runtime:I-9"""
    for n in range(600):
        source.put(f"p{n}")
    real = source.list_page

    async def list_page(*args, continue_token="", **more):
        if continue_token:
            raise error_of(410, b'{"reason": "Expired"}')
        return await real(*args, continue_token=continue_token, **more)

    source.list_page = list_page
    informer = pods(source, policy=LISTED)
    async with running(informer):
        await informer.synced.wait()
        assert mirrors(informer, source)
    assert source.count("list") == 4
    assert source.whole_bodies == 1


async def test_an_answer_beyond_all_bounds_is_not_decoded_9(source, pods, running):
    """runtime:I-9"""
    source.put("a" * 500)
    informer = pods(source, policy=SyncPolicy(watch_list=False, body_limit_bytes=100))
    async with running(informer):
        await asyncio.sleep(20)
        assert not informer.synced.is_set()
        assert "more than this can hold" in informer.figures().trouble


async def test_a_large_body_is_decoded_in_slices(source, pods, running, monkeypatch):
    """runtime:I-10"""
    monkeypatch.setattr("ascendop.informer.reflector.SLICED_ABOVE_BYTES", 10)
    for n in range(480):
        source.put(f"p{n}")
    informer = pods(source, policy=LISTED)
    loop, turns, decoding = asyncio.get_running_loop(), [], []
    real = informer._form.decode_item

    def decode_item(part):
        loop._jumping.now_s += 0.001  # what a large object takes
        decoding.append(loop.time())
        return real(part)

    async def another():
        while not informer.synced.is_set():
            await asyncio.sleep(0.001)
            turns.append(loop.time())

    informer._form.decode_item = decode_item
    async with running(informer):
        await another()
        assert mirrors(informer, source)
    assert len([turn for turn in turns if decoding[0] < turn < decoding[-1]]) >= 5


async def test_rough_data_is_asked_for_only_where_it_was_opted_for_8(source, pods, running):
    """runtime:I-1"""
    informer = pods(source, policy=SyncPolicy(watch_list=False, any_age=True))
    async with running(informer):
        await informer.synced.wait()
    assert source.asked[0][2] == "0"


async def test_every_question_has_the_same_selectors(source, pods, running):
    """runtime:I-2 runtime:I-36"""
    scopes = []
    real_list, real_watch = source.list_page, source.watch

    def list_page(resource, scope, **more):
        scopes.append(scope)
        return real_list(resource, scope, **more)

    def watch(resource, scope, **more):
        scopes.append(scope)
        return real_watch(resource, scope, **more)

    source.list_page, source.watch = list_page, watch
    source.fail(on="initial", error=NOT_KNOWN)
    wanted = Scope("ml", "job", "spec.nodeName!=", metadata_only=True)
    informer = pods(source, scopes=(wanted,))
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(1000)
    assert len(scopes) > 3
    assert set(scopes) == {wanted}


async def test_a_watch_ended_by_the_server_is_resumed_at_once_where_it_was_16(
    source, pods, running
):
    """runtime:I-12 runtime:I-14"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        for n in range(20):
            await asyncio.sleep(60)
            source.put("a", node=f"n{n}")
        await asyncio.sleep(1)
        assert mirrors(informer, source)
    watches = [asked for asked in source.asked if asked[1] == "watch"]
    assert 2 <= len(watches) <= 4
    assert informer.counts.counted.get("decode_errors_total") is None
    assert source.count("initial") == 1
    lengths = [b[0] - a[0] for a, b in zip(source.asked, source.asked[1:], strict=False)]
    assert all(300 <= length <= 601 for length in lengths)
    assert len(set(map(round, lengths))) == len(lengths), "each watch has a length of its own"


async def test_a_quiet_kind_among_busy_ones_is_never_listed_again_14(source, pods, running):
    """runtime:I-12 runtime:I-13"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        for _ in range(120):
            await asyncio.sleep(60)
            source.pass_time(1000)
            source.oldest = max(source.oldest, source.revision - 2500)
    assert not [key for key in informer.counts.counted if key[0] == "resyncs_total"]


async def test_a_bookmark_of_a_kind_with_required_fields_moves_the_position_only_13(
    source, pods, running, heard
):
    """runtime:I-13"""
    source.put("a")
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        ears.clear()
        source.pass_time(50)
        await asyncio.sleep(61)
        assert informer.store.shard_of("ml").position == str(source.revision)
    assert ears.said() == []
    assert len(informer.store) == 1


async def test_an_event_of_unknown_type_changes_nothing(source, pods, running):
    """runtime:I-13"""
    source.put("a")
    informer = pods(source)
    source.fail(on="initial", raw=[b'{"type":"FANCY","object":{"metadata":{"name":"x"}}}'])
    async with running(informer):
        await informer.synced.wait()
        assert mirrors(informer, source)
    assert informer.counts.counted["events_total", "other"] == 1


@pytest.mark.parametrize("open_at_compaction", [True, False])
async def test_a_position_that_is_too_old_leads_to_a_new_list_1_2_3_4(
    source, pods, running, heard, open_at_compaction
):
    """runtime:I-21 runtime:I-22 runtime:I-25"""
    for name in "abc":
        source.put(name)
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        ears.clear()
        source.put("a", node="before")
        gone = b'{"kind":"Status","code":410,"reason":"Expired","message":"too old"}'
        await asyncio.sleep(1)
        ears.clear()
        if open_at_compaction:
            source.fail(on="watch", raw=[b'{"type":"ERROR","object":' + gone + b"}"])
        source.fail(on="watch", error=error_of(410, gone))
        await asyncio.sleep(600)  # until the watch has ended once
        if not open_at_compaction:
            source.faults.clear()
        assert informer.counts.counted["resyncs_total", "Expired"] == 1
        assert mirrors(informer, source)
    asked = [a[1:3] for a in source.asked]
    assert asked.count(("initial", "104")) == 1, "the second question carries sendInitialEvents"


async def test_what_vanished_while_nobody_watched_is_told_3_4_24(source, pods, running, heard):
    """runtime:I-21 runtime:I-22 runtime:I-19 field-reports:FR-072"""
    for name in "abcd":
        source.put(name)
    informer = pods(source)
    ears = heard(informer)
    async with running(informer):
        await informer.synced.wait()
        ears.clear()
        first_d = informer.store.get("ml", "d")
        source.fail(on="watch", error=TransportError("down", sent=False), times=2)
        source.cut()
        await asyncio.sleep(0)
        source.delete("b")
        source.delete("d")
        source.put("d")
        source.put("a", node="moved")
        source.put("e")
        source.compact()
        await asyncio.sleep(60)
        assert mirrors(informer, source)
    assert ears.said() == [
        "del b inferred",
        "del d inferred",
        "mod a",
        "mod c unchanged",
        "add d",
        "add e",
    ]
    assert ears.changes[1].old == first_d


async def test_a_lagging_server_is_asked_again_and_then_taken_as_it_is(source, pods, running):
    source.put("a")
    informer = pods(source)
    late = b'{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}'
    async with running(informer):
        await informer.synced.wait()
        source.fail(on="watch", error=error_of(504, late), times=3)
        await asyncio.sleep(700)
        assert mirrors(informer, source)
    asked = [a[1:3] for a in source.asked]
    assert asked[:5] == [("initial", ""), *[("watch", "101")] * 3, ("initial", "")]


async def test_an_internal_error_in_the_stream_is_retried_for_a_minute_and_then_listed(
    source, pods, running
):
    source.put("a")
    informer = pods(source)
    error = b'{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"InternalError"}}'
    async with running(informer):
        await informer.synced.wait()
        source.fail(on="watch", raw=[error], times=100)
        await asyncio.sleep(800)
        source.faults.clear()
        assert informer.counts.counted["resyncs_total", "InternalError"] == 1


async def test_an_outage_behind_a_proxy_is_waited_out_and_not_followed_by_a_list(
    source, pods, running
):
    """runtime:I-25"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.fail(error=error_of(502, b"<html>"), times=8)
        source.cut()
        await until(lambda: not source.faults)
        source.put("b")
        await asyncio.sleep(90)
        assert mirrors(informer, source)
    assert source.count("initial") == 1
    assert source.count("list") == 0


async def test_a_resync_that_is_asked_for_while_differences_are_told_loses_none_of_them(
    source, pods, running, heard, monkeypatch
):
    """runtime:I-21 runtime:I-42"""
    for n in range(200):
        source.put(f"p{n}")
    monkeypatch.setattr("ascendop.informer.slices.EVERY", 1)
    informer = pods(source)
    loop = asyncio.get_running_loop()
    told = []

    def handler(change):
        told.append(change.row.name)
        loop._jumping.now_s += 0.01  # slow: every change ends a slice
        if len(told) == 50:
            informer.resync("test")

    informer.handle(handler)
    async with running(informer):
        await informer.synced.wait()
        assert len(told) == 200
        await asyncio.sleep(5)
        assert informer.counts.counted["resyncs_total", "test"] == 1
        assert len(told) == 400


@pytest.mark.parametrize("verb", ["watch", "initial"])
async def test_a_server_that_hangs_up_at_once_is_asked_less_and_less_often_17(
    source, pods, running, verb
):
    """runtime:I-24"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.fail(on=verb, close_after=0, times=1000)
        if verb == "watch":
            source.cut()
        else:
            source.fail(on="list", error=TransportError("refused", sent=False), times=1000)
            informer.resync("test")
        asked = len(source.asked)
        await asyncio.sleep(60)
        assert 3 <= len(source.asked) - asked <= 10
        await asyncio.sleep(540)
        assert len(source.asked) - asked <= 30


async def test_a_slow_reader_that_is_closed_out_again_and_again_catches_up_without_a_pause(
    source, pods, running
):
    """runtime:I-24: a watch that brought something need not be waited with, however short it was.

    The server closes a watch whose reader is slower than what is written, as after a restart of
    many pods; pauses would only make what it has to catch up with longer.
    """
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.fail(on="watch", close_after=10, times=20)
        source.cut()
        for n in range(300):
            source.put("a", node=f"n{n}")
        await asyncio.sleep(2)
        assert mirrors(informer, source)
    assert 20 <= source.count("watch") <= 40


async def test_a_server_that_calls_every_position_too_old_is_not_listed_in_haste(
    source, pods, running
):
    """runtime:I-24"""
    source.put("a")
    informer = pods(source, policy=LISTED)
    source.fail(on="watch", error=error_of(410, b'{"reason": "Expired"}'), times=1000)
    async with running(informer):
        await asyncio.sleep(600)
    assert source.count("list") <= 25


async def test_a_failure_now_and_then_costs_the_first_pause_only_18(source, pods, running):
    """runtime:I-24"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        pauses = []
        for _ in range(6):
            source.fail(on="watch", error=TransportError("reset", sent=True))
            before = len(source.asked)
            await until(lambda before=before: len(source.asked) >= before + 2)
            failed, again = (asked[0] for asked in source.asked[before : before + 2])
            pauses.append(again - failed)
            await asyncio.sleep(200)
    assert all(0.8 <= pause <= 1.7 for pause in pauses)


@pytest.mark.parametrize(
    ("lines", "within_s"), [(2, 100), (3, 160)], ids=["after the end mark", "after a bookmark"]
)
async def test_a_half_open_connection_is_dropped_and_the_watch_resumed_15(
    source, pods, running, lines, within_s
):
    """runtime:I-26 runtime:I-27 field-reports:FR-073"""
    source.put("a")
    informer = pods(source)
    source.fail(on="initial", silent_after=lines)
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(60 * (lines - 2))
        source.put("b")
        went_silent = now()
        await until(lambda: informer.store.get("ml", "b"))
        assert now() - went_silent <= within_s
        assert source.open == 1, "the silent one is closed"


async def test_a_stream_with_rare_bookmarks_is_given_their_time(source, pods, running):
    """runtime:I-26"""
    source.put("a")
    source.bookmark_s = 80
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        await asyncio.sleep(85)
        source.bookmark_s = 150
        await asyncio.sleep(200)
    assert len(source.asked) == 1


async def test_a_missing_right_is_asked_for_seldom_and_leaves_the_store_32(source, pods, running):
    """runtime:I-25"""
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.fail(error=error_of(403, b"{}"), times=1000)
        await asyncio.sleep(610)
        asked = len(source.asked)
        assert informer.states() == [State.DENIED]
        assert len(informer.store) == 1
        await asyncio.sleep(600)
        assert len(source.asked) - asked <= 5
        source.faults.clear()
        source.put("b")
        await asyncio.sleep(360)
        assert mirrors(informer, source)


async def test_a_kind_that_is_not_served_is_waited_for_31(source, pods, running):
    source.fail(error=error_of(404, b"404 page not found"), times=4)
    informer = pods(source)
    async with running(informer):
        await asyncio.sleep(1.5)
        assert informer.states() == [State.ABSENT]
        await informer.synced.wait()
        assert informer.states() == [State.WATCHING]


async def test_a_server_without_metadata_alone_is_asked_for_whole_objects(source, pods, running):
    source.put("a")
    source.fail(error=error_of(406, b"{}"))
    informer = pods(source, scopes=(Scope(metadata_only=True),))
    async with running(informer):
        await informer.synced.wait()
        assert mirrors(informer, source)


async def test_a_line_that_cannot_be_decoded_is_tried_three_times_and_then_taken_bare(
    source, pods, running
):
    source.put("a")
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.put("odd", spec="no object")
        await asyncio.sleep(60)
        assert informer.counts.counted["decode_errors_total"] == 3
        assert informer.store.get("ml", "odd").node == "broken"
        source.put("odd", spec="still no object")
        source.put("b")
        await asyncio.sleep(1)
        assert mirrors(informer, source)
    assert informer.counts.counted["decode_errors_total"] == 3


async def test_a_long_line_in_small_pieces_is_one_event_19(source, pods, running):
    """runtime:I-16"""
    source.chunk_bytes = 4099
    informer = pods(source)
    async with running(informer):
        await informer.synced.wait()
        source.put("big", data="\u00e4" * 500_000)
        await asyncio.sleep(1)
        assert mirrors(informer, source)


async def test_informers_that_fail_together_do_not_come_back_together(source, pods, running):
    """runtime:I-24"""
    informers = [pods(source, seed=n, policy=LISTED) for n in range(4)]
    async with running(*informers):
        await all_synced(informers)
        await asyncio.sleep(10)
        asked = len(source.asked)
        source.cut()
        await asyncio.sleep(10)
        pauses = [again[0] - 10 for again in source.asked[asked:]]
    assert len(pauses) == 4
    assert max(pauses) - min(pauses) > 0.1


async def test_informers_that_start_together_do_not_ask_together(source, pods, running):
    """runtime:I-24"""
    informers = [pods(source, seed=n) for n in range(4)]
    async with running(*informers):
        await all_synced(informers)
    times = [asked[0] for asked in source.asked[:4]]
    assert len(set(times)) == 4
    assert all(0 <= time <= 0.5 for time in times)


async def test_those_that_are_not_synced_in_time_are_named(source, pods, running):
    """runtime:I-28"""
    source.fail(error=error_of(403, b'{"message": "pods is forbidden"}'), times=1000)
    informer = pods(source)
    async with running(informer):
        with pytest.raises(NotSyncedError, match=r"pods \(ForbiddenError: pods is forbidden\)"):
            await all_synced([informer], 120)
        assert now() == pytest.approx(120)
