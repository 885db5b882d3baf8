# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a living job stands after a plan's steps: its conditions, counts, times and Events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ascendop.api.job import Counts
from ascendop.api.kind import JobView, PodSlot
from ascendop.api.life import Verdict
from ascendop.api.model import Object
from ascendop.api.observed import PodView
from ascendop.apply.plan import (
    Concluder,
    Conclusion,
    Create,
    Done,
    EventNote,
    Failure,
    StepName,
)
from ascendop.builder import labels as keys
from ascendop.gang.admission import Waiting
from ascendop.kube.resource import PODS
from ascendop.reconciler.giveback import GIVEN_BACK, given_back
from ascendop.reconciler.group import group_notes, unheeded_notes
from ascendop.reconciler.lives import awake, awake_status, waking_notes, without_trouble
from ascendop.reconciler.notes import exit_notes, template_notes, write_notes
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import failure_notes, say_stalled
from ascendop.reconciler.status import (
    Conditions,
    count_pods,
    put_condition,
    with_conditions,
    with_message,
    with_state_last,
    with_times,
)
from ascendop.reconciler.table import table_notes, told
from ascendop.reconciler.waiting import Words, say, unplaced
from ascendop.times import rfc3339


@dataclass(frozen=True, slots=True)
class Conclusions:
    """What is said of one job at one moment. Pure: an equal outcome, equal words."""

    s: AnySnapshot
    job: JobView[Any]

    def waiting(self, waiting: Waiting, found: Words) -> Concluder:
        def conclude(done: Done) -> Conclusion:
            grouped = any(w.step == "group" for w in done.written) and self.s.group is None
            events = (
                *waking_notes(self.s),
                *write_notes(self.s.kind, self.job.name, done),
                *(group_notes(self.s, self.job) if grouped else ()),
            )
            if done.failures:
                return self._failed(done, events, awake_status(self.s))
            after = awake(self.s)
            if not self.s.kind.words.created_first:
                after, said = say(after, self.s, waiting, found)
                events = (*events, *said)
            if after == self.s.conditions:
                return Conclusion(self.s.status, events)
            status = {**awake_status(self.s), "lastReconcileTime": rfc3339(self.s.now)}
            return Conclusion(with_conditions(status, after), events)

        return conclude

    def stuck(self, step: StepName, text: str) -> Callable[[Done], Conclusion]:
        def conclude(done: Done) -> Conclusion:
            events = (*waking_notes(self.s), *write_notes(self.s.kind, self.job.name, done))
            after, reason = awake(self.s), self.s.kind.words.step_failed.get(step)
            if reason:
                after = put_condition(after, "Created", reason, text, self.s.now)
            return Conclusion(with_conditions(awake_status(self.s), after), events)

        return conclude

    def giving_back(self, had: int, least: int) -> Concluder:
        def conclude(done: Done) -> Conclusion:
            events = tuple(write_notes(self.s.kind, self.job.name, done))
            after = given_back(self.s, awake(self.s), had, least)
            note = EventNote("Warning", GIVEN_BACK, after[-1].message, "Delete", outcome=True)
            status = with_conditions(awake_status(self.s), after)
            return Conclusion(status, (*events, note), at_once=True)

        return conclude

    def unaddressed(self, done: Done) -> Conclusion | None:
        if not done.failures:
            return None
        events = (*waking_notes(self.s), *write_notes(self.s.kind, self.job.name, done))
        return self._failed(done, events, awake_status(self.s))

    def _failed(self, done: Done, events: tuple[EventNote, ...], status: Object) -> Conclusion:
        """A write was refused: the contract of some kinds puts that into the Created condition.

        Something in the way is said there for all kinds: it may stay for as long as nobody looks.
        """
        after, words = awake(self.s), self.s.kind.words
        for failure in done.failures:
            reason = words.step_failed.get(failure.step) or failure.reason
            if reason and not failure.waits:
                text = self._refused(failure)
                after = put_condition(after, "Created", reason, text, self.s.now)
        return Conclusion(with_conditions(status, after), events)

    def _refused(self, failure: Failure) -> str:
        match failure.write:
            case Create(resource=resource, object=made) if resource == PODS:
                lower = made["metadata"]["labels"].get(keys.REPLICA_TYPE)
                role = next((role for role in self.job.replicas if role.lower() == lower), "")
                return self._said_of_pods(role, failure.message)
            case _:
                return failure.message

    def _said_of_pods(self, role: str, error: str) -> str:
        return self.s.kind.words.pods_refused.format(role=role, error=error)

    def holding(self, pods: Sequence[PodView], missing: Sequence[PodSlot], text: str) -> Concluder:
        """A rule lets no pod be made: what there is goes on, and whoever asks is told why."""

        def conclude(done: Done) -> Conclusion:
            s, job, role = self.s, self.job, missing[0].role
            status = self._counted(count_pods(s.kind, job, pods))
            events = (*waking_notes(s), *write_notes(s.kind, job.name, done))
            if done.failures:
                return self._failed(done, events, status)
            message = self._said_of_pods(role, text)
            reason = s.kind.words.step_failed["pods"]
            after = put_condition(awake(s), "Created", reason, message, s.now)
            after = with_message(after, "Created", message, s.now)
            said = EventNote("Warning", "FailedCreatePod", f"Error creating: {text}", "Create")
            told = (said,) if after != s.conditions else ()
            return Conclusion(with_conditions(status, after), (*events, *told))

        return conclude

    def usual(
        self,
        pods: Sequence[PodView],
        verdict: Verdict | None,
        missing: Sequence[PodSlot],
        notes: Sequence[EventNote] = (),
    ) -> Concluder:
        def conclude(done: Done) -> Conclusion:
            s, job = self.s, self.job
            counts = count_pods(s.kind, job, pods)
            status = self._counted(counts)
            made = any(isinstance(written.write, Create) for written in done.written)
            events = (
                *waking_notes(s),
                *write_notes(s.kind, job.name, done),
                *(template_notes(s.kind, job, gang=s.world.gang) if made else ()),
                *(unheeded_notes(s, job) if made else ()),
                *exit_notes(s.kind, job, pods, s.status, counts),
                *notes,
            )
            if any(failure.step != "backup" for failure in done.failures):
                return self._failed(done, events, status)
            # A backup that cannot be made takes nothing from the job; an Event tells of it.
            after = before = without_trouble(s) if all_made(missing, done) else awake(s)
            said: tuple[EventNote, ...] = ()
            if verdict is not None:
                after = put_condition(before, verdict.type, verdict.reason, verdict.message, s.now)
                said = _verdict_notes(verdict, pods) if after != before else ()
                after = with_state_last(after, verdict.type)
            if verdict is None or not verdict.final:
                after, named = self._why_late(after, pods, wait=verdict is None and not missing)
                said = (*said, *named)
            heard = told(after, s.table, s.now)
            said, after = (*said, *table_notes(after, heard)), heard
            ended = verdict is not None and verdict.final
            # From its start on a pod that is not there is lost: so all of them have to be made.
            began = all_made(missing, done)
            status = with_times(with_conditions(status, after), s.now, started=began, ended=ended)
            return Conclusion(status, (*events, *said))

        return conclude

    def _why_late(
        self, before: Conditions, pods: Sequence[PodView], *, wait: bool
    ) -> tuple[Conditions, tuple[EventNote, ...]]:
        """Conditions that say what the pods that are there wait for, if they do."""
        waiting, found = unplaced(self.s, pods) if wait else (None, Words())
        if waiting is not None:
            return say(before, self.s, waiting, found)
        return say_stalled(before, self.s, pods)

    def _counted(self, counts: Mapping[str, Counts]) -> Object:
        """The status to go on from, with these counts."""
        shown = {role: self.s.kind.counts(self.job, role, each) for role, each in counts.items()}
        return {**awake_status(self.s), "replicaStatuses": shown}


def all_made(missing: Sequence[PodSlot], done: Done) -> bool:
    writes = (written.write for written in done.written)
    made = {w.name for w in writes if isinstance(w, Create) and w.resource == PODS}
    return all(slot.name in made for slot in missing)


def _verdict_notes(verdict: Verdict, pods: Sequence[PodView]) -> tuple[EventNote, ...]:
    told = (
        EventNote(type_, reason or verdict.reason, verdict.message, "Reconcile", outcome=True)
        for type_, reason in verdict.events
    )
    return (*told, *(failure_notes(pods) if verdict.type == "Failed" else ()))
