# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Sockets that notice when the other side is gone: HTTP/1.1 has no ping of its own."""

from __future__ import annotations

import socket
from typing import Any, Final

OPTIONS: Final = {
    "TCP_KEEPIDLE": 30,  # s; a connection that a firewall forgot is found within a minute
    "TCP_KEEPINTVL": 10,  # s
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 30_000,  # ms that what we sent may stay unacknowledged; Linux only
}


def watchful_socket(address: tuple[Any, ...]) -> socket.socket:
    """For one line of getaddrinfo's answer."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    watch_over(made)
    return made


def watch_over(made: socket.socket) -> None:
    """From now on it notices."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in OPTIONS.items():
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
