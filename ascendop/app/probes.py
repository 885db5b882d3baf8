# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What the probes and the pages for people say about a running operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from ascendop.app.operator import Operator
from ascendop.settings import Settings, parse_listen
from ascendop.telemetry.health import Checks, HealthServer, OnLoop, metrics_routes, probe_routes
from ascendop.telemetry.watchdog import Watchdog


@contextmanager
def serve_probes(
    operator: Operator, settings: Settings, watchdog: Watchdog, stop: asyncio.Event
) -> Iterator[None]:
    """Answer /healthz, /readyz and /metrics, each where the settings say; nowhere when empty.

    Red:     /healthz when a restart would help; /readyz until the caches are filled and once the
             end has begun. A follower is ready, and so is a replica whose API server is away:
             else all of them would be restarted at once.
    Raises:  UsageError when an address cannot be had.
    """
    live, ready = Checks(), Checks()
    live.add("loop", watchdog.unhealthy)
    if operator.elector is not None:
        live.add("lease", operator.elector.unhealthy)
    ready.add("caches", lambda: "" if operator.synced.is_set() else "are being filled")
    ready.add("end", lambda: "this replica is stopping" if stop.is_set() else "")
    on_loop = OnLoop(asyncio.get_running_loop())
    dumps = {"informerz": lambda: _informers(operator), "queuez": lambda: _queue(operator)}
    with ExitStack() as servers:
        for listen, routes, flag in (
            (settings.health_listen, probe_routes(live, ready, dumps, on_loop), "--health-listen"),
            (
                settings.metrics_listen,
                metrics_routes(operator.metrics, on_loop),
                "--metrics-listen",
            ),
        ):
            if listen:
                server = HealthServer(parse_listen(listen), routes, flag=flag)
                server.start()
                servers.callback(server.stop)
        yield


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
