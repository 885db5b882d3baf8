# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Where a pod's log comes from: whoever runs the pod gives it to the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol


class LogSource(Protocol):
    """Reads what a container wrote. Raises LookupError when there is no such log."""

    def read(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        tail: int | None,
        previous: bool,
    ) -> AsyncIterator[bytes]:
        """The last `tail` lines or all of it; with `follow`, until the container ends."""
        ...
