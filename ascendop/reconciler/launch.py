# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A job whose leader is a batch/v1 Job: what is to be done about it, in one pass.

The pods that serve the launcher are made once per slot and never judged: the launcher's own end is
the job's, and its Job does all retries. What pods share is kept as it should be until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ascendop.api.kind import JobView, Launch, PodSlot
from ascendop.api.launch import Seen
from ascendop.api.model import Object
from ascendop.api.observed import LauncherView, PodView
from ascendop.apply.plan import (
    Apply,
    Concluder,
    Create,
    Delete,
    Patch,
    Plan,
    Step,
    Write,
    nothing,
    with_writes,
)
from ascendop.builder import labels as keys
from ascendop.builder.integers import integer
from ascendop.errors import InvalidJobError
from ascendop.gang.admission import NOT_SERVED, NOT_SERVED_TEXT
from ascendop.gang.drift import group_drift
from ascendop.gang.launched import groups_of, launched_group
from ascendop.kube.resource import (
    BATCH_JOBS,
    POD_GROUPS,
    PODS,
    SHARED_CONFIGMAPS,
    Resource,
)
from ascendop.reconciler.finish import expires_in_s, job_resource
from ascendop.reconciler.launch_conditions import (
    addressed,
    ended_for_good,
    evicted,
    is_final,
    ready,
)
from ascendop.reconciler.launch_deadline import Deadline, launcher_waits, start_deadline
from ascendop.reconciler.launch_resume import resumed
from ascendop.reconciler.launch_says import Said, conflicting, held, refusing
from ascendop.reconciler.launch_shared import kept, resource_of_shared
from ascendop.reconciler.pods import slots
from ascendop.reconciler.refuse import managed_by
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import stalled_in_s

LOOK_S: Final = 1.0
"""Until the caches are filled; they do not tell when they are."""
OVERDUE: Final = "DeadlineExceeded"
"""What Kubernetes calls it when it counts itself."""
TAKEN_S: Final = 5.0
"""Somebody may delete what is in the way."""


def decide_launched(s: AnySnapshot, launch: Launch[Any]) -> Plan:
    """What to do about a job with a launcher now. Pure."""
    if managed_by(s) not in {None, "", launch.manager}:
        return Plan(nothing)
    if not s.launched.known:
        return Plan(nothing, again_after_s=LOOK_S)
    if isinstance(s.job, InvalidJobError):
        return Plan(refusing(s, s.job))
    if ended_for_good(s):
        return _Pass(s, s.job, launch).after_the_end()
    return _Pass(s, s.job, launch).plan()


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over a job that can run."""

    s: AnySnapshot
    job: JobView[Any]
    launch: Launch[Any]

    @property
    def _launcher(self) -> LauncherView | None:
        return self.s.launched.job

    @property
    def _groups(self) -> Resource:
        return groups_of(self.s.world.place.gang)

    @property
    def _suspended(self) -> bool:
        return bool(self.job.run_policy.suspend)

    @property
    def _slots(self) -> tuple[PodSlot, ...]:
        """Of the pods that serve the launcher."""
        return tuple(slot for slot in slots(self.s.kind, self.job) if slot.role != self.launch.role)

    def after_the_end(self) -> Plan:
        """Pods by policy; what else there is stays until the job is deleted. Twice it is nothing.

        A launcher that goes on although the job has failed, because workers were evicted, ends.
        """
        policy = self.job.run_policy.clean_pod_policy or "None"
        pods = [
            self._gone(pod, as_seen=policy == "Running")
            for pod in self.s.pods
            if not pod.deleting
            if policy == "All" or (policy == "Running" and pod.phase in {"Running", "Pending", ""})
        ]
        steps = with_writes(
            Step("launcher", tuple(self._stopped())),
            Step("clean", tuple(pods)),
            Step("ungroup", tuple(self._ungroup())),
            Step("shared", tuple(self._keys())),
        )
        said = Said(self.s, self.job, self.launch, ())
        left_s = expires_in_s(self.s.status, self.job.run_policy, self.s.now)
        if left_s is None or not self.s.world.place.deletes_expired:
            return Plan(said.cleaned(policy), steps, destructive=bool(steps))
        if left_s > 0:
            return Plan(said.cleaned(policy), steps, destructive=bool(steps), again_after_s=left_s)
        row = self.s.row
        gone = Step("job", (Delete(job_resource(self.s), row.name, row.uid),))
        return Plan(said.cleaned(policy), (*steps, gone), destructive=True)

    def plan(self) -> Plan:
        launcher = self._launcher
        if launcher is not None and launcher.owner_uid != self.s.row.uid:
            # Before anything is made: the job cannot run with it.
            return Plan(conflicting(self.s, launcher.name), again_after_s=TAKEN_S)
        if launcher is not None and launcher.end:
            return self._with(self._put_to_sleep() if self._suspended else (), pods=())
        if (failed := self._failed()) is not None:
            return self._with((), pods=(), failed=failed)
        if self.s.world.gang and not self._suspended:
            if not self.s.world.groups_served:
                return self._held(held(self.s, NOT_SERVED, self._not_served))
            if self.s.launched.alien_group:
                return self._held(conflicting(self.s, self.job.name, "PodGroup"))
        return self._living(launcher)

    @property
    def _not_served(self) -> str:
        if self._groups == POD_GROUPS:
            return NOT_SERVED_TEXT
        return (
            f"the API server does not serve {self._groups.name}: install the coscheduling plug-in, "
            "or start ascendop without --mpi-gang-scheduler"
        )

    def _held(self, says: Concluder) -> Plan:
        """No pod is made; what all of them will share is."""
        return Plan(says, with_writes(*self._shared()), again_after_s=TAKEN_S)

    def _living(self, launcher: LauncherView | None) -> Plan:
        if self._suspended:
            align = Step("launcher", tuple(self._launched(launcher)))
            return self._with((*self._shared(), align, *self._put_to_sleep()), pods=())
        if launcher is not None and launcher.suspended and launcher.started and self._let_go:
            # The server lets nobody change the template of a Job that has been started; of one
            # that says so no more it does, and the next pass, which knows its version, does it.
            unset = {"status": {"startTime": None}}
            patch = Patch(
                BATCH_JOBS,
                launcher.name,
                launcher.uid,
                launcher.version,
                unset,
                subresource="status",
            )
            steps = (*self._shared(), *self._serving(), Step("launcher", (patch,)))
            return Plan(
                Said(self.s, self.job, self.launch, self._slots).not_yet,
                with_writes(*steps),
                destructive=self._removes,
                at_once=True,
            )
        made = Step("launcher", tuple(self._launched(launcher)))
        shared = tuple(self._shared())
        steps = (*shared, *self._poke(shared), *self._serving(), made)
        return self._with(steps, pods=self._slots)

    def _with(
        self,
        steps: Sequence[Step],
        *,
        pods: Sequence[PodSlot],
        failed: tuple[str, str] | None = None,
    ) -> Plan:
        spared = frozenset(pod.uid for pod in self._replaced()) if pods else frozenset()
        said = Said(self.s, self.job, self.launch, tuple(pods), failed=failed, spared=spared)
        wanted = with_writes(*steps)
        destroys = failed is not None or any(
            isinstance(w, Delete) for step in wanted for w in step.writes
        )
        fails = bool(pods and evicted(self._pods_in(pods), spared))
        looks = [stalled_in_s(self.s, (*self.s.pods, *self.s.launched.pods)) if pods else None]
        waits = launcher_waits(self.s, self.job, self._slots)
        looks += [due.in_s for due in (self._deadline, waits) if due is not None and due.in_s > 0]
        look_s = min((look for look in looks if look is not None), default=None)
        return Plan(said.usual, wanted, destructive=destroys or fails, again_after_s=look_s)

    @property
    def _deadline(self) -> Deadline | None:
        return start_deadline(self.s, self.job, self._slots)

    # What there should be.

    def _failed(self) -> tuple[str, str] | None:
        """Reason and message of an end that no launcher tells of."""
        kind, row = self.s.kind.kind, self.s.row
        ttl = self.job.run_policy.ttl_seconds_after_finished
        ran = any(c.type == "Running" and c.status == "True" for c in self.s.conditions)
        if self._launcher is None and ttl is not None and ran:
            # By its own TTL, and nobody has seen its end: not to be run again.
            name = self.launch.job_name(self.job.name)
            return f"{kind}Failed", f"launcher Job {name} is gone, and nobody saw how it ended"
        due = self._deadline
        if due is not None and due.in_s <= 0:
            return OVERDUE, f"{kind} {row.namespace}/{row.name} has {due.text}"
        return None

    @property
    def _let_go(self) -> bool:
        """Whether the launcher may run by now.

        A name needs an address, and a pod has none before its sandbox is there.
        """
        if self.launch.waits(self.job):
            return ready(self._slots, self.s.pods)
        return not self.s.world.place.names_early or addressed(self._slots, self.s.pods)

    def _shared(self) -> Iterator[Step]:
        running = sorted(
            pod.name for pod in self.s.pods if pod.phase == "Running" and not pod.deleting
        )
        seen = Seen(tuple(running))
        for wanted in self.launch.shared(self.job, self.s.world.place, seen):
            found = self.s.launched.shared.get(wanted.object["kind"])
            write = kept(wanted, found, self.s.row.uid)
            if write is not None:
                yield Step("shared", (write,))

    def _keys(self) -> Iterator[Delete]:
        """What the job was given to fill, which nobody needs any more.

        Source:  mpijob.md W-15.
        """
        if not self.s.world.place.deletes_keys:
            return
        for wanted in self.launch.shared(self.job, self.s.world.place, Seen()):
            found = self.s.launched.shared.get(wanted.object["kind"])
            if wanted.filled and found and found.owner_uid == self.s.row.uid and not found.deleting:
                resource = resource_of_shared(wanted)
                yield Delete(resource, found.name, found.uid, told=False)

    def _poke(self, shared: Sequence[Step]) -> Iterator[Step]:
        """A change of a pod makes kubelet refresh what it mounts.

        Source:  mpijob.md W-35.
        """
        changed = [
            write
            for step in shared
            for write in step.writes
            if isinstance(write, Patch) and write.resource == SHARED_CONFIGMAPS
        ]
        if not changed or not self.s.world.place.pokes_launcher:
            return
        body = {"metadata": {"annotations": {keys.HOSTS: changed[-1].version}}}
        for pod in self.s.launched.pods:
            if pod.phase == "Running" and not pod.deleting:
                yield Step("shared", (Patch(PODS, pod.name, pod.uid, pod.version, body),))

    def _serving(self) -> Iterator[Step]:
        """PodGroup, pods that are too many, pods that are missing; these in the order of slots."""
        yield Step("group", tuple(self._group()))
        names = {slot.name for slot in self._slots}
        # Without the role there is nothing to count: what is left of it is nobody's business.
        surplus = (
            [self._gone(pod) for pod in self.s.pods if pod.name not in names and not pod.deleting]
            if names
            else []
        )
        yield from self._replacing()
        yield Step("clean", tuple(surplus))
        there = {pod.name for pod in self.s.pods}
        place = self.s.world.place
        missing = (slot for slot in self._slots if slot.name not in there)
        pods = [
            Create(PODS, self.launch.pod(self.job, slot, place), adopts=False) for slot in missing
        ]
        yield Step("pods", tuple(pods))

    def _replaced(self) -> list[PodView]:
        """Pods that have failed and may have a successor, as far as the user's number goes.

        It comes under the same name, so not before the other is gone.
        """
        numbers = (self.job.annotations.get(key, "") for key in (keys.REPLACES, keys.REPLACED))
        most, used = (max(0, integer(text) or 0) for text in numbers)
        failed = [pod for pod in self._pods_in(self._slots) if pod.phase == "Failed"]
        return [pod for pod in failed if not pod.deleting][: max(0, most - used)]

    def _replacing(self) -> Iterator[Step]:
        going, row = self._replaced(), self.s.row
        if not going:
            return
        used = max(0, integer(self.job.annotations.get(keys.REPLACED, "")) or 0)
        body = {"metadata": {"annotations": {keys.REPLACED: str(used + len(going))}}}
        yield Step("attempt", (Patch(job_resource(self.s), row.name, row.uid, row.version, body),))
        yield Step("clean", tuple(self._gone(pod, as_seen=True) for pod in going))

    @property
    def _removes(self) -> bool:
        names = {slot.name for slot in self._slots}
        return bool(names) and any(pod.name not in names for pod in self.s.pods)

    def _pods_in(self, wanted: Sequence[PodSlot]) -> list[PodView]:
        names = {slot.name for slot in wanted}
        return [pod for pod in self.s.pods if pod.name in names]

    def _group(self) -> Iterator[Apply]:
        if not self.s.world.gang:
            return
        withheld = self._launcher is None and not self._let_go
        whole = self.s.world.place.whole_requests
        want = launched_group(
            self.job, self.launch.role, self._groups, withheld=withheld, whole=whole
        )
        if self.s.group is None:
            yield Apply(self._groups, want)
        elif group_drift(self.s.group, want):
            seen = {"resourceVersion": self.s.group.version}
            yield Apply(self._groups, {**want, "metadata": {**want["metadata"], **seen}})

    def _launched(self, launcher: LauncherView | None) -> Iterator[Write]:
        """The Job as it should be: made, put to sleep, or let go on."""
        if launcher is None:
            if self._suspended and self.launch.waits(self.job):
                return
            if self._suspended or self._let_go:
                yield Create(BATCH_JOBS, self._new_job(), adopts=False)
        elif self._suspended and not launcher.suspended:
            yield _patch(launcher, {"spec": {"suspend": True}})
        elif not self._suspended and launcher.suspended and self._let_go:
            place = self.s.world.place
            job = self.launch.job(self.job, place)["spec"]
            yield _patch(launcher, {"spec": resumed(job, launcher, strict=place.strict)})

    def _new_job(self) -> Object:
        job = self.launch.job(self.job, self.s.world.place)
        if self._suspended:
            job["spec"]["suspend"] = True
        return job

    # What there should not be.

    def _put_to_sleep(self) -> tuple[Step, ...]:
        """No pod stays, whatever has become of it: one that has failed would never come back."""
        pods = [self._gone(pod) for pod in self.s.pods if not pod.deleting]
        return Step("clean", tuple(pods)), Step("ungroup", tuple(self._ungroup()))

    def _stopped(self) -> Iterator[Write]:
        launcher = self._launcher
        if launcher is not None and launcher.owner_uid == self.s.row.uid:
            goes_on = not launcher.end and not launcher.suspended and not launcher.deleting
            if goes_on and is_final(self.s.conditions, "Failed"):
                yield _patch(launcher, {"spec": {"suspend": True}})

    def _ungroup(self) -> Iterator[Delete]:
        group = self.s.group
        if group is not None and not group.deleting:
            yield Delete(self._groups, group.name, group.uid, told=False)

    def _gone(self, pod: PodView, *, as_seen: bool = False) -> Delete:
        return Delete(PODS, pod.name, pod.uid, pod.version if as_seen else "", told=False)


def _patch(launcher: LauncherView, body: Object) -> Patch:
    return Patch(BATCH_JOBS, launcher.name, launcher.uid, launcher.version, body)
