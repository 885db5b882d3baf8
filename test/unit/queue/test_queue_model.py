# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Every order of adds, timers, workers, cancellations and shut-downs, on the real queue.

The loop is a list: callbacks run when the search says so. A state is reached by replaying its
labels; two paths to an equal state are followed once.
"""

import asyncio
from asyncio import events
from collections import Counter, deque
from contextlib import contextmanager
from random import Random  # noqa: TID251  seeded

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ascendop.queue.ready import AGED_S
from ascendop.queue.workqueue import QueueShutDownError, WorkQueue

KEYS = ("a", "b")
WORKERS = ("v", "w")


class HandLoop:
    """A loop whose clock and callbacks move by hand."""

    def __init__(self):
        self.now = 0.0
        self.timers = []
        self.ready = []

    def time(self):
        return self.now

    def get_debug(self):
        return False

    def create_future(self):
        return asyncio.Future(loop=self)

    def call_soon(self, callback, *args, context=None):
        self.ready.append((callback, args))

    def call_at(self, when, callback, *args):
        timer = asyncio.TimerHandle(when, callback, args, self)
        self.timers.append(timer)
        return timer

    def _timer_handle_cancelled(self, timer):
        pass

    def pass_to(self, now):
        self.now = now
        while True:
            due = [t for t in self.timers if not t.cancelled() and t.when() <= now]
            self.timers = [t for t in self.timers if not t.cancelled() and t.when() > now]
            if not due:
                return
            for timer in due:
                timer._callback(*timer._args)


@contextmanager
def running(loop):
    was = events._get_running_loop()
    events._set_running_loop(loop)
    try:
        yield
    finally:
        events._set_running_loop(was)


class Worker:
    """A worker's coroutine, stepped by hand: idle, waiting, woken, or holding a key."""

    def __init__(self, queue):
        self.queue = queue
        self.get = None
        self.future = None
        self.key = None
        self.ended = False

    @property
    def state(self):
        if self.ended:
            return "ended"
        if self.get is None:
            return self.key or "idle"
        return "woken" if self.future.done() else "waiting"

    def ask(self):
        self.get = self.queue.get()
        self.step()

    def step(self):
        try:
            self.future = self.get.send(None)
        except StopIteration as stop:
            self.key, self.get = stop.value, None
        except QueueShutDownError:
            self.ended, self.get = True, None

    def cancel(self):
        """What a task does: cancel the future if it is pending, then raise inside."""
        self.future.cancel()
        with pytest.raises(asyncio.CancelledError):
            self.get.throw(asyncio.CancelledError())
        self.get = None

    def done(self):
        self.key, key = None, self.key
        self.queue.done(key)


class World:
    """Two keys, two workers, a queue; and what each key is owed."""

    def __init__(self):
        self.loop = HandLoop()
        with running(self.loop):
            self.queue = WorkQueue("model", rng=Random(1))
        self.workers = {name: Worker(self.queue) for name in WORKERS}
        self.owed = {}
        """Keys that were added since they were last handed out, with when they are due."""
        self.open = True
        self.shut = False
        self.adds = 0
        self.cancels = 0
        self.draining = None

    def labels(self):
        if self.adds < 4:
            for key in KEYS:
                yield f"add {key} 0"
                yield f"add {key} 1"
        if self.queue._timer is not None and self.loop.now < 2:
            yield "tick"
        for name, worker in self.workers.items():
            yield from self.labels_of(name, worker)
        if self.open:
            yield "drain"
        if not self.shut:
            yield "shutdown"

    def labels_of(self, name, worker):
        match worker.state:
            case "idle":
                yield f"ask {name}"
            case "woken":
                yield f"step {name}"
            case "a" | "b":
                yield f"done {name}"
        if worker.state in ("woken", "waiting") and self.cancels < 2:
            yield f"cancel {name}"

    def do(self, label):
        verb, *rest = label.split()
        with running(self.loop):
            getattr(self, f"do_{verb}")(*rest)

    def do_add(self, key, after_s):
        self.adds += 1
        self.queue.add(key, after_s=float(after_s))
        if self.open:
            due = self.loop.now + float(after_s)
            self.owed[key] = min(self.owed.get(key, due), due)

    def do_tick(self):
        self.loop.pass_to(self.loop.now + 1)

    def do_ask(self, name):
        self.take(name, self.workers[name].ask)

    def do_step(self, name):
        self.take(name, self.workers[name].step)

    def take(self, name, step):
        step()
        key = self.workers[name].key
        if key is not None:
            assert not self.shut, f"{key} handed out after shut-down"
            assert self.owed.pop(key) <= self.loop.now, f"{key} handed out before its time"
            holders = [w for w in self.workers.values() if w.key == key]
            assert len(holders) == 1, f"{key} runs twice"

    def do_cancel(self, name):
        self.cancels += 1
        self.workers[name].cancel()

    def do_done(self, name):
        self.workers[name].done()
        self.note_end()

    def do_drain(self):
        self.open = False
        running = {worker.key for worker in self.workers.values()}
        due = {k: at for k, at in self.owed.items() if at <= self.loop.now or k in running}
        self.owed = due
        self.draining = self.queue.drain(60)
        try:
            self.draining.send(None)
        except StopIteration:
            self.draining = None
        self.note_end()

    def note_end(self):
        if not self.open and not self.shut:
            busy = any(worker.key for worker in self.workers.values())
            self.owed = {
                k: at
                for k, at in self.owed.items()
                if at <= self.loop.now or any(w.key == k for w in self.workers.values())
            }
            if not self.owed and not busy:
                self.shut = True

    def do_shutdown(self):
        self.open, self.shut = False, True
        self.owed.clear()
        self.queue.shutdown()

    def check(self):
        held = {worker.key for worker in self.workers.values()} - {None}
        assert set(self.queue.running()) == held
        ready = [k for k, due in self.owed.items() if due <= self.loop.now and k not in held]
        states = [worker.state for worker in self.workers.values()]
        if len(ready) > states.count("woken"):
            assert "waiting" not in states, f"{ready} ready, and a worker waits"
        if self.shut:
            assert "waiting" not in states, "a worker waits for ever"
        for key, entry in self.queue._entries.items():
            places = (key in self.queue._waiting) + (key in self.queue._ready._places)
            assert places + (key in self.queue._running) == 1, f"{key} is {entry.state}"

    def state(self):
        queue = self.queue
        return (
            self.loop.now,
            tuple(self.workers[name].state for name in WORKERS),
            tuple(sorted((k, e.state.name, e.next_due) for k, e in queue._entries.items())),
            tuple(queue._waiting.due_of(key) for key in KEYS),
            tuple(sorted(queue._ready._places, key=lambda key: queue._ready._places[key].seq)),
            queue._mode,
            tuple(sorted(self.owed.items())),
            (self.adds, self.cancels),
            queue._timer is not None and queue._timer.when(),
            tuple(self.workers[name].future in queue._getters for name in WORKERS),
        )


class NoTimeout:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc):
        return False


@pytest.mark.parametrize("longest", [6, pytest.param(9, marks=pytest.mark.long)])
def test_no_order_of_events_loses_a_key_runs_it_twice_or_leaves_a_worker_asleep(
    longest, monkeypatch
):
    """runtime:S-8 runtime:Q-1 runtime:Q-2 runtime:Q-3 runtime:Q-4 runtime:Q-7 runtime:Q-17"""
    monkeypatch.setattr(asyncio, "timeout", lambda _s: NoTimeout())  # a real one needs a task
    seen = set()
    paths = deque([()])
    while paths:
        path = paths.popleft()
        world = World()
        try:
            for label in path:
                world.do(label)
            world.check()
            state, labels = world.state(), list(world.labels())
        except AssertionError as error:
            raise AssertionError(" → ".join(path)) from error
        finally:
            close(world)
        if state not in seen:
            seen.add(state)
            if len(path) < longest:
                paths.extend((*path, label) for label in labels)
    assert len(seen) > 1_000


def close(world):
    for worker in world.workers.values():
        if worker.get is not None:
            worker.get.close()
    if world.draining is not None:
        world.draining.close()


class QueueAgainstTable(RuleBasedStateMachine):
    """The transition table of Q-1, with priorities and delays, one key at a time."""

    def __init__(self):
        super().__init__()
        self.loop = HandLoop()
        with running(self.loop):
            self.queue = WorkQueue("table", rng=Random(1))
        self.due = {}
        self.priority = {}
        self.running = {}
        """Key → what it was handed out with."""
        self.order = []
        """Ready keys in the order they became so, or were raised."""

    @rule(
        key=st.sampled_from("abc"),
        after_s=st.sampled_from([0, 0, 1, 5, 20]),
        priority=st.sampled_from([0, 0, 50, -100, None]),
    )
    def add(self, key, after_s, priority):
        self.queue.add(key, after_s=after_s, priority=priority)
        at = self.loop.now + after_s
        had = self.running.get(key, 0)
        if key not in self.due:
            self.due[key], self.priority[key] = at, had if priority is None else priority
        else:
            self.due[key] = min(self.due[key], at)
            if priority is not None and priority > self.priority[key]:
                self.priority[key] = priority
                if key in self.order:
                    self.order.remove(key)
                    self.order.append(key)
            elif priority is None and key in self.running:
                self.priority[key] = max(self.priority[key], had)
        self.ripen()

    @rule(seconds=st.sampled_from([0.5, 1, 3, 10, 30]))
    def wait(self, seconds):
        target = self.loop.now + seconds
        waiting = sorted((at, key) for key, at in self.due.items() if key not in self.running)
        for at, _ in waiting:
            if self.loop.now < at <= target:
                self.loop.pass_to(at)
                self.ripen()
        self.loop.pass_to(target)
        self.ripen()

    def ripen(self):
        for key in sorted(self.due):
            known = key in self.running or key in self.order
            if self.due[key] <= self.loop.now and not known:
                self.order.append(key)

    @rule()
    def take(self):
        get = self.queue.get()
        try:
            get.send(None)
        except StopIteration as stop:
            key = stop.value
        else:
            get.close()
            assert self.order == []
            return
        best = max(self.priority[k] for k in self.order)
        assert self.priority[key] == best or self.loop.now >= AGED_S, (
            "ageing aside, priority decides"
        )
        self.order.remove(key)
        self.running[key] = self.priority.pop(key)
        del self.due[key]

    @rule(data=st.data())
    def done(self, data):
        if self.running:
            key = data.draw(st.sampled_from(sorted(self.running)))
            self.queue.done(key)
            del self.running[key]
            self.ripen()

    @invariant()
    def the_queue_is_where_the_table_says(self):
        assert set(self.queue.running()) == set(self.running)
        waiting = {k: at for k, at in self.due.items() if at > self.loop.now}
        for key, at in waiting.items():
            if key not in self.running:
                assert self.queue._waiting.due_of(key) == pytest.approx(at)
        assert set(self.queue._ready._places) == set(self.order)
        assert len(self.queue) == len(self.due)
        depths = self.queue.depths()
        assert sum(depths.values()) == len(self.order)
        if self.loop.now < AGED_S:
            assert depths == Counter(str(self.priority[key]) for key in self.order)


TestQueueAgainstTable = QueueAgainstTable.TestCase
TestQueueAgainstTable.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, derandomize=True
)
TestQueueAgainstTable.__doc__ = "runtime:S-9 runtime:Q-1 runtime:Q-2 runtime:Q-4 runtime:Q-13"
