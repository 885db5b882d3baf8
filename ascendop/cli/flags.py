# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Flags made from settings, so that no flag is without its sentence in the reference."""

from __future__ import annotations

import os
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from pathlib import Path

from ascendop.cli.peer_flags import peer_flags
from ascendop.errors import UsageError
from ascendop.settings import Settings, describe_settings, load_settings, parse_file


def add_settings(parser: ArgumentParser, only: frozenset[str] | None = None) -> None:
    """A flag for every setting, or for those named."""
    for setting in describe_settings():
        if only is not None and setting.name not in only:
            continue
        shown = f" [{setting.default}]" if setting.default else ""
        help_ = f"{setting.sentence}{shown}".replace("%", "%%")
        if setting.is_switch:
            parser.add_argument(
                setting.flag, dest=setting.name, action=BooleanOptionalAction, help=help_
            )
        else:
            metavar = "|".join(setting.choices) or setting.name.rsplit("_", 1)[-1].upper()
            parser.add_argument(setting.flag, dest=setting.name, metavar=metavar, help=help_)


def settings_of(args: Namespace) -> Settings:
    """Flags before environment before the file of --config. Raises UsageError."""
    path: Path | None = getattr(args, "config", None)
    return settings_over(args, _read(path) if path else "")


def settings_over(args: Namespace, text: str) -> Settings:
    """Flags before environment before the text of a settings file. Raises UsageError."""
    names = [setting.name for setting in describe_settings()]
    flags = {name: value for name in names if (value := getattr(args, name, None)) is not None}
    return load_settings({**flags, **peer_flags(args).settings}, os.environ, parse_file(text))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: {why}; name a readable settings file") from error
