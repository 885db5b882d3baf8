# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""May this process write, and for how long: asked before every write."""

from __future__ import annotations

from typing import Protocol


class WriteGate(Protocol):
    """Whoever knows the lease. Election is not fencing: this only keeps late writes rare."""

    def check(self) -> float:
        """The seconds a write that starts now may last.

        Raises NotLeaderError when none may start.
        """
        ...
