# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a reconcile spent its time on."""

import asyncio
import sys
from contextlib import contextmanager
from random import Random  # noqa: TID251  seeded
from types import ModuleType, SimpleNamespace

import pytest

from ascendop.telemetry.log import get_log
from ascendop.telemetry.phases import Phases, load_tracer

log = get_log("ascendop.test")


async def reconcile(*, compute_s):
    phases = Phases(asyncio.get_running_loop().time)
    with phases.phase("read"):
        await asyncio.sleep(0.1)
    with phases.phase("compute"):
        await asyncio.sleep(compute_s)
    for _ in range(2):
        with phases.phase("write"):
            await asyncio.sleep(0.05)
    phases.finish(log)
    return phases


async def test_a_slow_reconcile_is_written_down_with_its_phases(caplog):
    """runtime:O-9"""
    await reconcile(compute_s=2)
    (record,) = caplog.records
    assert record.getMessage() == "slow reconcile"
    assert record.keys == {"took_s": 2.2, "phases": {"read": 0.1, "compute": 2.0, "write": 0.1}}


async def test_a_quick_one_is_not(caplog):
    """runtime:O-9"""
    phases = await reconcile(compute_s=0.5)
    assert caplog.records == [] and list(phases.seconds) == ["read", "compute", "write"]


async def test_a_phase_that_fails_is_measured_all_the_same():
    phases = Phases(asyncio.get_running_loop().time)

    async def fail():
        with phases.phase("compute"):
            await asyncio.sleep(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert phases.seconds == {"compute": 1.0}


class Telemetry(ModuleType):
    """The part of OpenTelemetry that is used."""

    def __init__(self):
        super().__init__("opentelemetry.trace")
        self.spans = []
        self.running = []

    def get_tracer(self, name):
        return self

    @contextmanager
    def start_as_current_span(self, name, attributes):
        self.spans.append((name, dict(attributes), len(self.running)))
        self.running.append(name)
        yield
        self.running.pop()

    def get_current_span(self):
        context = SimpleNamespace(
            is_valid=bool(self.running), trace_id=10, span_id=11, trace_flags=1
        )
        return SimpleNamespace(get_span_context=lambda: context)


@pytest.fixture
def telemetry(monkeypatch):
    one = Telemetry()
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", one)
    return one


COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}


async def test_spans_lie_inside_the_span_of_their_reconcile(telemetry):
    """runtime:O-9"""
    tracer = load_tracer(COLLECTOR, Random(1), sampled=1.0)
    phases = Phases(asyncio.get_running_loop().time, tracer)
    with tracer.reconcile(kind="AscendJob"):
        assert tracer.traceparent() == f"00-{10:032x}-{11:016x}-01"
        with phases.phase("write"):
            pass
    assert telemetry.spans == [("reconcile", {"kind": "AscendJob"}, 0), ("write", {}, 1)]
    assert tracer.traceparent() == ""


async def test_one_reconcile_in_a_hundred_is_traced_and_of_the_others_nothing(telemetry):
    """runtime:O-9"""
    tracer = load_tracer(COLLECTOR, Random(1))
    phases = Phases(asyncio.get_running_loop().time, tracer)
    for _ in range(5000):
        with tracer.reconcile(), phases.phase("write"):
            pass
    names = [name for name, _, _ in telemetry.spans]
    assert 25 <= names.count("reconcile") <= 80 and names.count("write") == names.count("reconcile")


def test_without_a_collector_or_the_library_nothing_is_traced_or_imported(monkeypatch):
    """runtime:O-9"""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    assert load_tracer({}, Random(1)) is None
    assert load_tracer(COLLECTOR, Random(1)) is None
