# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A second pod for a sick one; ascendjob.md 7.6, fault-tolerance.md 2.7.6, D-20 and C-14."""

import asyncio
import json
from dataclasses import replace

import pytest

from ascendop.api.observed import PodView
from ascendop.apply.plan import Create, Delete, Failure, Patch
from ascendop.builder.names import MAX_NAME, backup_name
from ascendop.kube.resource import CONFIGMAPS, PODS
from ascendop.reconciler.decide import decide

from .. import make  # noqa: TID252  the standard library has a package called test
from ..cluster import (  # noqa: TID252  likewise
    admitted,
    after,
    changed,
    gone,
    is_quiet,
    marked,
    turned,
)
from ..town import NS  # noqa: TID252  likewise

CREATE = {"inHotSwitchFlow": "true", "needOperatorOpe": "create"}


def running(**options):
    """A job whose four pods run."""
    options = {"Master": 1, "Worker": 3} | options
    seen = make.snapshot(make.job(**options))
    return settled(admitted(seen, phase="Running"))


def settled(seen, *, times=6):
    """Until nothing is left to be done; every pod runs."""
    for _ in range(times):
        if is_quiet(seen, plan := decide(seen)):
            return seen
        seen = turned(after(seen, plan), "Running")
    pytest.fail(f"still {make.writes(decide(seen))}")


def asked(seen=None, name="j-worker-1"):
    """clusterd has asked for a backup of this pod."""
    return marked(seen or running(), name, **CREATE)


def switching(seen=None, name="j-worker-1"):
    """The backup runs; its name, too."""
    seen = settled(asked(seen, name))
    return seen, named(seen, name).annotation("backupNewPodName")


def named(seen, name):
    return next((pod for pod in seen.pods if pod.name == name), None)


def names(seen):
    return [pod.name for pod in seen.pods]


def version(seen):
    return json.loads(dict(seen.row.annotations).get("ascendop.io/attempt", "{}")).get("attempt", 0)


def without(plan, first):
    """The plan, as far as it came before the process died: its first few steps."""
    return replace(plan, steps=plan.steps[:first])


def deaths(seen):
    """What the cluster is when the process died after each of its writes, and after the status."""
    plan = decide(seen)
    for first in range(len(plan.steps) + 1):
        yield replace(after(seen, without(plan, first)), status=seen.status)


class TestABackupIsAskedFor:
    def test_f8_it_is_made_beside_its_source_which_then_learns_its_name(self):
        """ascendjob:F8, ascendjob:W-11, fault-tolerance:C-14"""
        seen = asked()
        plan = decide(seen)
        assert [step.name for step in plan.steps] == ["backup", "switch"]
        (made,) = make.writes(plan, Create)
        labels, annotations = (made.object["metadata"][key] for key in ("labels", "annotations"))
        assert made.name == backup_name("j-worker-1", named(seen, "j-worker-1").uid, ())
        assert labels["training.kubeflow.org/replica-index"] == labels["replica-index"] == "1"
        assert labels["version"] == "0"
        assert annotations == {
            "hccl/rankIndex": "2",
            "scheduling.k8s.io/group-name": "j-U",
            "volcano.sh/task-spec": "worker",
            "inHotSwitchFlow": "true",
            "podType": "backup",
            "backupSourcePodName": "j-worker-1",
        }
        assert make.env_of(made.object)["RANK"] == "2"
        (told,) = make.writes(plan, Patch)
        assert (told.resource, told.name) == (PODS, "j-worker-1")
        assert (told.uid, told.version) == (named(seen, "j-worker-1").uid, "1")
        wanted = {"needOperatorOpe": None, "backupNewPodName": made.name}
        assert told.body["metadata"]["annotations"] == wanted

    def test_f8_no_counter_and_no_slot_changes(self):
        """ascendjob:F8, field-reports:FR-110"""
        before = running()
        seen, backup = switching(before)
        assert seen.status["replicaStatuses"] == before.status["replicaStatuses"]
        assert seen.status["conditions"] == before.status["conditions"]
        assert version(seen) == 0
        assert backup in names(seen)
        assert is_quiet(seen, decide(seen))

    def test_a_sibling_that_is_made_in_the_same_pass_is_no_backup(self):
        """ascendjob:W-11"""
        made = make.created(decide(gone(asked(), "j-worker-0")))
        assert "podType" not in made["j-worker-0"]["metadata"]["annotations"]
        assert len(made) == 2

    def test_wherever_the_process_dies_there_is_one_backup(self):
        """fault-tolerance:D-20 field-reports:FR-110: where the original makes a second one."""
        wanted, backup = switching()
        for seen in deaths(asked()):
            assert names(settled(seen)) == names(wanted)
            assert named(settled(seen), "j-worker-1").annotation("backupNewPodName") == backup

    def test_a_backup_that_the_original_made_and_told_nobody_of_is_taken(self):
        """fault-tolerance:D-20: whatever its name."""
        seen = asked()
        theirs = make.pod(
            "worker", 1, name="j-worker-1-hot-9999", uid="b",
            annotations=(("podType", "backup"), ("backupSourcePodName", "j-worker-1")),
        )  # fmt: skip
        seen = settled(replace(seen, pods=(*seen.pods, theirs)))
        assert named(seen, "j-worker-1").annotation("backupNewPodName") == "j-worker-1-hot-9999"
        assert len(seen.pods) == 5

    def test_a_name_that_is_taken_by_a_backup_that_still_goes_is_passed_over(self):
        seen, backup = switching()
        pods = [changed(p, deleting=True) if p.name == backup else p for p in seen.pods]
        seen = asked(replace(seen, pods=tuple(pods)))
        (made,) = make.writes(decide(seen), Create)
        assert made.name not in {backup, "j-worker-1"}

    def test_of_a_pod_that_goes_already_no_backup_is_made(self):
        seen = asked()
        pods = [changed(p, deleting=True) if p.name == "j-worker-1" else p for p in seen.pods]
        assert not make.created(decide(replace(seen, pods=tuple(pods))))

    def test_one_that_cannot_be_made_takes_nothing_from_the_job(self):
        seen = asked()
        plan = decide(seen)
        (made,) = make.writes(plan, Create)
        found = make.concluded(plan, Failure("backup", made, "exceeded quota", retry_s=30.0))
        assert make.conditions(found)[-1] == ("Running", "True", "JobRunning")
        assert [event.reason for event in found.events if event.type == "Warning"] == [
            "FailedCreatePod"
        ]

    def test_a_source_that_cannot_be_told_is_said_to_be_the_trouble(self):
        plan = decide(asked())
        (told,) = make.writes(plan, Patch)
        found = make.concluded(plan, Failure("switch", told, "denied by a webhook"))
        (event,) = (event for event in found.events if event.type == "Warning")
        assert event.reason == "FailedUpdatePod"
        assert event.note == "Error updating pod j-worker-1: denied by a webhook"

    def test_other_kinds_know_nothing_of_it(self):
        seen = make.snapshot(make.torch_job())
        for _ in range(4):
            seen = turned(after(seen, decide(seen)), "Running")
        assert not make.writes(decide(marked(seen, "j-worker-0", **CREATE)))


class TestTheSourceGoes:
    def test_f9_the_backup_loses_its_marks_and_is_the_pod_of_the_slot(self):
        """ascendjob:F9"""
        seen, backup = switching()
        seen = gone(seen, "j-worker-1")
        plan = decide(seen)
        (told,) = make.writes(plan, Patch, step="switch")
        assert (told.name, told.uid) == (backup, named(seen, backup).uid)
        wanted = {"podType": None, "backupSourcePodName": None}
        assert told.body["metadata"]["annotations"] == wanted
        assert not make.created(plan)
        seen = settled(seen)
        assert names(seen) == ["j-master-0", "j-worker-0", backup, "j-worker-2"]
        assert seen.status["replicaStatuses"]["Worker"] == {"active": 3}

    def test_it_counts_once_wherever_the_process_dies(self):
        """ascendjob.md 7.6 and 4.1.2: the version counter grows when either pod is deleted."""
        seen, backup = switching()
        for found in deaths(gone(seen, "j-worker-1")):
            end = settled(found)
            assert version(end) == 1
            assert named(end, backup).attempt == 0
            assert not named(end, backup).annotation("podType")

    def test_a_loss_of_a_pod_of_before_is_of_the_same_generation(self):
        """The original, too, counts only pods that have the newest version."""
        seen, backup = switching()
        seen = settled(gone(seen, "j-worker-1"))
        seen = settled(gone(seen, backup, "j-worker-0"))
        assert version(seen) == 1
        assert names(seen) == ["j-master-0", "j-worker-0", "j-worker-1", "j-worker-2"]
        assert [pod.attempt for pod in seen.pods] == [0, 1, 1, 0]
        assert version(settled(gone(seen, "j-worker-1"))) == 2

    def test_a_backup_of_the_newest_generation_stays_its_member(self):
        """Although the pod whose place it took was of an older one."""
        seen = settled(gone(running(), "j-worker-0"))
        assert (version(seen), named(seen, "j-worker-1").attempt) == (1, 0)
        for found in deaths(asked(seen)):
            end = settled(found)
            backup = named(end, "j-worker-1").annotation("backupNewPodName")
            for switched in deaths(gone(end, "j-worker-1")):
                one = settled(switched)
                assert version(one) == 1, "the pod that went was of generation 0"
                assert version(settled(gone(one, backup))) == 2

    def test_a_pod_that_took_a_slot_over_can_be_switched_and_names_do_not_grow(self):
        seen, backup = switching()
        seen = marked(settled(gone(seen, "j-worker-1")), backup, inHotSwitchFlow=None)
        seen, second = switching(seen, backup)
        assert second.startswith("j-worker-1-hot-") and len(second) == len(backup)
        seen = settled(gone(seen, backup))
        assert names(seen) == ["j-master-0", "j-worker-0", second, "j-worker-2"]

    def test_a_surplus_pod_is_found_by_its_labels(self):
        seen, backup = switching(name="j-worker-2")
        seen = settled(gone(seen, "j-worker-2"))
        obj = make.job(Master=1, Worker=2)
        fewer = make.row(obj, annotations=seen.row.annotations, generation=2)
        seen = replace(seen, row=fewer, job=make.parsed(seen.kind, fewer))
        assert make.deleted(decide(seen)) == [backup]

    def test_a_source_that_still_goes_holds_its_slot(self):
        seen, _ = switching()
        pods = [changed(p, deleting=True) if p.name == "j-worker-1" else p for p in seen.pods]
        assert not make.writes(decide(replace(seen, pods=tuple(pods))))

    def test_when_both_go_the_slot_gets_the_pod_that_it_always_had(self):
        seen, backup = switching()
        seen = settled(gone(seen, backup, "j-worker-1"))
        assert names(seen) == ["j-master-0", "j-worker-0", "j-worker-1", "j-worker-2"]
        assert version(seen) == 1

    def test_an_operator_that_takes_over_counts_it_under_its_slot(self):
        seen, backup = switching()
        seen = settled(gone(seen, "j-worker-1"))
        pods = [changed(p, attempt=4) if p.name == backup else p for p in seen.pods]
        forgotten = make.row(make.job(Master=1, Worker=3))
        seen = settled(gone(replace(seen, row=forgotten, pods=tuple(pods)), "j-worker-0"))
        assert (version(seen), named(seen, "j-worker-0").attempt) == (4, 4)
        assert version(settled(gone(seen, backup))) == 5


class TestTheBackupGoes:
    def test_f10_the_source_loses_its_marks(self):
        """ascendjob:F10"""
        seen, backup = switching()
        seen = gone(seen, backup)
        (told,) = make.writes(decide(seen), Patch, step="switch")
        assert told.name == "j-worker-1"
        wanted = {"inHotSwitchFlow": None, "backupNewPodName": None}
        assert told.body["metadata"]["annotations"] == wanted
        assert names(settled(seen)) == names(running())

    def test_it_counts_once_wherever_the_process_dies(self):
        """ascendjob.md 7.6 and 4.1.2"""
        seen, backup = switching()
        for found in deaths(gone(seen, backup)):
            assert version(settled(found)) == 1

    def test_it_is_deleted_at_once_when_clusterd_asks(self):
        """ascendjob.md 4.1.3"""
        seen, backup = switching()
        seen = marked(seen, backup, needOperatorOpe="delete")
        plan = decide(seen)
        (write,) = make.writes(plan)
        assert write == Delete(PODS, backup, named(seen, backup).uid, "1", grace_s=0)
        assert plan.destructive

    def test_it_is_deleted_when_clusterd_has_only_freed_the_source_yet(self):
        """Nobody else would: its source is alive and does not know it."""
        seen, backup = switching()
        free = dict.fromkeys(("inHotSwitchFlow", "backupNewPodName", "needOperatorOpe"))
        assert make.deleted(decide(marked(seen, "j-worker-1", **free))) == [backup]

    def test_it_goes_with_a_slot_that_the_job_should_not_have_any_more(self):
        seen, backup = switching(name="j-worker-2")
        obj = make.job(Master=1, Worker=2)
        fewer = make.row(obj, annotations=seen.row.annotations, generation=2)
        seen = replace(seen, row=fewer, job=make.parsed(seen.kind, fewer))
        assert sorted(make.deleted(decide(seen))) == ["j-worker-2", backup]

    def test_a_failed_switch_may_be_followed_by_another(self):
        seen, backup = switching()
        seen, second = switching(settled(gone(seen, backup)))
        assert second in names(seen)


class TestAskedToGo:
    @pytest.mark.parametrize("deleting", [False, True])
    def test_any_pod_of_ours_is_deleted_without_grace_even_one_that_goes_slowly(self, deleting):
        seen = marked(running(), "j-worker-1", needOperatorOpe="delete")
        pods = [changed(p, deleting=deleting) if p.index == 1 else p for p in seen.pods]
        (write,) = make.writes(decide(replace(seen, pods=tuple(pods))), Delete)
        assert (write.name, write.grace_s, write.told) == ("j-worker-1", 0, not deleting)

    def test_also_while_the_gang_waits(self):
        seen, backup = switching()
        seen = replace(seen, pods=tuple(p for p in seen.pods if p.name == backup))
        seen = admitted(marked(seen, backup, needOperatorOpe="delete"), phase="Pending")
        assert make.deleted(decide(seen)) == [backup]

    def test_also_when_the_job_has_ended(self):
        seen, backup = switching()
        seen = after(turned(seen, "Failed", "j-worker-0"), decide(turned(seen, "Failed")))
        assert seen.finished
        seen = marked(seen, backup, needOperatorOpe="delete")
        assert backup in make.deleted(decide(seen))

    def test_what_clusterd_asks_of_volcano_is_none_of_our_business(self):
        """ascendjob.md 4.1.3"""
        seen, _ = switching()
        seen = marked(seen, "j-worker-1", needVolcanoOpe="delete")
        assert not make.writes(decide(seen))


class TestNames:
    def test_a_backup_s_name_depends_on_the_uid_of_its_source_alone(self):
        """fault-tolerance:D-20"""
        one, two = (backup_name("j-worker-1", uid, ()) for uid in ("a", "b"))
        assert one == backup_name("j-worker-1", "a", ()) != two

    def test_a_taken_one_is_counted_on_from_beyond_the_last_number_too(self):
        first = backup_name("p", "a", ())
        taken = {f"p-hot-{n:04}" for n in range(10_000)} - {"p-hot-0007"}
        assert first in taken | {"p-hot-0007"}
        assert backup_name("p", "a", taken) == "p-hot-0007"

    def test_it_fits_a_host_name(self):
        name = backup_name("p" * MAX_NAME, "a", ())
        assert len(name) == MAX_NAME and name[-9:-4] == "-hot-"


def test_every_mark_that_is_looked_at_is_cached():
    """A key that the cache leaves on the wire would never be seen."""
    seen, backup = switching()
    assert {"backupNewPodName", "inHotSwitchFlow"} <= dict(
        named(seen, "j-worker-1").annotations
    ).keys()
    assert {"podType", "backupSourcePodName"} <= dict(named(seen, backup).annotations).keys()
    assert isinstance(named(seen, backup), PodView)


# ── with a server ──


async def annotate(town, name, **annotations):
    body = {"metadata": {"annotations": annotations}}
    await town.hands.patch(PODS, NS, name, body)


async def annotations_of(town, name):
    return (await town.pods())[name]["metadata"].get("annotations", {})


@pytest.fixture
async def two_workers(town):
    """A job whose three pods run, and its operator."""
    operator = town.operator()
    async with town.running(operator):
        await town.create(Master=1, Worker=2)
        await town.until_pods(3)
        await town.turn("Running")
        await town.until_job("Running")
        yield town


async def backup_of(town, name):
    """Ask for a backup and wait for the answer."""
    await annotate(town, name, **CREATE)

    async def answered():
        return "backupNewPodName" in await annotations_of(town, name)

    await town.until(answered)
    found = await annotations_of(town, name)
    assert "needOperatorOpe" not in found
    return found["backupNewPodName"]


async def test_f8_f9_a_switch_from_its_beginning_to_its_end(two_workers):
    """ascendjob:F8, ascendjob:F9, fault-tolerance:C-14"""
    town = two_workers
    backup = await backup_of(town, "j-worker-1")
    assert set(await town.pods()) == {"j-master-0", "j-worker-0", "j-worker-1", backup}
    await town.turn("Running")
    await town.lose("j-worker-1")

    async def took_over():
        return "podType" not in await annotations_of(town, backup)

    await town.until(took_over)
    found = await annotations_of(town, backup)
    assert "backupSourcePodName" not in found
    assert (found["inHotSwitchFlow"], found["hccl/rankIndex"]) == ("true", "2")
    await asyncio.sleep(5)
    assert set(await town.pods()) == {"j-master-0", "j-worker-0", backup}
    counts = (await town.job())["status"]["replicaStatuses"]
    assert counts == {"Master": {"active": 1}, "Worker": {"active": 2}}


async def test_f10_a_switch_that_fails(two_workers):
    """ascendjob:F10: clusterd gives up, and has the backup deleted."""
    town = two_workers
    backup = await backup_of(town, "j-worker-1")
    await annotate(town, backup, needOperatorOpe="delete")
    await town.until_pods(3)

    async def freed():
        return (
            not {"inHotSwitchFlow", "backupNewPodName"}
            & (await annotations_of(town, "j-worker-1")).keys()
        )

    await town.until(freed)


@pytest.mark.parametrize("owned", [False, True])
async def test_a_pod_of_somebody_else_is_not_deleted_for_the_asking(two_workers, owned):
    """ascendjob:W-3: the original deletes any pod of the cluster, with its own rights."""
    town, asking = two_workers, {"needOperatorOpe": "delete"}
    meta = {"name": "somebody", "namespace": NS}
    somebody = await town.hands.create(
        CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
    )
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "somebody",
        "uid": somebody["metadata"]["uid"],
        "controller": True,
    }
    mine = await town.pods()
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "theirs",
            "namespace": NS,
            "labels": mine["j-worker-1"]["metadata"]["labels"],
            "annotations": asking,
            "ownerReferences": [owner] if owned else [],
        },
        "spec": {"containers": [{"name": "ascend", "image": "train:1"}]},
    }
    await town.hands.create(PODS, pod)
    await annotate(town, "j-worker-0", **asking)

    async def ours_is_another():
        found = (await town.pods()).get("j-worker-0")
        return found and found["metadata"]["uid"] != mine["j-worker-0"]["metadata"]["uid"]

    await town.until(ours_is_another)
    await asyncio.sleep(30)
    assert "theirs" in await town.pods()
