# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Chunks as the network made them into lines as the server made them."""

from __future__ import annotations

LIMIT_BYTES = 8 * 1024 * 1024
"""etcd keeps objects of 1.5 MiB; escaped in JSON, one of those fits here with room to spare."""


class LineTooLongError(Exception):
    """A line passed the limit; the stream cannot be read on."""


class LineSplitter:
    """Bytes in, whole lines out: however the bytes are cut, the lines are the same.

    Bytes:   lines are not decoded, so a cut inside a character does no harm.
    Linear:  each byte is copied at most twice, however small the chunks.
    Bounded: raises LineTooLongError rather than keep more than the limit.
    """

    __slots__ = ("_begun", "_begun_bytes", "_limit_bytes")

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._begun: list[bytes] = []
        """Pieces of the line whose end has not come yet."""
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends; empty lines are left out."""
        lines = chunk.split(b"\n")
        if self._begun and len(lines) > 1:
            self._check(self._begun_bytes + len(lines[0]))
            lines[0] = b"".join((*self._begun, lines[0]))
            self._begun.clear()
            self._begun_bytes = 0
        if rest := lines.pop():
            self._begun.append(rest)
            self._begun_bytes += len(rest)
            self._check(self._begun_bytes)
        if len(chunk) > self._limit_bytes:
            self._check(max(map(len, lines), default=0))
        return [line for line in lines if line] if b"" in lines else lines

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._limit_bytes:
            raise LineTooLongError(f"a line of more than {self._limit_bytes} bytes")
