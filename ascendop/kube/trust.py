# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The TLS context to use now: built at the start, and again when a certificate changes on disk."""

from __future__ import annotations

import asyncio
import ssl

from ascendop.kube.errors import TransportError
from ascendop.kube.tls import ClientCertificate, Tls
from ascendop.telemetry.log import get_log

CHECK_S = 60.0
"""How often the files are looked at; rotations announce themselves days ahead."""
_AFTER_FAILURE_S = 5.0  # certificate and key are replaced one after the other
_READ_S = 5.0  # a context takes some 30 ms; a file system that needs longer hangs

_log = get_log("ascendop.kube")


class Trust:
    """A context of the files as they were a minute ago at most.

    Steady:  files that cannot be used (yet) leave the old context in place, with a warning.
    Cheap:   nothing is read on the loop, and nothing is parsed unless a file changed.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._stamp: tuple[int, ...] = ()  # of the files in that context
        self._certificate: ClientCertificate | None = None  # in that context, from a plugin
        self._check_at = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def context(self) -> ssl.SSLContext | bool:
        """True, which is what the machine trusts, before the first `renew`."""
        return self._context or True

    def is_due(self, now: float, certificate: ClientCertificate | None) -> bool:
        """Whether `renew` has something to do."""
        return now >= self._check_at or certificate is not self._certificate

    async def renew(self, certificate: ClientCertificate | None) -> bool:
        """Whether there is a new context: connections made with the old one should end.

        Raises TransportError (nothing was sent) when there never was one.
        """
        loop = asyncio.get_running_loop()
        if self._context is not None:
            self._check_at = loop.time() + CHECK_S  # the others go on meanwhile
        async with self._lock:
            try:
                async with asyncio.timeout(_READ_S):
                    return await self._look(certificate)
            except (OSError, ValueError) as error:
                self._check_at = loop.time() + _AFTER_FAILURE_S
                if self._context is None:
                    raise TransportError(f"the TLS files: {error}", sent=False) from error
                _log.warning("new certificates cannot be used yet", why=str(error))
                return False

    async def _look(self, certificate: ClientCertificate | None) -> bool:
        stamp = await asyncio.to_thread(self._tls.stamp)
        known = self._context is not None
        if known and stamp == self._stamp and certificate == self._certificate:
            self._certificate = certificate
            return False
        self._context = await asyncio.to_thread(self._tls.context, certificate)
        self._stamp, self._certificate = stamp, certificate
        self._check_at = asyncio.get_running_loop().time() + CHECK_S
        return True
