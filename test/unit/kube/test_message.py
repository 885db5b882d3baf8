# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Requests as bytes."""

import pytest

from ascendop.kube.message import message, target


def test_a_request_has_its_line_its_headers_and_its_body():
    got = message("POST", "/api?x=1", {"Host": "h", "Accept": "a"}, b"{}")
    assert got == (b"POST /api?x=1 HTTP/1.1\r\nHost: h\r\nAccept: a\r\nContent-Length: 2\r\n\r\n{}")


@pytest.mark.parametrize(("method", "says"), [("GET", False), ("DELETE", False), ("POST", True)])
def test_only_a_request_that_may_have_a_body_says_that_it_has_none(method, says):
    assert (b"Content-Length: 0" in message(method, "/", {}, None)) is says


@pytest.mark.parametrize("value", ["a\r\nX-Remote-User: admin", "a\nb", "a\rb"])
def test_no_header_can_make_another_one(value):
    with pytest.raises(ValueError, match="line break in a header"):
        message("GET", "/", {"Authorization": f"Bearer {value}"}, None)


def test_a_target_is_escaped_once():
    assert target("/a b/ü%?#", {"q": "1 2&3"}) == "/a%20b/%C3%BC%25%3F%23?q=1+2%263"
