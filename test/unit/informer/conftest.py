# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A source in memory with one kind, one revision counter, and faults by script."""

import asyncio
import json
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random  # noqa: TID251  seeded

import msgspec
import pytest

from ascendop.informer.informer import Informer
from ascendop.informer.metadata import Meta, MetaObject
from ascendop.informer.represent import StructForm
from ascendop.informer.wire import INITIAL_END
from ascendop.kube.errors import GoneError, TransportError, error_of
from ascendop.kube.resource import PODS, Scope

POD = {"apiVersion": "v1", "kind": "Pod"}


class PodWire(MetaObject):
    """Has a required field: bookmarks do not have it."""

    spec: dict


class PodRow(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    version: str
    owner: str = ""
    node: str = ""


def pod_row(wire, pool):
    if wire.spec.get("node") == "bomb":
        raise ValueError("the transform fails")
    labels = wire.metadata.labels or {}
    meta = wire.metadata
    return PodRow(
        pool(meta.namespace),
        meta.name,
        meta.uid,
        meta.resource_version,
        pool(labels.get("owner", "")),
        pool(wire.spec.get("node", "")),
    )


def bare_pod(meta: Meta, pool):
    return PodRow(meta.namespace, meta.name, meta.uid, meta.resource_version, "", "broken")


@dataclass
class Fault:
    """What happens to the next request it fits."""

    error: Exception | None = None
    on: str = "any"
    """list, watch, initial or any."""
    cut_after: int | None = None
    """Lines until the stream breaks."""
    close_after: int | None = None
    """Lines until the stream ends."""
    silent_after: int | None = None
    """Lines until the stream says nothing any more, and does not end."""
    raw: list[bytes] = field(default_factory=list)
    """Lines said before anything else."""
    no_mark: bool = False
    times: int = 1


class FakeSource:
    """One kind. Lists by pages, watches with initial events and bookmarks, forgets, fails."""

    def __init__(self):
        self.rng = Random(7)
        self.revision = 100
        self.objects = {}
        self.history = []
        self.oldest = 100
        """Versions before it are too old to watch from."""
        self.asked = []
        """(time, verb, version, initial or continue token)"""
        self.faults = deque()
        self.snapshots = {}
        self.news = asyncio.Event()
        self.bookmark_s = 60.0
        self.marks = True
        self.whole_bodies = 0
        self.chunk_bytes = None
        self.open = 0
        self.cuts = 0

    # The world

    def put(self, name, *, namespace="ml", owner="job", node="", uid=None, **more):
        self.revision += 1
        old = self.objects.get((namespace, name))
        uid = uid or (old["metadata"]["uid"] if old else f"uid-{name}-{self.revision}")
        pod = (
            POD
            | {
                "metadata": {
                    "namespace": namespace,
                    "name": name,
                    "uid": uid,
                    "resourceVersion": str(self.revision),
                    "labels": {"owner": owner},
                },
                "spec": {"node": node},
            }
            | more
        )
        self.objects[namespace, name] = pod
        self._happened("MODIFIED" if old else "ADDED", pod)
        return pod

    def delete(self, name, *, namespace="ml"):
        self.revision += 1
        pod = json.loads(json.dumps(self.objects.pop((namespace, name))))
        pod["metadata"]["resourceVersion"] = str(self.revision)
        self._happened("DELETED", pod)
        return pod

    def pass_time(self, revisions=1):
        """Others change other things."""
        self.revision += revisions

    def compact(self):
        """Nobody may watch from before now."""
        self.oldest = self.revision
        self.snapshots.clear()

    def cut(self):
        """Break every stream that is open."""
        self.cuts += 1
        self._stir()

    def fail(self, **fault):
        self.faults.append(Fault(**fault))

    def state(self):
        return {k: o["metadata"]["resourceVersion"] for k, o in self.objects.items()}

    def _happened(self, kind, pod):
        self.history.append((self.revision, kind, json.dumps(pod)))
        self._stir()

    def _stir(self):
        self.news.set()
        self.news = asyncio.Event()

    def count(self, verb):
        return sum(1 for asked in self.asked if asked[1] == verb)

    # What is asked

    def _fault(self, verb):
        for fault in self.faults:
            if fault.on in ("any", verb):
                fault.times -= 1
                if not fault.times:
                    self.faults.remove(fault)
                return fault
        return Fault()

    async def list_page(self, resource, scope, *, limit, continue_token="", version="", match=""):
        now = asyncio.get_running_loop().time()
        self.asked.append((now, "list", version, continue_token))
        await asyncio.sleep(0.01)
        fault = self._fault("list")
        if fault.error:
            raise fault.error
        assert not (version and continue_token), "a version beside a continue token is refused"
        if continue_token:
            at, start = continue_token.split(":")
            if at not in self.snapshots:
                raise error_of(410, b'{"reason": "Expired", "code": 410}')
        else:
            at, start = str(self.revision), 0
            self.snapshots[at] = [
                json.dumps(o) for o in self.objects.values() if self._fits(o, scope)
            ]
        items = self.snapshots[at]
        end = int(start) + (limit or len(items))
        token = f"{at}:{end}" if end < len(items) else ""
        if not limit:
            self.whole_bodies += 1
        meta = json.dumps({"resourceVersion": at, "continue": token})
        page = ",".join(items[int(start) : end])
        return f'{{"kind":"PodList","metadata":{meta},"items":[{page}]}}'.encode()

    @asynccontextmanager
    async def watch(self, resource, scope, *, version, initial, timeout_s):
        now = asyncio.get_running_loop().time()
        verb = "initial" if initial else "watch"
        self.asked.append((now, verb, version, initial))
        assert 300 <= timeout_s <= 600
        await asyncio.sleep(0.01)
        fault = self._fault(verb)
        if fault.error:
            raise fault.error
        if version and int(version) < self.oldest:
            raise GoneError(410, "too old resource version", reason="Expired")
        self.open += 1
        try:
            yield FakeStream(self, scope, version, initial, now + timeout_s, fault)
        finally:
            self.open -= 1

    def _fits(self, obj, scope):
        return scope.namespace in (None, obj["metadata"]["namespace"])


class FakeStream:
    status = 200
    headers = {}  # noqa: RUF012

    def __init__(self, source, scope, version, initial, ends_at, fault):
        self.source, self.scope, self.fault = source, scope, fault
        self.version, self.initial, self.ends_at = version, initial, ends_at

    async def chunks(self):
        said = 0
        fault, lines = self.fault, self.lines()
        while True:
            if said == fault.close_after:
                return
            if said == fault.silent_after:
                await asyncio.sleep(100_000)
            try:
                line = await anext(lines)
            except StopAsyncIteration:
                return
            if said == fault.cut_after:
                yield line[: len(line) // 2]
                raise TransportError("cut", sent=True)
            said += 1
            size = self.source.chunk_bytes or len(line) + 1
            data = line + b"\n"
            for start in range(0, len(data), size):
                yield data[start : start + size]

    async def lines(self):
        for line in self.fault.raw:
            yield line
        at = self.source.revision if self.initial else int(self.version)
        if self.initial:
            for line in self.everything(at):
                yield line
        async for line in self.news(at):
            yield line

    def everything(self, at):
        pods = [o for o in self.source.objects.values() if self.source._fits(o, self.scope)]
        yield from [_line("ADDED", json.dumps(pod)) for pod in pods]
        if self.source.marks and not self.fault.no_mark:
            yield _bookmark(at, {INITIAL_END: "true"})

    async def news(self, at):
        loop = asyncio.get_running_loop()
        source, cuts = self.source, self.source.cuts
        bookmark_at = loop.time() + source.bookmark_s
        while loop.time() < self.ends_at:
            if source.cuts != cuts:
                raise TransportError("cut", sent=True)
            news = source.news
            for revision, kind, pod in [h for h in source.history if h[0] > at]:
                at = revision
                if source._fits(json.loads(pod), self.scope):
                    yield _line(kind, pod)
            if loop.time() >= bookmark_at:
                at = source.revision
                bookmark_at = loop.time() + source.bookmark_s
                yield _bookmark(at, None)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(bookmark_at, self.ends_at)):
                    await news.wait()

    async def read(self):
        return b""


def _line(kind, pod):
    return f'{{"type":"{kind}","object":{pod}}}'.encode()


def _bookmark(version, annotations):
    meta = {"resourceVersion": str(version), "annotations": annotations}
    return _line("BOOKMARK", json.dumps(POD | {"metadata": meta}))


class Heard:
    """A handler that keeps what it hears."""

    def __init__(self, informer):
        self.changes = []
        self.informer = informer
        self.registration = informer.handle(self)

    def __call__(self, change):
        self.changes.append(change)
        row = change.row
        shown = self.informer.store.get(row.namespace, row.name)
        if change.new is not None and not change.initial:
            assert shown == change.new, "the store moves before handlers run"

    def said(self):
        return [say(change) for change in self.changes]

    def clear(self):
        self.changes.clear()


def say(change):
    flags = [f for f in ("initial", "unchanged", "inferred", "synthetic") if getattr(change, f)]
    verb = "add" if change.old is None else "del" if change.new is None else "mod"
    return " ".join([verb, change.row.name, *flags])


class Counts:
    def __init__(self):
        self.counted = {}
        self.timed = {}

    def count(self, what, times=1, label=""):
        key = (what, label) if label else what
        self.counted[key] = self.counted.get(key, 0) + times

    def took(self, what, seconds):
        self.timed.setdefault(what, []).append(seconds)

    def is_at(self, what, value):
        pass


INDEXES = {"owner": lambda row: (row.owner,) if row.owner else (), "node": lambda row: (row.node,)}


@pytest.fixture
def pods():
    """Makes an informer of pods on a source."""

    def make(source, *, seed=1, **wanted):
        wanted.setdefault("scopes", (Scope(labels="owner"),))
        wanted.setdefault("indexes", INDEXES)
        counts = Counts()
        form = StructForm(PodWire, pod_row, bare_pod)
        informer = Informer(source, PODS, form, rng=Random(seed), observer=counts, **wanted)
        informer.counts = counts
        return informer

    return make


@pytest.fixture
def heard():
    return Heard


@pytest.fixture
async def source():
    return FakeSource()


@pytest.fixture
def running():
    """Runs coroutines beside the body of an `async with`, and cancels them at its end."""

    @asynccontextmanager
    async def run(*runnables):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(runnable.run()) for runnable in runnables]
            yield tasks
            for task in tasks:
                task.cancel()

    return run


@pytest.fixture
def row():
    def make(name="a", version="1", uid=None, namespace="ml", owner="job", node=""):
        return PodRow(namespace, name, uid or f"uid-{name}", str(version), owner, node)

    return make
