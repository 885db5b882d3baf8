# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A settings file that changes while we run: what can take effect does, the rest is said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

from ascendop.errors import UsageError
from ascendop.settings import Settings, apply_changes
from ascendop.telemetry.log import get_log

log = get_log(__name__)

LOOK_S: Final = 5.0
"""A kubelet takes a minute to show a changed ConfigMap; asking more often gains nothing."""


class FileObserver(Protocol):
    """Who counts: ascendop_settings_file_broken."""

    def file_is_broken(self, *, broken: bool) -> None: ...


class SettingsFile:
    """Watches the content of one file.

    Content:  a ConfigMap changes by swapping a symlink, an editor by renaming; both are seen.
    Whole:    a file that cannot be read or is wrong changes nothing; a metric tells, and one line.
    """

    def __init__(
        self,
        path: Path,
        now: Settings,
        *,
        load: Callable[[str], Settings],
        observer: FileObserver,
    ) -> None:
        """`load` makes settings of the file's text, with flags and environment over it."""
        self._path = path
        self._now = now
        self._load = load
        self._observer = observer
        self._seen = b""

    async def follow(self, changed: Callable[[Settings], None]) -> None:
        """Call `changed` with every change that can take effect, for ever."""
        self._seen = await asyncio.to_thread(self._digest)
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look(changed)

    async def _look(self, changed: Callable[[Settings], None]) -> None:
        digest = await asyncio.to_thread(self._digest)
        if digest == self._seen:
            return
        self._seen = digest
        try:
            wanted = self._load(await asyncio.to_thread(self._path.read_text))
        except (UsageError, OSError, UnicodeDecodeError) as error:
            self._observer.file_is_broken(broken=True)
            log.warning("settings file is broken; the old settings hold", err=str(error))
            return
        self._observer.file_is_broken(broken=False)
        before, (self._now, later) = self._now, apply_changes(self._now, wanted)
        if later:
            log.warning("settings need a restart", settings=list(later))
        if self._now != before:
            log.info("settings changed")
            changed(self._now)

    def _digest(self) -> bytes:
        try:
            return blake2b(self._path.read_bytes(), digest_size=16).digest()
        except OSError as error:
            return str(error).encode()
