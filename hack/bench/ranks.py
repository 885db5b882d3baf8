# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A large RankTable: how long from the last pod's devices until it is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hack.bench.audit import AuditLog, Write
from hack.bench.measure import Place, let_run, pods_exist
from hack.bench.operator import BenchedOperator
from hack.bench.raw import Loader
from hack.bench.shape import Rendered, Shape
from hack.bench.wire import MERGE, BenchError, Wire, all_of

DEVICES: Final = 8
TIMES: Final = 5
WITHIN_S: Final = 60.0
_POLL_S: Final = 0.02
_QUIET_S: Final = 1.0
_TABLE: Final = "hccl.json"
_MAPS: Final = "/api/v1/namespaces/{namespace}/configmaps"
_PODS: Final = "/api/v1/namespaces/{namespace}/pods"
_DEVICES: Final = "ascend.kubectl.kubernetes.io/ascend-910-configuration"


@dataclass(frozen=True, slots=True)
class Tables:
    """Milliseconds, one for each time."""

    operator: list[float] = field(default_factory=list)
    """From the answer to the last annotation until the table was written, by the audit log."""
    once: list[float] = field(default_factory=list)
    """The same table encoded and written once, by the loader."""
    size_bytes: int = 0


async def table_run(place: Place, namespace: str, shape: Shape, rendered: Rendered) -> Tables:
    """One job with a ConfigMap for its table; the last pod's devices change a few times."""
    (job,) = shape.names()
    operator = BenchedOperator(place.plane, place.folder, namespace)
    with place.namespace(namespace) as audit, operator:
        async with place.wire() as wire:
            await _config_map(wire, namespace, f"rings-config-{job}")
            await _config_map(wire, namespace, "once")
            await Loader(wire, shape, rendered, namespace).jobs_alone()
            await pods_exist(audit, shape.pods)
            await let_run(wire, namespace, shape, rendered)
            names = [pod.named(job, b"") for pod in rendered.pods]
            await all_of(
                lambda numbered: _annotate(wire, namespace, names[numbered], numbered),
                range(shape.pods - 1),
            )
            return await _last_changes(wire, audit, namespace, job, names)


async def _last_changes(
    wire: Wire, audit: AuditLog, namespace: str, job: str, names: list[str]
) -> Tables:
    found, size_bytes = Tables(), 0
    for number in range(TIMES):
        await asyncio.sleep(_QUIET_S)
        audit.read()
        seen = len(audit.writes)
        await _annotate(wire, namespace, names[-1], len(names) + number)
        found.operator.append(await _written_after_ms(audit, seen))
        path = f"{_MAPS.format(namespace=namespace)}/rings-config-{job}"
        table = orjson.loads(orjson.loads(await wire.send("GET", path))["data"][_TABLE])
        took_ms, size_bytes = await _once_ms(wire, namespace, table, number)
        found.once.append(took_ms)
    return Tables(found.operator, found.once, size_bytes)


async def _once_ms(
    wire: Wire, namespace: str, table: dict[str, Any], number: int
) -> tuple[float, int]:
    clock = asyncio.get_running_loop().time
    began_at = clock()
    content = orjson.dumps(table).decode()
    body = orjson.dumps({"data": {_TABLE: content, "version": str(number)}})
    await wire.send("PATCH", f"{_MAPS.format(namespace=namespace)}/once", body, MERGE)
    return (clock() - began_at) * 1000, len(content)


async def _written_after_ms(audit: AuditLog, seen: int) -> float:
    """From the last annotation until the ConfigMap was written, both as the server says."""
    loop = asyncio.get_running_loop()
    until = loop.time() + WITHIN_S
    while loop.time() < until:
        audit.read()
        fresh = audit.writes[seen:]
        annotated = [write for write in fresh if _is(write, "pods")]
        written = [write for write in fresh if _is(write, "configmaps")]
        if annotated and written:
            took = written[0].stage_timestamp - annotated[0].stage_timestamp
            return took.total_seconds() * 1000
        await asyncio.sleep(_POLL_S)
    raise BenchError(f"no RankTable was written within {WITHIN_S:g} s")


def _is(write: Write, what: str) -> bool:
    return (write.verb, write.what) == ("patch", what) and write.worked


async def _config_map(wire: Wire, namespace: str, name: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {_TABLE: '{"status":"initializing"}'},
    }
    await wire.send("POST", _MAPS.format(namespace=namespace), orjson.dumps(body))


async def _annotate(wire: Wire, namespace: str, name: str, number: int) -> None:
    """As the device plugin does when it has given a pod its NPUs."""
    address = f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"
    config = {
        "pod_name": name,
        "server_id": address,
        "host_ip": address,
        "devices": [
            {"device_id": str(device), "device_ip": f"192.168.{device}.{number % 256}"}
            for device in range(DEVICES)
        ],
    }
    body = {"metadata": {"annotations": {_DEVICES: orjson.dumps(config).decode()}}}
    path = f"{_PODS.format(namespace=namespace)}/{name}"
    await wire.send("PATCH", path, orjson.dumps(body), MERGE)
