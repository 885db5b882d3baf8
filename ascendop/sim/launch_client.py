# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""In place of ssh: runs a command in another pod, through the launch agent there. A script.

Its first argument is a file with {"folder", "token"}; the others are those of ssh. What an mpirun
says to ssh is understood; of `-o` options, ConnectionAttempts means something: seconds to wait for
the other pod. Ends as the command ends; with 255, as ssh, when it could not be started.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

STDIN, STDOUT, STDERR, EXIT = range(4)
HEAD = struct.Struct(">BI")
CHUNK = 1 << 16
FAILED = 255
PAUSE_S = 1.0
WITH_VALUE = frozenset("BbcDEeFIiJLlmOopQRSWw")
ATTEMPTS = "connectionattempts="


class Call:
    """What is asked for: `host`, `command`, `attempts`, and whether stdin is passed on."""

    def __init__(self, arguments: list[str]) -> None:
        self.attempts = 1
        self.reads = True
        words = iter(arguments)
        for word in words:
            if not word.startswith("-"):
                self.host = word.rpartition("@")[2]
                break
            self._option(word[1:], words)
        else:
            refuse("usage: ssh [options] host [command]")
        self.command = " ".join(words)

    def _option(self, letters: str, words: Iterator[str]) -> None:
        for index, letter in enumerate(letters):
            if letter in "nf":
                self.reads = False
            if letter in WITH_VALUE:
                value = letters[index + 1 :] or next(words, "")
                said = value.lower().replace(" ", "=")
                if letter == "o" and said.startswith(ATTEMPTS):
                    self.attempts = max(1, int(said.removeprefix(ATTEMPTS)))
                return


def refuse(message: str) -> NoReturn:
    sys.stderr.write(f"ssh: {message}\n")
    sys.stderr.flush()
    os._exit(FAILED)


def connect(folder: Path, call: Call) -> socket.socket:
    """As often as ssh would, but for a name that nobody has yet, too."""
    why, again = "", threading.Event()
    for attempt in range(call.attempts):
        if attempt:
            again.wait(PAUSE_S)
        try:
            address, port = (folder / call.host).read_text().split()
        except (OSError, ValueError):
            why = f"Could not resolve hostname {call.host}: no pod of this name has an agent"
            continue
        try:
            return socket.create_connection((address, int(port)), timeout=10)
        except OSError as error:
            why = f"connect to host {call.host} port {port}: {error.strerror or error}"
    refuse(why)


def pass_on(connection: socket.socket) -> None:
    """What comes in here, until its end."""
    with contextlib.suppress(OSError):
        while content := os.read(0, CHUNK):
            connection.sendall(HEAD.pack(STDIN, len(content)) + content)
        connection.sendall(HEAD.pack(STDIN, 0))


def exactly(connection: socket.socket, count: int) -> bytes:
    """Raises ConnectionError when the other side has gone."""
    content = b""
    while len(content) < count:
        more = connection.recv(count - len(content))
        if not more:
            raise ConnectionError
        content += more
    return content


def write(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def relay(connection: socket.socket) -> int:
    """The command's output, until its exit code comes."""
    while True:
        kind, length = HEAD.unpack(exactly(connection, HEAD.size))
        content = exactly(connection, length)
        if kind == EXIT:
            return int(content)
        with contextlib.suppress(BrokenPipeError):
            write(kind, content)


def main() -> None:
    said = json.loads(Path(sys.argv[1]).read_bytes())
    call = Call(sys.argv[2:])
    connection = connect(Path(said["folder"]), call)
    connection.settimeout(None)
    asked = {"token": said["token"], "command": call.command}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    if call.reads:
        threading.Thread(target=pass_on, args=(connection,), daemon=True).start()
    else:
        connection.sendall(HEAD.pack(STDIN, 0))
    try:
        code = relay(connection)
    except OSError:
        refuse(f"connection to {call.host} closed by remote host")
    os._exit(code)  # the thread may wait for its standard input for ever


if __name__ == "__main__":
    main()
