# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""What must hold at every revision of the server and in every pass of an operator."""

import json
from collections import Counter
from pathlib import Path

from ascendop.builder import labels as keys
from ascendop.leader.gate import AlwaysLeads
from ascendop.reconciler.attempts import read_attempts
from hack.invariants import Gangs

from .wire import Wire, is_lease, is_write  # noqa: TID252  the standard library has that name, too

GROUPS = "podgroups.scheduling.volcano.sh"
JOBS = ("ascendjobs.mindxdl.gitee.com", "pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org")
LAUNCHERS = "jobs.batch"
STATES = ("Running", "Restarting", "Succeeded", "Failed")
ENDS = ("Succeeded", "Failed")
GANGS = ("pods", GROUPS, JOBS[0])
HALF_S = 300.0
"""For how long bad weather may keep the scheduler between two bindings of one gang."""
STALE_S = 120.0
"""For how long bad weather may keep from an operator that a gang is not let in any more."""
STRANGER = "stranger.example"
"""Prefix of labels and annotations that are not ours to touch."""


class Oracles:
    """Fails the run at the moment at which something goes wrong, not at its end."""

    def __init__(self, world):
        self._world = world
        self._made = Counter()
        """How often each (job uid, role, index, attempt) was made on time."""
        self._ranks = {}
        self._attempts = {}
        """The newest of each (job uid, role, index) of which a pod was made."""
        self._ended = {}
        self._shut_at = {}
        """When the gang of a job was last taken back or taken away, by the job's uid."""
        # Here the scheduler writes under the same name as we, so I4 is looked at on the wire.
        self._gangs = Gangs(manager="", settle_s=HALF_S)
        self.created = Counter()
        self.made = set()
        """All pods that ever were: who is told by `which_pod`."""
        """Pods made, by name."""

    # The wire.

    def heard(self, wire, request):
        """runtime:S-5 (e), runtime:L-10: only who holds the lease writes, the lease apart.

        scheduling:I4, scheduling:SCH-17: no PUT of a PodGroup, and no status of one.
        """
        if "/podgroups" in request.path and is_write(request):
            assert request.method != "PUT", f"{wire.who} replaces a PodGroup: {request}"
            assert b'"status"' not in (request.body or b""), f"{wire.who} writes its status"
        if is_lease(request) or not is_write(request) or self._gate(wire) is None:
            return
        # As of its sending: what is under way when the lease is lost may still arrive in its time.
        until_s, now = wire.led_until(request), self._world.loop.time()
        assert until_s is not None and now < until_s, (
            f"{wire.who} wrote without the lease: {request}"
        )
        others = [r for r in self._world.replicas if r.wire is not wire and r.leads]
        open_too = [r.name for r in others if r.operator.elector.gate.is_open]
        assert not open_too, f"{wire.who} and {open_too} both write: {request}"

    def led_until(self, wire):
        """Loop time until which nobody else takes the lease; None when it is not this replica's."""
        gate = self._gate(wire)
        return gate and gate.valid_until

    def _gate(self, wire):
        gate = getattr(self._replica(wire).operator.elector, "gate", None)
        return None if isinstance(gate, AlwaysLeads) else gate

    def _replica(self, wire):
        return next(r for r in self._world.replicas if r.wire is wire)

    # The server.

    def changed(self, table, change):
        """Of the gangs: scheduling:I1 to scheduling:I5."""
        if table in GANGS:
            self._of_gangs(change)
        self._strangers_keys(table, change)
        if table == "pods":
            self._pod(change)
        elif table == GROUPS:
            self._group(change)
        elif table in JOBS:
            self._job(change)

    def _of_gangs(self, change):
        found, type_ = change.new, "MODIFIED" if change.old else "ADDED"
        if found is None:
            found, type_ = change.old, "DELETED"
        self._gangs.saw(type_, found.obj, self._world.loop.time())
        assert not self._gangs.broken, self._gangs.broken

    def _strangers_keys(self, table, change):
        """I-8, fault-tolerance:C-04: nobody's keys are taken but by himself."""
        if change.old is None or change.new is None or self._world.writer is None:
            return
        planted = f"{STRANGER}/{change.new.obj['kind'].lower()}-"  # copies of a job's are ours
        for field in ("labels", "annotations"):
            before, after = (
                {k: v for k, v in (obj["metadata"].get(field) or {}).items() if planted in k}
                for obj in (change.old.obj, change.new.obj)
            )
            assert before == after, f"{table} {change.last.key}: {field} {before} became {after}"

    def _group(self, change):
        """One PodGroup for one job: a second one would ask for the devices again."""
        owner = change.last.obj["metadata"]["ownerReferences"][0]["uid"]
        if change.old is not None and _let_in(change.old.obj):
            if change.new is None or not _let_in(change.new.obj):
                self._shut_at[owner] = self._world.loop.time()
            return
        if change.old is not None or change.new is None:
            return
        twins = [
            group["metadata"]["name"]
            for group in self._world.objects(GROUPS)
            if group["metadata"]["ownerReferences"][0]["uid"] == owner
        ]
        assert len(twins) == 1, f"{twins} are of one job"

    def _pod(self, change):
        """I-1 to I-3 of fault-tolerance.md 3.7; runtime:S-5 (d)."""
        if change.old is not None or change.new is None:
            return
        pod = change.new.obj
        meta = pod["metadata"]
        labels = meta["labels"]
        owner = meta["ownerReferences"][0]
        slot = _slot_of(pod)
        self.made.add(which_pod(pod))
        if not isinstance(self._world.writer, Wire):
            return
        self.created[meta["name"]] += 1
        rank = meta.get("annotations", {}).get(keys.RANK_INDEX)
        assert self._ranks.setdefault(slot, rank) == rank, f"{meta['name']} has another rank"
        twin = [
            other["metadata"]["name"]
            for other in self._world.objects("pods")
            if other["metadata"]["uid"] != meta["uid"]
            and _slot_of(other) == slot
            and _may_not_be_beside(pod, other)
        ]
        assert not twin, f"{meta['name']} and {twin} have one slot"
        self._no_old_table(owner, meta["namespace"])
        self._let_in(owner, pod)
        if keys.ATTEMPT in labels:
            attempt = int(labels[keys.ATTEMPT])
            before = self._attempts.get(slot, 0)
            assert attempt >= before, f"{meta['name']} goes back from {before} to {attempt}"
            self._attempts[slot] = attempt
            self._attempt(slot, owner, attempt, meta)

    def _let_in(self, owner, pod):
        """fault-tolerance:C-12: the first pod of a gang comes when its PodGroup has been let in.

        Or was a while ago: the operator hears late that all pods are gone, and the place with them.
        Pods of an MPIJob come at once, as in the original; there the scheduler alone lets them in.
        """
        others = [
            other
            for other in self._world.objects("pods")
            if other["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
            and other["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        gang = pod["spec"].get("schedulerName") == "volcano"
        if others or not gang or owner["kind"] in {"MPIJob", "Job"}:
            return
        groups = [
            group
            for group in self._world.objects(GROUPS)
            if group["metadata"]["ownerReferences"][0]["uid"] == owner["uid"]
        ]
        shut_at = self._shut_at.get(owner["uid"])
        if shut_at is None or self._world.loop.time() - shut_at > STALE_S:
            name = pod["metadata"]["name"]
            assert any(map(_let_in, groups)), f"{name} came to {groups or 'no gang'}"

    def _no_old_table(self, owner, namespace):
        """A pod that starts must not read the table of the job that had the name before."""
        root = self._world.settings.rank_table_dir
        job = self._world.find(JOBS[0], owner["name"], namespace) if root else None
        if job is None or any(uid == owner["uid"] for uid, _, _ in self._attempts):
            return  # not the first pod: by now the table may be the job's own
        table = Path(root) / f"{namespace}.{owner['name']}" / "hccl.json"
        assert not table.exists() or "completed" not in table.read_text(), "a table of before"

    def _attempt(self, slot, owner, attempt, meta):
        """runtime:W-21: the count stands in the job before the pod that it counts is made."""
        job = self._world.find(JOBS[0], owner["name"], meta["namespace"])
        if job is None or job["metadata"]["uid"] != owner["uid"]:
            return  # it is being collected
        text = (job["metadata"].get("annotations") or {}).get(keys.ATTEMPT_ANNOTATION, "")
        recorded = read_attempts(text, ()).current
        assert attempt == recorded, f"{meta['name']} of attempt {attempt}, the job is at {recorded}"
        started = (job.get("status") or {}).get("startTime")
        if _backs_up({"metadata": meta}):
            return  # beside the pod of its slot, which is of this attempt, too
        self._made[slot, attempt] += bool(started)
        assert self._made[slot, attempt] <= 1, f"{meta['name']} twice in attempt {attempt}"

    def _job(self, change):
        """I-5; and ended stays ended."""
        if change.new is None:
            return
        job = change.new.obj
        status = job.get("status") or {}
        conditions = status.get("conditions") or []
        true = [c["type"] for c in conditions if c["status"] == "True" and c["type"] in STATES]
        assert len(true) <= 1, f"{job['metadata']['name']} is {true}"
        uid = job["metadata"]["uid"]
        if change.old is not None:
            self._counts_up(change.old.obj, job)
            if change.old.obj["metadata"]["generation"] != job["metadata"]["generation"]:
                # Pods that an edit takes away are not lost, and come back in the same attempt.
                self._made = Counter(
                    {made: n for made, n in self._made.items() if made[0][0] != uid}
                )
        before = self._ended.get(uid)
        if before is not None:
            assert (conditions, status.get("completionTime")) == before, (
                f"{job['metadata']['name']} had ended and changed: {before} {conditions}"
            )
        elif any(state in ENDS for state in true):
            self._ended[uid] = conditions, status.get("completionTime")

    def _counts_up(self, before, after):
        """I-7, fault-tolerance:D-01: attempts are counted one by one, and never back."""
        one, two = (
            read_attempts(
                (obj["metadata"].get("annotations") or {}).get(keys.ATTEMPT_ANNOTATION, ""), ()
            )
            for obj in (before, after)
        )
        assert two.current - one.current in {0, 1}, f"attempt {one.current} became {two.current}"

    # The operator.

    def born(self, replica):
        """Watch every pass of a new process: runtime:S-5 (b) and (c)."""
        controller = replica.operator._controller
        running, seen = set(), {}
        take, reconcile = controller._observer.snapshot, controller.reconcile

        async def alone(key):
            with self._world.hearing():
                assert key not in running, f"two passes over {key} at once"
            running.add(key)
            try:
                return await reconcile(key)
            finally:
                running.discard(key)

        def forward(key):
            found = take(key)
            for row in () if found is None else (found.row, *found.pods, *found.services):
                version = int(row.version)
                with self._world.hearing():
                    assert version >= seen.get(row.uid, 0), f"{row.name} was newer before"
                seen[row.uid] = version
            return found

        for informer in replica.operator.mirror.informers:
            informer._expire = _first(seen.clear, informer._expire)
        controller.reconcile = alone
        controller._observer.snapshot = forward

    # The end.

    def converged(self, replica):
        """runtime:S-5 (a): an operator mirrors what the server has; no own write is left."""
        for informer in replica.operator.mirror.informers:
            if not informer.synced.is_set():
                continue
            name = informer.resource.name
            there = {
                (row.key, row.uid, row.revision) for row in _rows(self._world.server, informer)
            }
            shards = [informer.store.shard_of(s.namespace or "") for s in informer.scopes]
            mine = {
                (key, row.uid, int(row.version))
                for shard in shards
                for key, row in shard.cached().items()
            }
            assert mine == there, f"{replica.name} has other {name}: {mine ^ there}"
            assert not sum(shard.written for shard in shards), f"own writes of {name} are left"
            for shard in shards:
                self._indexed(informer, shard)

    def ended(self):
        """I-6, I-12 and I-15 of fault-tolerance.md 3.7, and scheduling:I6: nothing moves now."""
        self._gangs.look(self._world.loop.time())
        self._gangs.rest("default")
        assert not self._gangs.broken, self._gangs.broken
        jobs = {job["metadata"]["uid"]: job for table in JOBS for job in self._world.objects(table)}
        owners = {job["metadata"]["uid"] for job in self._world.objects(LAUNCHERS)} | jobs.keys()
        for table in ("pods", "services", GROUPS, "configmaps", "secrets", LAUNCHERS):
            for obj in self._world.objects(table):
                for owner in obj["metadata"].get("ownerReferences") or ():
                    what = f"{table} {obj['metadata']['name']}"
                    assert owner["uid"] in owners, f"{what} has outlived its job"
                    if table == GROUPS:
                        assert not _has_ended(jobs[owner["uid"]]), f"{what} is of an ended job"
        for job in jobs.values():
            self._table_is_true(job)
            self._is_at_rest(job)

    def _is_at_rest(self, job):
        """I-6 and I-9: an end has its time and holds no place; a restart has come to an end."""
        status, name = job.get("status") or {}, job["metadata"]["name"]
        last = (status.get("conditions") or [{}])[-1]
        assert last.get("type") != "Restarting", f"{name} restarts for ever"
        if not _has_ended(job) or str(last.get("reason", "")).endswith("ValidFailed"):
            return
        assert status.get("completionTime"), f"{name} has ended at no time"
        waiting = [
            pod["metadata"]["name"]
            for pod in self._world.objects("pods")
            if (pod["metadata"].get("ownerReferences") or [{}])[0].get("uid")
            == job["metadata"]["uid"]
            and pod["status"].get("phase") == "Pending"
        ]
        assert job["kind"] != "AscendJob" or not waiting, f"{name} has ended, {waiting} wait"

    def _table_is_true(self, job):
        meta = job["metadata"]
        name = f"rings-config-{meta['name']}"
        found = self._world.find("configmaps", name, meta["namespace"]) or {}
        table = json.loads((found.get("data") or {}).get("hccl.json") or "{}")
        if table.get("status") != "completed":
            return
        said = {
            (server["container_ip"], device["device_ip"])
            for server in table["server_list"]
            for device in server["device"]
        }
        true = {
            (pod["status"]["podIP"], device["device_ip"])
            for pod in self._world.objects("pods")
            if pod["metadata"]["ownerReferences"][0]["uid"] == meta["uid"]
            for device in _devices(pod)
        }
        assert said == true, f"{name} says {said ^ true}"

    def _indexed(self, informer, shard):
        for name, values in shard.indexes().items():
            wanted = {}
            for key, row in shard.cached().items():
                for value in informer._indexes[name](row):
                    wanted.setdefault(value, set()).add(key)
            found = {value: set(keys_) for value, keys_ in values.items()}
            assert found == wanted, f"index {name} of {informer.resource.name}"

    def owes(self, replica):
        """Whether an operator has Events, or counts of them, that it has yet to tell."""
        known = replica.operator._recorder._series.values()
        return any(series.count > series.told for series in known)

    def tidy(self, replica):
        """runtime:S-5 (g): when no job is left, nothing is remembered of any."""
        operator = replica.operator
        left = {
            "queue": len(operator.queue),
            "running": len(operator.queue.running()),
            "failures": len(operator.queue._limiter._failures),
            "gate": len(operator._gate),
            "trusted": len(operator._gate._trusted),
            "parsed": len(operator._observer._parsed),
            "tables": len(operator._tables._kept),
            "events waiting": len(operator._recorder._waiting),
            "events": len(operator._recorder._series),
            "passing": sum(
                len(shard._passing)
                for informer in operator.mirror.informers
                for shard in informer._shards.values()
            ),
        }
        assert not any(left.values()), f"{replica.name} remembers {left}"


def _let_in(group):
    return (group.get("status") or {}).get("phase") not in {None, "", "Pending"}


def _has_ended(job):
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] in ENDS and c["status"] == "True" for c in conditions)


def _devices(pod):
    text = (pod["metadata"].get("annotations") or {}).get(keys.DEVICES_910)
    return json.loads(text)["devices"] if text else ()


def _slot_of(pod):
    labels, owners = pod["metadata"]["labels"], pod["metadata"].get("ownerReferences") or [{}]
    role = labels.get(keys.REPLICA_TYPE) or labels.get(keys.JOB_ROLE)
    return owners[0].get("uid"), role, labels.get(keys.REPLICA_INDEX)


def _backs_up(pod):
    """Name of the pod that this one is the backup of; empty for one that is none."""
    found = pod["metadata"].get("annotations") or {}
    return found.get(keys.BACKUP_SOURCE, "") if found.get(keys.POD_TYPE) == keys.BACKUP else ""


def _may_not_be_beside(made, other):
    """Hot switch: a backup and its source have one slot; of one source there are no two backups."""
    if _backs_up(made) == other["metadata"]["name"]:
        return False
    going = "deletionTimestamp" in other["metadata"]
    return not (_backs_up(made) and _backs_up(other) and going)


def which_pod(pod):
    """Whose, which, and of which attempt: no two that are alike are to be told from each other."""
    meta = pod["metadata"]
    owner = meta["ownerReferences"][0]["uid"]
    return owner, meta["name"], meta["labels"].get(keys.ATTEMPT, "")


def _first(forgive, expire):
    """runtime:W-3 (f): a write that no watch confirms in time no longer hides what was before."""

    def expired():
        forgive()
        expire()

    return expired


def _rows(server, informer):
    """What the server would list for an informer."""
    table = server.world.storage.tables.get(informer.resource.name)
    for scope in informer.scopes if table else ():
        for row in table.scan(scope.namespace):
            name = scope.fields.removeprefix("metadata.name=")
            if (not scope.fields or row.key[1] == name) and (
                not scope.labels or scope.labels in row.labels
            ):
                yield row
