# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""One TCP or HTTP probe from within a pod's network. Run as a script; exit code 0 is yes.

tcp HOST PORT SECONDS      http SCHEME HOST PORT PATH SECONDS
"""

from __future__ import annotations

import http.client
import socket
import ssl
import sys

GOOD = range(200, 400)


def tcp(host: str, port: str, seconds: str) -> bool:
    with socket.create_connection((host, int(port)), timeout=float(seconds)):
        return True


def web(scheme: str, host: str, port: str, path: str, seconds: str) -> bool:
    where, patience_s = (host, int(port)), float(seconds)
    connection = (
        http.client.HTTPSConnection(
            *where,
            timeout=patience_s,
            context=ssl._create_unverified_context(),  # noqa: S323, SLF001  as a kubelet probes
        )
        if scheme == "HTTPS"
        else http.client.HTTPConnection(*where, timeout=patience_s)
    )
    connection.request("GET", path)
    return connection.getresponse().status in GOOD


def main(kind: str, *words: str) -> int:
    try:
        good = tcp(*words) if kind == "tcp" else web(*words)
    except (OSError, http.client.HTTPException):
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
