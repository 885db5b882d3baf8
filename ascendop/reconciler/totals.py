# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Numbers under the names of the operator that a kind comes from, where it has such names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ascendop.api.observed import LauncherView
from ascendop.apply.plan import EventNote
from ascendop.telemetry.metrics import Metrics

EVICTED: Final = "Evicted"
"""Ending of a reason: the original does not count these failures."""


class Totals:
    """Counts jobs once each, by what is told of them when their status has been written.

    Leader's:  who does not lead tells nothing, and has no jobs to inform about.
    """

    def __init__(self, metrics: Metrics, kind: str, prefix: str, noun: str) -> None:
        def counter(what: str) -> Callable[[], None]:
            name, said = f"{prefix}_jobs_{what}_total", f"Counts number of {noun} jobs {what}"
            return metrics.counter(name, said).inc

        self._kind = kind
        self._created, self._successful, self._failed = (
            counter(what) for what in ("created", "successful", "failed")
        )
        self._info = metrics.gauge(
            f"{prefix}_job_info", f"Information about {kind}", "launcher", "namespace"
        )
        self._leads = metrics.gauge(
            f"{prefix}_is_leader",
            f"Is this client the leader of this {prefix.replace('_', '-')} client set?",
        )

    def __call__(self, note: EventNote) -> None:
        """Something was told of a job."""
        if note.reason == f"{self._kind}Created":
            self._created()
        elif note.reason == f"{self._kind}Succeeded":
            self._successful()
        elif note.ends and not note.reason.endswith(EVICTED):
            self._failed()

    def refresh(self, launchers: Iterable[LauncherView], *, leads: bool) -> None:
        """Take in which launchers there are."""
        self._leads.set(int(leads))
        self._info.clear()
        for found in launchers if leads else ():
            if found.owner_kind == self._kind:
                self._info.labels(launcher=found.name, namespace=found.namespace).set(1)
