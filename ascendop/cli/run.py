# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop run`: the operator for a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom  # noqa: TID251  the one place where randomness comes in

from ascendop.app.operator import Identity, Operator, job_resources
from ascendop.app.preflight import check_cluster
from ascendop.app.probes import serve_probes
from ascendop.cli.flags import add_settings, settings_of
from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.config import load
from ascendop.kube.transport import HttpTransport
from ascendop.leader.record import identity
from ascendop.settings import Settings
from ascendop.telemetry.collector import Collector
from ascendop.telemetry.log import configure, get_log
from ascendop.telemetry.metrics import Metrics
from ascendop.telemetry.watchdog import Watchdog

log = get_log(__name__)


def add_parser(sub: _SubParsersAction[ArgumentParser]) -> None:
    """The verb and its flags."""
    parser = sub.add_parser("run", help="run the operator for a cluster")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings file, YAML")
    add_settings(parser)
    parser.set_defaults(run=run)


def run(args: Namespace) -> int:
    """Until SIGTERM or SIGINT. Raises what ends it."""
    settings = settings_of(args)
    configure(settings.log_level, settings.log_format)
    with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        runner.run(_run(settings))
    return 0


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415  optional: it trails new interpreters
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run(settings: Settings) -> None:
    rng, metrics = SystemRandom(), Metrics()
    connection = await load(
        environ=os.environ,
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        wall_clock=wall,
        service_account=Path(settings.service_account_dir),
        strict_tls=settings.strict_tls,
    )
    transport = HttpTransport(connection, rng=rng)
    client = Client(
        transport,
        rng=rng,
        host=transport.host,
        timeout_s=settings.request_timeout_s,
        observer=metrics.requests(transport.host),
    )
    try:
        await check_cluster(client, settings, job_resources(settings), connection.server)
        who = identity(
            pod_name=settings.pod_name,
            pod_uid=settings.pod_uid,
            hostname=socket.gethostname(),
            rng=rng,
        )
        operator = Operator(
            client,
            settings,
            identity=Identity(who, settings.pod_namespace or connection.namespace),
            wall=wall,
            rng=rng,
            metrics=metrics,
        )
        await _serve(operator, settings, transport)
    finally:
        await client.aclose()


async def _serve(operator: Operator, settings: Settings, transport: HttpTransport) -> None:
    """The operator with its probes, its watchdog and the collector's policy."""
    watchdog = Watchdog(operator.metrics.loop)
    watchdog.after_stall(operator.queue.rebase)
    collector = Collector(operator.metrics.loop)
    operator.metrics.before_scrape(collector.tell)
    with _stop_on_signals() as stop, serve_probes(operator, settings, watchdog, stop):
        async with asyncio.TaskGroup() as group:
            beside = [
                group.create_task(watchdog.run(), name="watchdog"),
                group.create_task(transport.maintain(), name="credentials"),
                group.create_task(_collect(operator, collector), name="collector"),
            ]
            await operator.run(stop)
            for task in beside:
                task.cancel()
    log.info("stopped")


async def _collect(operator: Operator, collector: Collector) -> None:
    collector.before_sync()
    await operator.synced.wait()
    collector.synced()
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
