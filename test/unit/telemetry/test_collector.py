# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""When the collector of garbage may look at the caches."""

import asyncio
import gc

import pytest

from ascendop.telemetry.collector import Collector
from ascendop.telemetry.metrics import Metrics


class Pauses:
    def __init__(self):
        self.seen = []

    def paused(self, generation, seconds):
        self.seen.append((generation, seconds))


@pytest.fixture
def pauses():
    return Pauses()


@pytest.fixture
def collector(pauses):
    before = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), len(gc.callbacks)
    one = Collector(pauses)
    yield one
    one.undo()
    assert (gc.get_threshold(), gc.isenabled(), 0, len(gc.callbacks)) == before


def test_nothing_is_collected_while_caches_fill(collector, pauses):
    """runtime:P-13"""
    collector.before_sync()
    assert not gc.isenabled()
    kept = [[n] for n in range(20_000)]
    collector.tell()
    assert pauses.seen == [] and len(kept) == 20_000


def test_filled_caches_are_frozen_and_the_rest_is_rarely_looked_at(collector):
    """runtime:P-13"""
    collector.before_sync()
    cache = [[n] for n in range(20_000)]
    collector.synced()
    assert gc.isenabled() and gc.get_threshold() == (50_000, 50, 1_000)
    assert gc.get_freeze_count() >= len(cache)


@pytest.mark.parametrize(
    ("replaced", "of", "frozen"), [(20, 100, False), (21, 100, True), (0, 0, False)]
)
def test_a_resync_that_replaced_a_fifth_is_frozen_again(collector, replaced, of, frozen):
    """runtime:P-13"""
    collector.synced()
    before = gc.get_freeze_count()
    cache = [[n] for n in range(5_000)]
    collector.resynced(replaced, of)
    assert (gc.get_freeze_count() - before > len(cache) - 100) == frozen


async def test_a_standby_is_frozen_again_every_six_hours_and_a_leader_is_not(collector, pauses):
    """runtime:P-13"""
    standby = True
    collector.synced()
    collector.tell()
    pauses.seen.clear()
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(collector.keep(lambda: standby))
        await asyncio.sleep(13 * 3600)
        collector.tell()
        full = [generation for generation, _ in pauses.seen].count(2)
        assert full == 2
        standby = False
        await asyncio.sleep(13 * 3600)
        collector.tell()
        assert [generation for generation, _ in pauses.seen].count(2) == full
        keeping.cancel()


def test_every_pause_is_measured_by_generation(collector, pauses):
    """runtime:P-17"""
    gc.collect(0)
    gc.collect()
    assert pauses.seen == [], "a metric may be locked at that moment"
    collector.tell()
    assert [generation for generation, _ in pauses.seen] == [0, 2]
    assert all(0 <= seconds < 10 for _, seconds in pauses.seen)


def test_pauses_go_to_the_metric_of_the_contract():
    """runtime:P-17"""
    metrics = Metrics()
    one = Collector(metrics.loop)
    metrics.before_scrape(one.tell)
    gc.collect()
    metrics.refresh()
    one.undo()
    text = metrics.render()[1].decode()
    assert 'ascendop_gc_pause_seconds_count{generation="2"} 1.0' in text
