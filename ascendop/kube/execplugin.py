# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A program that hands out credentials: run with a time limit, and both of its pipes read."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from ascendop.clock import WallClock, parse_time
from ascendop.errors import UsageError
from ascendop.kube.credentials import REFRESH_AT, CredentialError, Fetch, Grant
from ascendop.kube.tls import ClientCertificate

LIMIT_S = 30.0
"""A login that takes longer wants a person, and there is none."""

_OUT_BYTES = 1 << 20  # a credential is some kilobytes
_COMPLAINT_BYTES = 400  # the last ones: what a program says when it gives up
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """`exec` of a kubeconfig's user."""

    command: str
    args: tuple[str, ...] = ()
    api_version: str = "client.authentication.k8s.io/v1"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside what we inherited; may hold secrets."""
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What the program is told of the cluster; None when it did not ask."""


class _Answer(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Credential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _Answer


_DECODER = msgspec.json.Decoder(_Credential)


def parse_exec(spec: Mapping[str, Any], *, base: str, cluster: Mapping[str, Any]) -> ExecPlugin:
    """From the YAML.

    base:    the kubeconfig's folder; a command with a slash in it starts there.
    Raises:  UsageError for a plugin that cannot run here.
    """
    command = spec.get("command")
    if not command or not spec.get("apiVersion"):
        raise UsageError("the user's exec needs a command and an apiVersion")
    if spec.get("interactiveMode") == "Always":
        raise UsageError(
            f"the exec plugin {command} wants to ask a person (interactiveMode: Always), "
            "which an operator cannot; use a service account's token"
        )
    return ExecPlugin(
        command=os.path.normpath(os.path.join(base, command)) if "/" in command else command,  # noqa: PTH118
        args=tuple(str(arg) for arg in spec.get("args") or ()),
        api_version=spec["apiVersion"],
        env={item["name"]: str(item["value"]) for item in spec.get("env") or ()},
        install_hint=str(spec.get("installHint") or "").strip(),
        cluster=cluster if spec.get("provideClusterInfo") else None,
    )


def exec_plugin(plugin: ExecPlugin, *, environ: Mapping[str, str], wall_clock: WallClock) -> Fetch:
    """What the program grants, each time it is asked."""

    async def fetch() -> Grant:
        try:
            out = await _output_of(plugin, environ)
        except OSError as error:
            hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
            why = error.strerror or type(error).__name__
            raise CredentialError(f"exec plugin {plugin.command}: {why}{hint}") from error
        return _grant(plugin, out, wall_clock)

    return fetch


async def _output_of(plugin: ExecPlugin, environ: Mapping[str, str]) -> bytes:
    process = await asyncio.create_subprocess_exec(
        plugin.command,
        *plugin.args,
        env={**environ, **plugin.env, "KUBERNETES_EXEC_INFO": _info(plugin)},
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # so that its children end with it
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            out, complaint = await _both(process)
            code = await process.wait()
    except TimeoutError:
        await _end(process)
        raise CredentialError(
            f"exec plugin {plugin.command} did not end within {LIMIT_S:g} s"
        ) from None
    except asyncio.CancelledError:
        await _end(process)
        raise
    if code:
        said = f": {complaint}" if complaint else ""
        raise CredentialError(f"exec plugin {plugin.command} ended with code {code}{said}")
    return out


async def _both(process: Process) -> tuple[bytes, str]:
    """All of stdout and the end of stderr, read side by side: a full pipe would stop the writer."""
    async with asyncio.TaskGroup() as group:
        out = group.create_task(_tail(process.stdout, _OUT_BYTES))
        complaint = group.create_task(_tail(process.stderr, _COMPLAINT_BYTES))
    return out.result(), " ".join(complaint.result().decode(errors="replace").split())


async def _tail(pipe: asyncio.StreamReader | None, limit_bytes: int) -> bytes:
    tail = b""
    while pipe is not None and (chunk := await pipe.read(_CHUNK)):
        tail = (tail + chunk)[-limit_bytes:]
    return tail


async def _end(process: Process) -> None:
    """Nothing of it stays. Kill cannot be ignored, so the wait is short."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # Its pipes may be held by somebody who left the group; only the transport can let go of them.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
    await process.wait()
    await asyncio.sleep(0)  # in which the transport closes them


def _info(plugin: ExecPlugin) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return orjson.dumps(info).decode()


def _grant(plugin: ExecPlugin, out: bytes, wall_clock: WallClock) -> Grant:
    try:
        said = _DECODER.decode(out)
    except msgspec.DecodeError as error:  # its message names the field and never the value
        raise CredentialError(
            f"exec plugin {plugin.command} printed no ExecCredential: {error}"
        ) from None
    if said.api_version != plugin.api_version:
        raise CredentialError(
            f"exec plugin {plugin.command} speaks {said.api_version}, not {plugin.api_version}"
        )
    answer = said.status
    certificate = None
    if answer.client_certificate_data and answer.client_key_data:
        certificate = ClientCertificate(answer.client_certificate_data, answer.client_key_data)
    if not answer.token and certificate is None:
        raise CredentialError(
            f"exec plugin {plugin.command} granted neither a token nor a certificate with its key"
        )
    authorization = f"Bearer {answer.token.strip()}" if answer.token else ""
    if not answer.expiration_timestamp:
        return Grant(authorization, certificate)
    left_s = _left_s(plugin, answer.expiration_timestamp, wall_clock)
    return Grant(authorization, certificate, refresh_after_s=left_s * REFRESH_AT)


def _left_s(plugin: ExecPlugin, expires: str, wall_clock: WallClock) -> float:
    try:
        left = parse_time(expires) - wall_clock()
    except (ValueError, TypeError):
        raise CredentialError(
            f"exec plugin {plugin.command} gave an expirationTimestamp that is no time"
        ) from None
    return max(0.0, left.total_seconds())
