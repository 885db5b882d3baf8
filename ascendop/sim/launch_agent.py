# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""In place of sshd, where there is none: starts for a launcher what it wants to run in this pod.

Run as a script, with the arguments that sshd was to have; a file beside them says where to listen:
    address, port     of this pod
    folder, names     where callers look this pod up, one file for each of its names
    token             what a caller has to know
Only `-p` and `-o Port=` of sshd's options mean something here.

A caller sends one line, {"token", "command"}, then frames; it is sent frames, and the end is that
of its command. A frame is a kind (one byte), a length (four bytes, big-endian) and the content:
    0 stdin, empty at its end      1 stdout      2 stderr      3 the exit code in decimal
It imports nothing of this package: it is started in the pod, where the package need not be.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import signal
import struct
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import TypedDict

STDIN, STDOUT, STDERR, EXIT = range(4)
HEAD = struct.Struct(">BI")
CHUNK = 1 << 16
LONGEST = 1 << 24  # command


class Settings(TypedDict):
    """What the file says."""

    address: str
    port: int
    folder: str
    names: list[str]
    token: str


def port_of(arguments: list[str], default: int) -> int:
    """What sshd's arguments say, the last one first."""
    found = default
    words = iter(arguments)
    for word in words:
        option = word + next(words, "") if word in {"-p", "-o"} else word
        if option.startswith("-p"):
            found = int(option[2:])
        elif option.startswith("-o") and option[2:].lower().replace(" ", "=").startswith("port="):
            found = int(option[7:])
    return found


async def serve(said: Settings, port: int) -> None:
    """Until it is killed."""

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        # The caller may go at any time, and may be none of ours.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            await converse(reader, writer, said["token"])
        writer.close()

    async with await asyncio.start_server(answer, said["address"], port, limit=LONGEST) as server:
        announce(said, port)
        await server.serve_forever()


def announce(said: Settings, port: int) -> None:
    """A file for each name, whole or not at all."""
    folder = Path(said["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    for name in said["names"]:
        new = folder / f".{name}.{os.getpid()}"
        new.write_text(f"{said['address']} {port}\n")
        new.rename(folder / name)


async def converse(reader: StreamReader, writer: StreamWriter, token: str) -> None:
    asked = json.loads(await reader.readline() or "{}")
    if not hmac.compare_digest(str(asked.get("token")).encode(), token.encode()):
        return
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        *(("-c", asked["command"]) if asked.get("command") else ()),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen(reader, process))
        # A daemon that the command leaves behind has let go of these, and lives on.
        async with asyncio.TaskGroup() as ending:
            ending.create_task(tell(process.stdout, writer, STDOUT))
            ending.create_task(tell(process.stderr, writer, STDERR))
            ending.create_task(process.wait())
        listening.cancel()
    code = process.returncode or 0
    send(writer, EXIT, str(128 - code if code < 0 else code).encode())
    await writer.drain()


async def listen(reader: StreamReader, process: Process) -> None:
    """Pass on what the caller types; when the caller is gone, its command goes."""
    stdin = process.stdin
    try:
        while True:
            _, length = HEAD.unpack(await reader.readexactly(HEAD.size))
            content = await reader.readexactly(length)
            if stdin is None:
                continue
            with contextlib.suppress(OSError):  # it does not read what it is sent
                if content:
                    stdin.write(content)
                    await stdin.drain()
                else:
                    stdin.close()
    except (asyncio.IncompleteReadError, OSError):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


async def tell(source: StreamReader | None, writer: StreamWriter, kind: int) -> None:
    """Read it to its end, also when nobody listens any more: the command must not stand still."""
    while source is not None and (content := await source.read(CHUNK)):
        with contextlib.suppress(OSError):
            send(writer, kind, content)
            await writer.drain()


def send(writer: StreamWriter, kind: int, content: bytes) -> None:
    writer.write(HEAD.pack(kind, len(content)) + content)


def main() -> None:
    said: Settings = json.loads(Path(sys.argv[1]).read_bytes())
    try:
        asyncio.run(serve(said, port_of(sys.argv[2:], said["port"])))
    except (OSError, ValueError) as error:
        sys.exit(f"launch agent in place of sshd: {error}")


if __name__ == "__main__":
    main()
