# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Flags of ascend-operator, as its manifests spell them: -logLevel=0, -enable-healthz=true."""

from __future__ import annotations

import re
import sys
from argparse import SUPPRESS, Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ascendop import __version__
from ascendop.errors import UsageError

_LEVELS: Final = {-1: "debug", 0: "info", 1: "warning", 2: "error", 3: "error"}
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
_MOST: Final = 10000
"""Of rate and burst."""
_QPS, _BURST = 50, 100
_PORTS: Final = range(1025, 65536)
_HEALTH_PORT: Final = 11251

Value = str | int | float | bool
Convert = Callable[[str], Value]


@dataclass(frozen=True, slots=True)
class Given:
    """What was said with the other operator's flags."""

    settings: Mapping[str, Value]
    """By name of ours."""
    warnings: tuple[str, ...] = ()
    """What was not taken as it was written, and why."""


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag that becomes one setting of the same meaning."""

    setting: str
    convert: Convert
    help: str
    is_switch: bool = False


class _OutOfBoundsError(ValueError):
    """The other operator warns and goes on with its default, so this one does, too."""

    def __init__(self, message: str, default: Value) -> None:
        super().__init__(message)
        self.default = default


def _text(text: str) -> str:
    return text


def _whole(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError("is no whole number")
    return int(text)


def _switch(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise ValueError("is neither true nor false")
    return text in _TRUE


def _level(text: str) -> str:
    if (level := _LEVELS.get(_whole(text))) is None:
        raise ValueError("must be -1 debug, 0 info, 1 warning, 2 error or 3 critical")
    return level


def _at_most(default: int) -> Convert:
    def convert(text: str) -> int:
        found = _whole(text)
        if not 0 < found <= _MOST:
            message = f"must be 1 to {_MOST}; going on with {default}, as ascend-operator does"
            raise _OutOfBoundsError(message, default)
        return found

    return convert


def _between(least: int, most: int) -> Convert:
    def convert(text: str) -> int:
        if not least <= (found := _whole(text)) <= most:
            raise ValueError(f"must be {least} to {most}")
        return found

    return convert


def _port(text: str) -> str:
    if _whole(text) not in _PORTS:
        raise ValueError(f"must be a port from {_PORTS[0]} to {_PORTS[-1]}")
    return f":{int(text)}"


_FLAGS: Final = {
    "logLevel": _Flag("log_level", _level, "-1 debug, 0 info, 1 warning, 2 or 3 error"),
    "logFile": _Flag("log_file", _text, "as --log-file"),
    "maxAge": _Flag("log_max_age_days", _between(7, 700), "as --log-max-age-days"),
    "maxBackups": _Flag("log_max_backups", _between(1, 180), "as --log-max-backups"),
    "isCompress": _Flag("log_compress", _switch, "as --log-compress", is_switch=True),
    "enableGangScheduling": _Flag(
        "enable_gang_scheduling", _switch, "as --enable-gang-scheduling", is_switch=True
    ),
    "kubeApiQps": _Flag("writes_per_s", _at_most(_QPS), "as --writes-per-s"),
    "kubeApiBurst": _Flag("writes_burst", _at_most(_BURST), "as --writes-burst"),
    "kubeconfig": _Flag("kubeconfig", _text, "as --kubeconfig"),
    "healthz-address": _Flag("health_listen", _port, f"port, {_PORTS[0]} to {_PORTS[-1]}"),
    "tls-cert-file": _Flag("tls_cert_file", _text, "as --tls-cert-file"),
    "tls-private-key-file": _Flag("tls_private_key_file", _text, "as --tls-private-key-file"),
}
_ENABLE_HEALTH: Final = "enable-healthz"
_FOLDER: Final = "peer_flags"
"""Where the parser collects them."""


class _Collect(Action):
    """Notes a flag with its text; the last one of a name counts, as in Go."""

    def __call__(
        self,
        parser: ArgumentParser,  # noqa: ARG002  argparse's own
        namespace: Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        name = (option_string or "").lstrip("-")
        setattr(namespace, _FOLDER, {**_said(namespace), name: str(values)})


class _Version(Action):
    """Prints the version and ends, unless the flag says false, as a Go flag may."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,  # noqa: ARG002  argparse's own
        values: object,
        option_string: str | None = None,
    ) -> None:
        try:
            wanted = _switch(str(values))
        except ValueError as error:
            parser.error(f"{option_string}={values}: {error}")
        if wanted:
            sys.stdout.write(f"ascendop version: {__version__}\n")
            parser.exit()


def _said(args: Namespace) -> Mapping[str, str]:
    return getattr(args, _FOLDER, None) or {}


def add_peer_flags(parser: ArgumentParser) -> None:
    """Every flag of ascend-operator, with one dash or two where ours has not that name already."""
    group = parser.add_argument_group(
        "flags of ascend-operator",
        "for a manifest that is taken over; each stands for one of those above",
    )
    switch = _Flag("health_listen", _switch, "whether health is served", is_switch=True)
    for name, flag in {**_FLAGS, _ENABLE_HEALTH: switch}.items():
        ours = {word for action in parser._actions for word in action.option_strings}  # noqa: SLF001  to add nothing twice
        words = [word for word in (f"-{name}", f"--{name}") if word not in ours]
        group.add_argument(
            *words,
            dest=_FOLDER,
            metavar="true|false" if flag.is_switch else "VALUE",
            action=_Collect,
            help=flag.help,
            nargs="?" if flag.is_switch else None,
            const="true" if flag.is_switch else None,
        )
    group.add_argument(
        "-version",
        "--version",
        action=_Version,
        dest=SUPPRESS,
        metavar="true|false",
        nargs="?",
        const="true",
        help="print the version",
    )


def peer_flags(args: Namespace) -> Given:
    """What they say. Raises UsageError, with every mistake in them."""
    said = _said(args)
    settings: dict[str, Value] = {}
    mistakes: list[str] = []
    warnings: list[str] = []
    for name, text in said.items():
        flag = _FLAGS.get(name)
        if flag is None:
            continue
        if getattr(args, flag.setting, None) is not None:
            ours = "--" + flag.setting.replace("_", "-")
            mistakes.append(f"-{name} and {ours} are one setting; write one of them")
        try:
            settings[flag.setting] = flag.convert(text)
        except _OutOfBoundsError as error:
            settings[flag.setting] = error.default
            warnings.append(f"-{name}={text}: {error}")
        except ValueError as error:
            mistakes.append(f"-{name}={text}: {error}")
    try:
        settings |= dict(_health(said, settings, getattr(args, "health_listen", None)))
    except ValueError as error:
        mistakes.append(f"-{_ENABLE_HEALTH}={said[_ENABLE_HEALTH]}: {error}")
    if mistakes:
        raise UsageError("; ".join(mistakes))
    return Given(settings, tuple(warnings))


def _health(
    said: Mapping[str, str], settings: Mapping[str, Value], listen: str | None
) -> Iterator[tuple[str, Value]]:
    """Off is off, whatever the port; on without a port is on at the other operator's."""
    if _ENABLE_HEALTH not in said:
        return
    if not _switch(said[_ENABLE_HEALTH]):
        if listen:
            raise ValueError("yet --health-listen names an address; write one of them")
        yield "health_listen", ""
    elif "health_listen" not in settings and not listen:
        yield "health_listen", f":{_HEALTH_PORT}"
