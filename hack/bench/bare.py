# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What it costs a bare client to create a pod and to read its watch event: a process of its own.

    python -m hack.bench.bare SERVER TOKEN-FILE CA-FILE NAMESPACE COUNT < POD > CPU-MS-PER-POD

As one would write it without further thought: aiohttp and orjson, each body encoded, each answer
and each line of the watch decoded into dicts, sixteen requests in flight.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import uvloop

from hack.bench.wire import Wire, all_of

MORE = 100
"""Pods before the clock starts: connections, caches."""


class _Bare:
    """Creates pods and watches them come."""

    def __init__(self, wire: Wire, namespace: str, pod: dict[str, Any]) -> None:
        self._wire = wire
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pod = pod
        self._seen: dict[str, dict[str, Any]] = {}
        self._new = asyncio.Event()

    async def made(self, numbers: range) -> float:
        """CPU seconds of this process until all of them were made and seen."""
        began_s = time.process_time()
        await all_of(self._create, numbers)
        while len(self._seen) < numbers.stop:
            self._new.clear()
            await self._new.wait()
        return time.process_time() - began_s

    async def watch(self) -> None:
        asked = f"{self._wire.server}{self._path}?watch=1&resourceVersion=0"
        async with self._wire.session.get(asked) as answer:
            async for line in answer.content:
                found = orjson.loads(line)["object"]
                self._seen[found["metadata"]["name"]] = found
                self._new.set()

    async def _create(self, number: int) -> None:
        name = f"bare-{number:05}"
        metadata = {**self._pod["metadata"], "name": name, "namespace": self._namespace}
        body = orjson.dumps({**self._pod, "metadata": metadata})
        orjson.loads(await self._wire.send("POST", self._path, body))


async def measure(wire: Wire, namespace: str, pod: dict[str, Any], count: int) -> float:
    """CPU milliseconds of this process for each pod."""
    client = _Bare(wire, namespace, pod)
    watching = asyncio.get_running_loop().create_task(client.watch())
    await client.made(range(MORE))
    gc.collect()
    gc.freeze()
    spent_s = await client.made(range(MORE, MORE + count))
    watching.cancel()
    return spent_s * 1000 / count


async def _main(server: str, token: str, ca: Path, namespace: str, count: str) -> None:
    pod = orjson.loads(sys.stdin.buffer.read())
    async with Wire(server, token, ca, "ascendop-bench") as wire:
        print(await measure(wire, namespace, pod, int(count)))


if __name__ == "__main__":
    _server, _token, _ca, *_rest = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(_server, Path(_token).read_text(), Path(_ca), *_rest))
