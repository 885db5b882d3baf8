# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A log in a file of bounded size, and its predecessors, of bounded number and age."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ascendop.clock import WallClock, wall
from ascendop.errors import UsageError

MAX_BYTES: Final = 20 << 20
"""A file that has grown to this is put aside."""
_DIRECTORY: Final = 0o750
_WRITTEN: Final = 0o640
_ASIDE: Final = 0o400
_STAMP: Final = "%Y-%m-%dT%H-%M-%S.%f"


@dataclass(frozen=True, slots=True)
class Keeping:
    """How much of the past stays."""

    max_age_days: int = 7
    max_backups: int = 30
    compress: bool = False


class LogFile(logging.Handler):
    """Writes lines to a file, and puts it aside as <name>-<UTC time>.log when it is full.

    Modes:    the directory is made 0750; the file is 0640, and 0400 once it is put aside.
    Behind:   compressing and removing old files is work for a thread of its own.
    Patient:  a disk that is full loses lines, which are counted, and nothing else stops.
    """

    def __init__(
        self, path: Path, keeping: Keeping, *, max_bytes: int = MAX_BYTES, now: WallClock = wall
    ) -> None:
        """Open it. Raises UsageError when that cannot be."""
        super().__init__()
        self._path = path
        self._keeping = keeping
        self._max_bytes = max_bytes
        self._now = now
        self._lost = 0
        self._tidying: threading.Thread | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=_DIRECTORY)
            self._file, self._size = _opened(path)
        except OSError as error:
            raise UsageError(
                f"cannot write the log file {path}: {error.strerror or error}; "
                "make its directory writable, or name another one with --log-file"
            ) from error
        self._tidy()

    def emit(self, record: logging.LogRecord) -> None:
        """One line. Never raises for what the file system does."""
        try:
            data = f"{self.format(record)}\n".encode()
            if self._size and self._size + len(data) > self._max_bytes:
                self._put_aside(datetime.fromtimestamp(record.created, UTC))
            if self._lost:
                self._write(f'{{"level":"warning","msg":"lost","lines":{self._lost}}}\n'.encode())
                self._lost = 0
            self._write(data)
        except OSError:
            self._lost += 1

    def close(self) -> None:
        """The file is complete, and what is done behind it is done."""
        if self._tidying is not None:
            self._tidying.join()
        with suppress(OSError):
            os.close(self._file)
        super().close()

    def _write(self, data: bytes) -> None:
        self._size += os.write(self._file, data)

    def _put_aside(self, now: datetime) -> None:
        stamp = now.strftime(_STAMP)[:-3]
        aside = self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}")
        self._path.rename(aside)
        os.fchmod(self._file, _ASIDE)
        os.close(self._file)
        self._file, self._size = _opened(self._path)
        self._tidy()

    def _tidy(self) -> None:
        if self._tidying is None or not self._tidying.is_alive():
            self._tidying = threading.Thread(
                target=tidy,
                args=(self._path, self._keeping, self._now()),
                name="log-tidy",
                daemon=True,
            )
            self._tidying.start()


def tidy(path: Path, keeping: Keeping, now: datetime) -> None:
    """Compress and remove what was put aside. What somebody else has in hand is left to them."""
    aside = sorted(_aside(path), reverse=True)
    for place, (written_at, file) in enumerate(aside):
        with suppress(OSError):
            too_old = now - written_at > timedelta(days=keeping.max_age_days)
            if too_old or place >= keeping.max_backups:
                file.unlink()
            elif keeping.compress and file.suffix != ".gz":
                _compress(file)


def _aside(path: Path) -> Iterator[tuple[datetime, Path]]:
    for file in path.parent.glob(f"{path.stem}-*"):
        stamp = file.name.removeprefix(f"{path.stem}-").removesuffix(".gz")
        with suppress(ValueError):
            written_at = datetime.strptime(f"{stamp.removesuffix(path.suffix)}Z", f"{_STAMP}%z")
            yield written_at, file


def _compress(file: Path) -> None:
    packed = file.with_name(f"{file.name}.gz")
    with file.open("rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    packed.chmod(_ASIDE)
    file.unlink()


def _opened(path: Path) -> tuple[int, int]:
    """Descriptor and size. A link is not followed: it could lead to a file of somebody else."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    file = os.open(path, flags, _WRITTEN)
    os.fchmod(file, _WRITTEN)
    return file, os.fstat(file).st_size
