# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Replays recorded cases against the operator that runs on a cluster, and compares."""

# Values are whatever YAML and JSON hold, and codes are HTTP's: types and names would hide them.
# ruff: noqa: ANN401, B905, C901, FBT001, PLR0915

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import json
import pathlib
import re
import secrets
import sys
import time
from typing import Any

import aiohttp
import yaml

from hack.replay.case import Case, Loader, load_cases
from hack.replay.cluster import connect, make_world, world_addresses
from hack.replay.compare import NONE, Difference
from hack.replay.judge import Judge
from hack.replay.play import RANKTABLES, Play
from hack.replay.right import wrong

HERE = pathlib.Path(__file__).resolve().parent
MARKS = {"differs": "-", "order": "~", "expected": "=", "follows": "."}
GRADES = ["differs", "expected", "follows", "order"]


@dataclasses.dataclass
class Result:
    case: Case
    seconds: float
    differences: list[Difference]
    skipped: str = ""

    def count(self, grade: str) -> int:
        return sum(d.grade == grade for d in self.differences)


# ---------------------------------------------------------------- showing
def short(value: Any, width: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else f"{text[: width - 12]}... ({len(text)})"


def contrast(want: Any, got: Any, width: int) -> tuple[str, str]:
    """Both values, cut to where they begin to differ."""
    left, right = (
        v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in (want, got)
    )
    if max(len(left), len(right)) <= width:
        return left, right
    same = next(
        (i for i, (a, b) in enumerate(zip(left, right)) if a != b), min(map(len, (left, right)))
    )
    cut = max(0, same - 20)
    lead = f"...[{cut}]" if cut else ""
    return lead + short(left[cut:], width), lead + short(right[cut:], width)


def line(places: list[str], d: Difference, width: int) -> str:
    place = places[0] if len(places) == 1 else f"{places[0]} (and {len(places) - 1} more like it)"
    if d.section == "events":
        word, text = ("missing", d.want) if d.got == NONE else ("extra", d.got)
        return f"event {word}: {short(text, 2 * width)}"
    if d.section == "objects" and not d.path:
        return f"{place} {'missing' if d.got == NONE else 'extra'}"
    want, got = contrast(d.want, d.got, width)
    return f"{place}{' order' if d.order else ''}: {want} → {got}"


def show(result: Result, titles: dict[int, str], width: int) -> str:
    name = f"{result.case.id:58}"
    if result.skipped:
        return f"{name} skipped: {result.skipped}"
    counts = {grade: result.count(grade) for grade in GRADES}
    weaker = ", ".join(f"{grade} {n}" for grade, n in counts.items() if n and grade != "differs")
    verdict = f"differs ({counts['differs']})" if counts["differs"] else "ok"
    head = f"{name} {verdict}{', ' * bool(weaker)}{weaker}   {result.seconds:.0f} s"
    lines, entry = [head], -1
    groups: dict[tuple, list[Difference]] = {}
    for d in result.differences:
        alike = re.sub(r"\d+", "#", d.name), d.path or d.name
        same_values = (repr(d.want), repr(d.got)) if d.section == "objects" and d.path else (id(d),)
        groups.setdefault((d.entry, d.section, d.kind, d.grade, *alike, *same_values), []).append(d)
    for group in groups.values():
        d = group[0]
        if d.entry != entry:
            entry, note = d.entry, ""
            lines.append(f"  {titles[entry]}")
        said = "" if not d.note else "  [same]" if d.note == note else f"  [{d.note}]"
        note = d.note
        lines.append(f"    {MARKS[d.grade]} {line([x.place for x in group], d, width)}{said}")
    return "\n".join(lines)


def summary(results: list[Result], classes: bool) -> str:
    done = [r for r in results if not r.skipped]
    bad = [r for r in done if r.count("differs")]
    lines = []
    if classes:
        families: dict[tuple[str, str], collections.Counter] = collections.defaultdict(
            collections.Counter
        )
        for r in done:
            for d in r.differences:
                families[d.grade, d.family][r.case.id] += 1
        lines.append(f"{'grade':9} {'times':>5} {'cases':>5}  place; first cases")
        for (grade, family), cases in sorted(
            families.items(), key=lambda x: (GRADES.index(x[0][0]), -sum(x[1].values()))
        ):
            first = ", ".join(re.sub(r"(/\d+).*", r"\1", c) for c in sorted(cases)[:4])
            lines.append(f"{grade:9} {sum(cases.values()):5} {len(cases):5}  {family}; {first}")
    counts = ", ".join(f"{sum(r.count(grade) for r in done)} {grade}" for grade in GRADES)
    lines.append(
        f"{len(done)} cases: {len(done) - len(bad)} ok, {len(bad)} differ; "
        f"{len(results) - len(done)} skipped; differences: {counts}"
    )
    return "\n".join(lines)


def as_json(results: list[Result]) -> dict:
    return {
        "totals": {
            "cases": len(results),
            "differ": sum(bool(r.count("differs")) for r in results),
            "skipped": sum(bool(r.skipped) for r in results),
            **{g: sum(r.count(g) for r in results) for g in GRADES},
        },
        "cases": [
            {
                "case": r.case.id,
                "verdict": "skipped" if r.skipped else "differs" if r.count("differs") else "ok",
                "seconds": round(r.seconds, 1),
                **({"skipped": r.skipped} if r.skipped else {}),
                "differences": [
                    {
                        **dataclasses.asdict(d),
                        "entry": "created" if d.entry == 0 else f"steps[{d.entry - 1}]",
                        "class": d.family,
                    }
                    for d in r.differences
                ],
            }
            for r in results
        ],
    }


# ---------------------------------------------------------------- running
def judged(case: Case, got: dict, seconds: float, args: argparse.Namespace) -> Result:
    found = Judge(
        case.job["kind"], case.want, got, case.differs, case.steps, args.strict_events
    ).verdict()
    found += wrong(case.id, got)
    for d in found:
        if args.strict_order and d.grade == "order":
            d.grade = "differs"
    return Result(case, seconds, found)


def report(result: Result, args: argparse.Namespace) -> Result:
    titles = {0: "created"} | {
        i + 1: f"steps[{i}] {step['step']}"
        for i, step in enumerate(result.case.want.get("steps", []))
    }
    if not args.quiet or result.count("differs"):
        print(show(result, titles, args.width), flush=True)
    return result


async def replay(cases: list[Case], args: argparse.Namespace) -> list[Result]:
    async def operator(word: str) -> None:
        process = await asyncio.create_subprocess_shell(f"{args.restart_command} {word}")
        if code := await process.wait():
            raise RuntimeError(f"--restart-command {word}: exit code {code}")

    run_id = secrets.token_hex(3)
    slots = asyncio.Semaphore(args.jobs)
    async with connect(args.kubeconfig) as api:
        for trouble in await make_world(api, find_world(args)):
            print(trouble, file=sys.stderr)
        addresses = await world_addresses(api)

        async def one(i: int, case: Case) -> Result:
            async with slots:
                start = time.time()
                play = Play(
                    api,
                    case,
                    f"rp{run_id}x{i:03d}",
                    addresses,
                    args.ranktable_root,
                    operator,
                    args.keep,
                )
                try:
                    got = await play.run()
                except (aiohttp.ClientError, TimeoutError, RuntimeError) as error:
                    broken = Difference(
                        0,
                        "case",
                        "",
                        "",
                        "",
                        "a course to the end",
                        f"{type(error).__name__}: {error}",
                    )
                    return report(Result(case, time.time() - start, [broken]), args)
                if args.out:
                    folder = args.out / case.id.split("/")[0]
                    folder.mkdir(parents=True, exist_ok=True)
                    text = yaml.safe_dump(
                        {"case": case.id, **got}, sort_keys=False, width=170, allow_unicode=True
                    )
                    (args.out / f"{case.id}.got.yaml").write_text(text)
                return report(judged(case, got, time.time() - start, args), args)

        together = [(i, case) for i, case in enumerate(cases) if not case.restarts]
        results = list(await asyncio.gather(*(one(i, case) for i, case in together)))
        for i, case in enumerate(cases):  # a restart would disturb the others
            if case.restarts and args.restart_command:
                results.append(await one(i, case))
            elif case.restarts:
                results.append(
                    report(
                        Result(case, 0, [], "it restarts the operator: give --restart-command"),
                        args,
                    )
                )
        return results


def compare_saved(cases: list[Case], args: argparse.Namespace) -> list[Result]:
    out = []
    for case in cases:
        path = args.saved / f"{case.id}.got.yaml"
        got = yaml.load(path.read_text(), Loader) if path.exists() else None
        out.append(
            report(
                judged(case, got, 0, args) if got else Result(case, 0, [], "not in the saved run"),
                args,
            )
        )
    return out


def find_world(args: argparse.Namespace) -> pathlib.Path | None:
    near = [
        folder / "world.yaml"
        for given in args.cases
        for folder in (given, *given.resolve().parents)
    ]
    return next(
        (
            path
            for path in [args.world, *near, HERE.parent / "spec" / "recorded" / "world.yaml"]
            if path and path.exists()
        ),
        None,
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--kubeconfig", help="the cluster with the operator")
    add(
        "--cases",
        required=True,
        nargs="+",
        type=pathlib.Path,
        metavar="DIR",
        help="folders with recordings (searched to any depth)",
    )
    add(
        "--only",
        default="",
        metavar="REGEX",
        help="only cases whose name (pytorchjob/10-suspend-resume) matches",
    )
    add(
        "--recorded-from",
        default="",
        metavar="REGEX",
        help="only cases whose recordedFrom matches; flags of the peer stand there",
    )
    add("--jobs", type=int, default=4, metavar="N", help="cases at the same time (default 4)")
    add(
        "--restart-command",
        metavar="CMD",
        help="called as `CMD stop` and `CMD start` by the cases that restart the operator",
    )
    add(
        "--ranktable-root",
        type=pathlib.Path,
        default=pathlib.Path(RANKTABLES),
        metavar="DIR",
        help=f"where the operator writes RankTable files (default {RANKTABLES})",
    )
    add(
        "--world",
        type=pathlib.Path,
        metavar="FILE",
        help="world.yaml, if not in or above a folder of --cases",
    )
    add(
        "--out",
        type=pathlib.Path,
        metavar="DIR",
        help="write what was seen there, in the form of .want.yaml",
    )
    add(
        "--saved",
        type=pathlib.Path,
        metavar="DIR",
        help="compare what an earlier run wrote with --out; no cluster is used",
    )
    add("--json", type=pathlib.Path, metavar="FILE", help="write all differences there, in full")
    add("--classes", action="store_true", help="summarise the differences by kind of place")
    add(
        "--strict-events",
        action="store_true",
        help="each entry must show the same events, repetitions of earlier entries included",
    )
    add(
        "--strict-order",
        action="store_true",
        help="the order of environment variables counts as a difference",
    )
    add("--quiet", action="store_true", help="show only cases that differ")
    add("--keep", action="store_true", help="leave the namespaces")
    add(
        "--width",
        type=int,
        default=110,
        metavar="N",
        help="cut values to so many characters (default 110)",
    )
    args = parser.parse_args()
    if not args.saved and not args.kubeconfig:
        parser.error("--kubeconfig or --saved is needed")
    return args


def main() -> int:
    args = arguments()
    cases = [
        case
        for case in load_cases(args.cases)
        if re.search(args.only, case.id)
        and re.search(args.recorded_from, case.want.get("recordedFrom", ""))
    ]
    if not cases:
        print("no case matches", file=sys.stderr)
        return 2
    results = compare_saved(cases, args) if args.saved else asyncio.run(replay(cases, args))
    print(summary(results, args.classes))
    if args.json:
        args.json.write_text(json.dumps(as_json(results), indent=1, ensure_ascii=False))
    return 1 if any(r.count("differs") for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
