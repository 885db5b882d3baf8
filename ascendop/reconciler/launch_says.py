# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""How a job with a launcher stands: conditions, counts, times and Events, in the original's words.

Source: mpi-operator 0.8.2; mpijob.md sections 5 and 6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ascendop.api.job import Condition, Counts
from ascendop.api.kind import JobView, Launch, PodSlot
from ascendop.api.model import Object
from ascendop.api.observed import LauncherView, PodView
from ascendop.apply.plan import Concluder, Conclusion, Create, Done, EventNote, Failure, Patch
from ascendop.apply.refusals import CHILD_CONFLICT
from ascendop.builder.content import program_content
from ascendop.errors import InvalidJobError
from ascendop.kube.resource import BATCH_JOBS
from ascendop.reconciler.launch_conditions import (
    LONGEST,
    cut,
    ended_for_good,
    evicted,
    is_final,
    last_words,
    put,
)
from ascendop.reconciler.launch_deadline import launcher_waits
from ascendop.reconciler.lives import NOT_STARTED, created_words
from ascendop.reconciler.notes import write_notes
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import stalled_words
from ascendop.reconciler.status import Conditions, with_conditions, with_message
from ascendop.times import rfc3339

KEPT: Final = "LauncherKept"
_BACKOFF: Final = "BackoffLimitExceeded"


def refusing(s: AnySnapshot, error: InvalidJobError) -> Concluder:
    """A job that cannot run as written is told so, and nothing else happens to it.

    One that runs already is no worse for an edit: how its launcher ends is still written down.
    """

    def conclude(_done: Done) -> Conclusion:
        texts = list(dict.fromkeys(f"{p.path}: {p.what}{_fix(p.fix)}" for p in error.problems))
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        note = EventNote(
            "Warning",
            "ValidationError",
            cut(f"Found validation errors: {text}"),
            "Validate",
            outcome=True,
        )
        launcher = s.launched.job
        if launcher is None or launcher.owner_uid != s.row.uid or not launcher.end:
            return Conclusion(s.status, (note,))
        if ended_for_good(s):
            return Conclusion(s.status)
        book = _Book(s, _begun(s))
        book.end(launcher)
        status = {**s.status, "completionTime": book.completed}
        return Conclusion(with_conditions(status, book.conditions), (note, *book.events))

    return conclude


def _fix(text: str) -> str:
    return f"; {text}" if text else ""


def conflicting(s: AnySnapshot, name: str, kind: str = "") -> Concluder:
    """Somebody else's object has a name that the job needs."""
    return held(s, "ErrResourceExists", _taken(name, kind))


def held(s: AnySnapshot, reason: str, text: str) -> Concluder:
    """The job cannot go on, and Created says why; that is told when it is news."""

    def conclude(done: Done) -> Conclusion:
        book = _Book(s, _begun(s))
        after = with_message(book.conditions, "Created", text, s.now)
        note = EventNote("Warning", reason, text, "Create")
        told = (note,) if after != book.conditions else ()
        events = (*book.events, *_refusals(s, done.failures), *told)
        return Conclusion(with_conditions(s.status, after), events)

    return conclude


def _taken(name: str, kind: str) -> str:
    return f'Resource "{name}" of Kind "{kind}" already exists and is not managed by MPIJob'


def _begun(s: AnySnapshot) -> Conditions:
    """The conditions as stored; those of a job that is looked at for the first time say so."""
    if s.conditions:
        return s.conditions
    reason, text = created_words(s)
    new = Condition("Created", "True", reason, text)
    return put((), new, moment=rfc3339(s.now))


class _Book:
    """The conditions of one job while they are written, and what is told of the changes."""

    def __init__(self, s: AnySnapshot, conditions: Conditions) -> None:
        self._s = s
        self._now = rfc3339(s.now)
        self.conditions = conditions
        self.events: list[EventNote] = []
        self.completed = str(s.status.get("completionTime") or "")
        if not s.conditions:
            reason, text = created_words(s)
            self.events.append(EventNote("Normal", reason, text, "Create", outcome=True))

    def put(self, new: Condition, note: EventNote | None = None, began: str | None = None) -> bool:
        """True when that was news; then it is told."""
        after = put(self.conditions, new, moment=self._now, began=began)
        news = after != self.conditions
        self.conditions = after
        if news and note is not None:
            self.events.append(note)
        return news

    def name(self) -> str:
        return f"{self._s.kind.kind} {self._s.row.namespace}/{self._s.row.name}"

    def end(self, launcher: LauncherView) -> None:
        """The launcher's Job has ended, and the job with it."""
        if launcher.end == "Complete":
            text = f"{self.name()} successfully completed."
            self.completed = self.completed or launcher.ended or self._now
            self._ended("Succeeded", f"{self._s.kind.kind}Succeeded", text)
        else:
            reason, text = _failure(self._s, launcher, f"{self.name()} has failed")
            self.fail(reason, text)

    def fail(self, reason: str, text: str) -> None:
        self.completed = self.completed or self._now
        self._ended("Failed", reason, text)

    def _ended(self, type_: str, reason: str, text: str) -> None:
        note = (
            EventNote("Normal", reason, text, outcome=True)
            if type_ == "Succeeded"
            else EventNote("Warning", reason, text, outcome=True, ends=True)
        )
        self.put(Condition(type_, "True", reason, text), note)


def _failure(s: AnySnapshot, launcher: LauncherView, otherwise: str) -> tuple[str, str]:
    """Reason and message: those of the Job, and of the pod that failed last if it ran out of tries.

    A pod that only exited says neither: the separators stay, and its container is asked.

    Source:  mpijob.md 5.2, W-44.
    """
    reason = launcher.reason or f"{s.kind.kind}Failed"
    text = launcher.message or otherwise
    if reason != _BACKOFF:
        return reason, text

    room = LONGEST - len(f"{text}: ".encode())
    failed = [pod for pod in s.launched.pods if pod.phase == "Failed"]
    if failed:
        last = max(failed, key=lambda pod: (pod.created, pod.name))
        said = last.message or ("" if s.world.place.strict else last_words(last, room=room))
        return f"{reason}/{last.reason}", cut(f"{text}: {said}")
    # One that was restarted in place, OnFailure, is gone before its Job says that it has failed.
    gone = s.launched.gone
    said = ""
    if gone is not None and not s.world.place.strict:
        said = last_words(gone, room=room, killed=True)
    return reason, cut(f"{text}: {said}") if said else text


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a job after the steps of a pass."""

    s: AnySnapshot
    job: JobView[Any]
    launch: Launch[Any]
    slots: tuple[PodSlot, ...]
    """Of the pods that the job should have now."""
    failed: tuple[str, str] | None = None
    """Reason and message of an end that is not the launcher's."""
    spared: frozenset[str] = frozenset()
    """UIDs of pods that have failed and are replaced."""

    def not_yet(self, done: Done) -> Conclusion | None:
        """Of a pass that only makes the next one possible: what went wrong."""
        return self.usual(done) if done.failures else None

    def cleaned(self, policy: str) -> Concluder:
        def conclude(done: Done) -> Conclusion:
            events = tuple(_refusals(self.s, done.failures))
            if policy == "None":
                return Conclusion(self.s.status, events)
            counts = {**(self.s.status.get("replicaStatuses") or {}), **self._idle()}
            return Conclusion({**self.s.status, "replicaStatuses": counts}, events)

        return conclude

    def usual(self, done: Done) -> Conclusion:
        s, launcher = self.s, self.s.launched.job
        book = _Book(s, _begun(s))
        started = str(s.status.get("startTime") or "")
        if self._suspension(book) or (not started and not self._sleeps and not done.failures):
            started = rfc3339(s.now)
        if launcher is not None and launcher.end:
            book.end(launcher)
        elif self.failed is not None:
            book.fail(*self.failed)
        pods = self._pods()
        if (gone := evicted(pods, self.spared)) and not is_final(book.conditions):
            book.fail(f"{s.kind.kind}Evicted", f"{gone}/{len(self.slots)} workers are evicted")
        self._running(book, pods)
        status: Object = {**s.status, "replicaStatuses": self._counts(pods, done)}
        for key, time in (("startTime", started), ("completionTime", book.completed)):
            if time:
                status[key] = time
        after, said = self._with_trouble(book.conditions, done)
        kept = self._kept() if is_final(after) and not is_final(s.conditions) else iter(())
        events = (*book.events, *kept, *self._notes(done), *_refusals(s, done.failures), *said)
        return Conclusion(with_conditions(status, after), events)

    def _kept(self) -> Iterator[EventNote]:
        """Who is told of an end wants to know what is not over.

        Source:  mpijob.md W-15.
        """
        here = [pod for pod in self.s.pods if pod.phase == "Running" and not pod.deleting]
        policy = self.job.run_policy.clean_pod_policy or "None"
        if here and policy == "None" and not self.s.world.place.strict:
            text = (
                f"{len(here)} pods run on with all that they hold until the job is deleted: "
                "with runPolicy.cleanPodPolicy Running they would have gone by now"
            )
            yield EventNote("Warning", "PodsKept", text)

    @property
    def _sleeps(self) -> bool:
        return bool(self.job.run_policy.suspend)

    def _suspension(self, book: _Book) -> bool:
        """Write down that it sleeps or has been woken; True for the latter."""
        kind = self.s.kind.kind
        if self._sleeps:
            text = f"{kind} suspended"
            note = EventNote("Normal", f"{kind}Suspended", text, "Suspend", outcome=True)
            book.put(Condition("Suspended", "True", f"{kind}Suspended", text), note)
        elif any(c.type == "Suspended" for c in book.conditions):
            text = f"{kind} resumed"
            note = EventNote("Normal", f"{kind}Resumed", text, "Resume", outcome=True)
            return book.put(Condition("Suspended", "False", f"{kind}Resumed", text), note)
        return False

    def _running(self, book: _Book, pods: Sequence[PodView]) -> None:
        kind, name = self.s.kind.kind, book.name()
        if self._sleeps:
            text = f"{name} is suspended."
            book.put(Condition("Running", "False", f"{kind}Suspended", text))
        elif is_final(book.conditions):
            if not any(c.type == "Running" for c in book.conditions):
                text = f"{name} is finished but Running condition was never set."
                new = Condition("Running", "False", f"{kind}Running", text)
                book.put(new, began=book.completed)
        elif self._all_run(pods):
            note = EventNote("Normal", f"{kind}Running", f"{name} is running", outcome=True)
            book.put(Condition("Running", "True", f"{kind}Running", f"{name} is running."), note)

    def _all_run(self, pods: Sequence[PodView]) -> bool:
        """The launcher's pod and all that serve it; readiness does not matter."""
        launcher = any(pod.phase == "Running" for pod in self.s.launched.pods)
        there = sum(pod.phase == "Running" for pod in pods)
        return self.s.launched.job is not None and launcher and there == len(self.slots)

    def _pods(self) -> list[PodView]:
        names = {slot.name for slot in self.slots}
        return [pod for pod in self.s.pods if pod.name in names]

    def _counts(self, pods: Sequence[PodView], done: Done) -> Object:
        """As the original counts: of roles whose pods it does not look at there is an empty one."""
        launcher = self.s.launched.job
        made = _made(done)
        found = {**(self.s.status.get("replicaStatuses") or {}), **self._idle()}
        for role in self.job.replicas:
            if role != self.launch.role:
                found[role] = _count(pods).as_object()
        if launcher is not None:
            ended = launcher.end == "Complete"
            running = sum(pod.phase == "Running" for pod in self.s.launched.pods)
            active = 0 if launcher.end else running
            found[self.launch.role] = Counts(active, int(ended), launcher.failed).as_object()
        elif made:
            found[self.launch.role] = {}
        return found

    def _idle(self) -> Object:
        """Roles that serve the launcher, without a pod; told of also where the job has none."""
        roles = self.s.kind.roles(self.job.labels)
        return {role.name: {} for role in roles if role.name != self.launch.role}

    def _with_trouble(
        self, conditions: Conditions, done: Done
    ) -> tuple[Conditions, tuple[EventNote, ...]]:
        """Created says what keeps the job from being made or its pods from starting.

        Otherwise what it said at first. An Event tells of the pods, too, when that is news.
        """
        if is_final(conditions):
            return conditions, ()
        texts = [_words(self.s, failure)[1] for failure in done.failures if not failure.waits]
        pods = (*self._pods(), *self.s.launched.pods)
        stalled = "" if texts or self._sleeps else stalled_words(self.s, pods) or self._waits()
        kept = "" if texts or stalled else self._keeps()
        text = texts[0] if texts else stalled or kept or created_words(self.s)[1]
        after = with_message(conditions, "Created", cut(text), self.s.now)
        note = EventNote("Warning", NOT_STARTED if stalled else KEPT, stalled or kept, "Observe")
        return after, (note,) if (stalled or kept) and after != conditions else ()

    def _keeps(self) -> str:
        """An edit that the launcher does not follow, for nobody may change the template of a Job.

        Source:  mpijob.md W-39.
        """
        launcher, job = self.s.launched.job, self.job
        if launcher is None or not launcher.program or self.s.world.place.strict:
            return ""
        containers = job.replicas[self.launch.role].containers
        if launcher.program == job.once("program", lambda: program_content(containers)):
            return ""
        return (
            f"the launcher keeps the containers that Job {launcher.name} was made with: "
            "delete that Job, and it is made anew from the template of now"
        )

    def _waits(self) -> str:
        """What a launcher has waited for so long that it is worth a word."""
        found = launcher_waits(self.s, self.job, self.slots)
        return found.text if found is not None and found.in_s <= 0 and self.slots else ""

    def _notes(self, done: Done) -> Iterator[EventNote]:
        spec = self.job.replicas[self.launch.role].pod_spec
        if spec.get("restartPolicy") and (_made(done) or _resumes(done)):
            text = "Restart policy in pod template overridden by restart policy in replica spec"
            reason = self.s.kind.words.restart_policy_event
            yield EventNote("Warning", reason, text, "Validate")
        text = self.launch.overridden(self.job, self.s.world.place) if _made(done) else ""
        if text:
            yield EventNote("Warning", "EnvironmentOverridden", text, "Validate")


def _count(pods: Collection[PodView]) -> Counts:
    def of(phase: str) -> int:
        return sum(pod.phase == phase for pod in pods)

    return Counts(of("Running"), of("Succeeded"), of("Failed"))


def _made(done: Done) -> bool:
    """Whether the launcher's Job was made by these steps."""
    writes = (written.write for written in done.written)
    return any(isinstance(w, Create) and w.resource == BATCH_JOBS for w in writes)


def _resumes(done: Done) -> bool:
    writes = (written.write for written in done.written)
    return any(isinstance(w, Patch) and "template" in w.body.get("spec", {}) for w in writes)


def _refusals(s: AnySnapshot, failures: Sequence[Failure]) -> Iterator[EventNote]:
    for failure in failures:
        if failure.waits:
            continue
        reason, text = _words(s, failure)
        if reason:
            yield EventNote("Warning", reason, text, "Create", pod=failure.write.name)
        else:
            yield from write_notes(s.kind, s.row.name, Done(failures=(failure,)))


def _words(s: AnySnapshot, failure: Failure) -> tuple[str, str]:
    """Reason and text of the original, which has words for what cannot be made; else no reason."""
    if failure.reason == CHILD_CONFLICT:
        return "ErrResourceExists", _taken(failure.write.name, "")
    if isinstance(failure.write, Create) and failure.step in {"pods", "launcher"}:
        what = "worker" if failure.step == "pods" else "launcher"
        return f"{s.kind.kind}Failed", f"{what} pod created failed: {failure.message}"
    return "", failure.message
