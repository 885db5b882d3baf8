# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The certificate of our own ports, read again when its files change."""

from __future__ import annotations

import ssl
from pathlib import Path
from threading import Lock

from ascendop.errors import UsageError
from ascendop.telemetry.log import get_log

log = get_log(__name__)


class Certificate:
    """Certificate and key in files, as cert-manager and others renew them.

    Renewed:  a pair that has changed is used for the next connection.
    Broken:   a pair that does not fit, as half way through a renewal, leaves the old one in use.
    Thread:   any; connections have their own.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read them. Raises UsageError when they are not a pair that can be used."""
        self._files = certificate, key
        self._lock = Lock()
        self._seen: tuple[object, ...] = ()
        try:
            self._seen, self._context = self._stamp(), self._read()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(
                f"cannot use certificate {certificate} with key {key}: {why}; "
                "name a PEM certificate and its unencrypted key"
            ) from error

    def context(self) -> ssl.SSLContext:
        """For the next connection; TLS 1.2 or later."""
        with self._lock:
            try:
                if (stamp := self._stamp()) != self._seen:
                    self._context, self._seen = self._read(), stamp
            except (OSError, ValueError) as error:
                log.warning("the renewed certificate cannot be used", error=str(error))
            return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = self._files
        # Without the callback OpenSSL would ask the terminal for a passphrase.
        context.load_cert_chain(certificate, key, password=lambda: "")
        return context

    def _stamp(self) -> tuple[object, ...]:
        return tuple((s.st_ino, s.st_mtime_ns, s.st_size) for s in map(Path.stat, self._files))
