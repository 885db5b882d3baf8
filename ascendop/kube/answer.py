# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One HTTP/1.1 answer, put together from whatever pieces the network makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

HEAD_LIMIT_BYTES: Final = 256 << 10
"""Of status line and headers; a server of ours sends one kilobyte."""
_LINE_LIMIT_BYTES: Final = 8 << 10  # of a chunk's size, or of a trailer
_VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0")
_INFORMATIONAL: Final = range(100, 200)
_SWITCHING: Final = 101
_EMPTY: Final = (204, 304)


class MalformedError(Exception):
    """What came is no HTTP, or not what was asked for. The connection is of no use any more."""


class AnswerReader:
    """What is known of one answer so far. Pure: bytes in, an answer out.

    Strict:    what two readers might understand differently is refused and never guessed.
    Linear:    a body that comes in a million pieces costs what it costs in one.
    Not:       compression, trailers (read and dropped), upgrades.
    """

    def __init__(self, method: str, *, limit_bytes: int) -> None:
        """`method` of the request; `limit_bytes` of the body."""
        self.status = 0
        self.headers: dict[str, str] = {}
        """Names in lower case; of a repeated one, all values with commas between."""
        self.whole = False
        self.keeps = True
        """The connection may be used again, once the answer is whole."""
        self._bodiless = method == "HEAD"
        self._limit_bytes = limit_bytes
        self._size = 0  # of the body so far
        self._pieces: list[bytes] = []
        self._left = 0  # bytes that the body, or this chunk of it, still has
        self._buffer = b""
        self._at = 0  # up to here the buffer was read
        # A plain function, for a bound one would make each answer garbage of the cyclic kind.
        self._step: Callable[[AnswerReader], bool] = AnswerReader._head

    @property
    def body(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def feed(self, data: bytes) -> bool:
        """Take in what has come; whether the answer is whole now. Raises MalformedError."""
        self._buffer = self._buffer[self._at :] + data
        self._at = 0
        while not self.whole and self._step(self):
            pass
        if self.whole and self._at < len(self._buffer):
            self.keeps = False  # whoever says more than it was asked has lost count
        return self.whole

    def end(self) -> bool:
        """Nothing will come any more; whether the answer is whole."""
        if self._step is AnswerReader._endless:
            self.whole = True
        return self.whole

    # Steps: each reads on in the buffer, and says whether the next may try.

    def _head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n", self._at)
        if end - self._at > HEAD_LIMIT_BYTES or (end < 0 and self._unread > HEAD_LIMIT_BYTES):
            raise MalformedError(f"headers of more than {HEAD_LIMIT_BYTES >> 10} KiB")
        if end < 0:
            return False
        first, *lines = self._buffer[self._at : end].decode("latin-1").split("\r\n")
        self._at = end + 4
        version = self._status_line(first)
        self.headers = _headers(lines)
        if self.status not in _INFORMATIONAL:
            self._frame(version)
        elif self.status == _SWITCHING:
            raise MalformedError("the server changes to a protocol that nobody asked for")
        return True

    def _status_line(self, line: str) -> str:
        version, _, rest = line.partition(" ")
        code = rest[:3]
        numbered = len(code) == 3 and code.isascii() and code.isdecimal()  # noqa: PLR2004  RFC 9112
        if version not in _VERSIONS or not numbered or rest[3:4] not in {"", " "}:
            raise MalformedError(f"no HTTP: {line[:80]!r}")
        self.status = int(code)
        return version

    def _frame(self, version: str) -> None:
        """How long the body is, by the headers."""
        headers = self.headers
        closes = "close" in headers.get("connection", "").lower()
        self.keeps = version == "HTTP/1.1" and not closes
        encoding = headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise MalformedError(f"a body encoded as {encoding}, which nobody asked for")
        transfer, length = headers.get("transfer-encoding"), headers.get("content-length")
        if self._bodiless or self.status in _EMPTY:
            self.whole = True
        elif transfer is not None:
            if transfer.lower() != "chunked" or length is not None:
                raise MalformedError(f"a body of unclear length: {transfer}, {length}")
            self._step = AnswerReader._chunk_size
        elif length is not None:
            self._sized(length)
        else:
            self.keeps = False
            self._step = AnswerReader._endless

    def _sized(self, length: str) -> None:
        if not (length.isascii() and length.isdecimal()):
            raise MalformedError(f"a body of length {length[:80]!r}")
        self._left = int(length)
        self._grow(self._left)
        self.whole = not self._left
        self._step = AnswerReader._rest

    def _rest(self) -> bool:
        """Of a body of known length."""
        self._take()
        self.whole = not self._left
        return False

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        try:
            self._left = int(digits, 16) if digits.isalnum() else -1
        except ValueError:
            self._left = -1
        if self._left < 0:
            raise MalformedError(f"a chunk of size {line[:80]!r}")
        self._grow(self._left)
        self._step = AnswerReader._chunk if self._left else AnswerReader._trailer
        return True

    def _chunk(self) -> bool:
        self._take()
        if self._left:
            return False
        self._step = AnswerReader._chunk_end
        return True

    def _chunk_end(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if line:
            raise MalformedError(f"a chunk longer than it says: {line[:80]!r}")
        self._step = AnswerReader._chunk_size
        return True

    def _trailer(self) -> bool:
        line = self._line()
        self.whole = line == b""
        return line is not None

    def _endless(self) -> bool:
        """A body that ends with its connection."""
        self._left = self._unread
        self._grow(self._left)
        self._take()
        return False

    # The buffer.

    @property
    def _unread(self) -> int:
        return len(self._buffer) - self._at

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n", self._at)
        if end - self._at > _LINE_LIMIT_BYTES or (end < 0 and self._unread > _LINE_LIMIT_BYTES):
            raise MalformedError("a line without an end")
        if end < 0:
            return None
        line, self._at = self._buffer[self._at : end], end + 2
        return line

    def _take(self) -> None:
        piece = self._buffer[self._at : self._at + self._left]
        self._at += len(piece)
        self._left -= len(piece)
        if piece:
            self._pieces.append(piece)

    def _grow(self, by: int) -> None:
        self._size += by
        if self._size > self._limit_bytes:
            raise MalformedError(f"the answer is larger than {self._limit_bytes >> 20} MiB")


def _headers(lines: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name[0] in " \t" or name[-1] in " \t":
            raise MalformedError(f"no header: {line[:80]!r}")
        key, value = name.lower(), value.strip(" \t")
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found
