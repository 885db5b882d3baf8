# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A rank table in a shared directory: readers see the old one or the new one, never half of one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ascendop.errors import AscendopError

TABLE: Final = "hccl.json"
VERSION: Final = "version"
FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o744  # the contract's; an administrator may have opened it further
MAX_PATH: Final = 4096
MAX_SIZE: Final = 1 << 28  # bytes; tables of the largest jobs have some ten million
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./~-]+")


class SharedDirectoryError(AscendopError):
    """The rank table cannot be kept where the job wants it; says where and what to do."""


def make_directory(root: Path, name: str) -> Path:
    """The job's directory below the root.

    Raises:  SharedDirectoryError, also when it is a symbolic link: a user who may write to the
             share must not choose what this process overwrites.
    """
    path = root / name
    if len(str(path)) > MAX_PATH or not _PLAIN.fullmatch(str(path)):
        raise SharedDirectoryError(
            f"{path}: not a path for a rank table; use A-Z a-z 0-9 - _ . / ~"
        )
    try:
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise SharedDirectoryError(
            f"{path}: {error.strerror}; make it writable for ascendop"
        ) from error
    if path.is_symlink():
        raise SharedDirectoryError(f"{path} is a symbolic link; replace it by a directory")
    return path


def read_table(root: Path, name: str) -> tuple[str, str]:
    """Table and version as they stand; empty where there is none."""
    return _read(root / name / TABLE), _read(root / name / VERSION)


def write_table(root: Path, name: str, table: str, version: str) -> None:
    """Table first, then its version: who sees the new version finds the new table.

    Raises:  SharedDirectoryError.
    """
    path = make_directory(root, name)
    try:
        _replace(path, TABLE, table)
        _replace(path, VERSION, version)
    except OSError as error:
        raise SharedDirectoryError(
            f"{path}: {error.strerror}; make it writable for ascendop"
        ) from error


def remove_table(root: Path, name: str) -> None:
    """What was written for a job that is gone; a file of somebody else's keeps the directory."""
    path = root / name
    if os.path.islink(path):  # noqa: PTH114  pathlib raises where the share cannot be read
        return
    for file in (TABLE, VERSION):
        with suppress(OSError):
            (path / file).unlink()
    with suppress(OSError):
        path.rmdir()


def kept_tables(root: Path) -> Iterator[tuple[str, str]]:
    """Namespace and name of every job that has a table here: no namespace has a dot in it."""
    with suppress(OSError):
        for path in sorted(root.iterdir()):
            namespace, dot, name = path.name.partition(".")
            if dot and _has_table(path):
                yield namespace, name


def _has_table(path: Path) -> bool:
    with suppress(OSError):  # one directory that cannot be read hides none of the others
        return (path / TABLE).is_file() and not path.is_symlink()
    return False


def _read(path: Path) -> str:
    """Empty for what cannot be a table of ours: the users' share has whatever they put there.

    A pipe, for one: to open it in the usual way would be to wait for its other end.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SIZE:
            return ""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_SIZE).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _replace(directory: Path, name: str, text: str) -> None:
    """Written beside it, flushed, renamed over it."""
    temporary = directory / f".{name}.new"
    temporary.unlink(missing_ok=True)  # left by a crash, or a user's link to some other file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(temporary, flags, FILE_MODE), "w") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(directory / name)
