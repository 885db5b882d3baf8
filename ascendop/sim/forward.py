# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Stands in for kube-proxy: ClusterIP ports lead to the pods behind them. Run as a script.

Reads one JSON object a line from its standard input, each the whole table
    {"10.96.0.5:80": ["10.244.0.7:8080", …], …}
and ends when the input ends. TCP only. Connections are made in turn to the pods; one that nobody
answers yet is tried again for half a minute, since it cannot be refused any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import sys

PATIENCE_S = 30.0
PAUSE_S = 0.2
CHUNK = 65536

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


class Forwarder:
    def __init__(self) -> None:
        self._servers: dict[str, asyncio.Server] = {}
        self._table: dict[str, list[str]] = {}
        self._turn = itertools.count()

    async def update(self, table: dict[str, list[str]]) -> None:
        """Ports without a pod behind them are closed: connections to them are refused."""
        self._table = {port: pods for port, pods in table.items() if pods}
        for port in [port for port in self._servers if port not in self._table]:
            self._servers.pop(port).close()
        for port in self._table:
            if port not in self._servers:
                host, _, number = port.rpartition(":")
                serve = functools.partial(self._serve, port)
                # A port that cannot be listened on stays closed; the others work.
                with contextlib.suppress(OSError):
                    self._servers[port] = await asyncio.start_server(serve, host, int(number))

    async def _serve(self, port: str, reader: Reader, writer: Writer) -> None:
        try:
            pod_reader, pod_writer = await self._connect(port)
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, pod_writer))
            group.create_task(pump(pod_reader, writer))
        for end in (writer, pod_writer):
            end.close()

    async def _connect(self, port: str) -> tuple[Reader, Writer]:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + PATIENCE_S
        while True:
            pods = self._table.get(port)
            try:
                if not pods:
                    raise ConnectionRefusedError(port)
                host, _, number = pods[next(self._turn) % len(pods)].rpartition(":")
                return await asyncio.open_connection(host, int(number))
            except OSError:
                if loop.time() > give_up_at:
                    raise
                await asyncio.sleep(PAUSE_S)


async def pump(reader: Reader, writer: Writer) -> None:
    """Until one side ends; its end is passed on, so that half-closed connections work."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


async def main() -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    forwarder = Forwarder()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while line := await lines.readline():
        await forwarder.update(json.loads(line))


if __name__ == "__main__":
    asyncio.run(main())
