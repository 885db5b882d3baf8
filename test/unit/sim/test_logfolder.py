# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The end of a log."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.sim import logfolder
from ascendop.sim.logfolder import last_lines, last_words


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"longer"])).map(b"".join), st.integers(0, 5))
def test_the_last_lines_are_those_of_the_whole(text, count):
    lines = BytesIO(text).readlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logfolder, "CHUNK", 3)
        file = BytesIO(text)
        assert last_lines(file, count) == b"".join(lines[len(lines) - min(count, len(lines)) :])
        assert file.read() == b""


def test_the_last_words_of_a_line_without_end_are_its_end(tmp_path):
    (tmp_path / "log").write_bytes(b"x" * 10_000 + b"end")
    assert last_words(tmp_path / "log") == "x" * 2045 + "end"


def test_there_are_no_last_words_of_an_empty_log(tmp_path):
    (tmp_path / "log").touch()
    assert last_words(tmp_path / "log") == "" == last_words(tmp_path / "none")
