# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Figures as a table, and as the page that keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from hack.bench.cached import Cost
from hack.bench.kinds import ASCENDJOB
from hack.bench.measure import QUIET_S, Run
from hack.bench.ranks import Tables
from hack.bench.retry import Delays
from hack.bench.shape import Shape
from hack.bench.usage import machine

RATE_AIM: Final = 0.7
"""Of raw."""
WIDE_AIMS: Final = {"AscendJob": 0.85, "PyTorchJob": 0.85, "MPIJob": 0.7}
"""The same for a single job of many pods, by kind."""
PEER_AIMS: Final = {True: 2.0, False: 3.0}
"""Of the peer, for many jobs and for a single one."""
PEERS: Final = {"MPIJob": "mpi-operator 0.8.0", "PyTorchJob": "training-operator 1.9.4"}
CPU_AIM: Final = 3.0
MEMORY_AIM_MB: Final = 100
GROWTH_AIM_KB: Final = 3.0
CROWD_AIM: Final = 1.2
DELAY_AIMS: Final = {50: 3.0, 99: 10.0}
"""Of raw, by percentile."""
TABLE_AIM_MS: Final = 100
TABLE_AIM: Final = 5.0
STATUSES_AIM: Final = 3
_HEAD: Final = ("what", "operator", "beside", "ratio", "aim")
_WRITES_HEAD: Final = ("verb", "resource", "in all", "for each job")

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """All runs of one shape; `operated` is empty where only the loader ran."""

    shape: Shape
    operated: Sequence[Run]
    raw: Sequence[Run]
    peers: Sequence[Run] = ()
    """Those of the operator whose place ours takes."""


@dataclass(frozen=True, slots=True)
class Further:
    """What is measured beside pods per second."""

    delays: Delays
    tables: Tables
    table_pods: int
    costs: Mapping[int, Cost]
    """By the number of pods that are cached, the smallest first."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured in one go."""

    measured: Sequence[Measured]
    bare_ms: Sequence[float]
    """CPU of a bare client for one pod."""
    load: float
    """Average of the machine before anything was started."""
    further: Further | None = None
    """None where only the loader ran."""


def table(report: Report) -> str:
    """For a terminal, and for the page: Markdown is both."""
    parts = [_markdown(_HEAD, list(_rows(report)))]
    for measured in report.measured:
        if measured.operated:
            last = measured.operated[-1]
            parts += [f"Writes of the operator for {measured.shape}:", _writes(measured, last)]
    return "\n\n".join(parts) + "\n"


def page(report: Report, template: str) -> str:
    """One of docs/reference, from the template of this name beside this file."""
    return (
        Path(__file__)
        .with_name(template)
        .read_text()
        .format(
            runs=len(report.measured[0].raw),
            date=datetime.now(UTC).date().isoformat(),
            machine=machine(),
            load=f"{report.load:.1f}",
            table=table(report).strip(),
        )
    )


def _rows(report: Report) -> Iterator[Row]:
    for rows in (_rates, _costs, _sizes):
        yield from rows(report)
    for measured in report.measured:
        if measured.operated and measured.shape.jobs > 1:
            yield _statuses(measured)
            still = measured.operated[-1].still
            name = f"{measured.shape}: writes in {QUIET_S:.0f} s while they run and nothing happens"
            yield (name, str(still), "", "", "0")
    if report.further is not None:
        yield from _further(report.further)


def _rates(report: Report) -> Iterator[Row]:
    for measured in report.measured:
        raw = [run.pods_per_s for run in measured.raw]
        operated = [run.pods_per_s for run in measured.operated]
        wide = measured.shape.jobs == 1
        aim = f">= {WIDE_AIMS[measured.shape.kind.kind] if wide else RATE_AIM}"
        name = f"{measured.shape}: pods/s, beside raw"
        yield (name, _spread(operated), _spread(raw), _ratio(operated, raw), aim)


def _costs(report: Report) -> Iterator[Row]:
    for measured in report.measured:
        if measured.peers:
            yield from _beside_peer(measured)
    bare = _spread(report.bare_ms, "{:.2f} ms")
    for measured in report.measured if bare else ():
        cpu = [run.cpu_ms_per_pod for run in measured.operated]
        name = f"{measured.shape}: CPU per pod, beside a bare client"
        aim = f"<= {CPU_AIM:g}" if measured.shape.kind is ASCENDJOB else ""
        yield (name, _spread(cpu, "{:.2f} ms"), bare, _ratio(cpu, report.bare_ms), aim)


def _sizes(report: Report) -> Iterator[Row]:
    for measured in report.measured:
        resident = [run.resident_mb for run in measured.operated]
        peak = [run.peak_mb for run in measured.operated]
        aim = f"<= {MEMORY_AIM_MB} MB"
        yield (f"{measured.shape}: resident", _spread(resident, "{:.0f} MB"), "", "", aim)
        yield (f"{measured.shape}: peak", _spread(peak, "{:.0f} MB"), "", "", "")


def _beside_peer(measured: Measured) -> Iterator[Row]:
    shape, ours, theirs = measured.shape, measured.operated, measured.peers
    aim = f">= {PEER_AIMS[shape.jobs > 1]:g}"
    figures: tuple[tuple[str, str, Callable[[Run], float], str], ...] = (
        ("pods/s", "{:.0f}", lambda run: run.pods_per_s, aim),
        ("CPU per pod", "{:.2f} ms", lambda run: run.cpu_ms_per_pod, "<= 1"),
        ("resident", "{:.0f} MB", lambda run: run.resident_mb, "<= 1"),
    )
    for what, unit, value, limit in figures:
        one, other = [value(run) for run in ours], [value(run) for run in theirs]
        name = f"{shape}: {what}, beside {PEERS[shape.kind.kind]}"
        yield (name, _spread(one, unit), _spread(other, unit), _ratio(one, other), limit)


def _statuses(measured: Measured) -> Row:
    jobs = measured.shape.jobs
    found = [
        sum(n for (_, what), n in run.writes.items() if what.endswith("/status")) / jobs
        for run in measured.operated
    ]
    name = f"{measured.shape}: status writes for each job until it runs"
    return (name, _spread(found, "{:.2f}"), "", "", f"<= {STATUSES_AIM}")


def _further(further: Further) -> Iterator[Row]:
    small, large, *_, crowd = further.costs
    cost = further.costs
    kb = (cost[large].resident_mb - cost[small].resident_mb) * 1000 / (large - small)
    what = f"resident memory for each further pod, {small:,} to {large:,} cached"
    yield (what, f"{kb:.2f} KB", "", "", f"<= {GROWTH_AIM_KB:g} KB")
    one, other = cost[crowd].decide_us, cost[small].decide_us
    what = f"a look at one 5-pod job, {crowd:,} pods cached, beside {small:,}: CPU"
    aim = f"<= {CROWD_AIM:g}"
    yield (what, f"{one:.0f} µs", f"{other:.0f} µs", f"{one / other:.2f}", aim)
    delays = further.delays
    for percent, limit in DELAY_AIMS.items():
        ours, raw = (_percentile(found, percent) for found in (delays.operator, delays.raw))
        what = f"failed pod replaced, {len(delays.raw)} jobs, {percent} %: beside raw"
        ratio, aim = f"{ours / raw:.2f}", f"<= {limit:g}"
        yield (what, f"{ours:.0f} ms", f"{raw:.0f} ms", ratio, aim)
    tables = further.tables
    what = (
        f"RankTable of {further.table_pods:,} pods ({tables.size_bytes / 1000:.0f} KB), "
        "last annotation to written: beside encoding and writing it once"
    )
    ratio, aim = _ratio(tables.operator, tables.once), f"<= {TABLE_AIM:g}, <= {TABLE_AIM_MS} ms"
    times = _spread(tables.operator, "{:.0f} ms"), _spread(tables.once, "{:.0f} ms")
    yield (what, *times, ratio, aim)


def _percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1]


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
