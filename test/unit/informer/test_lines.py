# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Lines are the same, however the network cuts the bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.informer.lines import LIMIT_BYTES, LineSplitter, LineTooLongError

LINES = ['{"a":"\u00e4\u4e2d\U0001f600"}', '{"type":"ADDED"}', "x", '{"b":1}']
STREAM = "\n".join(LINES).encode() + b"\n"


def fed(chunks):
    splitter = LineSplitter()
    return [line for chunk in chunks for line in splitter.feed(chunk)]


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_a_cut_anywhere_changes_nothing_20(at):
    """runtime:I-16 runtime:S-9"""
    assert fed([STREAM[:at], STREAM[at:]]) == [line.encode() for line in LINES]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_number_of_cuts_changes_nothing_20(cuts):
    """runtime:I-16 runtime:S-9"""
    edges = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(edges)]
    assert fed(chunks) == [line.encode() for line in LINES]


def test_empty_lines_are_no_events():
    assert fed([b"\n\na\n", b"\nb\n\n"]) == [b"a", b"b"]


def test_a_line_without_an_end_is_not_handed_out():
    splitter = LineSplitter()
    assert splitter.feed(b'{"cut') == []
    assert splitter.feed(b'":1}\n') == [b'{"cut":1}']


def test_a_line_may_be_eight_mebibytes_long_19():
    """runtime:I-16"""
    line = b"x" * LIMIT_BYTES
    assert fed([line[:100], line[100:], b"\n"]) == [line]


@pytest.mark.parametrize("size", [7, 1000, 10_000], ids=["bytes", "pieces", "one chunk"])
@pytest.mark.parametrize("ended", [True, False])
def test_a_longer_line_is_refused_and_not_collected(size, ended):
    """runtime:I-16"""
    splitter = LineSplitter(1000)
    data = b"x" * 1001 + b"\n" * ended
    chunks = [data[n : n + size] for n in range(0, len(data), size)]
    with pytest.raises(LineTooLongError):
        list(map(splitter.feed, chunks))


def test_many_cut_lines_do_not_add_up_to_a_long_one():
    """runtime:I-16"""
    splitter = LineSplitter(100)
    for _ in range(50):
        assert splitter.feed(b"x" * 60) == []
        assert splitter.feed(b"y" * 30 + b"\n") == [b"x" * 60 + b"y" * 30]
