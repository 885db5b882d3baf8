# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What happens to a job that has ended, and to one that is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ascendop.api.job import RunPolicy
from ascendop.api.kind import JobView, S
from ascendop.api.model import Object
from ascendop.apply.plan import (
    Concluder,
    Conclusion,
    Delete,
    Done,
    EventNote,
    Plan,
    Step,
    with_writes,
)
from ascendop.kube.resource import POD_GROUPS, PODS, SERVICES, Resource
from ascendop.reconciler.generation import attempt_step, stored_attempts
from ascendop.reconciler.hotswitch import pods_asked_to_go
from ascendop.reconciler.lives import is_waking, with_created
from ascendop.reconciler.notes import write_notes
from ascendop.reconciler.snapshot import Snapshot
from ascendop.reconciler.status import put_condition, with_conditions
from ascendop.times import parse_time


def finish(s: Snapshot[S]) -> Plan:
    """Pods by policy, then the TTL, then the PodGroup. Done twice it does nothing."""
    policy = s.job.run_policy if isinstance(s.job, JobView) else RunPolicy()
    steps = [Step("clean", tuple(_clean(s, policy))), Step("ungroup", tuple(_ungroup(s)))]
    expired_in = expires_in_s(s.status, policy, s.now)
    if expired_in is not None and expired_in <= 0:
        job = Delete(job_resource(s), s.row.name, s.row.uid)
        return Plan(
            conclude=_told(s), steps=(*with_writes(*steps), Step("job", (job,))), destructive=True
        )
    some = with_writes(*steps)
    return Plan(_told(s), some, destructive=bool(some), again_after_s=expired_in)


def suspend(s: Snapshot[S]) -> Plan:
    """No pods while suspended; the conditions say so once."""
    before = stored_attempts(s, s.pods)
    unmade = before.unmade() if s.status.get("startTime") else before
    pods = [Delete(PODS, pod.name, pod.uid) for pod in s.pods if not pod.deleting]
    services = [Delete(SERVICES, found.name, found.uid) for found in s.services]
    clean, ungroup = Step("clean", (*pods, *services)), Step("ungroup", tuple(_ungroup(s)))
    steps = with_writes(attempt_step(s, job_resource(s), unmade), clean, ungroup)

    def conclude(done: Done) -> Conclusion:
        kind, name = s.kind.kind, s.row.name
        reason, text = f"{kind}Suspended", f"{kind} {name} is suspended."
        after, over = with_created(s), {c.type for c in s.conditions if c.status == "True"}
        if "Running" in over:
            after = put_condition(after, "Running", reason, text, s.now, "False")
        if "Restarting" in over:
            after = put_condition(after, "Restarting", reason, text, s.now, "False")
        after = put_condition(after, "Suspended", reason, text, s.now)
        status = with_conditions({**s.status, **_no_active(s.status)}, after)
        note = EventNote("Normal", reason, text, "Suspend", outcome=True)
        said = () if is_waking(s) else (note,)
        return Conclusion(status, (*write_notes(s.kind, name, done), *said))

    return Plan(conclude, steps, destructive=bool(steps))


def job_resource(s: Snapshot[S]) -> Resource:
    return Resource(s.kind.group, s.kind.version, s.kind.plural, s.kind.kind)


def _clean(s: Snapshot[S], policy: RunPolicy) -> Iterator[Delete]:
    clean = policy.clean_pod_policy or _unsaid(s)
    asked = {write.uid: write for write in pods_asked_to_go(s.kind, s.pods)}
    yield from asked.values()
    staying = set()
    for pod in s.pods:
        if pod.deleting or pod.uid in asked:
            continue
        pending = pod.phase in {"Pending", ""}
        by_policy = clean == "All" or (clean == "Running" and (pending or pod.phase == "Running"))
        if by_policy or (pending and s.kind.cleans_pending):
            # A pod that has ended since then may have to stay, so its version is named, too.
            by_phase = clean != "All"
            version = pod.version if by_phase else ""
            yield Delete(PODS, pod.name, pod.uid, version, told=not pending)
        if not by_policy:
            staying.add(pod.name)
    # A Service goes with its pod, also with one that has gone before us.
    for service in s.services if clean in {"All", "Running"} else ():
        if service.name not in staying and not service.deleting:
            yield Delete(SERVICES, service.name, service.uid)


def _unsaid(s: Snapshot[S]) -> str:
    """The policy of a job that names none."""
    failed = any(c.type == "Failed" and c.status == "True" for c in s.conditions)
    return "Running" if failed and s.world.stop_survivors else s.kind.clean_pod_policy


def _ungroup(s: Snapshot[S]) -> Iterator[Delete]:
    if s.group is not None and not s.group.deleting:
        yield Delete(POD_GROUPS, s.group.name, s.group.uid)


def expires_in_s(status: Object, policy: RunPolicy, now: datetime) -> float | None:
    """Seconds until the TTL has run out; None when there is none, or the end has no time."""
    ended = status.get("completionTime") or _ended_at(status)
    if policy.ttl_seconds_after_finished is None or not ended:
        return None
    expires = parse_time(str(ended)) + timedelta(seconds=policy.ttl_seconds_after_finished)
    return (expires - now).total_seconds()


def _ended_at(status: Object) -> str:
    """When the last condition came: the original's budget ended jobs without a completionTime."""
    times = [
        str(c.get("lastTransitionTime") or "")
        for c in status.get("conditions") or ()
        if isinstance(c, dict)
        and c.get("type") in {"Succeeded", "Failed"}
        and c.get("status") == "True"
    ]
    return times[-1] if times else ""


def _told(s: Snapshot[S]) -> Concluder:
    def conclude(done: Done) -> Conclusion:
        status = s.status
        if any(c.type == "Succeeded" and c.status == "True" for c in s.conditions):
            status = {**status, **_active_succeeded(status)}
        return Conclusion(status, tuple(write_notes(s.kind, s.row.name, done)))

    return conclude


def _active_succeeded(status: Object) -> Object:
    """A job that succeeded has no active pods: what was still counted so has succeeded with it."""
    moved = {}
    for role, counts in (status.get("replicaStatuses") or {}).items():
        rest = {key: value for key, value in counts.items() if key != "active"}
        total = int(counts.get("active") or 0) + int(counts.get("succeeded") or 0)
        moved[role] = {**rest, "succeeded": total} if counts.get("active") else counts
    return {"replicaStatuses": moved} if moved else {}


def _no_active(status: Object) -> Object:
    found = status.get("replicaStatuses") or {}
    return {
        "replicaStatuses": {
            role: {key: value for key, value in counts.items() if key != "active"}
            for role, counts in found.items()
        }
    }
