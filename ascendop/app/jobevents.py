# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Events about a job, under the name that the users of its kind know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ascendop.apply.events import EventRecorder
from ascendop.apply.plan import EventNote
from ascendop.apply.series import Reference
from ascendop.reconciler.snapshot import AnySnapshot


class JobEvents:
    """Implements the controller's Recorder."""

    def __init__(
        self, recorder: EventRecorder, totals: Mapping[str, Callable[[EventNote], None]]
    ) -> None:
        """`totals` count what is told of some kinds."""
        self._recorder = recorder
        self._totals = totals

    def job_event(self, snapshot: AnySnapshot, note: EventNote) -> None:
        kind, row = snapshot.kind, snapshot.row
        if (count := self._totals.get(kind.kind)) is not None:
            count(note)
        about = Reference(kind.api_version, kind.kind, row.namespace, row.name, row.uid)
        pod = Reference("v1", "Pod", row.namespace, note.pod, note.pod_uid) if note.pod else None
        self._recorder.event(
            about,
            note.type,
            note.reason,
            note.note,
            note.action,
            related=pod,
            controller=kind.controller,
            outcome=note.outcome,
        )
