# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Integers in labels and annotations, read as the other components of the cluster read them."""

from __future__ import annotations

import re
from typing import Final

_SHAPE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)  # at most what fits 64 bits


def integer(text: str) -> int | None:
    """Decimal digits with an optional sign, or None.

    Stricter than int(): neither blanks nor underscores nor the digits of other scripts, because
    the scheduler plug-in and the device plug-in would not read those as a number either.
    """
    return int(text) if _SHAPE.fullmatch(text) else None
