# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Connections that are kept, against servers that treat them well and badly."""

import asyncio

import pytest

from ascendop.kube.answer import AnswerReader, MalformedError
from ascendop.kube.connections import KEEPALIVE_S, Connections, Endpoint
from ascendop.kube.message import message

pytestmark = pytest.mark.real_time

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request with the next of its answers, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.writers = []

    async def _serve(self, reader, writer):
        number = len(self.writers)
        self.writers.append(writer)
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.asked.append(number)
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.connections = Connections(Endpoint("127.0.0.1", port, None), limit=2)
        return self

    async def __aexit__(self, *_):
        self.connections.close()
        self.server.close()

    async def ask(self, method="GET"):
        answer = AnswerReader(method, limit_bytes=1 << 20)
        async with asyncio.timeout(5):
            await self.connections.ask(message(method, "/", {"Host": "h"}, None), answer)
        return answer.body


async def test_requests_after_each_other_use_one_connection():
    async with Server(OK) as server:
        assert [await server.ask() for _ in range(3)] == [b"ok"] * 3
        assert server.asked == [0, 0, 0]


async def test_requests_side_by_side_use_as_many_as_are_allowed_and_the_rest_waits():
    async with Server(OK) as server:
        async with asyncio.TaskGroup() as group:
            for _ in range(9):
                group.create_task(server.ask())
        assert len(server.asked) == 9
        assert len(server.writers) == 2


async def test_a_connection_that_the_server_is_done_with_is_not_used_again():
    async with Server(CLOSING) as server:
        assert [await server.ask() for _ in range(2)] == [b"ok"] * 2
        assert server.asked == [0, 1]


async def test_a_connection_that_the_server_has_closed_while_it_was_idle_is_noticed(until):
    async with Server(OK) as server:
        await server.ask()
        server.writers[0].close()
        await until(lambda: not server.connections._open)
        assert await server.ask() == b"ok"
        assert server.asked == [0, 1]


async def test_a_connection_that_speaks_without_being_asked_is_given_up(until):
    async with Server(OK) as server:
        await server.ask()
        server.writers[0].write(OK)
        await until(lambda: not server.connections._open)
        assert await server.ask() == b"ok"
        assert server.asked == [0, 1]


async def test_a_connection_that_was_idle_for_long_is_not_used_again():
    """runtime:H-1: the server closes it after 90 s, perhaps just when we write."""
    async with Server(OK) as server:
        await server.ask()
        (line,) = server.connections._idle
        line.idle_since -= KEEPALIVE_S
        await server.ask()
        assert server.asked == [0, 1]


async def test_a_request_that_is_cancelled_takes_its_connection_along(until):
    """runtime:P-8: the answer that comes late is never taken for that of another request."""
    async with Server(b"", OK) as server:
        call = asyncio.get_running_loop().create_task(server.ask())
        await until(lambda: server.asked)
        call.cancel()
        await asyncio.wait({call})
        server.writers[0].write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
        assert await server.ask() == b"ok"
        assert server.asked == [0, 1]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(None, OSError), (b"HTTP/1.1 2oo OK\r\n\r\n", MalformedError), (OK[:-1], TimeoutError)],
)
async def test_a_request_that_fails_takes_its_connection_along_and_is_sent_once(answer, error):
    async with Server(answer, OK) as server:
        with pytest.raises(error):
            async with asyncio.timeout(0.3):
                await server.ask()
        assert await server.ask() == b"ok"
        assert server.asked == [0, 1]


async def test_after_close_what_runs_ends_and_nothing_is_kept(until):
    async with Server(b"") as server:
        call = asyncio.get_running_loop().create_task(server.ask())
        await until(lambda: server.asked)
        server.connections.close()
        await asyncio.wait({call})
        assert isinstance(call.exception(), OSError)
        assert not server.connections._idle
