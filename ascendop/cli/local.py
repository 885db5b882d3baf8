# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop local`: server, nodes and operator in one process, pods as real processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import SystemRandom  # noqa: TID251  the one place where randomness comes in
from typing import Final

from rich.console import Console

from ascendop.app.operator import Operator
from ascendop.cli.files import Located, load_objects
from ascendop.cli.house import House
from ascendop.cli.parser import LEVELS, port, seconds
from ascendop.cli.runnable import check_commands
from ascendop.cli.view import Lines, Look, Screen, look_at, printable, verdict
from ascendop.clock import wall
from ascendop.errors import UsageError
from ascendop.settings import Settings
from ascendop.sim.http import Address, serve
from ascendop.sim.local import LocalNode, choose_place
from ascendop.sim.logfolder import last_words
from ascendop.sim.nodes import NodeSpec, parse_nodes
from ascendop.sim.processes import SYSTEM_PATH
from ascendop.sim.server import ApiServer
from ascendop.telemetry.log import configure

LOOK_S: Final = 0.25
LAST_LINES: Final = 10
"""Of each container, at the end; the rest is in its log."""
TABLES: Final = "user/mindx-dl/ranktable"


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser(
        "local", help="run jobs on this machine: a small Kubernetes, the operator, real processes"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML; - for standard input")
    parser.add_argument(
        "--nodes", action="append", metavar="SPEC", help="nodes, e.g. '2x8 910B' [2x8 910B]"
    )
    parser.add_argument("--root", type=Path, metavar="DIR", help="logs and volumes [a new folder]")
    parser.add_argument("--keep", action="store_true", help="stay up for kubectl after the end")
    parser.add_argument("--port", type=port, default=0, help="of the API server [a free one]")
    parser.add_argument(
        "--timeout", type=seconds, default=0.0, metavar="S", help="give up after so many seconds"
    )
    parser.add_argument(
        "--host-paths", action="store_true", help="hostPath volumes are this machine's own paths"
    )
    parser.add_argument("--plain", action="store_true", help="lines, also on a terminal")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="warning", help="of the operator [warning]"
    )
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """The jobs' end as exit code: 0 all succeeded, 5 one failed, 6 one has not finished."""
    located = load_objects(args.files, sys.stdin)
    check_commands(located)
    nodes = [parse_nodes(text) for text in args.nodes or ("2x8 910B",)]
    configure(args.log_level, "text")
    root = _root(args.root)
    return asyncio.run(_local(args, located, nodes, root))


def _root(given: Path | None) -> Path:
    if given is None:
        try:
            return Path(tempfile.mkdtemp(prefix="ascendop-"))
        except OSError as error:
            raise UsageError(f"no folder for logs: {error.strerror}; name one by --root") from error
    try:
        given.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--root {given}: {error.strerror}; name a folder we may write") from error
    if not os.access(given, os.W_OK | os.X_OK):
        raise UsageError(f"--root {given}: cannot be written to; name a folder that can")
    return given.resolve()


async def _local(args: Namespace, located: list[Located], nodes: list[NodeSpec], root: Path) -> int:
    server = ApiServer(wall=wall, rng=SystemRandom())
    house = House(server, rng=SystemRandom())
    place = await choose_place(lambda text: print(f"warning: {text}", file=sys.stderr))
    node = LocalNode(
        house.client,
        root=root,
        wall=wall,
        place=place,
        token=secrets.token_urlsafe(),
        path=os.environ.get("PATH", SYSTEM_PATH),
        nodes=nodes,
        host_paths=args.host_paths,
    )
    server.logs = node.logs
    tables = node.host_root / TABLES
    settings = Settings(
        leader_elect=False, rank_table_dir=str(tables), health_listen="", metrics_listen=""
    )
    with _ending_on_signals() as ending:
        async with (
            _listening(server, args.port) as address,
            house.operator(settings, wall) as operator,
            _running(node),
        ):
            await _introduce(address, root)
            await house.gangs_may_wait()
            await house.apply(located)
            await _watch(house, operator, ending, args)
            code = verdict(await house.jobs())
            _conclude(node, await look_at(house, operator.mirror))
            if args.keep and not ending.is_set():
                print("still up for kubectl; Ctrl-C ends it", flush=True)
                await ending.wait()
    return code


@asynccontextmanager
async def _listening(server: ApiServer, port: int) -> AsyncIterator[Address]:
    """For kubectl. A token is in its kubeconfig: who may write here starts processes as us."""
    async with AsyncExitStack() as stack:
        door = serve(server, port=port, token=secrets.token_urlsafe())
        try:
            address = await stack.enter_async_context(door)
        except OSError as error:
            raise UsageError(
                f"--port {port}: {error.strerror}; choose another one, or 0 for one that is free"
            ) from error
        yield address


@asynccontextmanager
async def _running(node: LocalNode) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(node.run(), name="node")
        await node.ready.wait()
        try:
            yield
        finally:
            task.cancel()


async def _introduce(address: Address, root: Path) -> None:
    kubeconfig = root / "kubeconfig"
    address.write_kubeconfig(kubeconfig, namespace="default")
    print(f"cluster, until this ends: kubectl --kubeconfig {kubeconfig} get pods", flush=True)


async def _watch(house: House, operator: Operator, ending: asyncio.Event, args: Namespace) -> None:
    """Show what happens until every job has ended, the time is up, or a person has enough."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + args.timeout if args.timeout > 0 else None
    with _shown(plain=args.plain) as show:
        while not ending.is_set():
            look = await look_at(house, operator.mirror)
            show.show(look)
            settled = not operator.queue.depths() and not operator.queue.running()
            if all(job.finished for job in look.jobs) and settled:
                return
            if ends_at is not None and loop.time() >= ends_at:
                return
            await asyncio.sleep(LOOK_S)


@contextmanager
def _shown(*, plain: bool) -> Iterator[Lines | Screen]:
    console = Console()
    if console.is_terminal and not plain:
        with Screen(console) as screen:
            yield screen
    else:
        loop = asyncio.get_running_loop()
        yield Lines(lambda text: print(text, flush=True), loop.time)


def _conclude(node: LocalNode, look: Look) -> None:
    """What each pod said last, and where the rest is."""
    for job in look.jobs:
        for pod in look.pods(job):
            for container in pod.containers:
                path = node.logs.path(pod.namespace, pod.name, container.name)
                said = last_words(path) if path.exists() else ""
                for line in printable(said).strip().splitlines()[-LAST_LINES:] or [""]:
                    print(f"{pod.name}/{container.name} | {line}")
        print(f"{job.title}: {job.state or 'not begun'} ({job.reason})")
    print(f"logs: {node.logs.root}", flush=True)


@contextmanager
def _ending_on_signals() -> Iterator[asyncio.Event]:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    yield ending
