# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A snapshot becomes a plan: one pass over one job, the same for every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from ascendop.api.kind import JobView, Site
from ascendop.api.life import Facts, Verdict, decide_life
from ascendop.api.observed import PodView
from ascendop.apply.plan import (
    Absent,
    Apply,
    Create,
    Delete,
    Plan,
    Step,
    Told,
    nothing,
    with_writes,
)
from ascendop.builder import labels as keys
from ascendop.builder.integers import integer
from ascendop.builder.pod import build_backup, build_pod
from ascendop.errors import InvalidJobError
from ascendop.gang.admission import Waiting, admission
from ascendop.gang.drift import group_drift, settle
from ascendop.kube.resource import POD_GROUPS, PODS, QUEUES, SERVICES
from ascendop.reconciler.attempts import Attempts
from ascendop.reconciler.conclude import Conclusions
from ascendop.reconciler.finish import finish, job_resource, suspend
from ascendop.reconciler.generation import attempt_step, generation
from ascendop.reconciler.giveback import gives_back, rests_s
from ascendop.reconciler.group import unfit, unheeded_s, wanted_group
from ascendop.reconciler.hotswitch import HotSwitch, hot_switch, name_backup
from ascendop.reconciler.launch import decide_launched
from ascendop.reconciler.lives import (
    awake_status,
    of_this_life,
)
from ascendop.reconciler.patience import Patience, patience, waiting_note
from ascendop.reconciler.pods import PodDiff, diff_pods, one_per_slot, roles_beyond_repair
from ascendop.reconciler.refuse import managed_by, refuse, unknown_queue
from ascendop.reconciler.scaling import LOOK_AGAIN_S, question, why_held
from ascendop.reconciler.snapshot import AnySnapshot
from ascendop.reconciler.stalled import stalled_in_s
from ascendop.reconciler.status import (
    count_pods,
)
from ascendop.reconciler.table import table_wish
from ascendop.reconciler.waiting import unplaced, words
from ascendop.times import parse_time

ENDED: Final = ("Succeeded", "Failed")
OURS: Final = {None, "kubeflow.org/training-operator", "ascendop.io/ascendop"}
"""Values of runPolicy.managedBy under which a job is ours."""


def decide(s: AnySnapshot) -> Plan:
    """What to do about this job now. Pure: the same snapshot gives the same plan."""
    if s.row.deleting:
        return Plan(nothing)  # owner references take the children along
    if s.kind.launch is not None:
        return decide_launched(s, s.kind.launch)
    if managed_by(s) not in OURS:
        return Plan(nothing)
    if s.finished:
        return finish(s)
    if isinstance(s.job, InvalidJobError):
        return refuse(s, s.job)
    return _decide_runnable(s, s.job)


def _decide_runnable(s: AnySnapshot, job: JobView[Any]) -> Plan:
    if job.run_policy.suspend:
        return suspend(s)
    if (problem := unfit(s, job)) is not None:
        return refuse(s, InvalidJobError([problem]))
    problem = unknown_queue(s, job)
    if problem is not None:
        queue = job.run_policy.scheduling_policy
        name = (queue.queue if queue else None) or ""
        refusal = refuse(s, InvalidJobError([problem]))
        return replace(refusal, absent=Absent(QUEUES, "", name))
    return _Pass(s, job).plan()


@dataclass(frozen=True, slots=True)
class _Sight:
    """What one pass makes of the pods."""

    switch: HotSwitch
    wait: Patience
    diff: PodDiff
    living: tuple[PodView, ...]
    """Those that say how the job fares."""
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over a living job, step by step; each step may end it."""

    s: AnySnapshot
    job: JobView[Any]

    @property
    def _says(self) -> Conclusions:
        return Conclusions(self.s, self.job)

    def plan(self) -> Plan:
        s, job = self.s, self.job
        switch = hot_switch(s.kind, job, s.pods)
        pods, doubles = one_per_slot(switch.pods)
        waiting = admission(
            gang=s.world.gang,
            served=s.world.groups_served,
            group=s.group,
            pods_alive=sum(not pod.deleting for pod in pods),
            queue=s.world.queue,
            queues_known=s.world.queues_known,
            unheeded_s=unheeded_s(s, job),
        )
        attempts, leaving = generation(s, job, switch)
        asked = Step("switch", switch.asked_to_go)
        group = Step("group", () if leaving else tuple(self._group()))
        diff = diff_pods(s.kind, job, pods).without(doubles)
        living = of_this_life(s, pods)
        facts = self._facts(living, diff, attempts)
        wait = patience(facts, attempts, s.now, s.world.retry_grace_s)
        verdict = decide_life(
            s.kind.rules, replace(facts, unanswered=True) if wait.left_s > 0 else facts
        )
        again_s = _soonest(self._due_in_s(), wait.left_s or None)
        if verdict is not None and verdict.final:
            # A table that names a pod that is gone is wrong for whoever still runs, too.
            table = table_wish(s.kind, job, s.pods)
            wrong = table if table is not None and table.only_over_completed else None
            return Plan(
                self._says.usual(living, verdict, diff.missing), table=wrong, destructive=True
            )
        if isinstance(waiting, Waiting):
            plan = self._wait(waiting, asked, group)
        else:
            before = (asked, attempt_step(s, job_resource(s), wait.attempts), group)
            plan = self._among_pods(_Sight(switch, wait, diff, living, verdict), before)
        if again_s is None:
            return plan
        return replace(plan, again_after_s=_soonest(plan.again_after_s, again_s))

    def _among_pods(self, sight: _Sight, first: Sequence[Step]) -> Plan:
        """What a job does that may make pods: nothing of it before the steps in `first`."""
        s, job, switch, diff = self.s, self.job, sight.switch, sight.diff
        asking = question(s, job) if diff.missing else None
        if asking is not None and (s.world.answer is None or s.world.answer.to != asking):
            return Plan(nothing, question=asking)
        held = why_held(s, job) if asking is not None else ""
        services, ready = self._services()
        trouble = self._portless() if diff.missing else ""
        # The PodGroup comes after the count: how many pods it asks for is how many the job has had.
        # So do the marks of a switch: that a pod is gone can be seen by nothing else.
        before = with_writes(*first, Step("switch", (*switch.marks, *switch.unwanted)))
        destroys = any(not isinstance(w, Apply) for step in before for w in step.writes)
        if trouble:
            return Plan(self._says.stuck("services", trouble), before, destructive=destroys)
        if not ready:
            steps = (*before, *with_writes(services))
            return Plan(self._says.unaddressed, steps, destructive=destroys, at_once=bool(steps))
        if diff.missing and (short := self._short(sight, before)):
            return short
        waits = sight.verdict is None and not diff.missing
        look_s = unplaced(s, sight.living)[1].again_after_s if waits else None
        look_s = _soonest(look_s, stalled_in_s(s, sight.living))
        site = self._site(sight.wait.attempts)
        changes = Step(
            "pods", tuple(self._pods(replace(diff, missing=()) if held else diff, site, switch))
        )
        notes = (waiting_note(s.kind, job, sight.wait),) if sight.wait.began else ()
        return Plan(
            self._says.holding(sight.living, sight.diff.missing, held)
            if held
            else self._says.usual(sight.living, sight.verdict, diff.missing, notes),
            (*before, *with_writes(services, changes, *self._backups(switch, site))),
            table=table_wish(s.kind, job, s.pods),
            destructive=bool(destroys or diff.surplus or diff.replaced),
            again_after_s=_soonest(LOOK_AGAIN_S if held else None, look_s),
            at_once=bool(switch.marks),
        )

    def _wait(self, waiting: Waiting, asked: Step, group: Step) -> Plan:
        s, found = self.s, words(self.s, waiting)
        # A job that has not begun has no table to withdraw; its directory is made all the same.
        # Nor are its pods late: there are none to be.
        table = None if s.status.get("startTime") else table_wish(s.kind, self.job, ())
        table = replace(table, lacks=None) if table else None
        return Plan(
            self._says.waiting(waiting, found),
            with_writes(asked, group),
            table,
            destructive=bool(asked.writes),
            again_after_s=_soonest(waiting.at_most_s, found.again_after_s),
        )

    def _short(self, sight: _Sight, before: tuple[Step, ...]) -> Plan | None:
        """What a gang does that a quota has no room for; None when all missing pods are made."""
        pods, least = sight.switch.pods, self._least()
        if gives_back(self.s, pods, least, sight.wait.attempts):
            given = tuple(Delete(PODS, p.name, p.uid, p.version) for p in pods if not p.deleting)
            steps = (*before, Step("clean", given))
            return Plan(self._says.giving_back(len(given), least), steps, destructive=True)
        rest_s = rests_s(self.s)
        if rest_s <= 0:
            return None
        return Plan(self._says.unaddressed, before, destructive=bool(before), again_after_s=rest_s)

    # What there should be.

    def _group(self) -> Iterable[Apply]:
        if not self.s.world.gang or not self.s.world.groups_served:
            return
        want = wanted_group(self.s, self.job)
        if self.s.group is None:
            yield Apply(POD_GROUPS, want)
        elif group_drift(self.s.group, want):
            # Over what we have seen only: one that arrives late must not undo a later one.
            settled = settle(self.s.group, want)
            seen = {"resourceVersion": self.s.group.version}
            yield Apply(POD_GROUPS, {**settled, "metadata": {**settled["metadata"], **seen}})

    def _least(self) -> int:
        """Pods without which none of them starts."""
        policy = self.job.run_policy.scheduling_policy
        asked = policy.min_available if policy else None
        return self.job.total if asked is None else asked

    def _services(self) -> tuple[Step, bool]:
        """Services to make, and whether pods can be made already."""
        found = {service.name: service for service in self.s.services}
        wanted = self.job.once("services", lambda: self.s.kind.services(self.job))
        missing = [w for w in wanted if w["metadata"]["name"] not in found]
        step = Step("services", tuple(Create(SERVICES, w, self._told()) for w in missing))
        if not self.s.kind.waits_for_addresses:
            return step, True
        return step, not missing and all(found[w["metadata"]["name"]].cluster_ip for w in wanted)

    def _told(self) -> Told | None:
        """Who knows the address of a Service that is gone; None when nobody is left who does."""
        kind = self.s.kind
        alive = [pod for pod in self.s.pods if not pod.deleting and pod.phase not in ENDED]
        if not kind.address_variables or not alive:
            return None
        # A leader may know itself by its own address, so the others are asked first.
        leaders = {role.name.lower() for role in kind.roles(self.job.labels) if role.leader}
        alive.sort(key=lambda pod: pod.role in leaders)
        return Told(tuple(pod.name for pod in alive), kind.container, kind.address_variables)

    def _portless(self) -> str:
        """What is wrong with a Service that somebody has changed, so that pods would not meet."""
        port = self.s.kind.port_name
        for service in self.s.services if self.s.kind.waits_for_addresses else ():
            name = f"{service.namespace}/{service.name}"
            if not service.cluster_ip:
                return f"Service {name} has no address of its own; delete it, and it is made again"
            if port not in {name for name, _ in service.ports}:
                return f"Service {name} has no port named {port}; delete it, and it is made again"
        return ""

    def _site(self, attempts: Attempts) -> Site:
        return Site(
            addresses={service.name: service.cluster_ip for service in self.s.services},
            clusterd=self.s.world.clusterd,
            gang=self.s.world.gang,
            attempt=attempts.current,
        )

    def _pods(self, diff: PodDiff, site: Site, switch: HotSwitch) -> Iterable[Create | Delete]:
        going = {write.uid for write in switch.asked_to_go}
        for pod in diff.surplus:
            if pod.uid not in going:
                yield Delete(PODS, pod.name, pod.uid)
        for pod in diff.replaced:
            if pod.uid not in going:
                yield Delete(PODS, pod.name, pod.uid, pod.version)
        # A name that is not free stops what comes after it, so the free ones come first.
        for slot in sorted(diff.missing, key=lambda slot: slot.name in self.s.held):
            yield Create(PODS, build_pod(self.s.kind, self.job, slot, site))

    def _backups(self, switch: HotSwitch, site: Site) -> Iterable[Step]:
        """A source is told the name of its backup when that is there, and never before."""
        for wanted in switch.wanted:
            slot = replace(wanted.slot, name=wanted.name)
            pod = build_backup(self.s.kind, self.job, slot, site, wanted.source.name)
            yield Step("backup", (Create(PODS, pod),))
            yield Step("switch", (name_backup(wanted.source, wanted.name),))

    # What it means.

    def _facts(self, pods: Sequence[PodView], diff: PodDiff, attempts: Attempts) -> Facts:
        s, job = self.s, self.job
        # What ends a restart is a pod that stays, not one that is on its way out.
        restarting = any(c.type == "Restarting" and c.status == "True" for c in s.conditions)
        counted = [pod for pod in pods if not pod.deleting] if restarting else pods
        return Facts(
            kind=s.kind.kind,
            namespace=job.namespace,
            job=job.name,
            counts=count_pods(s.kind, job, counted),
            wanted={role: replica.count for role, replica in job.replicas.items()},
            policies={role: r.restart_policy or "" for role, r in job.replicas.items()},
            conditions=tuple(c.type for c in s.conditions if c.status == "True"),
            restarting=diff.roles_replaced(job.replicas),
            beyond_repair=roles_beyond_repair(s.kind, job, pods),
            attempt=attempts.current,
            attempt_limit=s.kind.attempt_limit(job),
            gang=s.world.gang,
            retries_left=s.world.retries_left,
            retry_wanted=(integer(job.labels.get(keys.FAULT_RETRY_TIMES, "")) or 0) > 0,
            overdue=(due := self._due_in_s()) is not None and due <= 0,
            elastic=s.kind.elastic(job),
        )

    def _due_in_s(self) -> float | None:
        """Seconds until the job has been active for as long as it may be."""
        limit = self.job.run_policy.active_deadline_seconds
        if limit is None or not (started := awake_status(self.s).get("startTime")):
            return None
        due = parse_time(str(started)) + timedelta(seconds=limit)
        return (due - self.s.now).total_seconds()


def _soonest(*times_s: float | None) -> float | None:
    return min((s for s in times_s if s is not None), default=None)
