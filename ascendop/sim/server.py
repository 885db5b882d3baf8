# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A Kubernetes API server in memory: one request in, one answer or one stream out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251  the type; the dice are an argument
from typing import Any

import orjson

from ascendop.clock import WallClock
from ascendop.kube.resource import Object
from ascendop.kube.transport import Request, Response
from ascendop.sim.answers import (
    JSON,
    RefusedError,
    forbidden,
    not_found,
)
from ascendop.sim.clusterip import ClusterIps
from ascendop.sim.collector import Collector
from ascendop.sim.conversion import object_of
from ascendop.sim.definitions import Definitions
from ascendop.sim.deletes import Deleter, parse_wish
from ascendop.sim.discovery import Discovery
from ascendop.sim.lists import Lister
from ascendop.sim.logs import LogSource
from ascendop.sim.pods import Pods
from ascendop.sim.route import Call, parse_call
from ascendop.sim.scale import show_scale
from ascendop.sim.storage import Row, Storage
from ascendop.sim.streams import TextStream, WholeStream
from ascendop.sim.tables import view_of
from ascendop.sim.watch import Watch
from ascendop.sim.world import Admission, World
from ascendop.sim.writes import Writer

Answer = Watch | WholeStream | TextStream
Authorize = Callable[[str, str, str, str, str], bool]
"""user, verb, resource (with subresource), namespace, name → allowed."""

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
ADMIN = "system:admin"


class ApiServer:
    """What kubectl, a client or an operator believes to be a cluster's API.

    Serves:   discovery, OpenAPI, tables; every built-in kind that jobs and their pods need; custom
              kinds with their schema. Nothing runs pods: that is a node's business, by this API.
    Time:     the loop's, for delays and streams; `wall` for timestamps. So it runs in virtual time.
    Atomic:   between the read and the write of one request nothing else happens.
    Not:      admission webhooks, RBAC, aggregated APIs, CEL rules, protobuf. Storage is memory.

    admission:   hooks that may change or refuse what is written.
    authorize:   asked for every request to a resource; everything is allowed without one.
    logs:        where pod logs come from; the driver that runs pods sets it.
    """

    def __init__(
        self,
        *,
        wall: WallClock,
        rng: Random,
        bookmark_s: float = 60.0,
        collect_after_s: float = 0.5,
        track_fields: bool = True,
        storage: Storage | None = None,
    ) -> None:
        world = World(wall, rng, storage or Storage(), track_fields=track_fields)
        self.world = world
        self.authorize: Authorize | None = None
        self.logs: LogSource | None = None
        self._bookmark_s = bookmark_s
        self._watches: dict[Watch, None] = {}
        self._lister = Lister(world.storage)
        self._writer = Writer(world, ClusterIps(world.storage))
        self._deleter = Deleter(world)
        self._pods = Pods(world, self._deleter)
        self._discovery = Discovery(world.registry)
        Definitions(world)
        for served in world.registry:
            world.table(served)
        self._furnish()
        world.storage.compact()
        self._collector = Collector(world, self._deleter, delay_s=collect_after_s)

    @property
    def admission(self) -> list[Admission]:
        return self.world.admission

    @property
    def revision(self) -> int:
        """Of the last write."""
        return self.world.storage.revision

    def compact(self) -> None:
        """Forget all history: old versions are answered 410 from now on."""
        self.world.storage.compact()

    def lag_by(self, revisions: Callable[[], int]) -> None:
        """How far in the past a list with resourceVersion=0 is answered from."""
        self._lister.lag = revisions

    async def handle(self, request: Request, *, user: str = ADMIN) -> Response:
        """One whole answer. A watch or a followed log is read to its end first: use `stream`."""
        answer = self.open(request, user=user)
        if isinstance(answer, WholeStream):
            return answer.response
        return Response(answer.status, answer.headers, await answer.read())

    def open(self, request: Request, *, user: str = ADMIN) -> Answer:
        """The answer as a stream; whoever opens it closes it."""
        try:
            if (found := self._discovery.answer(request)) is not None:
                return WholeStream(found)
            call = parse_call(self.world.registry, request, user)
            self._allow(call)
            return self._answer(call)
        except RefusedError as error:
            return WholeStream(error.response())

    def cut_watches(self) -> None:
        """End every watch now, as a server that restarts does."""
        for watch in list(self._watches):
            watch.close()
        self._watches.clear()

    def close(self) -> None:
        """End every watch, and collect nothing more."""
        self.cut_watches()
        self._collector.close()

    def _allow(self, call: Call) -> None:
        if self.authorize is None:
            return
        resource = call.served.resource
        what = f"{resource.name}/{call.subresource}" if call.subresource else resource.name
        if self.authorize(call.user, call.verb, what, call.namespace or "", call.name):
            return
        where = f' in the namespace "{call.namespace}"' if call.namespace else ""
        raise forbidden(
            resource,
            call.name,
            f'User "{call.user}" cannot {call.verb} resource "{resource.plural}" in API group '
            f'"{resource.group}"{where or " at the cluster scope"}',
        )

    def _answer(self, call: Call) -> Answer:
        if call.verb == "watch":
            return self._watch(call)
        if call.subresource in ("log", "binding", "eviction"):
            return self._pod_door(call)
        if call.verb in ("delete", "deletecollection"):
            return self._delete(call)
        return self._read(call) if call.verb in ("get", "list") else self._write(call)

    def _write(self, call: Call) -> Answer:
        if call.verb == "create":
            row, warnings = self._writer.create(call)
            return self._shown(call, 201, row, warnings)
        if call.verb == "update":
            row, warnings = self._writer.update(call)
            return self._shown(call, 200, row, warnings)
        row, warnings, created = self._writer.patch(call)
        return self._shown(call, 201 if created else 200, row, warnings)

    def _read(self, call: Call) -> Answer:
        if call.verb == "get":
            return self._get(call)
        page = self._lister.page(call, self.world.table(call.served))
        return _whole(200, view_of(call, self.world).page(page.rows, page.meta))

    def _get(self, call: Call) -> Answer:
        row = self.world.table(call.served).get(call.key)
        if row is None:
            raise not_found(call.served.resource, call.name)
        return self._shown(call, 200, row, [])

    def _shown(self, call: Call, status: int, row: Row, warnings: list[str]) -> Answer:
        if call.subresource == "scale":
            scale = show_scale(object_of(row, call.served), call.served)
            return _whole(status, orjson.dumps(scale))
        return _whole(status, view_of(call, self.world).one(row), warnings)

    def _delete(self, call: Call) -> Answer:
        if call.verb == "delete":
            row = self._deleter.delete(call)
            if self._still_there(call, row) or call.served.table in ("pods", "services"):
                return self._shown(call, 200, row, [])
            return _whole(200, orjson.dumps(_success(call, row)))
        page = self._lister.page(call, self.world.table(call.served))
        wish = parse_wish(call)
        for row in page.rows:
            self._deleter.delete_row(call.served.table, row, wish)
        return _whole(200, view_of(call, self.world).page(page.rows, page.meta))

    def _still_there(self, call: Call, row: Row) -> bool:
        found = self.world.table(call.served).get(row.key)
        return found is not None and found.uid == row.uid

    def _watch(self, call: Call) -> Watch:
        table, view = self.world.table(call.served), view_of(call, self.world)
        watch = Watch(call, self.world.storage, table, view, self._bookmark_s)
        self._watches = {w: None for w in self._watches if not w.ended}
        self._watches[watch] = None
        return watch

    def _pod_door(self, call: Call) -> Answer:
        if call.subresource == "log":
            return TextStream(self._pods.log(call, self.logs))
        if call.subresource == "binding":
            return _whole(201, orjson.dumps(self._pods.bind(call)))
        return _whole(201, orjson.dumps(self._pods.evict(call)))

    def _furnish(self) -> None:
        namespaces = self.world.storage.table("namespaces")
        for name in FIRST_NAMESPACES:
            meta = {
                "name": name,
                "uid": self.world.uid(),
                "creationTimestamp": self.world.now(),
                "labels": {"kubernetes.io/metadata.name": name},
            }
            namespace: Object = {
                "kind": "Namespace",
                "apiVersion": "v1",
                "metadata": meta,
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            self.world.storage.put(namespaces, ("", name), namespace)


def _whole(status: int, body: bytes, warnings: list[str] | None = None) -> WholeStream:
    headers = dict(JSON)
    if warnings:
        told = ", ".join('299 - "' + text.replace('"', '\\"') + '"' for text in warnings)
        headers["warning"] = told
    return WholeStream(Response(status, headers, body))


def _success(call: Call, row: Row) -> dict[str, Any]:
    resource = call.served.resource
    details = {
        "name": row.key[1],
        "group": resource.group,
        "kind": resource.plural,
        "uid": row.uid,
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
