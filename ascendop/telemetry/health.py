# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Ports for probes, scrapers and curious people, answered by threads: a stuck loop is visible."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

import orjson

from ascendop.errors import UsageError
from ascendop.telemetry.certificate import Certificate
from ascendop.telemetry.log import get_log
from ascendop.telemetry.metrics import Metrics

log = get_log(__name__)
T = TypeVar("T")

CONNECTION_S: Final = 5.0
"""A client that says nothing for so long is dropped."""
CONNECTIONS: Final = 64
"""Threads at the same time; more are refused, so that nobody can exhaust the process."""
LOOP_S: Final = 2.0
"""How long a busy loop is waited for. Shorter than a scraper's or kubelet's own patience."""
STOP_S: Final = 0.1
"""How often a server looks whether it is to stop."""
FRAMES: Final = 8
"""Innermost frames of a task that are shown."""

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Question:
    """A GET."""

    query: Mapping[str, str]
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered, whole."""

    status: int
    body: bytes
    content_type: str = TEXT


Route = Callable[[Question], Answer]
"""Runs on a thread of its own."""
Check = Callable[[], str]
"""Why something is wrong, empty when nothing is. Runs on any thread: it may read, not change."""


class LoopSilentError(Exception):
    """The loop did not get round to it in time."""


class OnLoop:
    """Lets a thread ask for what lives on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def ask(self, function: Callable[[], T], *, within_s: float = LOOP_S) -> T:
        """What `function` returns on the loop. Raises what it raises, or LoopSilentError."""
        future: Future[T] = Future()

        def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except Exception as error:  # noqa: BLE001  the thread that asked gets it
                future.set_exception(error)

        silent = LoopSilentError(f"the loop did not answer for {within_s:g} s")
        try:
            self._loop.call_soon_threadsafe(answer)
        except RuntimeError:  # it is closed
            raise silent from None
        try:
            return future.result(within_s)
        except TimeoutError:
            if future.cancel():
                raise silent from None
            return future.result()


class Checks:
    """A probe: green while every check is silent."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """From now on this counts, too."""
        self._checks = {**self._checks, name: check}

    def problems(self) -> dict[str, str]:
        """What is wrong, by the name of the check."""
        found = {name: check() for name, check in self._checks.items()}
        return {name: why for name, why in found.items() if why}

    def answer(self, _question: Question) -> Answer:
        """200 ok, or 503 and one line for each problem."""
        problems = self.problems()
        lines = [f"{name}: {why}" for name, why in problems.items()] or ["ok"]
        return Answer(503 if problems else 200, ("\n".join(lines) + "\n").encode())


def probe_routes(
    live: Checks, ready: Checks, dumps: Mapping[str, Callable[[], Any]], on_loop: OnLoop
) -> dict[str, Route]:
    """/healthz, /readyz, and one page of JSON for each dump; /tasksz is always there.

    `/` is /healthz, too: probes written for the stock operator ask for that.
    """
    main = threading.get_ident()

    def page(dump: Callable[[], Any]) -> Route:
        def route(_question: Question) -> Answer:
            try:
                found = on_loop.ask(dump)
            except LoopSilentError as error:
                text = f"{error}; it is here:\n{stack_of(main)}"
                return Answer(503, text.encode())
            options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
            return Answer(200, orjson.dumps(found, default=str, option=options), JSON)

        return route

    pages = {"tasksz": describe_tasks, **dumps}
    return {
        "/": live.answer,
        "/healthz": live.answer,
        "/readyz": ready.answer,
        **{f"/{name}": page(dump) for name, dump in pages.items()},
    }


def metrics_routes(metrics: Metrics, on_loop: OnLoop) -> dict[str, Route]:
    """/metrics: states are asked for on the loop, the text is made here."""

    def route(question: Question) -> Answer:
        try:
            on_loop.ask(metrics.refresh)
        except LoopSilentError:
            log.warning("scraped without fresh states")  # the counters are right all the same
        content_type, body = metrics.render(question.accept)
        return Answer(200, body, content_type)

    return {"/metrics": route}


class HealthServer:
    """One port; every connection has a thread, so none waits for the loop or for another."""

    def __init__(
        self,
        listen: tuple[str, int],
        routes: Mapping[str, Route],
        *,
        flag: str,
        certificate: Certificate | None = None,
    ) -> None:
        """Bind; HTTPS with a certificate.

        Raises:  UsageError naming `flag` when the address cannot be had.
        """
        host, port = listen
        try:
            self._server = _bind(host, port, type("_Routed", (_Handler,), {"routes": routes}))
            self._server.certificate = certificate
        except OSError as error:
            raise UsageError(
                f"cannot listen on {host or '*'}:{port}: {error.strerror or error}; "
                f"choose another address with {flag}"
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_S,), name=f"http-{self.port}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    certificate: Certificate | None = None

    def __init__(
        self, host: str, port: int, handler: type[BaseHTTPRequestHandler], family: int
    ) -> None:
        self.address_family = family
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6 and not self.server_address[0]:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not the parent's: it asks DNS for the name of the address, which may take for ever.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """On the connection's own thread: a client that is slow to shake hands delays nobody."""
        if self.certificate is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(CONNECTION_S)
        context = self.certificate.context()
        with context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # who hangs up is no news
            log.exception("bug")  # noqa: LOG004  this is called while it is handled


def _bind(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    if not host and socket.has_dualstack_ipv6():
        try:
            return _Server("", port, handler, socket.AF_INET6)
        except OSError:
            return _Server("", port, handler, socket.AF_INET)
    return _Server(host, port, handler, socket.AF_INET6 if ":" in host else socket.AF_INET)


class _Handler(BaseHTTPRequestHandler):
    routes: ClassVar[Mapping[str, Route]]
    timeout = CONNECTION_S  # N3: the base class reads it
    server_version = "ascendop"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def __getattr__(self, name: str) -> Any:
        # The base class looks for do_<METHOD>, and has but 501 for what it does not find.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self.close_connection = True  # a body that came along is not read
        self._send(_NOT_ALLOWED, with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        route = self.routes.get(url.path.rstrip("/") or "/")
        question = Question(dict(parse_qsl(url.query)), self.headers.get("Accept", ""))
        self._send(route(question) if route else _not_found(self.routes), with_body=with_body)

    def _send(self, answer: Answer, *, with_body: bool) -> None:
        self.send_response(answer.status)
        if answer is _NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the library's name
        pass


_NOT_ALLOWED: Final = Answer(405, b"only GET and HEAD are answered here\n")


def _not_found(routes: Mapping[str, Route]) -> Answer:
    return Answer(404, ("there is " + " ".join(sorted(routes)) + "\n").encode())


# ── dumps ──


def describe_tasks() -> list[dict[str, Any]]:
    """Every task of the running loop, and where it waits. On the loop."""
    return [
        {"task": task.get_name(), "waits": _places(task)}
        for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name)
    ]


def _places(task: asyncio.Task[Any]) -> list[str]:
    places: list[str] = []
    waiter: Any = task.get_coro()
    while waiter is not None and len(places) < FRAMES:
        frame = getattr(waiter, "cr_frame", None) or getattr(waiter, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            places.append(f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        waiter = getattr(waiter, "cr_await", None) or getattr(waiter, "gi_yieldfrom", None)
    return places


def stack_of(thread: int) -> str:
    """Where a thread is at this moment; empty when it is gone. From any thread."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  the documented way
    return "".join(traceback.format_stack(frame)) if frame else ""
