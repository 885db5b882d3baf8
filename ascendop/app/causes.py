# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which of several errors ended the process: the first; the others are notes on it."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any


class EndedError(RuntimeError):
    """A part of the operator that runs for ever has ended: a bug, and no reason to go on."""


async def for_ever(name: str, work: Coroutine[Any, Any, None]) -> None:
    """Run a part that is never to end. Raises EndedError when it does."""
    await work
    raise EndedError(f"{name} has ended by itself")


def primary(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that came first, with a note for each that came after it.

    Holds for task groups whose body only waits: what a body raises is listed last, whenever it was.
    """
    first, *others = _flat(group)
    for other in others:
        first.add_note(f"then {type(other).__name__}: {other}")
    return first


def _flat(error: BaseException) -> Iterator[BaseException]:
    """Task groups list errors in the order in which their tasks ended."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error
