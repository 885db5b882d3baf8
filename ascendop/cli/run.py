# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop run`: the operator for a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import SystemRandom  # noqa: TID251  the one place where randomness comes in
from typing import Any

from ascendop.app.causes import for_ever
from ascendop.app.operator import Identity, Operator, job_resources
from ascendop.app.preflight import check_cluster
from ascendop.app.probes import serve_probes
from ascendop.app.rights import check_lease_namespace, check_rights
from ascendop.cli.flags import add_settings, settings_of, settings_over
from ascendop.cli.peer_flags import add_peer_flags, peer_flags
from ascendop.clock import wall
from ascendop.kube.call import Traffic
from ascendop.kube.client import Client
from ascendop.kube.config import load
from ascendop.kube.limiter import WriteLimiter
from ascendop.kube.transport import HttpTransport
from ascendop.leader.record import identity
from ascendop.settings import Settings
from ascendop.telemetry.collector import Collector
from ascendop.telemetry.log import configure, get_log, set_level
from ascendop.telemetry.logfile import Keeping, LogFile
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.phases import load_tracer
from ascendop.telemetry.reload import SettingsFile
from ascendop.telemetry.watchdog import Watchdog

log = get_log(__name__)


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser("run", help="run the operator for a cluster")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file, YAML")
    add_settings(parser)
    add_peer_flags(parser)
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class _Given:
    """The settings, and where they may change while we run."""

    settings: Settings
    file: Path | None
    load: Callable[[str], Settings]
    """From the text of the file."""


def run(args: Namespace) -> int:
    """Until SIGTERM or SIGINT. Raises what ends it."""
    given = _Given(settings_of(args), args.config, partial(settings_over, args))
    return _operate(given, peer_flags(args).warnings)


def operate(settings: Settings) -> int:
    """The same, by settings that no file changes meanwhile."""
    return _operate(_Given(settings, None, lambda _text: settings), ())


def _operate(given: _Given, warnings: Sequence[str]) -> int:
    settings = given.settings
    configure(settings.log_level, settings.log_format, file=_log_file(settings))
    for warning in warnings:
        log.warning("flag", text=warning)
    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(_run(given))
    return 0


def _log_file(settings: Settings) -> LogFile | None:
    if not settings.log_file:
        return None
    keeping = Keeping(settings.log_max_age_days, settings.log_max_backups, settings.log_compress)
    return LogFile(Path(settings.log_file), keeping)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  optional: it trails new interpreters
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run(given: _Given) -> None:
    settings, rng, metrics = given.settings, SystemRandom(), Metrics()
    jobs = job_resources(settings)
    connection = await load(
        environ=os.environ,
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        wall_clock=wall,
        service_account=Path(settings.service_account_dir),
        strict_tls=settings.strict_tls,
    )
    namespace = settings.pod_namespace or connection.namespace
    transport = HttpTransport(connection, rng=rng)
    traffic = Traffic(
        transport,
        host=transport.host,
        limiter=WriteLimiter(
            ceiling_per_s=settings.writes_per_s or None, burst=settings.writes_burst or None
        ),
        observer=metrics.requests(transport.host),
        slots=asyncio.Semaphore(settings.writes_at_once),
    )
    tracer = load_tracer(os.environ, rng)
    client = Client(
        transport,
        rng=rng,
        timeout_s=settings.request_timeout_s,
        list_timeout_s=settings.list_timeout_s,
        traffic=traffic,
        traceparent=tracer.traceparent if tracer else None,
    )
    who = identity(
        pod_name=settings.pod_name,
        pod_uid=settings.pod_uid,
        hostname=socket.gethostname(),
        rng=rng,
    )
    operator = Operator(
        client,
        settings,
        identity=Identity(who, namespace),
        wall=wall,
        rng=rng,
        metrics=metrics,
        tracer=tracer,
    )

    async def check() -> None:
        await check_cluster(client, settings, jobs, connection.server)
        await check_rights(client, settings, jobs, namespace)
        if settings.leader_elect:
            await check_lease_namespace(client, settings, namespace)

    try:
        await _serve(operator, given, transport, traffic.limiter, check)
    finally:
        await client.aclose()


async def _serve(
    operator: Operator,
    given: _Given,
    transport: HttpTransport,
    limiter: WriteLimiter,
    check: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """The operator with its probes, its watchdog, the collector's policy and its settings file.

    Probes are answered before anything is waited for; `check` raises when it makes no sense to go
    on.
    """
    watchdog = Watchdog(operator.metrics.loop)
    watchdog.after_stall(operator.queue.rebase)
    collector = Collector(operator.metrics.loop)
    operator.metrics.before_scrape(collector.tell)
    with _stop_on_signals() as stop, serve_probes(operator, given.settings, watchdog, stop):
        if await _ended_first(stop, check()):
            return
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(for_ever(name, work), name=name)
                for name, work in (
                    ("watchdog", watchdog.run()),
                    ("credentials", transport.maintain()),
                    ("collector", _collect(operator, collector)),
                )
            ]
            beside.append(group.create_task(_follow(given, operator, limiter), name="settings"))
            # A task and not the body of the group: then errors are listed as they came.
            await asyncio.wait({group.create_task(operator.run(stop), name="operator")})
            for task in beside:
                task.cancel()
    log.info("stopped")


async def _ended_first(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, unless the end is asked for meanwhile: a server that hangs takes its time."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work, name="check")
        asked = group.create_task(stop.wait(), name="stop")
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        asked.cancel()
    return stop.is_set()


async def _follow(given: _Given, operator: Operator, limiter: WriteLimiter) -> None:
    """Take in what changes in the settings file, as far as it can change while we run."""
    if given.file is None:
        return

    def changed(now: Settings) -> None:
        set_level(now.log_level)
        limiter.ceiling_per_s = now.writes_per_s or None
        limiter.burst = now.writes_burst or None
        operator.change(now)

    observer = operator.metrics.loop
    await SettingsFile(given.file, given.settings, load=given.load, observer=observer).follow(
        changed
    )


async def _collect(operator: Operator, collector: Collector) -> None:
    collector.before_sync()
    await operator.synced.wait()
    collector.synced()
    for informer in operator.mirror.informers:
        informer.swapped = collector.resynced
    await collector.keep(lambda: not operator.leads)


@contextmanager
def _stop_on_signals() -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets; the second ends the process as usual."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def ask() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, ask)
    yield stop
