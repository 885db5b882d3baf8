# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What it costs a bare client to create a pod and to read its watch event: a process of its own.

    python -m hack.bench.bare SERVER TOKEN-FILE CA-FILE NAMESPACE COUNT < POD > CPU-MS-PER-POD

The pod is encoded for each request, and the answer and the event become one flat struct each.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import orjson
import uvloop

from hack.bench.wire import Wire, all_of

MORE = 100
"""Pods before the clock starts: connections, caches."""


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}


class _State(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    status: _State = msgspec.field(default_factory=_State)


class _Event(msgspec.Struct):
    type: str
    object: _Pod


class _Bare:
    """Creates pods and watches them come."""

    def __init__(self, wire: Wire, namespace: str, pod: dict[str, Any]) -> None:
        self._wire = wire
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._pod = pod
        self._decode_pod = msgspec.json.Decoder(_Pod).decode
        self._decode_event = msgspec.json.Decoder(_Event).decode
        self._seen: dict[str, _Pod] = {}
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
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    found = self._decode_event(line).object
                    self._seen[found.metadata.name] = found
                self._new.set()

    async def _create(self, number: int) -> None:
        name = f"bare-{number:05}"
        metadata = {**self._pod["metadata"], "name": name, "namespace": self._namespace}
        body = orjson.dumps({**self._pod, "metadata": metadata})
        self._decode_pod(await self._wire.send("POST", self._path, body))


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
