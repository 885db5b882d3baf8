# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A request as the bytes of HTTP/1.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

_SAFE_IN_PATH: Final = "/:@!$&'()*+,;=-._~"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


def target(path: str, query: Mapping[str, str]) -> str:
    """Path and query, escaped. Neither may be escaped yet."""
    escaped = quote(path, safe=_SAFE_IN_PATH)
    return f"{escaped}?{urlencode(query)}" if query else escaped


def message(method: str, where: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The whole request. `where` is a target.

    Raises:  ValueError when a header would end its line, and so become another header.
    """
    lines = [f"{method} {where} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None or method in _WITH_BODY:
        lines.append(f"Content-Length: {len(body or b'')}")
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError(f"a line break in a header of {method} {where}")
    return b"%b\r\n\r\n%b" % (head.encode(), body or b"")
