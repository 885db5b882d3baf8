# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Writes side by side: how many, how long, and what becomes of the rest when one fails."""

import asyncio

import pytest

from ascendop.apply.together import LET_FINISH_S, WIDEST, side_by_side, slow_start
from ascendop.kube.errors import TransportError


class Works:
    """Works that take so many seconds each, and who runs."""

    def __init__(self, seconds, *, fails=()):
        self.running = self.most = self.started = 0
        self.all = [lambda i=i, s=s: self._one(i, s, i in fails) for i, s in enumerate(seconds)]

    async def _one(self, index, seconds, fails):
        self.started += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1
        if fails:
            raise ValueError(index)
        return index


def now():
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("count", [0, 1, 2, 31, 63, 1000])
def test_batches_double_and_the_rest_goes_out_as_one(count):
    """field-reports:FR-090"""
    batches = [list(batch) for batch in slow_start(range(count))]
    assert [i for batch in batches for i in batch] == list(range(count))
    assert [len(batch) for batch in batches[:-1]] == [1, 2, 4, 8, 16][: max(0, len(batches) - 1)]
    assert len(batches) <= 6


async def test_a_slow_write_holds_up_nobody():
    works, began = Works([100, *[1] * 31 * 100]), now()
    assert await side_by_side(works.all) == list(range(3101))
    assert now() - began == pytest.approx(100)
    assert works.most == WIDEST


async def test_after_a_failure_none_is_started_any_more():
    works = Works([0.9, 0.9, 0.9, 0.5, *[0.9] * 96], fails={3})
    ends = await side_by_side(works.all)
    assert works.started == WIDEST
    assert [type(end) for end in ends[:5]] == [int, int, int, ValueError, int]
    assert ends[WIDEST:] == [None] * 68


async def test_what_was_started_beside_a_failure_may_end_for_a_moment():
    works, began = Works([0, 0.5, 60], fails={0}), now()
    failed, ended, cut_off = await side_by_side(works.all)
    assert isinstance(failed, ValueError)
    assert ended == 1
    assert isinstance(cut_off, TransportError)
    assert cut_off.sent
    assert now() - began == pytest.approx(LET_FINISH_S)


async def test_a_caller_that_is_cancelled_takes_everything_along():
    works = Works([60] * 100)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await side_by_side(works.all)
    assert works.started == WIDEST
