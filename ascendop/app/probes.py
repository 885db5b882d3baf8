# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the probes and the pages for people say about a running operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ascendop.app.operator import Operator
from ascendop.settings import Settings, parse_listen
from ascendop.telemetry.certificate import Certificate
from ascendop.telemetry.health import (
    Checks,
    HealthServer,
    OnLoop,
    Route,
    metrics_routes,
    probe_routes,
)
from ascendop.telemetry.profile import profile_routes
from ascendop.telemetry.watchdog import Watchdog


@contextmanager
def serve_probes(
    operator: Operator, settings: Settings, watchdog: Watchdog, stop: asyncio.Event
) -> Iterator[None]:
    """Answer probes, scrapes and questions of profilers, each where the settings say.

    Red:     /healthz when a restart would help; /readyz until the caches are filled and once the
             end has begun. A follower is ready, and so is a replica whose API server is away:
             else all of them would be restarted at once.
    Raises:  UsageError when an address cannot be had, or the certificate cannot be used.
    """
    certificate = None
    if settings.tls_cert_file:
        files = Path(settings.tls_cert_file), Path(settings.tls_private_key_file)
        certificate = Certificate(*files)
    on_loop = OnLoop(asyncio.get_running_loop())
    doors: list[tuple[str, str, Callable[[str], Mapping[str, Route]]]] = [
        (
            settings.health_listen,
            "--health-listen",
            lambda _host: _probes(operator, watchdog, stop, on_loop),
        ),
        (
            settings.metrics_listen,
            "--metrics-listen",
            lambda _host: metrics_routes(operator.metrics, on_loop),
        ),
        (settings.profile_listen, "--profile-listen", lambda host: profile_routes(host, on_loop)),
    ]
    with ExitStack() as servers:
        for listen, flag, routes in doors:
            if listen:
                address = parse_listen(listen)
                # Profiles are for who is on the machine: see profile_routes.
                secured = None if flag == "--profile-listen" else certificate
                server = HealthServer(address, routes(address[0]), flag=flag, certificate=secured)
                server.start()
                servers.callback(server.stop)
        yield


def checks(operator: Operator, watchdog: Watchdog, stop: asyncio.Event) -> tuple[Checks, Checks]:
    """What /healthz and /readyz ask; may be asked from any thread."""
    live, ready = Checks(), Checks()
    live.add("loop", watchdog.unhealthy)
    if operator.elector is not None:
        live.add("lease", operator.elector.unhealthy)
    ready.add("caches", lambda: "" if operator.synced.is_set() else "are being filled")
    ready.add("end", lambda: "this replica is stopping" if stop.is_set() else "")
    return live, ready


def _probes(
    operator: Operator, watchdog: Watchdog, stop: asyncio.Event, on_loop: OnLoop
) -> Mapping[str, Route]:
    live, ready = checks(operator, watchdog, stop)
    dumps = {"informerz": lambda: _informers(operator), "queuez": lambda: _queue(operator)}
    return probe_routes(live, ready, dumps, on_loop)


def _informers(operator: Operator) -> list[dict[str, Any]]:
    return [asdict(informer.figures()) for informer in operator.mirror.informers]


def _queue(operator: Operator) -> dict[str, Any]:
    queue = operator.queue
    return {
        "keys": len(queue),
        "depths": queue.depths(),
        "running": {str(key): seconds for key, seconds in queue.running().items()},
        "unfinished_s": queue.unfinished_s(),
        "leads": operator.leads,
    }
