# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What a machine without images cannot run, told before anything is started."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ascendop.cli.files import Located
from ascendop.errors import UsageError

_LISTS: Final = ("initContainers", "containers")


def check_commands(found: Iterable[Located]) -> None:
    """Every container of every template says what to run.

    Raises:  UsageError, with a line for each that does not.
    """
    mistakes = [
        f"{one}: {path}.command: is missing; there is no image here, "
        "and each container is a process of this machine: write what to run"
        for one in found
        for path in _silent(one.object.get("spec"), "spec")
    ]
    if mistakes:
        raise UsageError("\n".join(mistakes))


def _silent(value: object, path: str) -> Iterator[str]:
    """Paths of containers without a command, at whatever depth a kind has its templates."""
    if not isinstance(value, dict):
        return
    for key, below in value.items():
        if key in _LISTS and isinstance(below, list):
            for index, container in enumerate(below):
                if isinstance(container, dict) and not container.get("command"):
                    yield f"{path}.{key}[{index}]"
        else:
            yield from _silent(below, f"{path}.{key}")
