# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Hold the Lease or leave the process."""

import asyncio

import pytest

from ascendop.errors import NotLeaderError, UsageError
from ascendop.kube.errors import ForbiddenError, NotFoundError
from ascendop.leader.gate import AlwaysLeads, LeaseGate
from ascendop.leader.record import LeaseTimes, identity

from .cluster import (  # noqa: TID252  the standard library has a package called test
    Leases,
    Replica,
    freeze_paused_replicas,
    rng,
)


@pytest.fixture
def server():
    return Leases()


def replica(server, name, seed=0, **options):
    return Replica(server, name, rng=rng(f"{name}{seed}"), **options)


async def settle(seconds=1.0):
    await asyncio.sleep(seconds)


# ── settings ──


@pytest.mark.parametrize(
    "times",
    [(10, 10, 2), (15, 2.4, 2), (15, 2, 2), (9, 10, 2), (15, 10, 0.5), (0.9, 0.8, 0.1), (15, 0, 0)],
)
def test_durations_that_would_hang_are_refused_with_one_sentence_71(times):
    """runtime:L-1"""
    with pytest.raises(UsageError, match=r"lease_s=.*renew_s=.*retry_s=.*15, 10, 2"):
        LeaseTimes(*times)


def test_the_defaults_hold():
    assert LeaseTimes() == LeaseTimes(lease_s=15, renew_s=10, retry_s=2)


def test_an_identity_is_never_used_twice_not_even_by_the_same_pod_75():
    """A container restarts in its pod: same name, same UID, writes still on their way."""
    dice = rng(1)
    pod = {"pod_name": "ascendop-0", "pod_uid": "u-1", "hostname": "h"}
    got = {identity(**pod, rng=dice) for _ in range(100)}
    got |= {identity(pod_name="", pod_uid="", hostname="h", rng=dice) for _ in range(100)}
    assert len(got) == 200
    assert all(name.startswith(("ascendop-0_u-1_", "h_")) for name in got)


# ── the gate ──


def test_a_gate_lets_a_write_start_while_renewals_are_in_time_and_last_while_the_lease_does():
    """runtime:L-8"""
    now = 100.0
    gate = LeaseGate(lambda: now)
    with pytest.raises(NotLeaderError):
        gate.check()
    gate.renewed(open_until=110.0, valid_until=115.0)
    assert gate.check() == 15.0
    now = 109.0
    assert gate.check() == 6.0 and gate.is_open
    now = 110.0
    with pytest.raises(NotLeaderError, match="renewed"):
        gate.check()
    assert not gate.is_open


def test_no_write_lasts_longer_than_a_request_may():
    """runtime:L-8"""
    gate = LeaseGate(lambda: 0.0)
    gate.renewed(open_until=100.0, valid_until=120.0)
    assert gate.check() == 30.0 == AlwaysLeads().check()


# ── taking ──


async def test_a_lease_that_is_not_there_is_made_and_held(server):
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        assert a.gate_open and a.elector.leads
        spec = server.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("a_1", 15)
        assert spec["leaseTransitions"] == 0 and spec["acquireTime"].endswith("Z")
        a.stop.set()


async def test_a_lease_with_an_empty_holder_is_taken_at_once(server):
    """runtime:L-2"""
    server.create({"metadata": {"name": "ascendop", "namespace": "ops"}, "spec": {}})
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(0.1)
        assert a.gate_open
        a.stop.set()


async def test_a_lease_left_behind_is_taken_only_after_its_whole_time_was_watched(server):
    """runtime:L-1 runtime:L-2: the times in it are years old, and prove nothing."""
    server.create(
        {
            "metadata": {"name": "ascendop", "namespace": "ops"},
            "spec": {
                "holderIdentity": "dead",
                "leaseDurationSeconds": 15,
                "renewTime": "2001-01-01T00:00:00.000000Z",
            },
        }
    )
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(14.9)
        assert not a.gate_open
        await settle(3.1)
        assert a.gate_open
        assert server.lease["spec"]["leaseTransitions"] == 1 == a.elector.epoch
        a.stop.set()


async def test_a_foreign_duration_is_believed_as_it_stands(server):
    """runtime:L-2"""
    server.create(
        {
            "metadata": {"name": "ascendop", "namespace": "ops"},
            "spec": {"holderIdentity": "other", "leaseDurationSeconds": 60},
        }
    )
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(59.9)
        assert not a.gate_open
        await settle(3)
        assert a.gate_open
        a.stop.set()


async def test_an_epoch_grows_with_every_change_of_leader(server):
    """runtime:L-9"""
    epochs = []
    for name in "abc":
        one = replica(server, name)
        async with asyncio.TaskGroup() as tasks:
            one.start(tasks)
            await settle()
            epochs.append(one.elector.epoch)
            one.stop.set()
    assert epochs == [0, 1, 2]


async def test_an_epoch_that_cannot_grow_keeps_nobody_from_leading(server):
    spec = {"leaseTransitions": 2**31 - 1}
    server.create({"metadata": {"name": "ascendop", "namespace": "ops"}, "spec": spec})
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        assert a.gate_open and a.elector.epoch == 2**31 - 1
        a.stop.set()


async def test_a_refusal_of_the_lease_is_written_down(server, caplog):
    a = replica(server, "a")
    a.network.refusal = ForbiddenError(403, "leases is forbidden")
    async with asyncio.TaskGroup() as tasks:
        task = a.start(tasks)
        await settle()
        task.cancel()
    assert caplog.records[0].message == "lease not taken"
    assert "leases is forbidden" in caplog.records[0].keys["error"]


async def test_fields_that_we_do_not_know_survive_our_writes(server):
    server.create(
        {
            "metadata": {"name": "ascendop", "namespace": "ops", "labels": {"team": "ml"}},
            "spec": {"strategy": "OldestEmulationVersion"},
        }
    )
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(10)
        a.stop.set()
    assert server.lease["metadata"]["labels"] == {"team": "ml"}
    assert server.lease["spec"]["strategy"] == "OldestEmulationVersion"


# ── holding ──


async def test_a_leader_renews_without_reading_while_all_is_well(server):
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(20)
        verbs = [verb for _, verb in a.network.calls]
        assert verbs[:2] == ["GET", "POST"] and set(verbs[2:]) == {"PUT"}
        assert 8 <= len(verbs) - 2 <= 10
        a.stop.set()


@pytest.mark.parametrize("hangs", [False, True], ids=["refused", "hanging"])
async def test_a_leader_that_cannot_renew_is_lost_in_time_and_its_gate_shuts_first_68(
    server, hangs
):
    """runtime:L-3: the time-out of a call is what is left, counted from before the last success.

    field-reports:FR-074
    """
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(5)
        last_ok = server.writes[-1][0]
        a.network.requests_lost, a.network.hangs = True, hangs
        while a.gate_open:
            await settle(0.05)
        assert asyncio.get_running_loop().time() - last_ok <= 10.06
        await settle(0.2)
        assert [reason for _, reason in a.losses] == ["the lease was not renewed for 10 s"]
        a.network.requests_lost = False
        a.stop.set()


async def test_one_dead_connection_does_not_cost_the_leadership_74(server):
    """runtime:L-3 runtime:L-4"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(5)
        a.network.requests_lost = a.network.hangs = True
        await settle(2.5)
        a.network.requests_lost = a.network.hangs = False
        await settle(30)
        assert a.losses == [] and a.gate_open
        a.stop.set()


async def test_an_edit_of_a_label_costs_a_read_and_not_the_leadership(server):
    """runtime:L-5"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        for _ in range(5):
            await settle(3)
            server.label()
        await settle(3)
        assert a.losses == [] and a.gate_open
        a.stop.set()


async def test_a_leader_that_sees_another_holder_is_lost_now_and_not_at_its_deadline(server):
    """runtime:L-5"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(4.5)
        server.edit(holderIdentity="thief")
        await settle(2.1)
        assert a.losses[0][1] == "the lease is held by thief"
        await settle(20)
        assert a.gate_open, "the thief never renewed"
        a.stop.set()


async def test_a_lost_lease_shuts_the_gate_before_the_leader_scope_is_told(server):
    """runtime:L-5 runtime:L-8: what it does on its way out must not write any more."""
    a = replica(server, "a")
    refused = []

    async def lead():
        try:
            await a.stop.wait()
        finally:
            with pytest.raises(NotLeaderError):
                a.elector.gate.check()
            refused.append(True)

    a.elector = a.new_elector()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(expect(NotLeaderError, a.elector.run(lead)))
        await settle(4.5)
        server.edit(holderIdentity="thief")
        await task
    assert refused


async def test_a_slow_answer_counts_from_when_the_renewal_was_sent(server):
    """runtime:L-3"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(3)
        a.network.latency_s = (1.0, 1.0)
        await settle(20)
        before = len(server.writes)
        while len(server.writes) == before:
            await settle(0.01)
        sent_at = server.writes[-1][0] - 1.0
        await settle(1.1)  # the answer
        a.network.requests_lost = True
        while not a.losses:
            await settle(0.01)
        assert 9.9 <= a.losses[0][0] - sent_at <= 10.1
        a.network.requests_lost, a.network.latency_s = False, (0.001, 0.02)
        a.stop.set()


async def test_a_follower_that_finds_its_own_name_in_the_lease_does_not_believe_it(server):
    """Somebody with an editor wrote it there; the leader knows nothing of it yet."""
    a, b = replica(server, "a"), replica(server, "b")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(4)
        a.network.requests_lost = True
        server.edit(holderIdentity="b_1")
        while not b.gate_open:
            await settle(0.05)
            assert not (a.gate_open and b.gate_open)
        a.network.requests_lost = False
        a.stop.set()
        b.stop.set()


REFUSALS = [
    ForbiddenError(401, "who are you?"),
    ForbiddenError(403, "no right to update leases"),
    NotFoundError(404, "no such namespace"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.status))
async def test_a_refusal_while_holding_is_tried_again_until_the_deadline(server, refusal):
    """runtime:L-6"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(5)
        a.network.refusal = refusal
        await settle(7)
        assert a.gate_open
        a.network.refusal = None
        await settle(20)
        assert a.losses == [] and a.gate_open
        a.network.refusal = refusal
        await settle(11)
        assert len(a.losses) == 1 and not a.gate_open
        a.network.refusal = None  # its next life has to lead, to be ended
        await settle(20)
        a.stop.set()


async def test_a_deleted_lease_is_made_again_by_its_holder(server):
    a, b = replica(server, "a"), replica(server, "b")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(4)
        server.delete()
        for _ in range(40):
            await settle(0.1)
            assert not b.gate_open
        assert a.gate_open and server.lease["spec"]["holderIdentity"] == "a_1"
        a.stop.set()
        b.stop.set()


async def test_a_holder_edited_away_is_believed_until_its_lease_would_have_ended(server):
    """Who is edited away may not have noticed; only a lease given back is free at once."""
    a, b = replica(server, "a"), replica(server, "b")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(4)
        a.network.requests_lost = True
        server.edit(holderIdentity="")
        opened = None
        while opened is None:
            await settle(0.05)
            assert not (a.gate_open and b.gate_open)
            opened = b.gate_open or None
        b.stop.set()
        a.stop.set()
        a.network.requests_lost = False


async def test_a_wish_for_another_holder_is_granted_by_finishing_and_giving_back(server):
    """runtime:L-11: coordinated election writes `preferredHolder`."""
    a = replica(server, "a")
    a.elector = a.new_elector()
    holders = []

    async def lead():
        try:
            await a.stop.wait()
        finally:
            await asyncio.sleep(1)
            holders.append(server.lease["spec"]["holderIdentity"])

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(expect(NotLeaderError, a.elector.run(lead)))
        await settle(3)
        server.edit(preferredHolder="b_1")
        await task
    assert holders == ["a_1"] and server.lease["spec"]["holderIdentity"] == ""


# ── handing over ──


@pytest.mark.parametrize("seed", range(5))
async def test_a_clean_hand_over_takes_less_than_a_second(server, seed):
    """runtime:L-11 field-reports:FR-084"""
    a, b = replica(server, "a", seed), replica(server, "b", seed)
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(7 + seed / 3)
        a.stop.set()
        await settle(0.9)
        assert b.gate_open and not a.gate_open
        b.stop.set()


@pytest.mark.parametrize("seed", range(5))
async def test_a_crash_is_followed_within_eighteen_seconds(server, seed):
    """runtime:L-11"""
    a, b = replica(server, "a", seed), replica(server, "b", seed)
    freeze_paused_replicas(asyncio.get_running_loop())
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(7 + seed / 3)
        a.paused_until = 1e6
        await settle(18)
        assert b.gate_open
        b.stop.set()
        a.paused_until = 0.0
        a.stop.set()


async def test_without_a_watch_a_clean_hand_over_takes_one_poll(server):
    """runtime:L-11"""
    a, b = replica(server, "a"), replica(server, "b")
    b.network.watches = False
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(7)
        a.stop.set()
        await settle(2.5)
        assert b.gate_open
        b.stop.set()


async def test_the_lease_is_given_back_only_after_the_last_worker_ended_72(server):
    """runtime:L-11"""
    a = replica(server, "a")
    ended_at = None

    async def slow_to_end():
        nonlocal ended_at
        try:
            await a.stop.wait()
        finally:
            await asyncio.sleep(12)  # longer than a lease needs to be renewed
            a.elector.gate.check()
            ended_at = asyncio.get_running_loop().time()

    a.lead = slow_to_end
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(3)
        a.stop.set()
    released_at = [at for at, spec in server.writes if not spec["holderIdentity"]]
    assert len(released_at) == 1 and released_at[0] >= ended_at
    with pytest.raises(NotLeaderError):
        a.elector.gate.check()


async def test_a_cancelled_leader_gives_the_lease_back_after_its_scope_ended(server):
    """runtime:L-11"""
    a = replica(server, "a")
    life = []

    async def lead():
        try:
            await a.stop.wait()
        finally:
            await asyncio.sleep(1)
            life.append(server.lease["spec"]["holderIdentity"])

    a.lead = lead
    async with asyncio.TaskGroup() as tasks:
        task = a.start(tasks)
        await settle(3)
        task.cancel()
    assert life == ["a_1"]
    assert server.lease["spec"]["holderIdentity"] == ""
    assert server.lease["spec"]["leaseDurationSeconds"] == 1


async def test_a_release_whose_version_is_old_is_sent_again_73(server):
    """runtime:L-11: the answer of the last renewal was lost, so our version is not the last."""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(3)
        a.network.answers_lost = True
        await settle(1.5)
        a.network.answers_lost = False
        a.stop.set()
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_a_lease_that_is_no_longer_ours_is_not_given_back(server):
    """runtime:L-7 runtime:L-11"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(3.5)
        server.edit(holderIdentity="thief")
        a.stop.set()
    assert server.lease["spec"]["holderIdentity"] == "thief"


async def test_a_release_that_nobody_answers_ends_after_five_seconds(server):
    """runtime:L-11 runtime:P-7"""
    a = replica(server, "a")
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(3)
        a.network.requests_lost = a.network.hangs = True
        a.stop.set()
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began <= 5.1


# ── losing ──


async def test_loss_ends_the_leader_scope_and_then_the_run_70(server):
    """runtime:L-7 runtime:L-8"""
    a = replica(server, "a")
    life = []

    async def lead():
        life.append("leads")
        try:
            await a.stop.wait()
        except asyncio.CancelledError:
            with pytest.raises(NotLeaderError):
                a.elector.gate.check()
            await asyncio.sleep(1)
            life.append("ended")
            raise

    a.elector = a.new_elector()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(expect(NotLeaderError, a.elector.run(lead)))
        await settle(3)
        a.network.requests_lost = True
        await task
    assert life == ["leads", "ended"]
    assert server.lease["spec"]["holderIdentity"] == "a_1", "who lost gives nothing back"


@pytest.mark.parametrize("after_s", [0, 0.001, 0.01, 0.02, 0.03, 0.5, 2.01, 2.02, 2.03, 7.0])
@pytest.mark.parametrize("hangs", [False, True], ids=["a server that answers", "one that hangs"])
async def test_a_cancelled_elector_ends_soon_whatever_it_was_doing_83(server, after_s, hangs):
    """runtime:P-3 runtime:P-7"""
    a = replica(server, "a")
    a.elector = a.new_elector()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(a.elector.run(asyncio.Event().wait))
        await asyncio.sleep(after_s)
        a.network.requests_lost = a.network.hangs = hangs
        task.cancel()
        cancelled_at = loop.time()
    assert task.cancelled() and loop.time() - cancelled_at <= 5.1
    with pytest.raises(NotLeaderError):
        a.elector.gate.check()


async def test_what_breaks_in_the_leader_scope_comes_out_as_itself(server):
    a = replica(server, "a")
    a.elector = a.new_elector()

    async def lead():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await a.elector.run(lead)
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_a_leader_that_was_paused_finds_itself_lost_before_its_first_write(server):
    """runtime:L-8: SIGSTOP for 30 s, then SIGCONT."""
    a, b = replica(server, "a"), replica(server, "b")
    freeze_paused_replicas(asyncio.get_running_loop())
    wrote = []

    async def lead():
        while not a.stop.is_set():
            await asyncio.sleep(0.01)
            a.elector.gate.check()
            wrote.append(asyncio.get_running_loop().time())

    a.lead = lead
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle()
        b.start(tasks)
        await settle(5)
        a.paused_until = asyncio.get_running_loop().time() + 30
        await settle(35)
        assert b.gate_open
        assert max(wrote) < 7 and a.losses
        a.stop.set()
        b.stop.set()


async def test_a_follower_without_an_api_server_and_a_leader_past_its_lease_are_unhealthy(server):
    """runtime:L-7: staying up, ready and idle is the worst of the failures."""
    a = replica(server, "a")
    freeze_paused_replicas(asyncio.get_running_loop())
    a.network.requests_lost = True
    a.network.watches = False
    async with asyncio.TaskGroup() as tasks:
        a.start(tasks)
        await settle(59)
        assert not a.elector.unhealthy()
        await settle(2)
        assert "no API server answered" in a.elector.unhealthy()
        a.network.requests_lost = False
        await settle(10)
        assert not a.elector.unhealthy() and a.gate_open
        a.paused_until = 1e6
        await settle(36)
        assert "still runs as leader" in a.elector.unhealthy()
        a.paused_until = 0.0
        a.stop.set()


async def expect(error, coro):
    with pytest.raises(error):
        await coro
