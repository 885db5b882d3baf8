# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""The server's Warning headers, each text once: deprecations, unknown fields, odd values."""

from __future__ import annotations

import re

from ascendop.telemetry.log import get_log

_log = get_log("ascendop.kube")
_TEXT = re.compile(r'\b\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_KEPT = 1000  # texts may carry names; beyond this we start anew rather than grow


class Warned:
    """Says each warning once per process, so that a job storm does not fill the log with one."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def hear(self, header: str, request: str) -> None:
        """Log what is new in a Warning header (several are joined by commas)."""
        for text in _TEXT.findall(header):
            if text in self._said:
                continue
            if len(self._said) >= _KEPT:
                self._said.clear()
            self._said.add(text)
            _log.warning("the API server warns", request=request, text=text)
