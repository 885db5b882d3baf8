# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Pods per second, CPU, memory and writes of the operator, beside a bare loader.

    make bench                              200 jobs of 5 pods, one of 1,000; three runs of each
    BENCH_JOBS=20 BENCH_PODS=50 make bench  smaller, to see that it works; the page is not written
    make bench-peers                        beside mpi-operator and training-operator, in turn

Then pods that fail and are replaced (BENCH_FAILURES), a large RankTable, and the operator over a
crowd of other jobs' pods (BENCH_CACHED), in the simulator.

On a real kube-apiserver with Volcano, `priority` and `gang` alone: every gang is let in, and as
there are no nodes, the loader writes that pods run, while others are still being made. No root; a
quarter of an hour at most.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import uvloop

from hack import tools
from hack.admin import RefusedError
from hack.bench import cached
from hack.bench.audit import POLICY
from hack.bench.cached import Cost
from hack.bench.kinds import MPIJOB, PYTORCHJOB
from hack.bench.measure import Peer, Place, Run, operator_run, raw_run
from hack.bench.peers import mpi_operator, training_operator
from hack.bench.ranks import table_run
from hack.bench.raw import Extras
from hack.bench.report import Further, Measured, Report, page, table
from hack.bench.retry import retry_run
from hack.bench.shape import PODS_PER_JOB, Rendered, Shape, render
from hack.bench.wire import BenchError
from hack.controlplane import OPEN, ROOT, ControlPlane
from hack.process import ProcessError

PAGE = ROOT / "docs" / "reference" / "performance.md"
PEERS_PAGE = ROOT / "docs" / "reference" / "beside-others.md"
PEERS = {MPIJOB: mpi_operator, PYTORCHJOB: training_operator}
FULL = {
    "BENCH_JOBS": 200,
    "BENCH_PODS": 1000,
    "BENCH_RUNS": 3,
    "BENCH_FAILURES": 50,
    "BENCH_CACHED": 100_000,
}
BEGAN_S = time.perf_counter()
CACHED_FIRST = (1_000, 11_000)
"""Pods in the cache, between which memory is compared; BENCH_CACHED is the third."""
FORESEEN = (BenchError, ProcessError, RefusedError, TimeoutError, tools.ToolError)
GUESSED_STATUSES = 2  # of a job until its last pod exists; for --raw-only


def _say(line: str) -> None:
    print(f"bench, {time.perf_counter() - BEGAN_S:4.0f} s: {line}", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--raw-only", action="store_true", help="measure the loader alone")
    parser.add_argument("--peers", action="store_true", help="beside the operators of others")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="one profiled run of each")
    parser.add_argument("--dir", type=Path, help="keep logs there")
    return parser.parse_args()


def _size(name: str) -> int:
    given = os.environ.get(name, str(FULL[name]))
    if not given.isdecimal() or int(given) < 1:
        raise BenchError(f"{name}={given}: must be a number above 0")
    return int(given)


def _place(plane: ControlPlane, folder: Path, log: Path) -> Place:
    """A loader with every right, but not of system:masters, which no server queues."""
    with plane.admin() as admin:
        token = admin.token_of("ascendop-bench", "loader", lasts_s=7200)
        subject = {"kind": "ServiceAccount", "name": "loader", "namespace": "ascendop-bench"}
        admin.ensure({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "ascendop-bench"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [subject],
        })  # fmt: skip
    return Place(plane, folder, log, token, _say)


async def _in_turn(
    place: Place,
    shape: Shape,
    name: str,
    runs: int,
    *,
    raw_only: bool = False,
    peer: Peer | None = None,
) -> Measured:
    """A B A B: the operator, then raw with as many writes, then a peer."""
    rendered = await asyncio.to_thread(render, shape)
    operated: list[Run] = []
    raw: list[Run] = []
    peers: list[Run] = []
    for number in range(1, runs + 1):
        extras = Extras(GUESSED_STATUSES * shape.jobs, shape.jobs)
        if not raw_only:
            last = shape.jobs > 1 and number == runs
            found = await operator_run(
                place, f"{name}-{number}-operator", shape, rendered, wait_for_events=last
            )
            operated.append(found)
            extras = found.extras
            _say(f"{shape}: operator {found.pods_per_s:.0f} pods/s, {extras}")
        raw.append(await raw_run(place, f"{name}-{number}-raw", shape, rendered, extras))
        _say(f"{shape}: raw {raw[-1].pods_per_s:.0f} pods/s")
        if peer is not None:
            found = await operator_run(place, f"{name}-{number}-peer", shape, rendered, peer=peer)
            peers.append(found)
            _say(f"{shape}: peer {found.pods_per_s:.0f} pods/s")
    return Measured(shape, operated, raw, peers)


def _bare_ms(place: Place, rendered: Rendered, count: int, number: int) -> float:
    """CPU of a bare client for one pod."""
    namespace = f"bare-{number}"
    pod = orjson.loads(rendered.pods[-1].body)
    del pod["metadata"]["ownerReferences"]  # the garbage collector would look for the job
    token = place.folder / "loader.token"
    token.write_text(place.token)
    where = (place.plane.server, str(token), str(place.plane.ca), namespace, str(count))
    with place.namespace(namespace):
        done = subprocess.run(
            [sys.executable, "-m", "hack.bench.bare", *where],
            input=json.dumps(pod).encode(),
            stdout=subprocess.PIPE,
            check=True,
            cwd=ROOT,
        )
    return float(done.stdout)


async def _measure(place: Place, *, raw_only: bool) -> Report:
    runs, load = _size("BENCH_RUNS"), os.getloadavg()[0]
    shapes = {
        "many": Shape(_size("BENCH_JOBS"), PODS_PER_JOB),
        "large": Shape(1, _size("BENCH_PODS")),
        "mpi-many": Shape(_size("BENCH_JOBS"), PODS_PER_JOB, MPIJOB),
        "mpi-large": Shape(1, _size("BENCH_PODS"), MPIJOB),
    }
    rendered = await asyncio.to_thread(render, shapes["many"])
    bare_ms = [
        await asyncio.to_thread(_bare_ms, place, rendered, shapes["large"].pods, number)
        for number in range(1, runs + 1)
    ]
    _say(f"bare client: {', '.join(f'{ms:.2f}' for ms in bare_ms)} ms for each pod")
    measured = [
        await _in_turn(place, shape, name, runs, raw_only=raw_only)
        for name, shape in shapes.items()
    ]
    further = None if raw_only else await _further(place, shapes["large"], rendered)
    return Report(measured, bare_ms, load, further)


async def _measure_peers(place: Place) -> Report:
    runs, load = _size("BENCH_RUNS"), os.getloadavg()[0]
    jobs, pods = _size("BENCH_JOBS"), _size("BENCH_PODS")
    return Report(
        [
            await _in_turn(place, shape, f"{kind.plural}-{name}", runs, peer=peer)
            for kind, peer in PEERS.items()
            for name, shape in {
                "many": Shape(jobs, PODS_PER_JOB, kind),
                "large": Shape(1, pods, kind),
            }.items()
        ],
        [],
        load,
    )


async def _further(place: Place, large: Shape, rendered: Rendered) -> Further:
    delays = await retry_run(place, "retry", _size("BENCH_FAILURES"))
    _say(f"failed pods replaced: {len(delays.operator)}")
    tables = await table_run(place, "ranks", large, await asyncio.to_thread(render, large))
    _say(f"RankTables written: {len(tables.operator)}")
    costs: dict[int, Cost] = {}
    for count in (*CACHED_FIRST, _size("BENCH_CACHED")):
        costs[count] = await asyncio.to_thread(cached.measure, rendered, count)
        _say(f"{count:,} pods cached: {costs[count].resident_mb:.0f} MB")
    return Further(delays, tables, large.pods, costs)


async def _profile(place: Place, folder: Path) -> None:
    for name, shape in {
        "many": Shape(_size("BENCH_JOBS"), PODS_PER_JOB),
        "large": Shape(1, _size("BENCH_PODS")),
    }.items():
        rendered = await asyncio.to_thread(render, shape)
        file = folder / f"{name}.prof"
        found = await operator_run(place, f"{name}-profiled", shape, rendered, profile=file)
        _say(f"{shape}: {found.cpu_ms_per_pod:.2f} ms per pod under the profiler; {file}")


def _run(folder: Path, arguments: argparse.Namespace) -> None:
    policy, log = folder / "audit-policy.yaml", folder / "audit.log"
    policy.write_text(POLICY)
    audit = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-maxsize=2000")
    with (
        ControlPlane(folder, volcano=OPEN, apiserver=audit) as plane,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        place = _place(plane, folder, log)
        if arguments.profile:
            arguments.profile.mkdir(parents=True, exist_ok=True)
            runner.run(_profile(place, arguments.profile))
            return
        if arguments.peers:
            report, file, title = runner.run(_measure_peers(place)), PEERS_PAGE, "peers.md"
        else:
            report = runner.run(_measure(place, raw_only=arguments.raw_only))
            file, title = PAGE, "performance.md"
    print(table(report))
    if not arguments.raw_only and all(_size(name) == full for name, full in FULL.items()):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(report, title))


def _first(error: BaseException) -> BaseException:
    """The first cause of a group; the others are siblings that it took along."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main() -> int:
    """Measure; 1 and one sentence when that cannot be done."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="ascendop-bench-") as scratch:
        folder = arguments.dir or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _run(folder, arguments)
        except Exception as error:
            cause = _first(error)
            if not isinstance(cause, FORESEEN):
                raise
            _say(str(cause))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
