# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Which changes wake a job at once, in a moment, or not at all."""

from random import Random  # noqa: TID251  seeded

import msgspec
import pytest

from ascendop.api.observed import GroupView, JobRow, LauncherView, PodView, QueueView
from ascendop.app.mirror import DELETED, LOST_POD, Listeners, Mirror, haste_of, says_the_same
from ascendop.builder.labels import DEVICES_910
from ascendop.informer.change import Change
from ascendop.informer.handlers import LOW
from ascendop.kinds import load_kinds
from ascendop.kube.resource import Key
from ascendop.reconciler.pace import Haste
from ascendop.settings import Settings
from ascendop.telemetry.metrics import Metrics

POD = PodView(namespace="ml", name="job-worker-0", uid="1", version="10", phase="Pending")
GROUP = GroupView(namespace="ml", name="job", uid="2", version="10", phase="Pending")


def changed(row, **fields):
    return msgspec.structs.replace(row, **{"version": "11", **fields})


def test_a_write_of_what_we_do_not_read_says_the_same():
    assert says_the_same(POD, changed(POD))


@pytest.mark.parametrize("fields", [{"phase": "Running"}, {"ip": "10.0.0.1"}, {"deleting": True}])
def test_a_write_of_what_we_read_says_something_new(fields):
    assert not says_the_same(POD, changed(POD, **fields))


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(None, POD, Haste.CALM, id="a pod that we have made is no news"),
        pytest.param(
            POD, changed(POD, phase="Running"), Haste.CALM, id="pods of a gang start together"
        ),
        pytest.param(
            POD, changed(POD, phase="Failed"), Haste.NOW, id="a failed pod is replaced now"
        ),
        pytest.param(POD, changed(POD, deleting=True), Haste.NOW, id="so is one that is going"),
        pytest.param(
            GROUP, changed(GROUP, trouble="full"), Haste.ECHO, id="why a gang waits can wait"
        ),
        pytest.param(GROUP, changed(GROUP, phase="Inqueue"), Haste.NOW, id="a gang that is let in"),
        pytest.param(
            changed(GROUP, phase="Inqueue"),
            changed(GROUP, phase="Running"),
            Haste.ECHO,
            id="that its pods run is known from the pods",
        ),
    ],
)
def test_only_what_somebody_waits_for_is_urgent(old, new, want):
    """scheduling:SCH-25"""
    assert haste_of(old, new) is want


# ── which job, and how urgently ──


class Woken:
    """A mirror that is told of changes by hand, and what it wakes."""

    def __init__(self, **settings):
        self.keys = []
        self.haste = []
        self.new = []
        self.gone = []
        self.mirror = Mirror(
            None,
            Settings(**settings),
            load_kinds(),
            rng=Random(1),
            metrics=Metrics(),
            listeners=Listeners(
                self.wake, self.new.append, lambda key, row: self.gone.append((key, row.uid))
            ),
        )

    def wake(self, key, *, priority, haste):
        self.keys.append((key, priority))
        self.haste.append(haste)

    def pod(self, old, new, **flags):
        self.mirror.pods._tell(Change(old, new, **flags))
        return self.keys

    def job(self, old, new, **flags):
        self.mirror.jobs["AscendJob"]._tell(Change(old, new, **flags))
        return self.keys


@pytest.fixture
async def woken():
    return Woken()


def owned(name="job", uid="j1", *, kind="AscendJob", **fields):
    return changed(POD, owner_kind=kind, owner_name=name, owner_uid=uid, **fields)


JOB = JobRow(namespace="ml", name="job", uid="j1", version="5", generation=1)


def key(name="job", kind="AscendJob"):
    return Key(kind, "ml", name)


async def test_a_pod_wakes_the_job_of_its_controller_whether_that_is_known_or_not(woken):
    """runtime:I-44 runtime:W-16: the cache holds no job at all."""
    assert woken.pod(None, owned()) == [(key(), 0)]


async def test_a_write_of_ours_that_comes_back_wakes_its_job_without_haste(woken):
    """runtime:W-2: whoever wrote it has read the answer; a pass has still to look at the whole."""
    woken.pod(None, owned(), ours=True)
    woken.job(JOB, msgspec.structs.replace(JOB, version="6", status=b"{}"), ours=True)
    woken.pod(owned(), owned(phase="Running"))
    assert woken.haste == [Haste.ECHO, Haste.ECHO, Haste.CALM]


async def test_devices_wake_a_job_that_rests_at_once(woken):
    """Of all pods the last one completes the rank table, and ranks wait for that."""
    given = owned(annotations=((DEVICES_910, '{"devices":[]}'),))
    woken.pod(None, owned())
    woken.pod(owned(), given)
    woken.pod(given, changed(given, phase="Running"))
    assert woken.haste == [Haste.CALM, Haste.LIKELY, Haste.CALM]


async def test_a_gang_that_is_let_in_wakes_its_job_at_once_and_later_without_haste(woken):
    """scheduling:SCH-1: pods are made as soon as they may be; later the pods tell more."""
    owner = {"owner_kind": "AscendJob", "owner_name": "job", "owner_uid": "j1"}
    pending = changed(GROUP, **owner)
    let_in = changed(GROUP, phase="Inqueue", **owner)
    runs = changed(GROUP, phase="Running", **owner)
    woken.mirror.groups._tell(Change(pending, let_in))
    woken.mirror.groups._tell(Change(let_in, runs))
    assert woken.keys == [(key(), 0), (key(), 0)]
    assert woken.haste == [Haste.NOW, Haste.ECHO]


async def test_a_pod_of_somebody_elses_wakes_nobody(woken):
    """runtime:I-44"""
    assert woken.pod(None, POD) == [] == woken.pod(None, owned(kind="ReplicaSet"))


async def test_a_pod_that_changes_hands_wakes_both_jobs(woken):
    """runtime:I-43"""
    assert woken.pod(owned("one"), owned("two", "j2", version="12")) == [
        (key("two"), 0),
        (key("one"), 0),
    ]


async def test_a_pod_that_stays_with_its_job_wakes_it_once(woken):
    """runtime:I-43"""
    assert woken.pod(owned(), owned(version="12", phase="Running")) == [(key(), 0)]


async def test_a_write_of_what_nobody_reads_wakes_nobody(woken):
    assert woken.pod(owned(), owned(version="12")) == []


async def test_a_job_that_lost_a_pod_comes_before_others(woken):
    """runtime:Q-13"""
    assert woken.pod(owned(), None) == [(key(), LOST_POD)] and woken.haste == [Haste.NOW]


async def test_what_nothing_may_have_happened_to_comes_last(woken):
    """runtime:Q-13"""
    woken.pod(None, owned(), initial=True)
    woken.pod(owned(), owned(), unchanged=True)
    woken.job(None, JOB, initial=True)
    assert {priority for _, priority in woken.keys} == {LOW} and len(woken.keys) == 3
    assert woken.haste == [Haste.NOW] * 3 and woken.new == []


async def test_a_job_that_is_deleted_comes_first_and_its_end_is_told(woken):
    """runtime:Q-13"""
    assert woken.job(JOB, None) == [(key(), DELETED)]
    assert woken.gone == [(key(), "j1")]


async def test_a_job_that_is_made_while_we_watch_is_known_to_be_new(woken):
    assert woken.job(None, JOB) == [(key(), 0)] and woken.new == [key()]


@pytest.mark.parametrize(
    ("fields", "haste"),
    [
        pytest.param({"status": b"{}"}, Haste.CALM, id="our own status comes back"),
        pytest.param({"generation": 2}, Haste.NOW, id="the spec was edited"),
        pytest.param(
            {"labels": (("framework", "pytorch"),)}, Haste.NOW, id="labels say how it runs"
        ),
        pytest.param({"annotations": (("sp-block", "16"),)}, Haste.NOW, id="annotations do, too"),
        pytest.param({"deleting": True}, Haste.NOW, id="its deletion has begun"),
    ],
)
async def test_an_edit_of_a_job_is_urgent_and_our_own_writes_are_not(woken, fields, haste):
    """runtime:W-20: never the generation alone."""
    woken.job(JOB, changed(JOB, version="6", **fields))
    assert woken.haste == [haste]


# ── launchers that have ended ──


LAUNCHER = LauncherView(
    namespace="ml",
    name="job-launcher",
    uid="4",
    version="10",
    end="Complete",
    owner_kind="MPIJob",
    owner_name="job",
    owner_uid="j1",
)


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        pytest.param({}, True, id="its job wants to know how it ended"),
        pytest.param({"end": ""}, False, id="it had not ended"),
        pytest.param({"owner_uid": "j0"}, False, id="its job is one of the past"),
        pytest.param({"owner_name": "other"}, False, id="its job has gone before it"),
        pytest.param({"owner_kind": "CronJob"}, False, id="somebody else has made it"),
        pytest.param({"owner_kind": "AscendJob"}, False, id="the kind has no launcher"),
        pytest.param({"owner_kind": "", "owner_uid": ""}, False, id="nobody owns it"),
    ],
)
async def test_the_end_of_a_launcher_that_goes_is_kept_for_its_job_alone(woken, fields, kept):
    """A cluster makes Jobs for years: what is kept of others would never be dropped."""
    woken.mirror.jobs["MPIJob"].store.shard_of("").upsert(JOB)
    woken.mirror.beside.launchers._tell(Change(changed(LAUNCHER, **fields), None))
    assert (list(woken.mirror.beside.ended) == ["j1"]) is kept


# ── queues ──


QUEUE = QueueView(namespace="", name="q", uid="3", version="10", state="Open")


def in_queue(phase="Pending", queue="q", name="job"):
    spec = f'{{"queue":"{queue}"}}'.encode()
    return changed(
        GROUP,
        name=f"{name}-1",
        phase=phase,
        spec=spec,
        owner_kind="AscendJob",
        owner_name=name,
        owner_uid="j1",
    )


@pytest.fixture
def queued(woken):
    """Two jobs wait in q, one runs, and one waits elsewhere."""
    groups = woken.mirror.groups.store.shard_of("")
    waiting = (in_queue(name="a"), in_queue("", name="b"))
    others = (in_queue("Running", name="c"), in_queue(queue="other", name="d"))
    for version, found in enumerate((*waiting, *others), 100):
        groups.upsert(changed(found, version=str(version)))
    return woken


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(QUEUE, changed(QUEUE, state="Closed"), id="closed"),
        pytest.param(changed(QUEUE, state="Closed"), QUEUE, id="opened"),
        pytest.param(QUEUE, None, id="deleted"),
        pytest.param(None, QUEUE, id="made"),
    ],
)
async def test_a_queue_wakes_the_jobs_that_wait_in_it(queued, old, new):
    """scheduling:SCH-12: who waits says so without delay."""
    queued.mirror.queues._tell(Change(old, new))
    assert sorted(key.name for key, _ in queued.keys) == ["a", "b"]


async def test_what_a_queue_holds_wakes_nobody(queued):
    """It changes with every pod."""
    queued.mirror.queues._tell(Change(QUEUE, changed(QUEUE, allocated=(("cpu", "1"),))))
    queued.mirror.queues._tell(Change(None, QUEUE, initial=True))
    assert queued.keys == []


# ── what is asked for ──


@pytest.mark.parametrize("gangs", [True, False])
async def test_nodes_are_asked_for_by_who_makes_gangs(gangs):
    mirror = Woken(enable_gang_scheduling=gangs).mirror
    assert ("nodes" in {i.resource.plural for i in mirror.informers}) is gangs
    assert (mirror.nodes in mirror.rest) is gangs
    assert mirror.stores(lambda _: True).room() is None  # not listed yet


async def test_only_children_of_jobs_are_asked_for_and_the_selector_is_the_servers(woken):
    """ascendjob:W-38 runtime:I-36 field-reports:FR-077"""
    children = (woken.mirror.pods, woken.mirror.services)
    assert {scope.labels for informer in children for scope in informer.scopes} == {
        "training.kubeflow.org/job-name"
    }


async def test_a_namespaced_operator_asks_for_nothing_elsewhere_but_clusterd_and_the_retries():
    """runtime:I-45"""
    mirror = Woken(namespaces=("ml", "team-a")).mirror
    ours = (mirror.pods, mirror.services, mirror.groups, *mirror.jobs.values())
    assert {tuple(s.namespace for s in informer.scopes) for informer in ours} == {("ml", "team-a")}
    assert [scope.namespace for scope in mirror.clusterd.scopes] == ["mindx-dl"]


async def test_nothing_waits_for_kinds_that_a_cluster_may_lack(woken):
    """runtime:I-40"""
    names = {informer.resource.plural for informer in woken.mirror.mandatory}
    assert names == {"pods", "services"}
