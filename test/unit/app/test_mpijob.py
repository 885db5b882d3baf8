# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""An MPIJob on the simulator's server, with Kubernetes' own controller of Jobs beside us."""

import asyncio
import base64
import subprocess
from collections import Counter
from random import Random  # noqa: TID251  seeded

import pytest

from ascendop.apply.sshkeys import make_ssh_keys
from ascendop.kube.errors import NotFoundError
from ascendop.kube.resource import (
    BATCH_JOBS,
    CONFIGMAPS,
    CORE_EVENTS,
    COSCHEDULING_GROUPS,
    CRDS,
    POD_GROUPS,
    PODS,
    SECRETS,
    SERVICES,
    Key,
    Scope,
)
from ascendop.sim.answers import RefusedError
from ascendop.sim.coscheduling import build_definition
from ascendop.sim.volcano import build_definitions

from .. import launched as mpi  # noqa: TID252  the standard library has a package called test
from ..town import NS  # noqa: TID252  likewise
from ..wire import refuse, slow  # noqa: TID252  likewise
from .mpitown import JOBS, mpi_town, running  # noqa: TID252  likewise

ENDED_AT = "2026-01-01T00:00:00Z"
MADE = [
    ("POST", "services"),
    ("POST", "configmaps"),
    ("POST", "secrets"),
    ("POST", "pods"),
    ("POST", "pods"),
    ("POST", "jobs"),
]


@pytest.fixture
async def town():
    async with mpi_town() as town:
        yield town


async def test_a_job_is_made_runs_and_ends(town):
    async with running(town):
        assert (await town.status())["replicaStatuses"] == {
            "Launcher": {"active": 1},
            "Worker": {"active": 2},
        }
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        status = await town.status()
        assert status["replicaStatuses"] == {"Launcher": {"succeeded": 1}, "Worker": {}}
        assert status["completionTime"]
    ends = ["MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded", "PodsKept"]
    assert await town.reasons() == ends


async def test_c03_what_is_asked_of_the_server(town):
    """mpijob:W-40: one after the other, and one status, of which only what changed is said."""
    async with town.running(town.operator()):
        await town.make()
        await town.until_all()
        await asyncio.sleep(1)
        writes = [w for w in town.wire.writes() if w[1] != "events"]
    assert writes == [*MADE, ("PATCH", "status")]


@pytest.mark.parametrize("gang", ["", "volcano"])
async def test_c61_nothing_is_written_while_nothing_happens(town, gang):
    """mpijob:W-25 mpijob:W-08: what the server filled in is no drift of ours."""
    for definition in build_definitions():
        await town.hands.create(CRDS, definition)
    async with running(town, mpi_gang_scheduler=gang):
        await asyncio.sleep(10)
        before = len(town.wire.writes())
        await asyncio.sleep(24 * 3600)
        assert town.wire.writes()[before:] == []


async def test_c22_the_keys_are_a_pair(town, tmp_path):
    async with running(town):
        secret = await town.hands.get(SECRETS, NS, "foo-ssh")
    assert secret["type"] == "kubernetes.io/ssh-auth"
    private, public = (base64.b64decode(secret["data"][key]) for key in mpi.KEYS)
    assert private.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
    assert public.startswith(b"ecdsa-sha2-nistp521 ") and public.endswith(b"\n")
    assert len(public) == 253 and public.count(b"\n") == 1
    assert _public_of(private) == public


def _public_of(private):
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key = serialization.load_pem_private_key(private, None).public_key()
    found = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return found + b"\n"


@pytest.mark.real_time
def test_c22_openssh_reads_the_private_key(tmp_path):
    file = tmp_path / "id_rsa"
    file.write_bytes(make_ssh_keys()["ssh-privatekey"])
    file.chmod(0o600)
    try:
        done = subprocess.run(
            ["ssh-keygen", "-y", "-f", file], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        pytest.skip("there is no ssh-keygen")
    assert done.stdout.split()[0] == "ecdsa-sha2-nistp521"


async def test_c20_c21_w23_keys_are_never_read_and_made_once(town):
    """mpijob:W-23: that one was lost is seen by the metadata alone."""
    async with running(town):
        before = await town.hands.get(SECRETS, NS, "foo-ssh")
        await town.patch(SECRETS, "foo-ssh", {"data": {"ssh-privatekey": "AAAA"}})
        await asyncio.sleep(5)
        foreign = await town.hands.get(SECRETS, NS, "foo-ssh")
        assert foreign["data"]["ssh-privatekey"] == "AAAA"
        await town.patch(SECRETS, "foo-ssh", {"data": {"ssh-publickey": None, "x": "AAAA"}})
        await asyncio.sleep(5)
        after = await town.hands.get(SECRETS, NS, "foo-ssh")
    assert sorted(after["data"]) == sorted(mpi.KEYS)
    assert after["data"]["ssh-privatekey"] not in {"AAAA", before["data"]["ssh-privatekey"]}
    read = [r for r in (*town.wire.sent, *town.wire.watches) if "/secrets" in r.path]
    assert {r.method for r in read} == {"GET", "POST", "PATCH"}
    asked = [r for r in read if r.method == "GET"]
    assert asked and all("PartialObjectMetadata" in r.headers["Accept"] for r in asked)


async def test_c18_c19_what_is_shared_is_set_right(town):
    async with running(town):
        config = await town.hands.get(CONFIGMAPS, NS, "foo-config")
        service = await town.hands.get(SERVICES, NS, "foo")
        await town.patch(CONFIGMAPS, "foo-config", {"data": {"hostfile": "oops", "x": "1"}})
        spoiled = {"selector": {"a": "b"}, "publishNotReadyAddresses": True}
        await town.patch(SERVICES, "foo", {"spec": spoiled})
        await asyncio.sleep(5)
        assert (await town.hands.get(CONFIGMAPS, NS, "foo-config"))["data"] == config["data"]
        spec = (await town.hands.get(SERVICES, NS, "foo"))["spec"]
        assert spec["selector"] == service["spec"]["selector"]
        assert not spec.get("publishNotReadyAddresses")


async def test_a_label_that_hides_what_is_ours_comes_back(town):
    async with running(town):
        await town.patch(SERVICES, "foo", {"metadata": {"labels": {"app": None}}})
        await asyncio.sleep(5)
        found = await town.hands.get(SERVICES, NS, "foo")
        assert found["metadata"]["labels"] == {"app": "foo"}


async def test_c78_slots_reach_the_host_file_and_not_the_job(town):
    async with running(town):
        await town.patch(JOBS, "foo", {"spec": {"slotsPerWorker": 4}})
        await asyncio.sleep(5)
        config = await town.hands.get(CONFIGMAPS, NS, "foo-config")
        assert config["data"]["hostfile"].count(" slots=4\n") == 2
        job = await town.hands.get(BATCH_JOBS, NS, "foo-launcher")
        assert "slots" in repr(job) and "'4'" not in repr(job["spec"])


async def test_c39_c40_workers_that_are_lost_and_that_fail(town):
    async with running(town):
        uid = (await town.pods())["foo-worker-1"]["metadata"]["uid"]
        await town.lose("foo-worker-1")
        await town.until_all()
        assert (await town.pods())["foo-worker-1"]["metadata"]["uid"] != uid
        await town.kubelet("Failed", "foo-worker-0")
        await asyncio.sleep(5)
        assert (await town.status())["replicaStatuses"]["Worker"] == {"failed": 1}
        assert (await town.conditions())[-1] == ("Running", "True")


async def test_c53_c54_c56_sleeps_and_wakes_twice(town):
    async with running(town):
        started = (await town.status())["startTime"]
        for _ in range(2):
            await asyncio.sleep(10)
            await town.suspend()
            await town.until_pods(0)
            await asyncio.sleep(5)
            assert ("Suspended", "True") in await town.conditions()
            assert (await town.status())["replicaStatuses"] == {"Launcher": {}, "Worker": {}}
            pool = {"nodeSelector": {"pool": "b"}}
            launcher = {"Launcher": {"template": {"spec": pool}}}
            await town.patch(JOBS, "foo", {"spec": {"mpiReplicaSpecs": launcher}})
            await town.suspend(False)
            await town.until_all()
            await town.kubelet("Running")
            await town.until_job("Running", "foo")
            (pod,) = [p for n, p in (await town.pods()).items() if "launcher" in n]
            assert pod["spec"]["nodeSelector"] == {"pool": "b"}
            assert (await town.status())["startTime"] > started
    assert Counter(await town.reasons())["MPIJobResumed"] >= 1


async def test_c58_a_resume_that_is_refused_is_tried_again(town):
    async with running(town):
        await town.suspend()
        await town.until_pods(0)
        error = RefusedError(503, "ServiceUnavailable", "not now")
        town.wire.before.append(refuse(_is_job_patch, error, times=2))
        before = len(town.wire.sent)
        await town.suspend(False)
        await town.until_all()
        again = [request for request in town.wire.sent[before:] if _is_job_patch(request)]
        assert len(again) >= 4


def _is_job_patch(request):
    return request.method == "PATCH" and "/batch/v1/" in request.path


@pytest.mark.parametrize("asleep", [False, True])
async def test_c52_c70_workers_first(town, asleep):
    """mpijob:W-02"""
    async with town.running(town.operator()):
        policy = {"suspend": True} if asleep else {}
        await town.make(launcherCreationPolicy="WaitForWorkersReady", policy=policy)
        if asleep:
            await asyncio.sleep(5)
            await town.suspend(False)
        await town.until_pods(2)
        await town.kubelet("Running", "foo-worker-0")
        await asyncio.sleep(5)
        assert await town.hands.list(BATCH_JOBS, Scope(NS)) == []
        await town.kubelet("Running", "foo-worker-1")
        await town.until_all()


async def test_c17_an_alien_service_is_waited_for(town):
    alien = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "foo", "namespace": NS},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    }
    await town.hands.create(SERVICES, alien)
    async with town.running(town.operator()):
        await town.make()
        await asyncio.sleep(10)
        assert await town.conditions() == [("Created", "True")]
        assert await town.pods() == {}
        found = await town.hands.get(SERVICES, NS, "foo")
        assert found["spec"]["selector"] == {"a": "b"}
        await town.hands.delete(SERVICES, NS, "foo")
        await town.until_all()
    events = await town.hands.list(CORE_EVENTS, Scope(NS))
    assert sum(event["reason"] == "MPIJobCreated" for event in events) == 1


async def test_a_launcher_that_somebody_deletes_comes_back(town):
    async with running(town):
        await town.hands.delete(BATCH_JOBS, NS, "foo-launcher")
        await town.until_all()

        async def anew():
            try:
                job = await town.hands.get(BATCH_JOBS, NS, "foo-launcher")
            except NotFoundError:
                return False
            return bool(job)

        await town.until(anew)


async def test_c67_pods_go_at_the_end_and_the_rest_stays(town):
    async with town.running(town.operator()):
        await town.make(policy={"cleanPodPolicy": "All"})
        await town.until_all()
        await town.kubelet("Running")
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        await town.until_pods(1)
        assert [s["metadata"]["name"] for s in await town.hands.list(SECRETS, Scope(NS))]


async def test_c48_a_launcher_that_fails_too_often(town):
    async with town.running(town.operator()):
        never = {"template": mpi.template(), "restartPolicy": "Never"}
        await town.make(policy={"backoffLimit": 1}, launcher=never)
        await town.until_all()
        await town.kubelet("Running")
        await town.kubelet("Failed", "launcher")
        await town.until_pods(4)
        await town.kubelet("Failed", "launcher")
        await town.until_job("Failed", "foo")
        failed = (await town.status())["conditions"]
        (failed,) = [c for c in failed if c["type"] == "Failed"]
        assert failed["reason"] == "BackoffLimitExceeded/"
        assert (await town.status())["replicaStatuses"]["Launcher"] == {"failed": 2}


@pytest.mark.parametrize("seed", range(8))
async def test_killed_anywhere_and_started_again_nothing_is_doubled_or_lost(town, seed):
    """mpijob:W-06 mpijob:W-22: nor does anybody get another key."""
    rng = Random(seed)
    await town.make(workers=9)
    made = []
    for number in range(6):
        operator = town.operator(f"replica-{number}")
        town.wire.before.append(slow(lambda request: request.method != "GET", 0.01))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(rng.uniform(0.02, 0.25)):
                await operator.run(asyncio.Event())
        secrets = await town.hands.list(SECRETS, Scope(NS))
        made += [secret["data"]["ssh-publickey"] for secret in secrets]
    async with town.running(town.operator("last")):
        await town.until_all(10)
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
    secrets = await town.hands.list(SECRETS, Scope(NS))
    assert len({*made, *(secret["data"]["ssh-publickey"] for secret in secrets)}) == 1
    jobs = await town.hands.list(BATCH_JOBS, Scope(NS))
    assert [job["metadata"]["name"] for job in jobs] == ["foo-launcher"]
    told = Counter(await town.reasons())
    assert told["MPIJobCreated"] <= 1 and told["MPIJobRunning"] == 1


async def test_two_jobs_have_two_keys_and_neither_touches_the_other(town):
    async with town.running(town.operator()):
        await town.make("foo")
        await town.make("goo")
        await town.until_all(6)
        secrets = await town.hands.list(SECRETS, Scope(NS))
    assert len({secret["data"]["ssh-privatekey"] for secret in secrets}) == 2


async def test_c62_a_gang_whose_launcher_comes_later(town):
    """mpijob:W-03"""
    for definition in build_definitions():
        await town.hands.create(CRDS, definition)
    async with town.running(town.operator(mpi_gang_scheduler="volcano")):
        await town.make(launcherCreationPolicy="WaitForWorkersReady")
        await town.until_pods(2)
        assert (await town.hands.get(POD_GROUPS, NS, "foo"))["spec"]["minMember"] == 2
        await town.kubelet("Running")
        await town.until_all()
        await asyncio.sleep(1)
        assert (await town.hands.get(POD_GROUPS, NS, "foo"))["spec"]["minMember"] == 3


async def test_c59_a_gang_of_the_coscheduling_plug_in(town):
    """It waits until the cluster has such PodGroups, and leaves nothing behind."""
    async with town.running(town.operator(mpi_gang_scheduler="my-sched")):
        await town.make(policy={"cleanPodPolicy": "None"})
        await asyncio.sleep(5)
        assert await town.pods() == {}
        await town.hands.create(CRDS, build_definition())
        await town.until_all()
        group = await town.hands.get(COSCHEDULING_GROUPS, NS, "foo")
        assert group["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 0}
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
        before = len(town.wire.writes())
        await asyncio.sleep(3600)
        assert town.wire.writes()[before:] == []
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        await asyncio.sleep(5)
        assert await town.hands.list(COSCHEDULING_GROUPS, Scope(NS)) == []


def number(operator, name, **labels):
    return operator.metrics.registry.get_sample_value(name, labels)


async def test_c73_jobs_are_counted_once_under_the_original_names(town):
    """mpijob:W-06"""
    operator = town.operator()
    async with town.running(operator):
        refused = RefusedError(403, "Forbidden", "exceeded quota")
        is_pod = lambda request: (request.method, request.path[-5:]) == ("POST", "/pods")  # noqa: E731
        town.wire.before.append(refuse(is_pod, refused, times=2))
        await town.make()
        await town.until_pods(3, within_s=600)
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
        operator.metrics.refresh()
        info = {"launcher": "foo-launcher", "namespace": NS}
        assert number(operator, "mpi_operator_job_info", **info) == 1
        assert number(operator, "mpi_operator_is_leader") == 1
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        counted = [
            number(operator, f"mpi_operator_jobs_{what}_total")
            for what in ("created", "successful", "failed")
        ]
        assert counted == [1, 1, 0]
        await town.hands.delete(JOBS, NS, "foo")
        await town.until_pods(0)
        operator.metrics.refresh()
        assert number(operator, "mpi_operator_job_info", **info) is None


async def test_c73_a_failure_is_counted_and_an_eviction_is_none(town):
    operator = town.operator()
    async with town.running(operator):
        await town.make(policy={"backoffLimit": 0}, launcher={**NEVER, "template": mpi.template()})
        await town.make("evicted", workers=1)
        await town.until_pods(5)
        await town.kubelet("Failed", "foo-launcher")
        status = {"status": {"phase": "Failed", "reason": "Evicted"}}
        await town.hands.patch(PODS, NS, "evicted-worker-0", status, subresource="status")
        await town.until_job("Failed", "foo")
        await town.until_job("Failed", "evicted")
    assert number(operator, "mpi_operator_jobs_failed_total") == 1


NEVER = {"restartPolicy": "Never"}


async def test_c83_events_are_the_original_s(town):
    """But for source.component, which the newer API of Events lets nobody set."""
    async with running(town):
        await asyncio.sleep(1)
    events = await town.hands.list(CORE_EVENTS, Scope(NS))
    assert events
    for event in events:
        assert event["reportingComponent"] == "mpi-job-controller"
        about = event["involvedObject"]
        assert (about["apiVersion"], about["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")


async def test_c16_a_key_of_nothing_is_nothing(town):
    operator = town.operator()
    async with town.running(operator):
        for name in ("gone", "bar/baz"):
            operator.queue.add(Key("MPIJob", NS, name))
        await asyncio.sleep(5)
        assert town.wire.writes() == [] and not operator.queue.depths()


async def test_c64_a_pod_group_that_could_not_be_changed_is_tried_again(town):
    """mpijob:W-26: what is compared is what the server has, and not what we wanted it to have."""
    for definition in build_definitions():
        await town.hands.create(CRDS, definition)
    async with running(town, mpi_gang_scheduler="volcano"):
        error = RefusedError(503, "ServiceUnavailable", "not now")
        is_group = lambda request: request.method == "PATCH" and "/podgroups/" in request.path  # noqa: E731
        town.wire.before.append(refuse(is_group, error, times=1))
        policy = {"schedulingPolicy": {"minAvailable": 1}}
        await town.patch(JOBS, "foo", {"spec": {"runPolicy": policy}})

        async def follows():
            return (await town.hands.get(POD_GROUPS, NS, "foo"))["spec"]["minMember"] == 1

        await town.until(follows)


@pytest.mark.parametrize(("phase", "state"), [("Succeeded", "Succeeded"), ("Failed", "Failed")])
async def test_c45_w05_an_end_that_nobody_looked_at_in_time_counts(town, phase, state):
    """mpijob:W-05: what the watch said last of a Job that its TTL has taken."""
    async with town.running(town.operator()):
        policy = {"ttlSecondsAfterFinished": 0, "backoffLimit": 0}
        await town.make(policy=policy, launcher={**NEVER, "template": mpi.template()})
        await town.until_all()
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
        is_status = lambda request: request.path.endswith("/mpijobs/foo/status")  # noqa: E731
        town.wire.before.append(slow(is_status, 5))
        error = RefusedError(409, "Conflict", "somebody wrote meanwhile")
        town.wire.before.append(refuse(is_status, error, times=1))
        await town.kubelet(phase, "launcher")
        await town.until_pods(2)
        assert await town.hands.list(BATCH_JOBS, Scope(NS)) == []
        await town.until_job(state, "foo", within_s=600)
        assert await town.hands.list(BATCH_JOBS, Scope(NS)) == []
        reasons = await town.reasons()
    assert reasons.count("MPIJobSucceeded") == (phase == "Succeeded")


async def test_w39_a_launcher_that_keeps_its_template_is_told_of_until_its_job_is_made_anew(town):
    """mpijob:W-39"""

    async def created():
        found = (await town.status())["conditions"]
        return next(c["message"] for c in found if c["type"] == "Created")

    async def image():
        (job,) = await town.hands.list(BATCH_JOBS, Scope(NS))
        return job["spec"]["template"]["spec"]["containers"][0]["image"]

    async with running(town):
        usual, made_with = await created(), await image()
        found = await town.hands.get(JOBS, NS, "foo")
        launcher = found["spec"]["mpiReplicaSpecs"]["Launcher"]
        launcher["template"]["spec"]["containers"][0]["image"] = "another:2"
        edit = {"spec": {"mpiReplicaSpecs": {"Launcher": launcher}}}
        await town.hands.patch(JOBS, NS, "foo", edit)
        await asyncio.sleep(5)
        assert (await created()).startswith("the launcher keeps the containers that Job foo-laun")
        assert await image() == made_with
        await town.hands.delete(BATCH_JOBS, NS, "foo-launcher")
        await asyncio.sleep(60)
        assert (await created(), await image()) == (usual, "another:2")
        assert (await town.reasons()).count("LauncherKept") == 1


async def test_w44_the_last_words_of_a_launcher_that_is_gone_are_kept_until_its_job_has_failed(
    town,
):
    """mpijob:W-44"""
    operator = town.operator()
    async with town.running(operator):
        await town.make()
        await town.until_all()
        await town.kubelet("Running")
        await town.until_job("Running", "foo")
        (name,) = [name for name in await town.pods() if "launcher" in name]
        ended = {"exitCode": 7, "reason": "Error", "message": "rank 4: no mesh"}
        container = {
            "name": "foo", "image": "i", "imageID": "", "ready": False, "restartCount": 3,
            "state": {"terminated": ended},
        }  # fmt: skip
        await town.hands.patch(
            PODS, NS, name, {"status": {"containerStatuses": [container]}}, subresource="status"
        )
        await town.hands.delete(PODS, NS, name, grace_s=0)
        await asyncio.sleep(1)
        (job,) = await town.hands.list(BATCH_JOBS, Scope(NS))
        assert [pod.name for pod in operator.mirror.beside.gone.values()] == [name]
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        body = {
            "status": {
                "conditions": [{**failed, "message": "too often", "lastTransitionTime": ENDED_AT}]
            }
        }
        await town.hands.patch(BATCH_JOBS, NS, job["metadata"]["name"], body, subresource="status")
        await town.until_job("Failed", "foo")
        condition = next(c for c in (await town.status())["conditions"] if c["type"] == "Failed")
        said = condition["message"]
        assert said == "too often: container foo exited with code 7 (Error): rank 4: no mesh"
        await town.hands.delete(JOBS, NS, "foo")
        await asyncio.sleep(60)
        assert operator.mirror.beside.gone == {} == operator.mirror.beside.ended


async def test_w15_the_keys_of_a_job_that_has_ended_go_and_stay_away(town):
    """mpijob:W-15"""
    async with running(town, mpi_delete_keys=True):
        assert await town.hands.list(SECRETS, Scope(NS))
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        await asyncio.sleep(5)
        assert await town.hands.list(SECRETS, Scope(NS)) == []
        await town.kubelet("Failed", "worker-0")  # a pass later
        await asyncio.sleep(5)
        assert await town.hands.list(SECRETS, Scope(NS)) == []


async def test_w15_the_ttl_takes_the_whole_job_where_the_operator_says_so(town):
    """mpijob:W-15"""
    async with town.running(town.operator(mpi_delete_expired=True)):
        await town.make(policy={"ttlSecondsAfterFinished": 20})
        await town.until_all()
        await town.kubelet("Running")
        await town.kubelet("Succeeded", "launcher")
        await town.until_job("Succeeded", "foo")
        await asyncio.sleep(10)
        assert await town.hands.list(JOBS, Scope(NS))
        await asyncio.sleep(15)
        assert await town.hands.list(JOBS, Scope(NS)) == []
