# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Long loops in short turns, so that nobody else on the loop waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

BUDGET_S = 0.005
"""A turn: a tenth of the time that a reader of a watch may stay away from its socket."""
EVERY = 16
"""Items between two looks at the clock, which costs as much as a cheap item."""


async def in_slices(items: Iterable[T], budget_s: float = BUDGET_S) -> AsyncIterator[T]:
    """The items in order; others get the loop after each `budget_s` of work."""
    loop = asyncio.get_running_loop()
    until = loop.time() + budget_s
    for n, item in enumerate(items, 1):
        yield item
        if n % EVERY == 0 and loop.time() >= until:
            await asyncio.sleep(0)
            until = loop.time() + budget_s
