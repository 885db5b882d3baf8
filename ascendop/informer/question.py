# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What to ask the server next: for everything, or for what is new."""

from __future__ import annotations

from ascendop.informer.recovery import Then

NO_STREAM_FOR_S = 3600.0
"""How long a server that cannot do WatchList is believed; it may be upgraded under us."""


class Question:
    """The next question of a reflector; every trouble may change it."""

    def __init__(self, *, watch_list: bool) -> None:
        self.wanted = "start"
        """Why everything has to be got; empty while events suffice."""
        self.floor = ""
        """When everything is got: not older than this; empty for as it is now."""
        self.streams_after = 0.0 if watch_list else float("inf")
        """Loop time after which everything is asked for by WATCH and not by LIST."""
        self.staging_since: float | None = None
        """Since when everything is asked for by WATCH, in vain so far."""
        self.lenient = False
        """Objects that cannot be read become bare rows. On once there was one, and for good: it
        will change again."""

    def by_watch(self, now: float) -> bool:
        """Whether the next question is a watch with initial events."""
        return bool(self.wanted) and now >= self.streams_after

    def want(self, reason: str, floor: str) -> None:
        self.wanted = self.wanted or reason
        self.floor = floor

    def answered(self) -> None:
        """Everything was got."""
        self.wanted = self.floor = ""
        self.staging_since = None

    def follow(self, then: Then, reason: str, position: str, now: float) -> None:
        """Change the question as a remedy says. Then.WHOLE does not change it."""
        match then:
            case Then.RESYNC:
                self.want(reason, position)
            case Then.RESYNC_LATEST:
                self.want(reason, "")
            case Then.RESYNC_BARE:
                self.want(reason, "")
                self.lenient = True
                self.streams_after = max(self.streams_after, now + NO_STREAM_FOR_S)
            case Then.LIST:
                self.streams_after = max(self.streams_after, now + NO_STREAM_FOR_S)
                self.staging_since = None
            case Then.RESUME | Then.WHOLE:
                pass
