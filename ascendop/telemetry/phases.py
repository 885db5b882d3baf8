# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a reconcile spent its time on: a line when it was slow, a trace when somebody collects."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from random import Random  # noqa: TID251  the type of an argument
from typing import Any, Final

from ascendop.telemetry.log import Log

SLOW_S: Final = 1.0
"""A reconcile that takes longer is always written down."""
SAMPLED: Final = 0.01
"""Share of reconciles that are traced."""


class Phases:
    """The parts of one reconcile, in the order they ended.

    Cheap:  two readings of the clock a phase; nothing is written unless the whole was slow.
    """

    def __init__(self, time: Callable[[], float], tracer: Tracer | None = None) -> None:
        self._time = time
        self._tracer = tracer
        self._began_at = time()
        self.seconds: dict[str, float] = {}
        """By name; a phase that comes twice is summed up."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """What happens inside is a phase: queue, read, compute, write 1, ..."""
        phase = _Phase(name, self._time, self.seconds)
        return phase if self._tracer is None else _traced(self._tracer, phase)

    def finish(self, log: Log) -> None:
        """Write the phases down if the whole was slow."""
        took_s = self._time() - self._began_at
        if took_s > SLOW_S:
            phases = {name: round(seconds, 3) for name, seconds in self.seconds.items()}
            log.warning("slow reconcile", took_s=round(took_s, 3), phases=phases)


class _Phase(AbstractContextManager[None]):
    """From its entry to its exit. No generator: there are five in each of thousands of passes."""

    __slots__ = ("_began_at", "_seconds", "_time", "name")

    def __init__(self, name: str, time: Callable[[], float], seconds: dict[str, float]) -> None:
        self.name = name
        self._time = time
        self._seconds = seconds
        self._began_at = 0.0

    def __enter__(self) -> None:
        self._began_at = self._time()

    def __exit__(self, *_: object) -> None:
        took_s = self._time() - self._began_at
        self._seconds[self.name] = self._seconds.get(self.name, 0.0) + took_s


@contextmanager
def _traced(tracer: Tracer, phase: _Phase) -> Iterator[None]:
    with phase, tracer.span(phase.name):
        yield


class Tracer:
    """Spans for OpenTelemetry, if it is installed and was asked for."""

    def __init__(self, api: Any, rng: Random, sampled: float) -> None:
        self._api = api
        self._tracer = api.get_tracer("ascendop")
        self._rng = rng
        self._sampled = sampled

    def reconcile(self, **attributes: str) -> AbstractContextManager[Any]:
        """A span for a whole reconcile, or nothing for those that are not sampled."""
        if self._rng.random() >= self._sampled:
            return nullcontext()
        return self.span("reconcile", **attributes)

    def span(self, name: str, **attributes: str) -> AbstractContextManager[Any]:
        """A child of the running span; nothing where none runs, so that sampling holds."""
        running = self._api.get_current_span().get_span_context().is_valid
        if name != "reconcile" and not running:
            return nullcontext()
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            name, attributes=attributes
        )
        return span

    def traceparent(self) -> str:
        """The W3C header of the running span; empty where none runs."""
        context = self._api.get_current_span().get_span_context()
        if not context.is_valid:
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def load_tracer(env: Mapping[str, str], rng: Random, *, sampled: float = SAMPLED) -> Tracer | None:
    """A tracer when the environment names a collector and OpenTelemetry is installed, else None.

    It is not a dependency: who traces installs it with its exporter and starts the operator by
    `opentelemetry-instrument`, which reads the usual variables.
    """
    if not env.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return None
    try:
        return Tracer(importlib.import_module("opentelemetry.trace"), rng, sampled)
    except ImportError:
        return None
