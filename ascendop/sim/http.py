# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The same server behind real HTTP on loopback: for kubectl, and for other processes."""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from aiohttp import web

from ascendop.kube.transport import Request
from ascendop.sim.answers import RefusedError
from ascendop.sim.server import ADMIN, ApiServer
from ascendop.sim.streams import WholeStream

BODY_BYTES = 3 * 1024 * 1024
"""As a real server: etcd takes half of it, and JSON of the same is larger."""
_CLOSING_S = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and what it wants to see."""

    host: str
    port: int
    token: str = ""

    @property
    def url(self) -> str:
        """With the token in the path: clients of Kubernetes send none in a header without TLS."""
        secret = f"/{self.token}" if self.token else ""
        return f"http://{self.host}:{self.port}{secret}"

    def write_kubeconfig(
        self, path: Path, *, context: str = "ascendop", namespace: str = ""
    ) -> None:
        """A file for kubectl and for any client, readable by its owner only."""
        where = {"cluster": context, "user": context}
        if namespace:
            where["namespace"] = namespace
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": context, "cluster": {"server": self.url}}],
            "users": [{"name": context, "user": {}}],
            "contexts": [{"name": context, "context": where}],
            "current-context": context,
        }
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            yaml.safe_dump(config, file, sort_keys=False)


@asynccontextmanager
async def serve(
    server: ApiServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    user: str = ADMIN,
) -> AsyncIterator[Address]:
    """Listen until the block is left; port 0 takes a free one.

    token:  every request must carry it, as the first part of its path or as a bearer token; on a
            machine with several users the port alone is no secret. Without one all are let in.
    Leaves: nothing. Streams that are still open are cut.
    """
    door = _Door(server, token, user)
    application = web.Application(client_max_size=BODY_BYTES)
    application.router.add_route("*", "/{path:.*}", door.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=_CLOSING_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound: tuple[str, int] = runner.addresses[0][:2]
        yield Address(bound[0], bound[1], token)
    finally:
        server.cut_watches()
        await runner.cleanup()


class _Door:
    """From HTTP to the server and back."""

    def __init__(self, server: ApiServer, token: str, user: str) -> None:
        self._server = server
        self._token = token
        self._user = user

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = self._inside(request)
        if path is None:
            said = RefusedError(401, "Unauthorized", "Unauthorized").response()
            return web.Response(status=401, body=said.body, headers=dict(said.headers))
        asked = Request(
            request.method,
            path,
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        answer = self._server.open(asked, user=self._user)
        if isinstance(answer, WholeStream):
            whole = answer.response
            return web.Response(status=whole.status, body=whole.body, headers=dict(whole.headers))
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        try:
            await response.prepare(request)
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    await response.write(chunk)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client has enough: that is how watches usually end
        finally:
            answer.close()
        return response

    def _inside(self, request: web.Request) -> str | None:
        """The path behind the token; None for somebody who does not know it."""
        if not self._token:
            return request.path
        said = request.headers.get("Authorization", "").encode()
        if hmac.compare_digest(said, f"Bearer {self._token}".encode()):
            return request.path
        first, _, rest = request.path.lstrip("/").partition("/")
        if hmac.compare_digest(first.encode(), self._token.encode()):
            return f"/{rest}"
        return None
