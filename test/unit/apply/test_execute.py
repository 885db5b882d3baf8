# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""A plan becomes calls, and every answer becomes something that the rest can go on from."""

import asyncio
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.apply.execute import Executor
from ascendop.apply.plan import Absent, Create, Delete, Patch, Step
from ascendop.apply.refusals import CHILD_CONFLICT, FORBIDDEN_S
from ascendop.errors import NotLeaderError
from ascendop.kube.client import Client
from ascendop.kube.errors import BusyError, ConflictError, NotFoundError, TransportError
from ascendop.kube.resource import NAMESPACES, PODS, QUEUES, SERVICES
from ascendop.sim.answers import RefusedError, forbidden

from ..wire import is_write, refuse, reset, slow  # noqa: TID252  test is in the standard library
from .conftest import JOBS, NS, running  # noqa: TID252  likewise


def names(done):
    return [written.write.name for written in done.written]


POST_POD = is_write("POST", "pods")


# ── the seven answers to a create ──


async def test_what_was_made_is_in_the_cache_before_the_watch_says_so(bench):
    """runtime:W-9 runtime:W-1: answer 2, 201."""
    executed = await bench.create()
    (written,) = executed.done.written
    row = bench.pods.get(NS, "j-worker-0")
    assert row is not None and row.uid == written.uid
    assert row.owner_uid == bench.job["metadata"]["uid"]
    assert bench.noted == [(bench.key, PODS, row.version)]


async def test_a_field_that_nobody_knows_is_an_error_in_what_we_wrote_ourselves(bench):
    """runtime:H-18: and a warning in a template of the user's."""
    await bench.create()
    await bench.run(Create(SERVICES, bench.pod() | {"kind": "Service", "spec": {}}))
    assert [
        (request.path.rsplit("/", 1)[-1], request.query["fieldValidation"])
        for request in bench.wire.sent
        if request.method == "POST"
    ] == [("pods", "Warn"), ("services", "Strict")]


async def test_one_that_is_there_and_ours_is_success_but_no_news(bench):
    """runtime:W-9 runtime:W-1 runtime:W-5: answer 3; nothing was remembered of an earlier write."""
    there = await bench.exists()
    executed = await bench.create()
    assert executed.done.written == () == executed.done.failures
    assert bench.pods.get(NS, "j-worker-0").uid == there["metadata"]["uid"]


async def test_a_predecessor_on_its_way_out_is_waited_for(bench):
    """runtime:W-9 runtime:W-11: answer 3, ours and deleting."""
    there = await bench.exists(finalizers=["test/holds"])
    await bench.hands.delete(PODS, NS, "j-worker-0")
    (failure,) = (await bench.create()).done.failures
    assert failure.waits and not failure.leftover and failure.retry_s == 5
    assert (await bench.hands.get(PODS, NS, "j-worker-0"))["metadata"]["uid"] == (
        there["metadata"]["uid"]
    )


async def test_a_child_of_an_earlier_job_of_the_same_name_is_garbage_to_wait_for(bench):
    """scheduling:SCH-23 ascendjob:W-9 runtime:W-9 runtime:W-16: answer 3, an older uid."""
    await bench.exists(owners=[bench.owner(uid="11111111-2222-3333-4444-555555555555")])
    (failure,) = (await bench.create()).done.failures
    assert failure.waits and failure.leftover


async def test_an_object_of_somebody_else_is_never_touched(bench):
    """runtime:W-9 runtime:W-16: answer 3, not ours."""
    theirs = bench.owner(kind="ReplicaSet", apiVersion="apps/v1", name="web", uid="theirs")
    before = await bench.exists(owners=[theirs])
    (failure,) = (await bench.create()).done.failures
    assert (failure.reason, failure.waits) == (CHILD_CONFLICT, False)
    assert failure.message == (
        'pods "j-worker-0" already exists and belongs to ReplicaSet web; '
        "delete it or rename the job"
    )
    assert (await bench.hands.get(PODS, NS, "j-worker-0"))["metadata"] == before["metadata"]


async def test_an_orphan_with_our_name_and_label_is_adopted(bench):
    """runtime:W-16"""
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "not-a-controller"}
    before = await bench.exists(owners=[other])
    executed = await bench.create()
    assert executed.done.failures == () and executed.trouble is None
    meta = (await bench.hands.get(PODS, NS, "j-worker-0"))["metadata"]
    assert meta["uid"] == before["metadata"]["uid"]
    assert meta["ownerReferences"] == [other, bench.owner()]
    assert bench.pods.get(NS, "j-worker-0").owner_uid == bench.owner()["uid"]


async def test_an_orphan_without_our_label_is_not(bench):
    """runtime:W-16"""
    await bench.exists(owners=[], labels={"app": "web"})
    (failure,) = (await bench.create()).done.failures
    assert failure.reason == CHILD_CONFLICT and "belongs to nobody" in failure.message


async def test_an_orphan_of_another_gang_is_not(bench):
    """scheduling:SCH-7 runtime:W-16: the pods of a job must be able to start together."""
    await bench.exists(owners=[], annotations={"scheduling.k8s.io/group-name": "j-earlier"})
    (failure,) = (await bench.create()).done.failures
    assert failure.reason == CHILD_CONFLICT and "belongs to the gang j-earlier" in failure.message


@pytest.mark.parametrize("ending", ["deleted", "deleting"])
async def test_a_job_that_is_going_adopts_nothing(bench, ending):
    """runtime:W-16: a live look at the job comes first."""
    if ending == "deleting":
        meta = {"metadata": {"finalizers": ["test/holds"]}}
        await bench.hands.patch(JOBS, NS, "j", meta)
    await bench.exists(owners=[])
    await bench.hands.delete(JOBS, NS, "j")
    executed = await bench.create()
    assert isinstance(executed.trouble, ConflictError) and executed.done.failures == ()
    meta = (await bench.hands.get(PODS, NS, "j-worker-0"))["metadata"]
    assert not meta.get("ownerReferences")


async def test_an_orphan_that_changed_since_it_was_judged_is_not_adopted(bench):
    """runtime:W-16: the uid and the version that were judged go with the patch."""
    await bench.exists(owners=[])

    async def meddle(request):
        if is_write("PATCH", "pods")(request):
            bench.wire.before.clear()
            await bench.hands.patch(PODS, NS, "j-worker-0", {"metadata": {"labels": {"a": "b"}}})

    bench.wire.before.append(meddle)
    executed = await bench.create()
    assert isinstance(executed.trouble, ConflictError)


@pytest.mark.parametrize("worked", [True, False], ids=["it worked", "it did not"])
async def test_an_unknown_outcome_is_found_out_by_the_next_pass(bench, worked):
    """runtime:W-9 runtime:W-5: answer 4; nothing is sent again blindly."""
    way = bench.wire.after if worked else bench.wire.before
    way.append(reset(POST_POD, times=1))
    executed = await bench.create()
    assert isinstance(executed.trouble, TransportError) and executed.done.failures == ()
    assert len(bench.wire.writes("pods")) == 1
    executed = await bench.create()
    assert names(executed.done) == ([] if worked else ["j-worker-0"])
    assert bench.pods.get(NS, "j-worker-0") is not None


async def test_a_race_for_quota_is_nobodys_mistake(bench):
    """runtime:W-9: answer 5, 409 that is no AlreadyExists."""
    text = "Operation cannot be fulfilled on resourcequotas: the object has been modified"
    bench.wire.before.append(refuse(POST_POD, RefusedError(409, "Conflict", text)))
    executed = await bench.create()
    assert isinstance(executed.trouble, ConflictError) and executed.done.failures == ()


async def test_in_a_namespace_that_ends_nothing_is_tried_again(bench):
    """runtime:W-9: answer 6, NamespaceTerminating."""
    await bench.hands.patch(NAMESPACES, None, NS, {"metadata": {"finalizers": ["test/holds"]}})
    await bench.exists("holds-it", owners=[], finalizers=["test/holds"])
    await bench.hands.delete(NAMESPACES, None, NS)
    (failure,) = (await bench.create()).done.failures
    assert failure.waits and failure.retry_s is None
    assert "being terminated" in failure.message


async def test_a_used_up_quota_is_told_and_tried_again_in_half_a_minute(bench):
    """runtime:W-9: answer 6, quota."""
    why = "exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3"
    bench.wire.before.append(refuse(POST_POD, forbidden(PODS, "j-worker-0", why)))
    (failure,) = (await bench.create()).done.failures
    assert (failure.waits, failure.retry_s) == (False, FORBIDDEN_S)
    assert "exceeded quota" in failure.message


async def test_a_template_that_no_pod_can_have_is_not_tried_again(bench):
    """runtime:W-9: answer 7, 422 with the server's causes."""
    pod = bench.pod()
    pod["spec"]["containers"][0]["name"] = "Not A Name"
    (failure,) = (await bench.run(Create(PODS, pod))).done.failures
    assert (failure.waits, failure.retry_s) == (False, None)
    assert "spec.containers[0].name" in failure.message


# ── order and width ──


async def test_a_step_that_failed_stops_the_rest(bench):
    bench.wire.before.append(refuse(is_write("POST", "services"), forbidden(SERVICES, "j", "no")))
    service = {
        "metadata": {"name": "j", "namespace": NS, "ownerReferences": [bench.owner()]},
        "spec": {"ports": [{"port": 1}]},
    }
    steps = (
        Step("services", (Create(SERVICES, service),)),
        Step("pods", (Create(PODS, bench.pod()),)),
    )
    executed = await bench.executor.run(bench.key, steps)
    assert [failure.step for failure in executed.done.failures] == ["services"]
    assert bench.wire.writes("pods") == []


async def test_a_template_that_always_fails_costs_one_request(bench):
    """runtime:W-12"""
    bench.wire.before.append(refuse(POST_POD, forbidden(PODS, "", "no")))
    executed = await bench.create(*(f"j-worker-{n}" for n in range(1000)))
    assert len(bench.wire.sent) == 1 == len(executed.done.failures)


async def test_a_set_is_made_by_one_two_four_and_at_most_32_at_a_time(bench):
    """ascendjob:W-36 runtime:W-12 runtime:H-15"""
    flying, widths = [0], []

    async def count(request):
        if POST_POD(request):
            flying[0] += 1
            await asyncio.sleep(1)
            widths.append(flying[0])
            await asyncio.sleep(0.1)
            flying[0] -= 1

    bench.wire.before.append(count)
    executed = await bench.create(*(f"j-worker-{n}" for n in range(100)))
    assert sorted(set(widths)) == [1, 2, 4, 5, 8, 16, 32]  # 5 are the last of the hundred
    assert names(executed.done) == [f"j-worker-{n}" for n in range(100)]


async def test_what_was_sent_beside_a_failure_may_finish(bench):
    """runtime:P-5"""
    bench.wire.before.append(
        refuse(is_write("POST", "pods", "j-worker-1"), forbidden(PODS, "", "no"))
    )
    bench.wire.before.append(slow(is_write("POST", "pods", "j-worker-2"), 0.5))
    executed = await bench.create(*(f"j-worker-{n}" for n in range(9)))
    assert names(executed.done) == ["j-worker-0", "j-worker-2"]
    assert [failure.write.name for failure in executed.done.failures] == ["j-worker-1"]


async def test_but_not_for_ever(bench):
    """runtime:P-5"""
    bench.wire.before.append(
        refuse(is_write("POST", "pods", "j-worker-1"), forbidden(PODS, "", "no"))
    )
    bench.wire.before.append(slow(is_write("POST", "pods", "j-worker-2"), 20))
    began = asyncio.get_running_loop().time()
    executed = await bench.create(*(f"j-worker-{n}" for n in range(3)))
    assert asyncio.get_running_loop().time() - began == pytest.approx(1)
    assert isinstance(executed.trouble, TransportError) and executed.trouble.sent
    assert len(executed.done.failures) == 1


async def test_a_pass_that_is_cancelled_takes_its_writes_along(bench):
    """runtime:P-3"""
    bench.wire.before.append(slow(POST_POD, 20))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await bench.create("j-worker-0", "j-worker-1")
    assert bench.pods.rows() == []


class Shut:
    """A gate that closes after some writes."""

    def __init__(self, writes):
        self.left = writes

    def check(self):
        if not self.left:
            raise NotLeaderError("this replica does not hold the lease")
        self.left -= 1
        return 30.0


@pytest.mark.parametrize("allowed", [0, 2])
async def test_without_the_lease_the_pass_ends_plainly(bench, allowed):
    """runtime:L-8 runtime:Q-21: the error itself, from one write or from several."""
    client = Client(bench.wire, rng=Random(1), gate=Shut(allowed))
    executor = Executor(client, {}, noted=lambda *_: None)
    step = Step("pods", tuple(Create(PODS, bench.pod(f"j-worker-{n}")) for n in range(7)))
    with pytest.raises(NotLeaderError):
        await executor.run(bench.key, (step,))
    assert len(bench.wire.sent) == allowed


async def test_a_bug_is_not_mistaken_for_an_answer(bench):
    async def bug(request):
        raise ZeroDivisionError

    bench.wire.before.append(bug)
    with pytest.raises(ZeroDivisionError):
        await bench.create("j-worker-0")


async def test_a_busy_server_is_trouble_with_its_own_pause(bench):
    busy = RefusedError(429, "TooManyRequests", "later", {"retryAfterSeconds": 7})
    bench.wire.before.append(refuse(POST_POD, busy))
    executed = await bench.create()
    assert isinstance(executed.trouble, BusyError) and executed.trouble.retry_after_s == 7


# ── changes and deletions ──


async def test_a_deletion_names_the_object_it_is_about(bench):
    """runtime:W-13 runtime:W-14"""
    await bench.create()
    row = bench.pods.get(NS, "j-worker-0")
    executed = await bench.run(Delete(PODS, row.name, row.uid))
    assert names(executed.done) == ["j-worker-0"]
    (body,) = bench.wire.bodies("DELETE", "pods")
    assert body["preconditions"] == {"uid": row.uid}
    assert body["propagationPolicy"] == "Background" and "gracePeriodSeconds" not in body


async def test_a_stale_deletion_never_takes_the_successor(bench):
    """runtime:W-11 runtime:W-13"""
    await bench.create()
    row = bench.pods.get(NS, "j-worker-0")
    await bench.hands.delete(PODS, NS, row.name, grace_s=0)
    successor = await bench.exists()
    executed = await bench.run(Delete(PODS, row.name, row.uid))
    assert executed.done.written == () == executed.done.failures and executed.trouble is None
    found = await bench.hands.get(PODS, NS, row.name)
    assert found["metadata"]["uid"] == successor["metadata"]["uid"]
    assert "deletionTimestamp" not in found["metadata"]


async def test_what_is_gone_already_is_as_good_as_deleted_and_leaves_the_cache(bench):
    """runtime:W-13 runtime:W-2"""
    await bench.create()
    row = bench.pods.get(NS, "j-worker-0")
    await bench.hands.delete(PODS, NS, row.name, grace_s=0)
    executed = await bench.run(Delete(PODS, row.name, row.uid))
    assert executed.done.written == () == executed.done.failures
    assert bench.pods.get(NS, row.name) is None


async def test_a_pod_that_has_changed_since_it_was_judged_stays(bench):
    """runtime:W-13: the version goes along where the state was the reason."""
    async with running(bench):
        await bench.create()
        row = bench.pods.get(NS, "j-worker-0")
        status = {"status": {"phase": "Succeeded"}}
        await bench.hands.patch(PODS, NS, row.name, status, subresource="status")
        executed = await bench.run(Delete(PODS, row.name, row.uid, row.version))
        assert executed.done.written == () and executed.trouble is None
        await asyncio.sleep(1)
        assert bench.pods.get(NS, row.name).phase == "Succeeded"


async def test_a_patch_of_the_job_holds_for_the_version_it_was_made_for_only(bench):
    """runtime:W-21 runtime:W-17"""
    meta = bench.job["metadata"]
    body = {"metadata": {"annotations": {"count": "1"}}}
    patch = Patch(JOBS, "j", meta["uid"], meta["resourceVersion"], body)
    executed = await bench.run(patch, name="attempt")
    now = (await bench.hands.get(JOBS, NS, "j"))["metadata"]
    assert now["annotations"]["count"] == "1"
    assert executed.job_version == now["resourceVersion"] != meta["resourceVersion"]
    again = await bench.run(patch, name="attempt")
    assert isinstance(again.trouble, ConflictError) and again.job_version == ""


async def test_a_status_is_written_over_the_version_it_was_computed_from(bench):
    """runtime:W-18"""
    version = bench.job["metadata"]["resourceVersion"]
    patch = {"conditions": [{"type": "Created", "status": "True", "reason": "r", "message": "m"}]}
    await bench.executor.status(bench.key, JOBS, version, patch)
    (body,) = bench.wire.bodies("PATCH", "ascendjobs")
    assert body == {"metadata": {"resourceVersion": version}, "status": patch}
    with pytest.raises(ConflictError):
        await bench.executor.status(bench.key, JOBS, version, patch)


async def test_absence_is_asked_of_the_server(bench):
    """runtime:I-1"""
    absent = Absent(PODS, NS, "j-worker-0")
    assert not await bench.executor.exists(absent)
    await bench.exists()
    assert await bench.executor.exists(absent)
    with pytest.raises(NotFoundError):
        await bench.client.get(QUEUES, None, "default")
