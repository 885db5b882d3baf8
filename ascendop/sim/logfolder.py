# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where containers' output is kept, and read as `kubectl logs` reads it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO, Final

POLL_S: Final = 0.1  # who follows a file sees a line this late
CHUNK: Final = 65536
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048
_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")  # a carriage return ends none: bars of progress


class LogFolder:
    """`<root>/<namespace>/<pod>/<container>.log`, and the run before it as `….previous.log`.

    Kept:  logs outlive their pods; the next pod of the same name turns them into the previous.
    Is:    a LogSource for the API server.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._running: Callable[[str, str, str], bool] = lambda _ns, _pod, _container: False
        self._first: Callable[[str, str], str] = lambda _ns, _pod: ""

    def ask(
        self,
        *,
        running: Callable[[str, str, str], bool],
        first: Callable[[str, str], str],
    ) -> None:
        """Who knows whether a container runs, and which is a pod's first."""
        self._running = running
        self._first = first

    def path(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> Path:
        suffix = ".previous.log" if previous else ".log"
        return self.root / namespace / pod / (container + suffix)

    def begin(self, namespace: str, pod: str, container: str) -> Path:
        """An empty log; what was there becomes the previous one."""
        path = self.path(namespace, pod, container)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.rename(self.path(namespace, pod, container, previous=True))
        path.touch()
        return path

    async def read(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        previous: bool = False,
    ) -> AsyncIterator[bytes]:
        """Raises LookupError when the container has written no log."""
        container = container or self._first(namespace, pod)
        path = self.path(namespace, pod, container, previous=previous)
        try:
            file = path.open("rb")
        except FileNotFoundError as error:
            raise LookupError(f"{pod}/{container} has no log") from error
        with file:
            if tail is not None:
                yield last_lines(file, tail)
            while True:
                # Asked before reading: what it wrote until it ended is still read.
                goes_on = (
                    follow
                    and not previous
                    and self._running(namespace, pod, container)
                    and _is_still(path, file)  # a restart begins another one
                )
                while data := file.read(CHUNK):
                    yield data
                if not goes_on:
                    return
                await asyncio.sleep(POLL_S)


def _is_still(path: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def last_lines(file: BinaryIO, count: int) -> bytes:
    """The last lines; then the file stands at its end. Reads from there: a log may be gigabytes."""
    start = end = file.seek(0, os.SEEK_END)
    blocks: list[bytes] = []
    newlines = 0
    while start > 0 and newlines <= count:
        size = min(CHUNK, start)
        start -= size
        file.seek(start)
        blocks.append(file.read(size))
        newlines += blocks[-1].count(b"\n")
    file.seek(end)
    lines = _LINE.findall(b"".join(reversed(blocks)))
    return b"".join(lines[-count:]) if count > 0 else b""


def last_words(path: Path) -> str:
    """The end of a log, as the termination message of a container that failed."""
    try:
        with path.open("rb") as file:
            file.seek(-min(FALLBACK_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
            lines = _LINE.findall(file.read(FALLBACK_BYTES))
    except OSError:
        return ""
    return b"".join(lines[-FALLBACK_LINES:]).decode(errors="replace")
