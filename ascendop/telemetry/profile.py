# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where time and memory go, for somebody on the same machine; never on the metrics port."""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import orjson

from ascendop.errors import UsageError
from ascendop.telemetry.health import JSON, Answer, OnLoop, Question, Route, describe_tasks

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
SECONDS: Final = 10.0
MOST_S: Final = 60.0
LINES: Final = 40


def profile_routes(host: str, on_loop: OnLoop) -> dict[str, Route]:
    """/profile?seconds=10, /memory?seconds=10, /tasks and /gc.

    Raises UsageError unless `host` is a loopback address: who may read a profile sees names of
    jobs, and who may ask for one slows the operator.
    """
    if host not in LOOPBACK:
        raise UsageError(
            f"profiles are served on a loopback address only, not on {host or 'all addresses'}; "
            "write 127.0.0.1:6060"
        )
    one_at_a_time = threading.Lock()
    measures = {"/profile": profile_cpu, "/memory": profile_memory}
    return {
        **{path: _route(measure, one_at_a_time, on_loop) for path, measure in measures.items()},
        "/tasks": lambda _question: _json(on_loop.ask(describe_tasks)),
        "/gc": lambda _question: _json({"generations": gc.get_stats(), "frozen": _frozen()}),
    }


def profile_cpu(on_loop: OnLoop, wait: Callable[[], Any]) -> str:
    """The functions that the loop's thread spent most time in."""
    profiler = cProfile.Profile()
    on_loop.ask(profiler.enable)  # a profiler sees only the thread that turned it on
    wait()
    on_loop.ask(profiler.disable)
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("cumulative").print_stats(LINES)
    return out.getvalue()


def profile_memory(_on_loop: OnLoop, wait: Callable[[], Any]) -> str:
    """The lines that grew most."""
    started = not tracemalloc.is_tracing()
    if started:
        tracemalloc.start()
    before = tracemalloc.take_snapshot()
    wait()
    grown = tracemalloc.take_snapshot().compare_to(before, "lineno")
    if started:
        tracemalloc.stop()
    return "".join(f"{line}\n" for line in grown[:LINES])


def _route(
    measure: Callable[[OnLoop, Callable[[], Any]], str], lock: threading.Lock, on_loop: OnLoop
) -> Route:
    def route(question: Question) -> Answer:
        try:
            seconds = min(float(question.query.get("seconds", SECONDS)), MOST_S)
        except ValueError:
            return Answer(400, b"seconds must be a number\n")
        if not lock.acquire(blocking=False):
            return Answer(409, b"somebody else is measuring; ask again later\n")
        try:
            return Answer(200, measure(on_loop, lambda: threading.Event().wait(seconds)).encode())
        finally:
            lock.release()

    return route


def _frozen() -> int:
    return gc.get_freeze_count()


def _json(found: Any) -> Answer:
    return Answer(200, orjson.dumps(found, option=orjson.OPT_INDENT_2), JSON)
