# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a rank table stands, in a user's terms: written, or what is in the way and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ascendop.apply.files import SharedDirectoryError
from ascendop.apply.plan import TableWish
from ascendop.errors import AscendopError
from ascendop.kube.errors import ForbiddenError, RejectedError

LATE_S: Final = 60.0
"""Pods that have no devices or no address for so long are worth a word (field-reports:FR-057)."""
MISSING: Final = "RankTableMissing"


class TooLargeError(AscendopError):
    """The table does not fit into a ConfigMap."""


class ForeignMapError(AscendopError):
    """The ConfigMap of that name was made for something else."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a rank table for which there is a place."""

    reason: str
    """CamelCase code."""
    message: str
    stands: bool = False
    """The table is written; else something is in its way."""


NOBODY_ASKS: Final = Standing("", "", stands=True)
"""There is no place for the table and no pod that wants one: what was said of it is over."""


def standing_of_error(error: AscendopError, namespace: str, wish: TableWish) -> Standing | None:
    """What a failed write means for the user; None for trouble that passes and is nobody's."""
    where = f"ConfigMap {namespace}/{wish.config_map}"
    match error:
        case TooLargeError():
            return Standing("RankTableTooLarge", str(error))
        case ForeignMapError():
            return Standing("RankTableForeign", str(error))
        case SharedDirectoryError():
            return Standing("RankTableNotWritten", str(error))
        case ForbiddenError():
            fix = "let ascendop get and patch ConfigMaps there"
            return Standing("RankTableNotWritten", f"{where}: {error.message}; {fix}")
        case RejectedError():
            fix = "make room in it, or delete it and make it anew"
            return Standing("RankTableNotWritten", f"{where}: {error.message}; {fix}")
        case _:
            return None


def standing_without_place(namespace: str, wish: TableWish) -> Standing | None:
    """What it means that there is neither ConfigMap nor file; None when no pod asks for them."""
    where = f"ConfigMap {namespace}/{wish.config_map}"
    if wish.mounted:
        fix = "make it, with the label ring-controller.atlas"
        return Standing(MISSING, f"pods mount {where}, which does not exist; {fix}")
    if wish.directory:
        text = "a volume named ranktable asks for a file, but ascendop runs without a directory"
        fix = f"start it with --rank-table-dir, or make {where}"
        return Standing(MISSING, f"{text}; {fix}")
    return None


def standing_of_wait(wish: TableWish, waited_s: float) -> Standing | None:
    """What it means that pods lack something; None while they may be on their way."""
    lacks = wish.lacks
    if lacks is None or not (lacks.fault or waited_s >= LATE_S):
        return None
    return Standing(lacks.reason, lacks.message)


def standing_written(namespace: str, wish: TableWish, *, in_map: bool) -> Standing:
    """The table is where pods look for it."""
    place = f"ConfigMap {namespace}/{wish.config_map}" if in_map else f"directory {wish.directory}"
    return Standing("RankTableWritten", f"the rank table is in {place}", stands=True)
