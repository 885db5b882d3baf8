# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Flags; what is wrong with them is one sentence, not a page of usage."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final, NoReturn

USAGE: Final = 2
LAST_PORT: Final = 65535
LEVELS: Final = ("debug", "info", "warning", "error")


class Parser(ArgumentParser):
    """As argparse's, but a flag is what it is called, and complaints are short."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  argparse's own
        # A prefix of a flag that is unique today means another flag, or none, after an update.
        super().__init__(**{"allow_abbrev": False, **options})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        """Never leaves anything unknown, so that each verb complains for itself."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(_unknown(unknown, self._option_string_actions))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"ascendop: {message}; {self.prog} --help tells what there is\n")


def _unknown(words: Sequence[str], flags: Iterable[str]) -> str:
    first = words[0].partition("=")[0]
    near = get_close_matches(first, flags, n=1)
    hint = f", perhaps {near[0]} is meant" if near else ""
    return f"{first} is not known here{hint}"


def port(text: str) -> int:
    """0 for any free one. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdecimal() or int(text) > LAST_PORT:
        raise ArgumentTypeError(f"{text} is no port, write 0 to {LAST_PORT}")
    return int(text)


def seconds(text: str) -> float:
    """0 or more. Raises ArgumentTypeError."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not isfinite(found) or found < 0:
        raise ArgumentTypeError(f"{text} is no number of seconds, write for example 90")
    return found
