# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Whom we trust and how we show ourselves, as files; and the TLS context made of them."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its key, in PEM, as an exec plugin hands them out."""

    chain: str = field(repr=False)
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS side of a connection. Files are read again when they change on disk."""

    ca_file: str | None = None
    """None for what the machine trusts."""
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    """Expected in the server's certificate instead of the host we connect to."""
    insecure: bool = False
    """Trust whoever answers."""
    strict: bool = True
    """RFC 5280 to the letter. Some cluster CAs lack key identifiers and need it off."""

    def stamp(self) -> tuple[int, ...]:
        """Changes when one of the files does; a file that is away for a moment counts as 0."""
        return tuple(_changed_at(path) for path in self._files())

    def context(self, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
        """A context of what the files say now; reads them, so not for the loop.

        certificate:  shown instead of that in the files.
        Raises:       OSError (ssl.SSLError is one) when a file is missing or half-written.
        """
        for path in self._files():
            Path(path).open("rb").close()  # OpenSSL's complaint would not name the file
        context = ssl.create_default_context(cafile=self.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.strict:
            context.verify_flags |= ssl.VERIFY_X509_STRICT
        else:
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load_from_memory(context, certificate)
        elif self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context

    def _files(self) -> list[str]:
        return [path for path in (self.ca_file, self.cert_file, self.key_file) if path]


def _load_from_memory(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """OpenSSL reads a chain from files only: one that only we can read, and only for a moment."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{certificate.chain}\n{certificate.key}\n")
        file.flush()
        context.load_cert_chain(file.name)


def _changed_at(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0
