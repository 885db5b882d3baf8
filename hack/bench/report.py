# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Figures as a table, and as the page that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from hack.bench.measure import Run
from hack.bench.shape import Shape
from hack.bench.usage import machine

_PAGE: Final = Path(__file__).with_name("performance.md")
RATE_AIMS: Final = {True: 0.7, False: 0.85}
"""Of raw, for many jobs and for a single one."""
CPU_AIM: Final = 3.0
MEMORY_AIM_MB: Final = 100
_HEAD: Final = ("what", "operator", "beside", "ratio", "aim")
_WRITES_HEAD: Final = ("verb", "resource", "in all", "for each job")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one shape; `operated` is empty where only the loader ran."""

    shape: Shape
    operated: Sequence[Run]
    raw: Sequence[Run]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured in one go."""

    measured: Sequence[Measured]
    bare_ms: Sequence[float]
    """CPU of a bare client for one pod."""
    load: float
    """Average of the machine before anything was started."""


def table(report: Report) -> str:
    """For a terminal, and for the page: Markdown is both."""
    parts = [_markdown(_HEAD, list(_rows(report)))]
    for measured in report.measured:
        if measured.operated:
            last = measured.operated[-1]
            parts += [f"Writes of the operator for {measured.shape}:", _writes(measured, last)]
    return "\n\n".join(parts) + "\n"


def page(report: Report) -> str:
    """docs/reference/performance.md."""
    return _PAGE.read_text().format(
        runs=len(report.bare_ms),
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        load=f"{report.load:.1f}",
        table=table(report).strip(),
    )


def _rows(report: Report) -> Iterator[Row]:
    bare = _spread(report.bare_ms, "{:.2f} ms")
    for measured in report.measured:
        raw = [run.pods_per_s for run in measured.raw]
        operated = [run.pods_per_s for run in measured.operated]
        aim = f">= {RATE_AIMS[measured.shape.jobs > 1]}"
        name = f"{measured.shape}: pods/s, beside raw"
        yield (name, _spread(operated), _spread(raw), _ratio(operated, raw), aim)
    for measured in report.measured:
        cpu = [run.cpu_ms_per_pod for run in measured.operated]
        name = f"{measured.shape}: CPU per pod, beside a bare client"
        aim = f"<= {CPU_AIM:g}"
        yield (name, _spread(cpu, "{:.2f} ms"), bare, _ratio(cpu, report.bare_ms), aim)
    for measured in report.measured:
        resident = [run.resident_mb for run in measured.operated]
        peak = [run.peak_mb for run in measured.operated]
        aim = f"<= {MEMORY_AIM_MB} MB"
        yield (f"{measured.shape}: resident", _spread(resident, "{:.0f} MB"), "", "", aim)
        yield (f"{measured.shape}: peak", _spread(peak, "{:.0f} MB"), "", "", "")


def _spread(values: Sequence[float], shape: str = "{:.0f}") -> str:
    """The median, and between which values it lies."""
    if not values:
        return ""
    show: Callable[[float], str] = shape.format
    low, high = min(values), max(values)
    return f"{show(median(values))} ({show(low).split()[0]} to {show(high).split()[0]})"


def _ratio(one: Sequence[float], other: Sequence[float]) -> str:
    return f"{median(one) / median(other):.2f}" if one and other else ""


def _writes(measured: Measured, run: Run) -> str:
    jobs = measured.shape.jobs
    rows: list[Row] = [
        (verb, what, str(count), f"{count / jobs:.2f}")
        for (verb, what), count in sorted(run.writes.items(), key=lambda item: item[0][::-1])
    ]
    total = sum(run.writes.values())
    rows.append(("", "all, until everything runs", str(total), f"{total / jobs:.2f}"))
    if run.refused:
        refused = "of these refused, and tried again"
        rows.append(("", refused, str(run.refused), f"{run.refused / jobs:.2f}"))
    if run.events:
        name = "events, those that came later included"
        rows.append(("", name, str(run.events), f"{run.events / jobs:.2f}"))
    return _markdown(_WRITES_HEAD, rows)


def _markdown(head: Row, rows: Sequence[Row]) -> str:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, tuple("-" * width for width in widths), *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
