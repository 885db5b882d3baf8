# SPDX-FileCopyrightText: The ascendop authors
# SPDX-License-Identifier: Apache-2.0

"""Jobs that ascend-operator made are taken over, and can be given back.

They are made again of the recordings, under the original's definition of the kind, and that is
replaced by ours where a test says so.
"""

import copy
import json
import time
from pathlib import Path

import pytest

from ascendop.kinds import load_kinds
from ascendop.schema.crd import crd
from hack.admin import MERGE, path_of, wait_for
from hack.byhand import JobByHand, build_job
from hack.controlplane import CRDS, ControlPlane
from hack.inherit import inherit

SAMPLES = Path(__file__).parent / "recorded" / "ascendjob"
DEFINITION = "ascendjobs.mindxdl.gitee.com"
QUIET_S = 4.0
OURS_ON_A_JOB = {"ascendop.io/attempt"}
# What the original's definition knows of a run policy, and of a pod.
OF_THE_RUN_POLICY = {
    "activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "schedulingPolicy",
    "ttlSecondsAfterFinished",
}  # fmt: skip
OF_A_POD = {
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers",
    "dnsConfig", "dnsPolicy", "enableServiceLinks", "ephemeralContainers", "hostAliases",
    "hostIPC", "hostNetwork", "hostPID", "hostname", "imagePullSecrets", "initContainers",
    "nodeName", "nodeSelector", "overhead", "preemptionPolicy", "priority", "priorityClassName",
    "readinessGates", "restartPolicy", "runtimeClassName", "schedulerName", "securityContext",
    "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace",
    "subdomain", "terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints",
    "volumes",
}  # fmt: skip


def original():
    """The kind as the original defines it, as far as it matters: what it prunes, it prunes here."""
    made = copy.deepcopy(crd(load_kinds()["AscendJob"]))
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    status = schema["status"]
    status["properties"] = {
        name: status["properties"][name]
        for name in (
            *("conditions", "replicaStatuses"),
            *("startTime", "completionTime", "lastReconcileTime"),
        )
    }
    status["required"] = ["conditions", "replicaStatuses"]
    conditions = status["properties"]["conditions"]
    for key in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        conditions.pop(key, None)
    policy = schema["spec"]["properties"]["runPolicy"]["properties"]
    for name in set(policy) - set(OF_THE_RUN_POLICY):
        del policy[name]
    role = schema["spec"]["properties"]["replicaSpecs"]["additionalProperties"]["properties"]
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    known = role["template"]["properties"]["spec"]["properties"]
    role["template"] = {
        "type": "object",
        "properties": {
            "metadata": {"type": "object", **anything},
            "spec": {
                "type": "object",
                "required": ["containers"],
                "properties": {name: known.get(name, anything) for name in OF_A_POD},
            },
        },
    }
    return made


def served(admin):
    """Wait until the kind is."""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"

    def established():
        conditions = admin.request("GET", path).get("status", {}).get("conditions") or ()
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    wait_for("the kind is served", established)
    wait_for(
        "it can be listed",
        lambda: "items" in admin.request("GET", "/apis/mindxdl.gitee.com/v1/ascendjobs"),
    )


@pytest.fixture(scope="module")
def plane(folder):
    """A server with the original's definition, queues, and the nodes of the recordings."""
    others = [file for file in sorted(CRDS.glob("*.yaml")) if DEFINITION not in file.name]
    with ControlPlane(folder("take-over"), crds=others) as found, found.admin() as admin:
        admin.create(original())
        served(admin)
        for name in ("default", "nlp-queue", "superpod"):
            version = "scheduling.volcano.sh/v1beta1"
            queue = {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}}
            admin.ensure(queue | {"spec": {"weight": 1}})
        for number in range(1, 9):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}}
            admin.ensure(node | {"spec": {"unschedulable": True}})
        yield found


@pytest.fixture
def admin(plane):
    with plane.admin() as found:
        yield found


@pytest.fixture
def where(plane, namespace):
    return namespace(plane)


def children(job):
    """Whatever may have been touched, by kind and name: uid, version, whole object."""
    kinds = [("v1", "Pod"), ("v1", "Service"), ("scheduling.volcano.sh/v1beta1", "PodGroup")]
    return {
        f"{obj['kind']}/{obj['metadata']['name']}": obj
        for kind in kinds
        for obj in job.children(*kind)
    }


def versions(objects):
    return {n: (o["metadata"]["uid"], o["metadata"]["resourceVersion"]) for n, o in objects.items()}


def taken_over(replica, job):
    """The operator has looked at the job, and nothing more comes of it."""
    wait_for("it leads", lambda: replica.metric("leader_election_master_status") == 1)
    looked = "controller_runtime_reconcile_total"
    wait_for("it has looked", lambda: replica.metric(looked) > 0)
    before = None
    while before != (
        before := (job.stored["metadata"]["resourceVersion"], versions(children(job)))
    ):
        time.sleep(QUIET_S)


def say_retries(admin, job, times):
    """What Volcano's plug-in keeps for a job that restarts unconditionally."""
    uid = job.stored["metadata"]["uid"]
    entries = {f"{job.namespace}/{job.name}-{uid}": {"UUID": uid, "Times": times}}
    meta = {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": meta["namespace"]}}
    admin.ensure(space)
    data = {"remain-retry-times": json.dumps(entries)}
    admin.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})


RUNNING = [
    pytest.param("01-sample-pytorch-2node", "both bound", id="PyTorch"),
    pytest.param(
        "01-sample-pytorch-2node", "PodGroup phase Inqueue", id="pods that do not run yet"
    ),
    pytest.param("02-sample-mindspore", "workers bound", id="MindSpore with a table"),
    pytest.param("02-sample-mindspore", "new worker 1", id="MindSpore in its second generation"),
    pytest.param("05-sample-fault-retry", "worker 0 fails", id="in the middle of a restart"),
    pytest.param("18-backofflimit-generations", "running", id="with a budget"),
    pytest.param("36-restart-running-with-table", "running again", id="second generation"),
    pytest.param("33-inference-labels", "running", id="inference"),
    pytest.param("01-sample-pytorch-2node", "succeeded", id="succeeded, with its pods"),
    pytest.param("05-sample-fault-retry", "worker 1 fails", id="failed, with pods that run"),
]


@pytest.mark.parametrize(("case", "step"), RUNNING)
def test_a_job_is_taken_over_and_given_back_untouched(case, step, admin, where, plane, operator):
    job = inherit(admin, where, SAMPLES / case, step)
    table = f"rings-config-{job.name}"
    if "Restarting" in job.conditions:
        say_retries(admin, job, 3)
    has_table = admin.ask("GET", f"/api/v1/namespaces/{where}/configmaps/{table}")[0] == 200
    before, was, data = job.stored, children(job), job.data_of(table) if has_table else {}
    replica = operator(plane)
    taken_over(replica, job)
    after, now = job.stored, children(job)
    assert versions(now) == versions(was)
    assert after["status"] == before["status"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert (job.data_of(table) if has_table else {}) == data
    assert replica.stop() == 0
    given_back(before, job.stored, was, children(job))


def given_back(before, after, was, now):
    """What the original would find differs by our annotation on the job, and by nothing else."""
    assert versions(now) == versions(was)
    for key in ("labels", "ownerReferences", "finalizers"):
        assert after["metadata"].get(key) == before["metadata"].get(key)
    notes = (after["metadata"].get("annotations") or {}).keys()
    assert notes - (before["metadata"].get("annotations") or {}).keys() <= OURS_ON_A_JOB


def test_no_count_begins_anew_and_a_budget_goes_on_where_it_was(admin, where, plane, operator):
    """ascendjob:W-7: two generations were used up under the original, whose memory is gone."""
    job = inherit(admin, where, SAMPLES / "36-restart-running-with-table", "running again")
    assert job.versions() == {"rst-master-0": "0", "rst-worker-0": "1"}
    job.edit({"spec": {"runPolicy": {"backoffLimit": 2}}})
    replica = operator(plane)
    taken_over(replica, job)
    for version in ("2",):
        job.lose("rst-worker-0")
        wait_for("another", lambda v=version: job.versions().get("rst-worker-0") == v)
        job.turn("Running", "rst-worker-0")
        job.wait("Running")
    job.lose("rst-worker-0")
    assert job.wait_reason("Failed", "JobFailed").endswith("reached the specified backoff limit")
    assert "rst-master-0" in job.uids, "and what runs is not touched"


def test_a_new_job_lives_its_life_under_the_original_s_definition(admin, where, plane, operator):
    """ascendjob.md 1.6: what we need of a status is not pruned there."""
    operator(plane)
    job = JobByHand(admin, where, build_job())
    job.create()
    job.run(2)
    assert job.status["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 1}}
    job.lose("j-worker-0")
    wait_for("another", lambda: job.versions().get("j-worker-0") == "1")
    job.turn("Succeeded")
    job.wait("Succeeded")
    assert job.status["completionTime"]


def test_our_definition_over_the_original_s_loses_no_field_and_back_again_none(
    admin, where, plane, operator
):
    """ascendjob:W-43: and what only ours knows can be written meanwhile."""
    job = inherit(admin, where, SAMPLES / "36-restart-running-with-table", "running again")
    before, was = job.stored, children(job)
    replica = operator(plane)
    taken_over(replica, job)
    assert is_pruned(job, {"runPolicy": {"suspend": False}})
    admin.apply_file(CRDS / f"{DEFINITION}.yaml")
    wait_for("ours is served", lambda: not is_pruned(job, {"runPolicy": {"suspend": False}}))
    taken_over(replica, job)
    assert {k: v for k, v in job.stored.items() if k != "metadata"} == with_suspend(before)
    assert versions(children(job)) == versions(was)
    assert columns(admin, where) == (["Name", "State", "Age"], ["rst", "Running"])
    names = admin.request("GET", "/apis/mindxdl.gitee.com/v1")["resources"]
    assert {n["name"]: n.get("shortNames") for n in names if "ascendjobs" in n["name"]} == {
        "ascendjobs": ["acjob"],
        "ascendjobs/status": None,
    }
    assert replica.stop() == 0
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
    found = admin.request("GET", path)
    theirs = original()
    theirs["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
    admin.request("PUT", path, theirs)
    wait_for("theirs is served", lambda: is_pruned(job, {"runPolicy": {"managedBy": "x"}}))
    assert job.status == before["status"]
    assert {k: v for k, v in job.stored["spec"].items() if k != "runPolicy"} == {
        k: v for k, v in before["spec"].items() if k != "runPolicy"
    }
    assert versions(children(job)) == versions(was)


def is_pruned(job, spec):
    """Whether the server forgets this field of a job."""
    answer = job.admin.request("PATCH", path_of(job.asked), {"spec": spec}, MERGE)
    ((outer, inner),) = spec.items()
    return not inner.keys() & answer["spec"][outer].keys()


def with_suspend(obj):
    found = {k: copy.deepcopy(v) for k, v in obj.items() if k != "metadata"}
    found["spec"]["runPolicy"]["suspend"] = False
    return found


def columns(admin, namespace):
    """Names of the columns of `kubectl get acjob`, and the first cells of the only row."""
    connection = admin._connection()
    headers = {
        "Authorization": f"Bearer {admin.token}",
        "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io",
    }
    path = f"/apis/mindxdl.gitee.com/v1/namespaces/{namespace}/ascendjobs"
    connection.request("GET", path, headers=headers)
    table = json.loads(connection.getresponse().read())
    names = [column["name"] for column in table["columnDefinitions"]]
    (row,) = table["rows"]
    return names, row["cells"][:2]
