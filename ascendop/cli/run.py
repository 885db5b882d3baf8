# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""`ascendop run`: the operator for a cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from argparse import ArgumentParser, Namespace, _SubParsersAction
from pathlib import Path
from random import SystemRandom  # noqa: TID251  the one place where randomness comes in

from ascendop.app import Identity, Operator
from ascendop.cli.flags import add_settings, settings_of
from ascendop.clock import wall
from ascendop.kube.client import Client
from ascendop.kube.config import load
from ascendop.kube.transport import HttpTransport
from ascendop.leader.record import identity
from ascendop.settings import Settings
from ascendop.telemetry.log import configure, get_log

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
    _start(settings)
    return 0


def _start(settings: Settings) -> None:
    try:
        import uvloop  # noqa: PLC0415  optional
    except ImportError:
        asyncio.run(_run(settings))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings))


async def _run(settings: Settings) -> None:
    rng = SystemRandom()
    connection = await load(
        environ=os.environ,
        kubeconfig=settings.kubeconfig or None,
        context=settings.context or None,
        wall_clock=wall,
        strict_tls=settings.strict_tls,
        service_account=Path(settings.service_account_dir),
    )
    transport = HttpTransport(connection, rng=rng)
    client = Client(transport, rng=rng, host=transport.host, timeout_s=settings.request_timeout_s)
    who = identity(
        pod_name=settings.pod_name,
        pod_uid=settings.pod_uid,
        hostname=socket.gethostname(),
        rng=rng,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    operator = Operator(
        client,
        settings,
        identity=Identity(who, settings.pod_namespace or connection.namespace),
        wall=wall,
        rng=rng,
    )
    log.info("started", server=connection.server, identity=who)
    try:
        await operator.run(stop)
    finally:
        await client.aclose()
