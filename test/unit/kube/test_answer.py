# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Answers from pieces: as servers send them, as networks cut them, and as nobody should."""

import gc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendop.kube.answer import HEAD_LIMIT_BYTES, AnswerReader, MalformedError

SIZED = b"HTTP/1.1 200 OK\r\nAudit-Id: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nWarning: one\r\nwarning:two \r\n\r\n"
    b"5;why=not\r\nhello\r\nA\r\n, and more\r\n0\r\nTrailer: dropped\r\n\r\n"
)
ENDLESS = b"HTTP/1.0 502 Bad Gateway\r\n\r\nhello"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


def read(data, method="GET", limit_bytes=1 << 20):
    reader = AnswerReader(method, limit_bytes=limit_bytes)
    reader.feed(data)
    return reader


def head(*lines, status="200 OK"):
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "", "")).encode()


@pytest.mark.parametrize("whole", [SIZED, CHUNKED, ENDLESS, CONTINUED, EMPTY])
@given(cuts=st.lists(st.integers(0, 200), max_size=12))
def test_an_answer_is_the_same_however_the_network_cuts_it(whole, cuts):
    at_once, pieced = read(whole), AnswerReader("GET", limit_bytes=1 << 20)
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    for start, end in pairwise(places):
        assert not pieced.whole or start == len(whole)
        pieced.feed(whole[start:end])
    for reader in (at_once, pieced):
        reader.end()
        assert reader.whole
    assert (pieced.status, pieced.headers, pieced.body, pieced.keeps) == (
        at_once.status,
        at_once.headers,
        at_once.body,
        at_once.keeps,
    )


def test_a_body_of_known_length_is_read_and_the_connection_is_kept():
    found = read(SIZED)
    assert (found.status, found.body, found.whole, found.keeps) == (200, b"hello", True, True)
    assert found.headers == {"audit-id": "a", "content-length": "5"}


def test_chunks_are_put_together_and_repeated_headers_are_joined():
    found = read(CHUNKED)
    assert (found.status, found.body, found.keeps) == (201, b"hello, and more", True)
    assert found.headers["warning"] == "one, two"
    assert "trailer" not in found.headers


def test_a_body_without_a_length_ends_with_its_connection_and_is_whole_only_then():
    found = read(ENDLESS)
    assert not found.whole
    assert found.end()
    assert (found.status, found.body, found.keeps) == (502, b"hello", False)


@pytest.mark.parametrize("data", [b"", SIZED[:-1], CHUNKED[:-2], SIZED[:30]])
def test_an_answer_that_is_cut_off_is_never_called_whole(data):
    assert not read(data).end()


def test_what_is_informational_is_not_the_answer():
    assert read(CONTINUED).status == 200


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("HEAD", head("Content-Length: 5")),
        ("GET", head("Content-Length: 5", status="304 Not Modified")),
        ("GET", head(status="204 No Content")),
        ("GET", head("Content-Length: 0")),
    ],
)
def test_some_answers_have_no_body_and_keep_the_connection(method, data):
    found = read(data, method)
    assert found.whole
    assert found.keeps
    assert found.body == b""


@pytest.mark.parametrize(
    "data",
    [
        head("Connection: close", "Content-Length: 0"),
        head("connection: Keep-Alive, Close", "Content-Length: 0"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        SIZED + b"HTTP/1.1 200 OK\r\n",
    ],
)
def test_a_connection_is_not_kept_when_it_cannot_be_trusted_with_another_answer(data):
    found = read(data)
    assert found.whole
    assert not found.keeps


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "no HTTP"),
        (head(status="20"), "no HTTP"),
        (head(status="2000 OK"), "no HTTP"),
        (head("No colon here"), "no header"),
        (head("Folded: one", " two"), "no header"),
        (head("Space : x"), "no header"),
        (head("Content-Length: 5", "Content-Length: 6"), "length"),
        (head("Content-Length: -1"), "length"),
        (head("Content-Length: \u00b2"), "length"),
        (head("Content-Length: 5", "Transfer-Encoding: chunked"), "unclear length"),
        (head("Transfer-Encoding: gzip, chunked"), "unclear length"),
        (head("Content-Encoding: gzip", "Content-Length: 0"), "encoded as gzip"),
        (head(status="101 Switching Protocols"), "protocol"),
        (head("Transfer-Encoding: chunked") + b"x\r\n", "chunk"),
        (head("Transfer-Encoding: chunked") + b"-5\r\n", "chunk"),
        (head("Transfer-Encoding: chunked") + b"\r\n", "chunk"),
        (head("Transfer-Encoding: chunked") + b"2\r\nhello\r\n", "longer than it says"),
        (head("Transfer-Encoding: chunked") + b"1" * 10_000, "without an end"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * (HEAD_LIMIT_BYTES + 1), "headers of more"),
    ],
)
def test_what_two_readers_might_take_differently_is_refused(data, why):
    with pytest.raises(MalformedError, match=why):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        head("Content-Length: 3145728"),
        head("Transfer-Encoding: chunked") + b"300000\r\n",
        head() + b"x" * (3 << 20),
    ],
)
def test_a_body_larger_than_any_answer_should_be_is_refused_before_it_is_held(data):
    with pytest.raises(MalformedError, match="larger than 2 MiB"):
        read(data, limit_bytes=2 << 20)


def test_an_answer_that_was_used_is_gone_without_the_garbage_collector():
    """Tens of thousands come between two collections: one cycle each would be 200 MB."""
    gc.collect()
    gc.disable()
    try:
        for data in (SIZED, CHUNKED, ENDLESS):
            read(data)
        assert gc.collect() == 0
    finally:
        gc.enable()
